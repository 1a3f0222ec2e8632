// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// SavedConnection is the part of a connection that a checkpoint keeps, beside its socket.
type SavedConnection struct {
	ID     string       `json:"id"`
	From   string       `json:"from"` // the program's address and port
	To     string       `json:"to"`   // the address and port that the program has asked for
	Opened bool         `json:"opened,omitempty"`
	Shut   bool         `json:"shut,omitempty"`  // the socket to the program was shut down
	Ended  bool         `json:"ended,omitempty"` // the program sends no more
	Stream stream.State `json:"stream"`
}

var errProgramReset = errors.New("the program has reset the connection")

// socketBuffer is the size of each buffer of a socket to a program. The kernel takes twice that, for its own data.
const socketBuffer = stream.Window / 2

// connection is a connection of a program.
type connection struct {
	f      *Forwarder
	id     string
	from   string
	to     string
	stream *stream.Stream
	socket *net.TCPConn
	raw    syscall.RawConn

	mu      sync.Mutex
	opened  bool // confirmed by the relay
	shut    bool // the socket was shut down
	ended   bool // the program sends no more
	resumed bool // comes from a checkpoint, and is not confirmed by the relay yet
}

// newConnection returns a connection and takes over the socket to the program.
func (f *Forwarder) newConnection(s SavedConnection, socket *net.TCPConn) (*connection, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := socket.SetLinger(-1); err != nil { // the default
		return nil, err
	}
	// Root's daemon reads the buffered bytes of the socket at a checkpoint. Without these sizes the kernel lets a buffer
	// grow to megabytes.
	if err := errors.Join(socket.SetReadBuffer(socketBuffer), socket.SetWriteBuffer(socketBuffer)); err != nil {
		return nil, err
	}
	// By keepalive the kernel finds out that a program's socket is gone without an orderly end of the connection.
	if err := socket.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: time.Minute, Count: 10}); err != nil {
		return nil, err
	}
	return &connection{
		f: f, id: s.ID, from: s.From, to: s.To, opened: s.Opened, shut: s.Shut, ended: s.Ended,
		stream: stream.NewStream(stream.FromState(s.Stream), &f.rest), socket: socket, raw: raw,
	}, nil
}

// carryBytes carries the connection until both directions have ended, or the connection fails.
func (c *connection) carryBytes(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{c.copyFromProgram, c.copyToProgram} {
		loops.Go(func() {
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				c.stream.Fail(err)
			}
		})
	}
	err := c.keepLinked(ctx)
	cancel()
	if err != nil {
		// The program gets a reset. After an orderly end, the socket has been shut down.
		_ = c.socket.SetLinger(0)
	}
	c.f.rest.RLock() // the socket is not closed during a checkpoint
	c.socket.Close()
	c.f.rest.RUnlock()
	loops.Wait()
	return err
}

// copyFromProgram reads the bytes that the program sends.
func (c *connection) copyFromProgram(ctx context.Context) error {
	buf := make([]byte, stream.MaxData)
	for !c.hasEnded() {
		if err := c.stream.Wait(ctx, func(e *stream.End) bool { return e.Room() > 0 }); err != nil {
			return err
		}
		var failed error
		err := c.raw.Read(func(fd uintptr) (done bool) {
			c.stream.Do(func(e *stream.End) bool {
				done, failed = c.readOnce(int(fd), buf, e)
				return done
			})
			return done
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// readOnce reads bytes of the program, at most as many as the stream has room for, or the end of what the program sends.
// done is false if there are none now. stream.Do is its caller.
func (c *connection) readOnce(fd int, buf []byte, e *stream.End) (done bool, err error) {
	n, done, err := transferOnce(func() (int, error) { return unix.Read(fd, buf[:min(len(buf), e.Room())]) })
	if done && err == nil && n == 0 {
		e.CloseWrite()
		c.changeLocked(func() { c.ended = true })
	}
	e.Write(buf[:n])
	return done, err
}

// copyToProgram writes the bytes that have come for the program.
func (c *connection) copyToProgram(ctx context.Context) error {
	for {
		err := c.stream.Wait(ctx, func(e *stream.End) bool {
			b, ends := e.Inbox()
			return len(b) > 0 || ends
		})
		if err != nil {
			return err
		}
		var failed error
		over := false
		err = c.raw.Write(func(fd uintptr) (done bool) {
			c.stream.Do(func(e *stream.End) bool {
				done, over, failed = c.writeOnce(int(fd), e)
				return done
			})
			return done
		})
		if err := errors.Join(err, failed); err != nil || over {
			return err
		}
	}
}

// writeOnce writes bytes to the program, as many as the socket takes, or shuts the socket down after the last: then over
// is true. done is false if the socket takes no bytes now. stream.Do is its caller.
func (c *connection) writeOnce(fd int, e *stream.End) (done, over bool, err error) {
	b, ends := e.Inbox()
	if len(b) > 0 {
		n, done, err := transferOnce(func() (int, error) { return unix.Write(fd, b) })
		e.Consume(n)
		return done, false, err
	}
	if ends {
		c.changeLocked(func() {
			if !c.shut {
				err, c.shut = unix.Shutdown(fd, unix.SHUT_WR), true
			}
		})
	}
	return true, ends, err
}

// transferOnce reads or writes once. done is false if the call would have to wait.
func transferOnce(f func() (int, error)) (n int, done bool, err error) {
	for {
		n, err := f()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, false, nil
		case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
			return 0, true, errProgramReset
		}
		return max(n, 0), true, err
	}
}

func (c *connection) changeLocked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *connection) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Times of links.
const (
	dialTimeout  = 10 * time.Second
	helloTimeout = 60 * time.Second // the relay connects to the other side meanwhile
	firstRetry   = 50 * time.Millisecond
	longestRetry = 5 * time.Second
	// openPatience is how long a new connection waits for a relay that does not answer.
	openPatience = time.Minute
	// lastPatience is how long the forwarder tries to report a failed connection to a relay that does not answer.
	lastPatience = 10 * time.Second
)

// keepLinked keeps a link to the relay until the connection is over. keepLinked returns nil after an orderly end.
func (c *connection) keepLinked(ctx context.Context) error {
	began, retry := time.Now(), firstRetry
	for {
		relay, changed := c.f.currentRelay()
		linked, err := c.linkOnce(ctx, relay)
		if errors.Is(err, errOrderly) {
			return nil
		}
		if linked {
			began, retry = time.Now(), firstRetry
		}
		failed := c.stream.Failed()
		c.mu.Lock()
		opened := c.opened
		c.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case failed != nil && (linked || time.Since(began) > lastPatience || !errors.Is(failed, errProgramReset)):
			return failed
		case !opened && time.Since(began) > openPatience:
			c.stream.Fail(fmt.Errorf("the relay does not answer: %w", err))
			return c.stream.Failed()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(retry):
		}
		retry = min(2*retry, longestRetry)
	}
}

// errOrderly says that both directions have ended.
var errOrderly = errors.New("both directions have ended")

// linkOnce makes a link, and carries frames until the link breaks. linked tells whether the relay has
// confirmed the connection.
func (c *connection) linkOnce(ctx context.Context, to Relay) (linked bool, err error) {
	if to.Address == "" {
		return false, errors.New("the relay has not admitted the job yet")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.stream.Do(func(*stream.End) bool { return false }) // not between hold and go
	link, answer, err := sayHello(ctx, to.Address, func() stream.Hello { return c.makeHello(to.Ticket) })
	if err != nil {
		return false, err
	}
	defer link.Close()
	if err := c.handleAnswer(answer); err != nil {
		return false, err
	}
	orderly := make(chan struct{})
	go func() {
		if c.stream.Wait(ctx, func(e *stream.End) bool { return e.Done() && e.Idle() }) == nil {
			close(orderly)
			cancel()
		}
	}()
	err = c.stream.Carry(ctx, link, c.handleOver)
	select {
	case <-orderly:
		return true, errOrderly
	default:
		return true, err
	}
}

// sayHello makes a link and returns the relay's answer to a hello. The end of ctx ends the link; the caller closes the
// link.
func sayHello(ctx context.Context, address string, hello func() stream.Hello) (net.Conn, *stream.Frame, error) {
	link, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { link.Close() })
	err = link.SetDeadline(time.Now().Add(helloTimeout))
	if err == nil {
		err = stream.WriteJSON(link, stream.KindHello, hello())
	}
	var answer *stream.Frame
	if err == nil {
		answer, err = stream.ReadFrame(link)
	}
	if err == nil {
		err = link.SetDeadline(time.Time{})
	}
	if err != nil {
		link.Close()
		return nil, nil, err
	}
	return link, answer, nil
}

func (c *connection) makeHello(ticket string) stream.Hello {
	h := stream.Hello{Ticket: ticket, ID: c.id, To: c.to}
	c.stream.Do(func(e *stream.End) bool {
		h.Position = e.Position()
		return false
	})
	if err := c.stream.Failed(); err != nil {
		h.Over = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Opened = c.opened
	return h
}

// handleAnswer takes the relay's answer.
func (c *connection) handleAnswer(answer *stream.Frame) (err error) {
	switch answer.Kind {
	case stream.KindWelcome:
		c.f.setRefused(false)
	case stream.KindOver:
		return c.handleOver(answer)
	default:
		return fmt.Errorf("%w: kind %d instead of an answer", stream.ErrProtocol, answer.Kind)
	}
	var w stream.Welcome
	if err := answer.Parse(&w); err != nil {
		return err
	}
	c.stream.Do(func(e *stream.End) bool {
		if err = e.Resume(w.Position); err == nil {
			c.changeLocked(func() { c.opened, c.resumed = true, false })
		}
		return true
	})
	if err != nil {
		c.stream.Fail(err)
	}
	return err
}

// handleOver handles the relay's message that the connection does not exist any more.
func (c *connection) handleOver(f *stream.Frame) error {
	var o stream.ConnectionEnd
	if err := f.Parse(&o); err != nil {
		return err
	}
	if o.Retry {
		c.f.setRefused(true)
		return errors.New(o.Reason)
	}
	if c.isOver() {
		return errOrderly // forgotten by the relay already
	}
	c.stream.Fail(errors.New(o.Reason))
	return c.stream.Failed()
}

// isOver tells whether the program has sent and got all bytes of the connection.
func (c *connection) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && c.shut
}

// savedState returns the part that a checkpoint keeps. The caller holds Forwarder.rest.
func (c *connection) savedState() SavedConnection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return SavedConnection{ID: c.id, From: c.from, To: c.to, Opened: c.opened, Shut: c.shut, Ended: c.ended, Stream: c.stream.State()}
}
