// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Conn is a connection to a node's daemon, for the clients that protoc-gen-go-grpc makes. A Conn
// is safe for concurrent use.
type Conn struct {
	target     string
	opts       []grpc.DialOption
	link       *link
	pace       *pace // of link, and of the links of calls that are sent again
	to, from   string
	coder      Coder
	repeatTime time.Duration
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// Dial prepares a connection to the daemon of node to at target ("n1:6830"); the first call
// connects. from is the node that asks, for the other side's log.
func Dial(target, to, from string, coder Coder, opts ...grpc.DialOption) (*Conn, error) {
	p := &pace{}
	l, err := newLink(target, p, opts)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", to, err)
	}
	return &Conn{target: target, opts: opts, link: l, pace: p, to: to, from: from, coder: coder, repeatTime: defaultRepeatTime}, nil
}

// Close ends the connection and the calls that are under way.
func (c *Conn) Close() error { return c.link.cc.Close() }

// Invoke implements grpc.ClientConnInterface: a call with a single reply.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	request, err := marshalMessage(args)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call := c.newCall(method, false, request, opts)
	if err := call.sendCall(ctx); err != nil {
		return err
	}
	var answer frame
	if err := call.receiveFirst(ctx, &answer); err != nil {
		return err
	}
	if err := call.checkSeal(nil); err != nil {
		return err
	}
	return unmarshalMessage(answer.b, reply)
}

// mayBeUnsealed tells the failures that this side's gRPC reports, or a CredentialCheck that could not
// read the credential.
func mayBeUnsealed(code codes.Code) bool {
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted,
		codes.Unauthenticated, codes.Unimplemented, codes.Internal:
		return true
	default:
		return false
	}
}

// NewStream implements grpc.ClientConnInterface: a call with a reply that streams.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if desc.ClientStreams {
		return nil, fmt.Errorf("%s: requests that stream cannot be signed", method)
	}
	return &clientStream{conn: c, ctx: ctx, desc: desc, method: method, opts: opts}, nil
}

// clientStream begins with its request: the credential is over that request. Like every
// grpc.ClientStream it is for a single reader and a single writer.
type clientStream struct {
	conn   *Conn
	ctx    context.Context
	desc   *grpc.StreamDesc
	method string
	opts   []grpc.CallOption

	grpc.ClientStream       // nil before SendMsg
	call              *call // nil before SendMsg
	begun             bool  // the first message of the reply has come
}

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	if s.call != nil {
		return fmt.Errorf("%s: second request in one call", s.method)
	}
	request, err := marshalMessage(m)
	if err != nil {
		return fmt.Errorf("%s: %w", s.method, err)
	}
	call := s.conn.newCall(s.method, s.desc.ServerStreams, request, s.opts)
	if err := call.sendCall(s.ctx); err != nil {
		return err
	}
	s.call, s.ClientStream = call, call.stream
	return nil
}

// CloseSend has no effect: no message follows the request.
func (s *clientStream) CloseSend() error { return nil }

func (s *clientStream) RecvMsg(m any) error {
	var f frame
	var err error
	if s.begun {
		err = s.call.receiveMessage(&f)
	} else {
		err = s.call.receiveFirst(s.ctx, &f)
		s.ClientStream = s.call.stream
	}
	if err != nil {
		return err
	}
	s.begun = true
	return unmarshalMessage(f.b, m)
}

// Unary is a method of a generated client that has a single reply.
type Unary[Q, R any] func(context.Context, *Q, ...grpc.CallOption) (*R, error)

// Call calls f with a deadline: that of ctx, or within from now if ctx has no deadline. within 0
// adds no deadline. The reply is nil on an error.
func Call[Q, R any](ctx context.Context, within time.Duration, f Unary[Q, R], req *Q) (*R, error) {
	if _, has := ctx.Deadline(); !has && within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	reply, err := f(ctx, req)
	if err != nil {
		return nil, err
	}
	return reply, nil
}
