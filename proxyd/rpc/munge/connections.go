// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// Bounds of connections. Any program of any host can open connections to the port of a daemon. A connection is a
// stranger's until a credential that came by the connection was right, then the connection of a user or of a daemon.
const (
	// maxStrangers bounds the connections of strangers that have sent no request yet, and those that have. In place of a
	// connection more, the oldest of the host that has the most is closed, so daemons of other hosts are served while the
	// programs of a host open many; and silent connections keep out none of their host that asks.
	maxStrangers = 512
	// maxOfUser bounds the connections of a user. In place of a connection more, the oldest is closed.
	maxOfUser = 32
	// defaultProofTime is the time within which a stranger has to be known.
	defaultProofTime = 10 * time.Second
	// maxWaiting bounds the requests of a connection, but for those of a daemon, that wait for munge.
	maxWaiting = 16
	// maxUnvouched bounds the bytes of a connection, but for those of a daemon, that are read while its requests wait for
	// munge: gRPC holds the parts of a message until a handler reads the message, and a part of one byte
	// costs 64 bytes.
	maxUnvouched = 16 << 10
)

// connections knows the connections of a server. connections is safe for concurrent use.
type connections struct {
	proofTime time.Duration
	silent    *strangers.List // of strangers without a request yet
	asking    *strangers.List // of strangers with a request

	mu    sync.Mutex
	users map[uint32]*userConnections // users without any are left out
}

type userConnections struct {
	list *strangers.List
	n    int // in the list, or to be closed by it
}

func newConnections(proofTime time.Duration) *connections {
	return &connections{proofTime: proofTime, silent: strangers.New(maxStrangers), asking: strangers.New(maxStrangers), users: make(map[uint32]*userConnections)}
}

// connection is a connection as gRPC sees it, and what gRPC tells handlers of it.
type connection struct {
	net.Conn
	all   *connections
	timer *time.Timer // closes the connection of a stranger

	mu      sync.Mutex
	changed *sync.Cond // wakes Read
	closed  bool
	known   bool
	daemon  bool
	asked   bool   // a request has come
	uid     uint32 // if the connection is known, and no daemon's
	counted bool   // among the user's; protected by all.mu
	waiting int    // requests that wait for munge
	read    int    // bytes, since requests wait
}

var _ credentials.AuthInfo = (*connection)(nil)

// AuthType implements credentials.AuthInfo.
func (*connection) AuthType() string { return "munge" }

// connectionOf returns the connection by which a request has come; nil: the server does not have the ServerOptions of a
// CredentialCheck.
func connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*connection)
	return c
}

// handshake gives a server's connections to gRPC. Nothing is said on the wire: each request says which user asks.
type handshake struct{ all *connections }

var _ credentials.TransportCredentials = handshake{}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &connection{Conn: raw, all: h.all}
	c.changed = sync.NewCond(&c.mu)
	c.mu.Lock()
	c.timer = time.AfterFunc(h.all.proofTime, c.closeStranger)
	c.mu.Unlock()
	h.all.silent.Add(c)
	return c, c, nil
}

// ClientHandshake implements credentials.TransportCredentials. Clients need no such credentials.
func (handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's connections")
}

// Info implements credentials.TransportCredentials.
func (handshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "munge"}
}

// Clone implements credentials.TransportCredentials.
func (h handshake) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials.
func (handshake) OverrideServerName(string) error { return nil }

// closeStranger closes the connection if its time is over. Requests that wait for munge prolong the time: how long munge
// takes is not up to the other side.
func (c *connection) closeStranger() {
	c.mu.Lock()
	over := !c.known && c.waiting == 0
	if !c.known && !over && !c.closed {
		c.timer.Reset(c.all.proofTime)
	}
	c.mu.Unlock()
	if over {
		c.Close()
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	was := c.closed
	c.closed = true
	known, daemon := c.known, c.daemon
	c.timer.Stop()
	c.changed.Broadcast()
	c.mu.Unlock()
	switch {
	case was || daemon:
	case known:
		c.all.removeOfUser(c)
	default:
		c.all.removeStranger(c)
	}
	return err
}

// noteUser notes the user of the connection. Only the first call has an effect, so the user of a connection never changes.
func (c *connection) noteUser(uid uint32, daemon bool) {
	c.mu.Lock()
	if c.known || c.closed {
		c.mu.Unlock()
		return
	}
	c.known, c.daemon, c.uid = true, daemon, uid
	c.timer.Stop()
	if daemon {
		c.changed.Broadcast()
		c.mu.Unlock()
		c.all.removeStranger(c)
		return
	}
	c.mu.Unlock()
	c.all.removeStranger(c)
	c.all.addOfUser(c)
	c.mu.Lock()
	closed := c.closed // meanwhile
	c.mu.Unlock()
	if closed {
		c.all.removeOfUser(c)
	}
}

// isClosed returns whether the connection is closed. Its requests learn of that a little later.
func (c *connection) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// isDaemon returns whether the connection is known as a daemon's.
func (c *connection) isDaemon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.daemon
}

func (all *connections) removeStranger(c *connection) {
	all.silent.Remove(c)
	all.asking.Remove(c)
}

// noteAsking notes that a stranger has sent its first request.
func (c *connection) noteAsking() {
	c.all.silent.Remove(c)
	c.all.asking.Add(c)
	c.mu.Lock()
	closed := c.closed || c.known // meanwhile
	c.mu.Unlock()
	if closed {
		c.all.asking.Remove(c)
	}
}

func (all *connections) addOfUser(c *connection) {
	all.mu.Lock()
	of := all.users[c.uid]
	if of == nil {
		of = &userConnections{list: strangers.New(maxOfUser)}
		all.users[c.uid] = of
	}
	of.n++
	c.counted = true
	all.mu.Unlock()
	of.list.Add(c)
}

func (all *connections) removeOfUser(c *connection) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if !c.counted {
		return
	}
	c.counted = false
	of := all.users[c.uid]
	of.list.Remove(c)
	if of.n--; of.n == 0 {
		delete(all.users, c.uid)
	}
}

// Read implements net.Conn. Read waits while requests wait for munge, if many bytes have come since the first of these
// requests: gRPC would hold the bytes.
func (c *connection) Read(b []byte) (int, error) {
	c.mu.Lock()
	for !c.closed && !c.daemon && c.waiting > 0 && c.read >= maxUnvouched {
		c.changed.Wait()
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.read += n
	c.mu.Unlock()
	return n, err
}

// waitingKey is the key, in a request's context, of the function that ends its wait for munge.
type waitingKey struct{}

// beginWaiting counts a request as one that waits for munge. gRPC calls it before it makes anything for the request, and
// before it reads on. The wait ends with endWaiting, or with the request.
func beginWaiting(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c := connectionOf(ctx)
	if c == nil {
		return ctx, nil
	}
	c.mu.Lock()
	first := !c.asked && !c.known
	c.asked = true
	c.mu.Unlock()
	if first {
		c.noteAsking()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting >= maxWaiting && !c.daemon {
		return ctx, status.Errorf(codes.ResourceExhausted, "%d requests of this connection wait for munge; wait for one to end", c.waiting)
	}
	if c.waiting == 0 {
		c.read = 0
	}
	c.waiting++
	end := sync.OnceFunc(c.endWaiting)
	context.AfterFunc(ctx, end)
	return context.WithValue(ctx, waitingKey{}, end), nil
}

func (c *connection) endWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.changed.Broadcast()
}

// endWaiting ends a request's wait for munge: its credential was read.
func endWaiting(ctx context.Context) {
	if end, ok := ctx.Value(waitingKey{}).(func()); ok {
		end()
	}
}

// ServerOptions are the options that a grpc.Server must have to Register behind the CredentialCheck. No more of a
// request is read than Limits and its ticket say, and connections are bounded.
func (g *CredentialCheck) ServerOptions() []grpc.ServerOption {
	g.init()
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(frameCodec{}), grpc.MaxRecvMsgSize(piece),
		grpc.Creds(handshake{g.connections}), grpc.InTapHandle(beginWaiting),
	}
}
