// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Conn is a connection to a node's daemon, for the clients that protoc-gen-go-grpc makes. A Conn
// is safe for concurrent use.
type Conn struct {
	cc       *grpc.ClientConn
	to, from string
	coder    Coder
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// Dial prepares a connection to the daemon of node to at target ("n1:6830"); the first call
// connects. from is the node that asks, for the other side's log.
func Dial(target, to, from string, coder Coder, opts ...grpc.DialOption) (*Conn, error) {
	opts = append(opts,
		// Credentials and seals prove the identity of both sides; see the package comment.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frameCodec{})),
		// Nodes are asked directly: proxies and services that DNS or the environment name are not used.
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy())
	cc, err := grpc.NewClient("passthrough:///"+target, opts...)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", to, err)
	}
	return &Conn{cc: cc, to: to, from: from, coder: coder}, nil
}

// Close ends the connection and the calls that are under way.
func (c *Conn) Close() error { return c.cc.Close() }

// signRequest returns the context with the credential for a request, and the seal that the reply
// must have.
func (c *Conn) signRequest(ctx context.Context, method string, request []byte) (context.Context, *seal, error) {
	t := newTicket(method, c.to, c.from, request)
	credential, err := c.coder.Encode(ctx, t.marshal())
	if err != nil {
		return nil, nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, credentialKey, credential), newSeal(t.Key), nil
}

// Invoke implements grpc.ClientConnInterface: a call with a single reply.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	request, err := marshalMessage(args)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, s, err := c.signRequest(ctx, method, request)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.sendRequest(ctx, false, method, request, opts)
	if err != nil {
		return err
	}
	var answer frame
	err = stream.RecvMsg(&answer)
	if err == nil {
		s.addMessage(answer.b)
	}
	if err := c.checkSeal(s, err, stream.Trailer()); err != nil {
		return err
	}
	return unmarshalMessage(answer.b, reply)
}

// sendRequest begins a call and sends its request, in pieces. The context must end.
func (c *Conn) sendRequest(ctx context.Context, streams bool, method string, request []byte, opts []grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: streams, ClientStreams: true}, method, opts...)
	if err != nil {
		return nil, err
	}
	for {
		n := min(len(request), piece)
		err := stream.SendMsg(&frame{request[:n]})
		if request = request[n:]; err == nil && len(request) > 0 {
			continue
		}
		// io.EOF: the server has ended the call, and its reply has the reason.
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return stream, stream.CloseSend()
	}
}

// checkSeal returns err, which may be nil, if the reply's seal is right, and ErrUnsealed if not.
func (c *Conn) checkSeal(s *seal, err error, trailer metadata.MD) error {
	st := status.Convert(err)
	got := trailer.Get(sealKey)
	switch {
	case len(got) == 1 && isSealed([]byte(got[0]), s.addStatus(st)):
		return err
	case len(got) == 0 && mayBeUnsealed(st.Code()):
		return err
	default:
		return fmt.Errorf("node %s: %w", c.to, ErrUnsealed)
	}
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

	grpc.ClientStream // nil before SendMsg
	seal              *seal
}

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) SendMsg(m any) error {
	if s.ClientStream != nil {
		return fmt.Errorf("%s: second request in one call", s.method)
	}
	request, err := marshalMessage(m)
	if err != nil {
		return fmt.Errorf("%s: %w", s.method, err)
	}
	ctx, seal, err := s.conn.signRequest(s.ctx, s.method, request)
	if err != nil {
		return fmt.Errorf("%s: %w", s.method, err)
	}
	inner, err := s.conn.sendRequest(ctx, s.desc.ServerStreams, s.method, request, s.opts)
	if err != nil {
		return err
	}
	s.ClientStream, s.seal = inner, seal
	return nil
}

// CloseSend has no effect: no message follows the request.
func (s *clientStream) CloseSend() error { return nil }

func (s *clientStream) RecvMsg(m any) error {
	var f frame
	err := s.ClientStream.RecvMsg(&f)
	switch {
	case err == nil:
		s.seal.addMessage(f.b)
		return unmarshalMessage(f.b, m)
	case errors.Is(err, io.EOF):
		if err := s.conn.checkSeal(s.seal, nil, s.Trailer()); err != nil {
			return err
		}
		return io.EOF
	default:
		return s.conn.checkSeal(s.seal, err, s.Trailer())
	}
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
