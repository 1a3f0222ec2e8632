// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// link is a client's way to a daemon: gRPC's connections, the newest in place of the others, and how the newest ended. gRPC
// tells of a call that failed neither whether the daemon was reached, nor which side closed the connection.
type link struct {
	cc   *grpc.ClientConn
	pace *pace

	closed       atomic.Int64 // connections that the other side has closed
	newestClosed atomic.Bool  // by the other side
}

// newLink makes a link to target ("n1:6830"). The first call connects.
func newLink(target string, p *pace, opts []grpc.DialOption) (*link, error) {
	l := &link{pace: p}
	opts = append([]grpc.DialOption{grpc.WithContextDialer(l.dialPaced)}, opts...)
	opts = append(opts,
		// Credentials and seals prove the identity of both sides; see the package comment.
		grpc.WithTransportCredentials(watchedHandshake{insecure.NewCredentials(), l}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frameCodec{})),
		// Nodes are asked directly: proxies and services that DNS or the environment name are not used.
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy())
	cc, err := grpc.NewClient("passthrough:///"+target, opts...)
	if err != nil {
		return nil, err
	}
	l.cc = cc
	return l, nil
}

// dialPaced connects, after a pause if connections have been closed, and notes where the daemon cannot be reached.
// dialPaced returns the *net.TCPConn itself: gRPC sets TCP_USER_TIMEOUT of no other type.
func (l *link) dialPaced(ctx context.Context, address string) (net.Conn, error) {
	select {
	case <-time.After(l.pace.nextPause()):
	case <-ctx.Done():
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		l.newestClosed.Store(false)
	}
	return conn, err
}

// wasClosed returns whether the other side has closed a connection since it had closed so many, or the newest before.
func (l *link) wasClosed(since int64) bool { return l.closed.Load() > since || l.newestClosed.Load() }

// watchedHandshake has connections note when the other side closes them. Nothing is said on the wire.
type watchedHandshake struct {
	credentials.TransportCredentials
	link *link
}

// ClientHandshake implements credentials.TransportCredentials.
func (h watchedHandshake) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	h.link.newestClosed.Store(false)
	return &watchedConn{Conn: conn, link: h.link, answers: h.link.pace.countAnswers()}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (h watchedHandshake) Clone() credentials.TransportCredentials { return h }

// watchedConn notes when the other side closes it.
type watchedConn struct {
	net.Conn
	link    *link
	answers int // that the client had got before
	once    sync.Once
}

// Read implements net.Conn.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.noteError(err)
	return n, err
}

// Write implements net.Conn.
func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.noteError(err)
	return n, err
}

// noteError notes an error, or nil, if it says that the other side has closed the connection. gRPC ends the calls of a
// connection after that. A connection that gRPC closes itself, as after a silence, has another error.
func (c *watchedConn) noteError(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		c.once.Do(func() {
			c.link.pace.noteClosed(c.answers)
			c.link.newestClosed.Store(true)
			c.link.closed.Add(1)
		})
	}
}

// pace bounds how often a client connects to a daemon that closes its connections without an answer. gRPC alone would
// connect again at once, without end, for a call that was not on its way yet. pace is safe for concurrent use.
type pace struct {
	mu      sync.Mutex
	closed  int // connections since the last answer
	answers int
}

// The first and the longest pause before a client connects again. Each pause is twice the pause before, and shortened at
// random by up to half, so that clients that lost their connections together do not come together.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// nextPause returns the time to wait before the next connection.
func (p *pace) nextPause() time.Duration {
	d := p.longestNext()
	if d > 0 {
		d -= rand.N(d / 2) //nolint:gosec // nothing secret depends on it
	}
	return d
}

// longestNext returns the longest time that nextPause may return.
func (p *pace) longestNext() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == 0 {
		return 0
	}
	return min(firstPause<<min(p.closed-1, 16), longestPause)
}

// noteAnswer notes that the daemon has answered a call.
func (p *pace) noteAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = 0
	p.answers++
}

// countAnswers returns how many answers there have been.
func (p *pace) countAnswers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers
}

// noteClosed notes that the daemon has closed a connection that began after so many answers.
func (p *pace) noteClosed(answers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answers == p.answers {
		p.closed++
	}
}
