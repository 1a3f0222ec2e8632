// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"
)

// cancelNotice is slurmstepd's notice on a step's terminal when Slurm ends the step. It is not shown, since the
// session goes on elsewhere.
var cancelNotice = regexp.MustCompile(noticeStart + `\S+ ON \S+ CANCELLED AT [^\r\n]* \*\*\*\r?\n`)

const noticeStart = `(slurmstepd: |\[[-0-9T:.]+\] )error: \*\*\* (STEP|JOB) `

// openNotice is a cancel notice that has been read without its end. slurmstepd writes a notice at once, but a
// terminal passes the end of a line on by itself, and a read may come between.
var openNotice = regexp.MustCompile(noticeStart + `[^\r\n]{0,400}\r?$`)

// RunOnTerminal runs a command on a terminal of its own. It writes the command's output, but for cancel notices, to
// out, and gives the command the keys of terminal, after typed. RunOnTerminal returns the error of the command's end.
// Keys not read by then stay in terminal.
func RunOnTerminal(cmd *exec.Cmd, terminal *os.File, out io.Writer, typed []byte) error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer master.Close()
	copySize(master, terminal)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	restore, err := makeRaw(terminal)
	if err != nil {
		return errors.Join(err, slave.Close())
	}
	defer restore()
	cmd.Stdin, cmd.Stdout = slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return err
	}
	stop, stopped, err := os.Pipe()
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	defer stop.Close()
	keys, shown := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(keys)
		if _, err := master.Write(typed); err == nil {
			copyKeys(master, terminal, stop)
		}
	}()
	go func() {
		defer close(shown)
		copyShown(out, master)
	}()
	for over := false; !over; {
		select {
		case <-resized:
			copySize(master, terminal)
		case <-shown: // the command has closed its terminal
			over = true
		}
	}
	err = cmd.Wait()
	stopped.Close()
	<-keys
	return err
}

func copySize(to, from *os.File) {
	if size, err := unix.IoctlGetWinsize(int(from.Fd()), unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(to.Fd()), unix.TIOCSWINSZ, size) // the size is a courtesy
	}
}

// copyKeys copies typed keys until the other end of stop is closed.
func copyKeys(to io.Writer, terminal, stop *os.File) {
	fds := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}, {Fd: int32(stop.Fd())}}
	buf := make([]byte, maxFrame)
	for {
		if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || fds[1].Revents != 0 {
			return
		}
		n, err := unix.Read(int(terminal.Fd()), buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// AwaitDetach waits until ctx ends, and reads keys typed on the terminal meanwhile. AwaitDetach returns at once, with
// detach, when the person types the detach key. The keys that were typed before are for RunOnTerminal. Control-C
// stays an interrupt, as no program of the session's is reached meanwhile.
func AwaitDetach(ctx context.Context, terminal *os.File) (typed []byte, detach bool, err error) {
	restore, err := changeMode(terminal, func(mode *unix.Termios) {
		mode.Iflag &^= unix.ICRNL
		mode.Lflag &^= unix.ECHO | unix.ICANON
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	})
	if err != nil {
		return nil, false, err
	}
	defer restore()
	stop, stopped, err := os.Pipe()
	if err != nil {
		return nil, false, err
	}
	defer stop.Close()
	var before bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		copyKeys(&detachFinder{&before, &detach}, terminal, stop)
	}()
	select {
	case <-ctx.Done():
	case <-read:
	}
	stopped.Close()
	<-read
	if !detach {
		<-ctx.Done() // the terminal may have no more keys
	}
	return before.Bytes(), detach, nil
}

// detachFinder keeps the keys up to the detach key, which it refuses.
type detachFinder struct {
	before *bytes.Buffer
	found  *bool
}

// errDetached is the error of a write with the detach key.
var errDetached = errors.New("the detach key")

func (d *detachFinder) Write(b []byte) (int, error) {
	typed, _, found := bytes.Cut(b, []byte{DetachKey})
	d.before.Write(typed)
	if found {
		*d.found = true
		return len(typed), errDetached
	}
	return len(b), nil
}

// copyShown copies a terminal's output until the last process closes the terminal.
func copyShown(to io.Writer, master io.Reader) {
	buf := make([]byte, 32<<10)
	held := 0 // bytes at the beginning of buf: a notice that is open
	for {
		n, err := master.Read(buf[held:])
		shown := cancelNotice.ReplaceAll(buf[:held+n], nil)
		held = 0
		if at := openNotice.FindIndex(shown); at != nil && err == nil {
			held = copy(buf, shown[at[0]:])
			shown = shown[:at[0]]
		}
		if _, failed := to.Write(shown); err != nil || failed != nil {
			return
		}
	}
}
