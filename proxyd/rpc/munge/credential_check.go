// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Caller is the user that calls, as munge vouches. From is the caller's own claim, which only
// root's may be trusted.
type Caller struct {
	UID, GID uint32
	From     string // node
}

type callerKey struct{}

// CallerOf returns the caller, in a handler behind a CredentialCheck.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// WithCaller returns ctx as a handler behind a CredentialCheck sees it, for code that knows the caller in
// another way.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Limits of a caller.
type Limits struct {
	Bytes int // of a request
	Calls int // at the same time; 0: any number, and the caller is a daemon, which goes first
}

// CredentialCheck lets requests through to a service if their credentials are right. The fields must not
// change after Register. A CredentialCheck is safe for concurrent use.
type CredentialCheck struct {
	Node   string // this node, as Slurm names the node
	Coder  Coder
	Limits func(Caller) Limits // nil: no limits

	once        sync.Once
	proofTime   time.Duration // 0: defaultProofTime
	began       time.Time     // before the first request
	seen        *nonces
	decoding    *turns // bounds the unmunge processes that strangers can make root start
	connections *connections

	mu    sync.Mutex
	calls map[uint32]int // under way, by uid; users without any are left out
}

func (g *CredentialCheck) init() {
	g.once.Do(func() {
		// A credential may be from Lifetime ago or ahead, so the same credential can come again until
		// twice Lifetime has passed.
		g.seen = newNonces(2*Lifetime, time.Now)
		if g.began.IsZero() {
			g.began = time.Now()
		}
		g.decoding = newTurns()
		g.connections = newConnections(cmp.Or(g.proofTime, defaultProofTime))
		g.calls = make(map[uint32]int)
	})
}

// Register puts a service behind the credential check: only requests that were checked reach impl, which
// finds CallerOf in its context. desc is the generated description.
func (g *CredentialCheck) Register(server grpc.ServiceRegistrar, desc *grpc.ServiceDesc, impl any) {
	g.init()
	guarded := grpc.ServiceDesc{ServiceName: desc.ServiceName, HandlerType: desc.HandlerType, Metadata: desc.Metadata}
	add := func(name string, serve func(context.Context, *reply) error) {
		method := "/" + desc.ServiceName + "/" + name
		// Calls with a single reply are registered as streams too; on the wire they are the same.
		// gRPC reads the request of a unary call before any code of ours runs; the request of a
		// stream is read when the credential check wants it, which is after the credential.
		guarded.Streams = append(guarded.Streams, grpc.StreamDesc{
			StreamName: name, ServerStreams: true, ClientStreams: true, // of pieces
			Handler: func(_ any, stream grpc.ServerStream) error { return g.serveCall(method, stream, serve) },
		})
	}
	for _, m := range desc.Methods {
		add(m.MethodName, func(ctx context.Context, r *reply) error {
			answer, err := m.Handler(impl, ctx, r.unmarshalRequest, nil)
			if err != nil {
				return err
			}
			return r.SendMsg(answer)
		})
	}
	for _, s := range desc.Streams {
		add(s.StreamName, func(_ context.Context, r *reply) error { return s.Handler(impl, r) })
	}
	server.RegisterService(&guarded, impl)
}

// serveCall handles a call, from the credential to the seal.
func (g *CredentialCheck) serveCall(method string, stream grpc.ServerStream, handle func(context.Context, *reply) error) error {
	ctx := stream.Context()
	caller, t, err := g.admitCall(ctx, method)
	if err != nil {
		return refusedStatus(err)
	}
	// From here on the key is known, and every answer has a seal.
	r := &reply{ServerStream: stream, seal: newSeal(t.Key), ctx: WithCaller(ctx, caller)}
	err = func() error {
		leave, err := g.countCall(caller, t)
		if err != nil {
			return err
		}
		defer leave()
		if r.asked, err = t.readRequest(stream); err != nil {
			return err
		}
		if err := t.covers(r.asked); err != nil {
			return refusedStatus(err)
		}
		return handle(r.ctx, r)
	}()
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	st = plainStatus(st)
	stream.SetTrailer(metadata.Pairs(sealKey, string(r.seal.addStatus(st))))
	return st.Err()
}

// readRequest puts a request together from its pieces. It stops after the piece that completes or
// exceeds the announced size: covers checks size and hash.
func (t ticket) readRequest(stream grpc.ServerStream) ([]byte, error) {
	var request []byte
	for {
		var f frame
		err := stream.RecvMsg(&f)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if request == nil {
			request = f.b
		} else {
			request = append(request, f.b...)
		}
		if len(f.b) == 0 || int64(len(request)) >= t.Size {
			return request, nil
		}
	}
}

// admitCall decodes the credential of a call and checks all but the request.
func (g *CredentialCheck) admitCall(ctx context.Context, method string) (Caller, ticket, error) {
	arrived := time.Now()
	md, _ := metadata.FromIncomingContext(ctx)
	credentials := md.Get(credentialKey)
	if len(credentials) != 1 {
		return Caller{}, ticket{}, fmt.Errorf("%w: %d credentials, want one", ErrRefused, len(credentials))
	}
	conn := connectionOf(ctx)
	if conn == nil {
		return Caller{}, ticket{}, errors.New("the server has no ServerOptions of its CredentialCheck")
	}
	done, err := g.decoding.waitForPlace(ctx, conn.RemoteAddr().String(), conn.isDaemon())
	if err != nil {
		return Caller{}, ticket{}, err
	}
	c, err := g.Coder.Decode(ctx, credentials[0])
	done()
	endWaiting(ctx)
	if err != nil {
		return Caller{}, ticket{}, err
	}
	if c.TTL > Lifetime {
		return Caller{}, ticket{}, fmt.Errorf("%w: valid for %s, at most %s is accepted", ErrRefused, c.TTL, Lifetime)
	}
	t, err := parseTicket(c.Payload)
	if err != nil {
		return Caller{}, ticket{}, err
	}
	if err := t.admits(g.Node, method); err != nil {
		return Caller{}, ticket{}, err
	}
	if err := t.admitsRepeat(arrived, g.began); err != nil {
		return Caller{}, ticket{}, err
	}
	if conn.isClosed() { // the client may send the call again, so this sending must not count
		return Caller{}, ticket{}, context.Canceled
	}
	if !g.seen.isFirst(c.UID, t.Nonce) {
		return Caller{}, ticket{}, ErrReplayed
	}
	caller := Caller{UID: c.UID, GID: c.GID, From: t.From}
	conn.noteUser(c.UID, g.Limits != nil && g.Limits(caller).Calls == 0)
	return caller, t, nil
}

// countCall counts a call, or refuses a call that is too large, or one more than the user's limit.
// The caller must call the returned function.
func (g *CredentialCheck) countCall(c Caller, t ticket) (leave func(), err error) {
	if g.Limits == nil {
		return func() {}, nil
	}
	limits := g.Limits(c)
	if t.Size > int64(limits.Bytes) {
		return nil, status.Errorf(codes.ResourceExhausted, "request of %d bytes, at most %d are accepted", t.Size, limits.Bytes)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if limits.Calls > 0 && g.calls[c.UID] >= limits.Calls {
		return nil, status.Errorf(codes.ResourceExhausted, "user %d has %d requests under way; wait for one to end", c.UID, limits.Calls)
	}
	g.calls[c.UID]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.calls[c.UID]--; g.calls[c.UID] == 0 {
			delete(g.calls, c.UID)
		}
	}, nil
}

// refusedStatus returns err as a status.
func refusedStatus(err error) error {
	switch {
	case errors.Is(err, ErrRefused):
		return status.Error(codes.Unauthenticated, err.Error())
	case errors.Is(err, ErrNoMunge):
		return status.Error(codes.Unavailable, err.Error())
	default:
		return status.FromContextError(err).Err()
	}
}

// reply is the stream as the service's handler sees it.
type reply struct {
	grpc.ServerStream
	ctx   context.Context
	seal  *seal
	asked []byte // the request; nil after it was taken
	taken bool
}

func (r *reply) Context() context.Context { return r.ctx }

// unmarshalRequest hands out the request.
func (r *reply) unmarshalRequest(m any) error {
	if err := unmarshalMessage(r.asked, m); err != nil {
		return status.Error(codes.InvalidArgument, "request is not of this service")
	}
	return nil
}

func (r *reply) RecvMsg(m any) error {
	if r.taken {
		return io.EOF
	}
	r.taken = true
	return r.unmarshalRequest(m)
}

// SendMsg must not be called by two at once, as for any grpc.ServerStream.
func (r *reply) SendMsg(m any) error {
	b, err := marshalMessage(m)
	if err != nil {
		return err
	}
	if err := r.ServerStream.SendMsg(&frame{b}); err != nil {
		return err
	}
	r.seal.addMessage(b)
	return nil
}
