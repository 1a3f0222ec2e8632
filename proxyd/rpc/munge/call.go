// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Bounds of sending a call again, which the package comment explains.
const (
	// defaultRepeatTime is the time after the first sending in which a call is sent again.
	defaultRepeatTime = 20 * time.Second
	// connectTime bounds the time in which a repeated call is signed and its connection comes about. A server allows for
	// longestTransit until it has the call.
	connectTime    = 5 * time.Second
	longestTransit = 10 * time.Second
)

// errLate says that no connection came about in time. The queue of a port to which very many connect may be full.
var errLate = status.Error(codes.Unavailable, "no connection in time")

// call is a call of a client. The call is sent again while the other side closes connections without an answer.
type call struct {
	conn    *Conn
	method  string
	streams bool
	opts    []grpc.CallOption
	request []byte
	ticket  ticket // of each sending: by its nonce a server carries out the call once
	began   time.Time
	sent    int   // how often
	closed  int64 // connections, without an answer
	lost    error // with which the newest connection was closed

	link   *link
	since  int64             // connections of link that were closed before the call was sent
	stream grpc.ClientStream // of the newest sending that had a stream
	seal   *seal             // that the reply on stream must have
}

// newCall prepares a call.
func (c *Conn) newCall(method string, streams bool, request []byte, opts []grpc.CallOption) *call {
	return &call{conn: c, method: method, streams: streams, opts: opts, request: request,
		ticket: newTicket(method, c.to, c.from, request), began: time.Now()}
}

// sendCall sends the call. The context must end.
func (c *call) sendCall(ctx context.Context) error {
	for {
		err := c.sendOnce(ctx)
		if err == nil {
			return nil
		}
		if err := c.checkRepeat(ctx, nil, err); err != nil {
			return err
		}
	}
}

// receiveFirst is receiveMessage for the first message. The context is that of sendCall.
func (c *call) receiveFirst(ctx context.Context, f *frame) error {
	for {
		err := c.stream.RecvMsg(f)
		if err != nil && !errors.Is(err, io.EOF) {
			if err := c.checkRepeat(ctx, c.stream.Trailer(), err); err != nil {
				return c.checkSeal(err)
			}
			if err := c.sendCall(ctx); err != nil {
				return err
			}
			continue
		}
		c.request = nil // it is not sent again
		c.conn.pace.noteAnswer()
		return c.checkMessage(f, err)
	}
}

// receiveMessage reads a message of the reply into f. It returns io.EOF at the end of a reply with the right seal.
func (c *call) receiveMessage(f *frame) error { return c.checkMessage(f, c.stream.RecvMsg(f)) }

// checkMessage counts f, which RecvMsg has returned with err, into the seal that the reply must have.
func (c *call) checkMessage(f *frame, err error) error {
	switch {
	case err == nil:
		c.seal.addMessage(f.b)
		return nil
	case errors.Is(err, io.EOF):
		return cmp.Or(c.checkSeal(nil), io.EOF)
	default:
		return c.checkSeal(err)
	}
}

// checkSeal returns err, with which the reply has ended, or nil, if the seal is right, and ErrUnsealed if not.
func (c *call) checkSeal(err error) error {
	st := status.Convert(err)
	got := c.stream.Trailer().Get(sealKey)
	switch {
	case len(got) == 1 && isSealed([]byte(got[0]), c.seal.addStatus(st)):
		return err
	case len(got) == 0 && mayBeUnsealed(st.Code()):
		return err
	default:
		return fmt.Errorf("node %s: %w", c.conn.to, ErrUnsealed)
	}
}

// sendOnce signs the call and sends it, in pieces.
func (c *call) sendOnce(ctx context.Context) error {
	t, age := c.ticket, time.Since(c.began)
	within := c.conn.repeatTime
	if c.sent > 0 {
		t.Version, t.Age = repeatVersion, age.Milliseconds()
		within = min(connectTime, within-age)
	}
	c.sent++
	credential, err := c.conn.coder.Encode(ctx, t.marshal())
	if err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	stream, err := c.openStream(metadata.AppendToOutgoingContext(ctx, credentialKey, credential), within-(time.Since(c.began)-age))
	if err != nil {
		return err
	}
	for request := c.request; ; {
		n := min(len(request), piece)
		err := stream.SendMsg(&frame{request[:n]})
		if request = request[n:]; err == nil && len(request) > 0 {
			continue
		}
		// io.EOF: the server has ended the call, and its reply has the reason.
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		c.stream, c.seal = stream, newSeal(c.ticket.Key)
		return stream.CloseSend()
	}
}

// openStream begins a call of gRPC's: the first on the connection of all calls, each other on a connection of its own,
// since gRPC lets a second or more pass before it connects again. within bounds the time until there is a connection.
func (c *call) openStream(ctx context.Context, within time.Duration) (grpc.ClientStream, error) {
	l := c.conn.link
	if c.sent > 1 {
		var err error
		if l, err = newLink(c.conn.target, c.conn.pace, c.conn.opts); err != nil {
			return nil, err
		}
	}
	c.link, c.since = l, l.closed.Load()
	ctx, cancel := context.WithCancel(ctx)
	if l != c.conn.link {
		context.AfterFunc(ctx, func() { l.cc.Close() })
	}
	opts := append(slices.Clone(c.opts), grpc.OnFinish(func(error) { cancel() }))
	late := time.AfterFunc(within, cancel)
	stream, err := l.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: c.streams, ClientStreams: true}, c.method, opts...)
	if !late.Stop() {
		err = errLate
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return stream, nil
}

// checkRepeat returns nil if the call is to be sent again: err, with which its newest sending failed, says that the other
// side has closed the connection without an answer. Else checkRepeat returns the error with which the call has failed.
// trailer is that of an answer; gRPC makes none for a failure of its own.
func (c *call) checkRepeat(ctx context.Context, trailer metadata.MD, err error) error {
	code := status.Code(err)
	answered := len(trailer) > 0
	if answered {
		c.conn.pace.noteAnswer()
	}
	switch {
	case answered && c.lost != nil && code == codes.Unauthenticated:
		return c.lost // a sending before may have been admitted, or the server cannot tell
	case answered, ctx.Err() != nil:
		return err
	case code == codes.Unavailable && c.link.wasClosed(c.since):
		c.closed += c.link.closed.Load() - c.since
		c.lost = err
	case c.lost != nil && errors.Is(err, errLate):
	case c.lost != nil && code == codes.Unavailable:
		return c.lost // the server cannot be reached any more
	default:
		return err
	}
	took, pause := time.Since(c.began), c.conn.pace.longestNext()
	deadline, has := ctx.Deadline()
	switch {
	case took+pause <= c.conn.repeatTime && (!has || time.Until(deadline) >= pause):
		return nil
	case c.closed <= 1:
		return err
	default:
		return status.Errorf(codes.Unavailable, "it closed %d connections within %s without an answer; the last: %s",
			c.closed, took.Round(100*time.Millisecond), status.Convert(c.lost).Message())
	}
}
