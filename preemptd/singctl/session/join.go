// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// DetachKey is the key that detaches: Control and ].
const DetachKey = 0x1d

// ErrOver is returned by Join when the session has closed the connection: its command has ended, or
// the job has left the node.
var ErrOver = errors.New("the session closed the connection")

// ErrNotThere is returned by Join when there is no connection: the session is being restored, say.
var ErrNotThere = errors.New("the session cannot be reached")

const dialTime = 20 * time.Second

// Join connects this process's terminal with a session, and returns nil when the person detaches.
// Without a terminal, as in a script, the input is sent unchanged, and the input's end detaches. The end
// of ctx ends the connection with ErrOver: Slurm sends SIGTERM to each step when it requeues a job, and
// waits for the steps for as long as KillWait before the job may leave its nodes. The network of a job
// that is captured is locked, so that the connection itself would not end.
func Join(ctx context.Context, r Record, in, out *os.File) error {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "tcp4", r.Address)
	if err != nil {
		return errors.Join(ErrNotThere, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(r.Token + "\n")); err != nil {
		return err
	}
	if restore, err := makeRaw(in); err == nil {
		defer restore()
		if err := sendSize(c, in); err != nil {
			return err
		}
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, unix.SIGWINCH)
		defer signal.Stop(resized)
		go func() {
			for range resized {
				_ = sendSize(c, in) // the other goroutines find a lost connection
			}
		}()
	}
	ended := make(chan error, 2)
	go func() { ended <- sendInput(c, in) }()
	go func() {
		_, err := io.Copy(out, c)
		ended <- errors.Join(ErrOver, err)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(ErrOver, ctx.Err())
	}
}

// sendInput sends typed keys until the detach key or the end of the input.
func sendInput(c io.Writer, in io.Reader) error {
	buf := make([]byte, maxFrame)
	for {
		n, err := in.Read(buf)
		typed, _, detach := bytes.Cut(buf[:n], []byte{DetachKey})
		if len(typed) > 0 {
			if err := writeFrame(c, frameData, typed); err != nil {
				return errors.Join(ErrOver, err)
			}
		}
		if detach || err != nil { // the end of the input detaches, too
			return nil //nolint:nilerr // see above
		}
	}
}

func sendSize(c io.Writer, terminal *os.File) error {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return err
	}
	return writeFrame(c, frameSize, windowSize{size.Row, size.Col}.encode())
}

// makeRaw has a terminal hand over each typed key at once. restore undoes that.
func makeRaw(terminal *os.File) (restore func(), err error) {
	return changeMode(terminal, func(raw *unix.Termios) {
		raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		raw.Oflag &^= unix.OPOST
		raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	})
}

// changeMode changes the mode of a terminal, and discards no typed keys. restore undoes the change.
func changeMode(terminal *os.File, change func(*unix.Termios)) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	changed := *before
	change(&changed)
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &changed); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil // the terminal may be gone
}
