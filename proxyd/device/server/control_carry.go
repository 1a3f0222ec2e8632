// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a server's requests to its parent in an order.
const (
	maxFiles = 1 << 14
	maxOpen  = 64      // at a time
	pipeSize = 1 << 20 // the requested capacity of a pipe: fewer turns between the two
)

// plainName is the form of the names of a save's files.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkName(name string) error {
	if !plainName.MatchString(name) {
		return fmt.Errorf("%.80q is no file of a save: %w", name, ErrNonsense)
	}
	return nil
}

// carrier is a parent's side of the files of an order.
type carrier struct {
	conn    *net.UnixConn
	sink    Sink   // nil: files are read
	src     Source // or nil
	sending sync.Mutex
	group   sync.WaitGroup

	mu    sync.Mutex
	over  bool
	busy  int // files under way
	files map[string]*carriedFile
	err   error // the first
}

// carriedFile is a file of an order. The carrier's mu guards it.
type carriedFile struct {
	pipe     *os.File      // our end, while the file is under way
	to       io.Closer     // the sink's file, until closed
	copied   chan struct{} // closed when n and err are known
	n        int64
	err      error
	closing  bool
	complete bool
}

func newCarrier(conn *net.UnixConn, sink Sink, src Source) *carrier {
	return &carrier{conn: conn, sink: sink, src: src, files: map[string]*carriedFile{}}
}

// beginAsked begins to carry out a request of the server. Its error ends the order.
func (c *carrier) beginAsked(r *reply) error {
	if r.Close != "" {
		return c.askedClose(r.Close, r.Length)
	}
	name := r.Create + r.Open
	if (r.Create != "") == (r.Open != "") || (r.Create != "") != (c.sink != nil) {
		return fmt.Errorf("it asks for a file that is no part of the order: %w", ErrNonsense)
	}
	if err := checkName(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[name] != nil || len(c.files) >= maxFiles || c.busy >= maxOpen {
		return fmt.Errorf("it asks for %s as file %d, with %d under way: %w", name, len(c.files)+1, c.busy, ErrNonsense)
	}
	f := &carriedFile{copied: make(chan struct{})}
	c.files[name] = f
	c.busy++
	c.group.Go(func() {
		if c.sink != nil {
			c.receiveFile(name, f)
		} else {
			c.sendFile(name, f)
		}
	})
	return nil
}

// makePipe makes the pipe of a file and sends the server its end: the end that is written to for a sink.
func (c *carrier) makePipe(name string, f *carriedFile) (*os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // the pipe is slower without
	ours, theirs := os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	if c.sink == nil {
		ours, theirs = theirs, ours
	}
	defer theirs.Close()
	c.mu.Lock()
	over := c.over
	f.pipe = ours
	c.mu.Unlock()
	if over {
		ours.Close()
		return nil, os.ErrClosed
	}
	return ours, c.sendAnswer(&order{File: name}, theirs)
}

// sendAnswer answers the server. If that fails the order ends: the server would wait for ever.
func (c *carrier) sendAnswer(o *order, f *os.File) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := sendMessage(c.conn, o, f)
	if err != nil {
		c.failFile(o.File, err)
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no deadline
	}
	return err
}

// refuseFile tells the server that a file will not come. The reason is the parent's own.
func (c *carrier) refuseFile(name string, err error) {
	c.failFile(name, err)
	_ = c.sendAnswer(&order{File: name, Error: "its parent has refused it"}, nil) // the server handles the error
}

func (c *carrier) failFile(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.over {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
}

// receiveFile takes a file from the server, to its end. The file is closed when the server tells its length.
func (c *carrier) receiveFile(name string, f *carriedFile) {
	defer close(f.copied)
	to, err := c.sink.Create(name)
	if err != nil {
		c.refuseFile(name, err)
		return
	}
	c.mu.Lock()
	f.to = to
	c.mu.Unlock()
	from, err := c.makePipe(name, f)
	if err == nil {
		f.n, err = io.Copy(to, onlyReader{from})
	}
	if err != nil {
		f.err = err
		c.failFile(name, err) // before the server can notice, or the server's complaint would be the first error
	}
	if from != nil {
		from.Close() // the server's next write fails
	}
}

// onlyReader hides the other methods of a file: a copy goes through a buffer of ours.
type onlyReader struct{ io.Reader }

// askedClose begins the end of a file that the server has written.
func (c *carrier) askedClose(name string, length int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[name]
	if f == nil || c.sink == nil || f.closing {
		return fmt.Errorf("it closes %.80q, which it has not open: %w", name, ErrNonsense)
	}
	f.closing = true
	c.group.Go(func() { c.closeFile(name, f, length) })
	return nil
}

func (c *carrier) closeFile(name string, f *carriedFile, length int64) {
	<-f.copied // copied is closed at the latest when the order ends
	err := f.err
	if err == nil && f.n != length {
		err = fmt.Errorf("%d bytes have come of %d: %w", f.n, length, ErrNonsense)
	}
	c.mu.Lock()
	to := f.to
	if err == nil && !c.over {
		f.to = nil
	}
	over := c.over
	c.mu.Unlock()
	if over {
		return // the end of the connection abandons the file
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil {
		c.refuseFile(name, err)
		return
	}
	c.mu.Lock()
	f.complete = true
	c.busy--
	c.mu.Unlock()
	_ = c.sendAnswer(&order{File: name}, nil) // the server waits for this
}

// sendFile gives the server a file, to its end.
func (c *carrier) sendFile(name string, f *carriedFile) {
	defer close(f.copied)
	from, err := c.src.Open(name)
	if err != nil {
		c.refuseFile(name, err)
		return
	}
	defer from.Close()
	to, err := c.makePipe(name, f)
	if err == nil {
		_, err = io.Copy(onlyWriter{to}, from)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) { // else the server has read enough
		c.failFile(name, err) // as in receiveFile
	}
	if to != nil {
		to.Close()
	}
	c.mu.Lock()
	c.busy--
	c.mu.Unlock()
}

// onlyWriter hides the other methods of a file, like onlyReader.
type onlyWriter struct{ io.Writer }

// isComplete tells whether a file has come as a whole.
func (c *carrier) isComplete(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[name]
	return f != nil && f.complete
}

// endCarrying ends the requests under way: the order is over. endCarrying returns the first error on this side, or an
// error for a file that is not complete.
func (c *carrier) endCarrying(why error) error {
	c.mu.Lock()
	c.over = true
	for _, f := range c.files {
		if f.pipe != nil {
			f.pipe.Close()
		}
	}
	err := c.err
	c.mu.Unlock()
	c.group.Wait()
	for name, f := range c.files {
		if f.to == nil {
			continue
		}
		if err == nil && why == nil {
			err = fmt.Errorf("%s has not come to its end: %w", name, ErrNonsense)
		}
		abandonFile(f.to, errors.Join(why, err))
	}
	return err
}

// abandonFile closes a file that is not complete.
func abandonFile(f io.Closer, why error) {
	if w, ok := f.(interface{ CloseWithError(error) error }); ok {
		_ = w.CloseWithError(why) // the file is of no use anyhow
		return
	}
	_ = f.Close()
}
