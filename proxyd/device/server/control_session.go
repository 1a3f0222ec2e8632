// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// controlSession is a server's end of a control connection. It is the Sink and the Source of the saves and restores
// that come by the connection.
type controlSession struct {
	conn   *net.UnixConn
	orders chan receivedMessage // closed at its end

	brought []*os.File // for the next Adopt; only the goroutine that carries out orders uses it

	sending sync.Mutex

	mu      sync.Mutex
	over    bool
	waiting map[string]chan<- receivedMessage // for the answer about a file; closed without an answer at the end
}

// receivedMessage is a message, and the file that came with it, or nil.
type receivedMessage struct {
	order
	f *os.File
}

// readMessages sorts incoming messages until the end of the connection, for which it returns nil.
func (h *controlSession) readMessages() error {
	defer h.endWaiting()
	for {
		var m receivedMessage
		var err error
		m.f, err = receiveMessage(h.conn, &m.order)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		if m.File != "" {
			h.deliverAnswer(m)
			continue
		}
		select {
		case h.orders <- m:
		default:
			return errors.New("an order before the last one is done")
		}
	}
}

// endWaiting tells the waiting goroutines that no message comes any more.
func (h *controlSession) endWaiting() {
	close(h.orders)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for _, c := range h.waiting {
		close(c)
	}
	h.waiting = nil
}

// deliverAnswer gives an answer to the goroutine that has asked for the file.
func (h *controlSession) deliverAnswer(m receivedMessage) {
	h.mu.Lock()
	c := h.waiting[m.File]
	delete(h.waiting, m.File)
	h.mu.Unlock()
	if c == nil {
		if m.f != nil {
			m.f.Close()
		}
		return
	}
	c <- m // c has room for an answer
}

// errParent is the error for files after the end of the connection.
var errParent = errors.New("the connection that ordered it has ended")

// askParent asks the parent about a file.
func (h *controlSession) askParent(name string, r *reply) (*os.File, error) {
	c := make(chan receivedMessage, 1)
	h.mu.Lock()
	switch {
	case h.over:
		h.mu.Unlock()
		return nil, errParent
	case h.waiting[name] != nil:
		h.mu.Unlock()
		return nil, fmt.Errorf("%q is asked for already: %w", name, os.ErrInvalid)
	}
	h.waiting[name] = c
	h.mu.Unlock()
	h.sending.Lock()
	err := sendMessage(h.conn, r, nil)
	h.sending.Unlock()
	if err != nil {
		return nil, err
	}
	m, ok := <-c
	switch {
	case !ok:
		return nil, errParent
	case m.Error != "":
		err = errors.New(m.Error)
	}
	if err != nil && m.f != nil {
		m.f.Close()
		m.f = nil
	}
	return m.f, err
}

// askForPipe asks for the end of a pipe.
func (h *controlSession) askForPipe(name string, r *reply) (*os.File, error) {
	f, err := h.askParent(name, r)
	if err == nil && f == nil {
		err = errors.New("no pipe has come for it")
	}
	return f, err
}

// Create implements Sink.
func (h *controlSession) Create(name string) (io.WriteCloser, error) {
	f, err := h.askForPipe(name, &reply{Create: name})
	if err != nil {
		return nil, err
	}
	return &sentFile{f: f, name: name, h: h}, nil
}

// Open implements Source.
func (h *controlSession) Open(name string) (io.ReadCloser, error) {
	f, err := h.askForPipe(name, &reply{Open: name})
	if err != nil {
		return nil, err // and not a nil *os.File
	}
	return f, nil
}

// sentFile is a file on its way to the parent.
type sentFile struct {
	f    *os.File
	h    *controlSession
	name string
	n    int64
	err  error
}

func (f *sentFile) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	f.n += int64(n)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

// Close returns when the parent has the whole file.
func (f *sentFile) Close() error {
	err := f.f.Close()
	if f.err != nil || err != nil {
		// EPIPE: the parent has closed the pipe early, and knows the reason.
		return errors.New("it was not taken to its end")
	}
	_, err = f.h.askParent(f.name, &reply{Close: f.name, Length: f.n})
	return err
}

// keepOrderFile keeps the file that has come with an order.
func (h *controlSession) keepOrderFile(o *receivedMessage) error {
	if o.f == nil || len(h.brought) >= handles.Max {
		return fmt.Errorf("nothing is brought, or too much: %w", os.ErrInvalid)
	}
	h.brought, o.f = append(h.brought, o.f), nil
	return nil
}

// answerOrder sends the result of an order.
func (h *controlSession) answerOrder(answer any, f *os.File, failed error) error {
	h.sending.Lock()
	defer h.sending.Unlock()
	if failed != nil {
		return sendMessage(h.conn, &reply{Done: true, Error: plainText(failed.Error()), Errno: localsock.FindErrno(failed), Temporary: isTemporary(failed)}, nil)
	}
	var b []byte
	if answer != nil {
		var err error
		if b, err = json.Marshal(answer); err != nil {
			return err
		}
	}
	for len(b) > 0 {
		n := min(len(b), maxPart)
		if err := sendMessage(h.conn, &reply{Part: b[:n]}, nil); err != nil {
			return err
		}
		b = b[n:]
	}
	return sendMessage(h.conn, &reply{Done: true}, f)
}
