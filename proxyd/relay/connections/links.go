// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// Bounds of links that have not been admitted.
const (
	helloTimeout = 10 * time.Second
	maxCallers   = 4096
)

// errProgramEnd says that a connection has failed at the program's end.
var errProgramEnd = errors.New("the program's end has failed")

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// Serve serves links until the listener is closed.
func (h *Holder) Serve(l net.Listener) error {
	for {
		link, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || h.ctx.Err() != nil {
			return nil //nolint:nilerr // it is to end
		}
		if err != nil {
			h.cfg.Log.Warn("cannot accept a connection", "error", err)
			select { // too few descriptors, or too little memory
			case <-h.ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		h.callers.Add(link) // a forwarder says hello at once, and so is served, no matter how many links others leave open
		go func() {
			defer link.Close()
			hello, err := readHello(link)
			h.callers.Remove(link)
			switch {
			case err != nil:
			case hello.Offers:
				err = h.serveOffers(link, HashTicket(hello.Ticket))
			default:
				err = h.serveLink(link, hello)
			}
			if err != nil && !isEnd(err) {
				h.cfg.Log.Debug("link", "from", link.RemoteAddr(), "error", err)
			}
		}()
	}
}

func readHello(link net.Conn) (*stream.Hello, error) {
	if err := link.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	f, err := stream.ReadFrame(link)
	if err != nil {
		return nil, err
	}
	if f.Kind != stream.KindHello {
		return nil, fmt.Errorf("%w: kind %d instead of a hello", stream.ErrProtocol, f.Kind)
	}
	hello := &stream.Hello{}
	if err := f.Parse(hello); err != nil {
		return nil, err
	}
	return hello, link.SetReadDeadline(time.Time{})
}

// serveLink answers a hello, and carries frames.
func (h *Holder) serveLink(link net.Conn, hello *stream.Hello) error {
	k, t, isNew, retry, err := h.findConnection(hello)
	if err != nil {
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: err.Error(), Retry: retry, Cause: stream.CauseProhibited})
	}
	defer func() {
		if k.stream.Failed() != nil {
			h.dropConnection(k) // the forwarder knows of the failure
		}
	}()
	if hello.Over != "" {
		k.stream.Fail(fmt.Errorf("%w: %s", errProgramEnd, hello.Over))
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: hello.Over})
	}
	if isNew {
		go h.carryConnection(k)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	if !h.replaceLink(k, t, cancel) { // of several links, only the newest waits
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: "a newer run of the job has begun", Retry: true})
	}
	select {
	case <-k.dialed:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.linked.Lock() // the link before ends now
	defer k.linked.Unlock()
	if err := k.stream.Failed(); err != nil {
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: err.Error(), Cause: k.cause})
	}
	var w stream.Welcome
	k.stream.Do(func(e *stream.End) bool {
		w.Position = e.Position()
		// This end never goes back to an earlier moment, so a forwarder that keeps to the protocol never knows of more used
		// bytes. Each link of a false forwarder could otherwise bring another window of bytes.
		if used := e.UsedPosition(); hello.Position.Base > used {
			err = fmt.Errorf("%w: %d bytes used, of %d", stream.ErrProtocol, hello.Position.Base, used)
			return false
		}
		err = e.Resume(hello.Position)
		return true
	})
	if err != nil {
		k.stream.Fail(err)
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: err.Error()})
	}
	if err := stream.WriteJSON(link, stream.KindWelcome, w); err != nil {
		return err
	}
	return k.stream.Carry(ctx, link, func(f *stream.Frame) error {
		var o stream.ConnectionEnd
		if err := f.Parse(&o); err != nil {
			return err
		}
		k.stream.Fail(fmt.Errorf("%w: %s", errProgramEnd, o.Reason))
		return k.stream.Failed()
	})
}

// replaceLink makes a link the connection's link, and ends the link before. The result is false for a link of a run
// that is over.
func (h *Holder) replaceLink(k *connection, t ticket, cancel func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.run < k.job.run {
		return false
	}
	if k.unlink != nil {
		k.unlink()
	}
	if k.isWaiting() {
		k.client.stopWaiting()
		k.client.taken = true
	}
	k.unlink, k.run = cancel, t.run
	return true
}
