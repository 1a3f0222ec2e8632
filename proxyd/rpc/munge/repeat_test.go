// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// earlyCloser is the listener of a server that closes connections early.
type earlyCloser struct {
	net.Listener
	early  func(n int) bool // whether connection n, from 1, is closed when its client has said something
	atOnce func(n int) bool // whether connection n is closed before that

	mu    sync.Mutex
	conns []net.Conn
}

func closesNone(int) bool { return false }

func (c *earlyCloser) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		n := len(c.conns)
		c.mu.Unlock()
		switch {
		case c.atOnce(n):
			conn.Close()
		case c.early(n):
			return deafConn{conn}, nil
		default:
			return conn, nil
		}
	}
}

// countConnections returns how many connections there have been.
func (c *earlyCloser) countConnections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// closeAll closes the connections.
func (c *earlyCloser) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}

// deafConn is closed when the other side has said something.
type deafConn struct{ net.Conn }

func (d deafConn) Read(b []byte) (int, error) {
	if _, err := d.Conn.Read(b); err != nil {
		return 0, err
	}
	d.Close()
	return 0, io.EOF
}

// longAgo is when the servers of these tests have begun, which therefore take calls that are sent again.
func longAgo() time.Time { return time.Now().Add(-time.Hour) }

// startEarlyCloser starts a server at address that has begun at that time.
func startEarlyCloser(t *testing.T, address string, began time.Time, coder munge.Coder, s *service) (*grpc.Server, *earlyCloser) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &earlyCloser{Listener: l, early: closesNone, atOnce: closesNone}
	check := &munge.CredentialCheck{Node: "n1", Coder: coder}
	check.SetBegan(began)
	server := grpc.NewServer(check.ServerOptions()...)
	check.Register(server, &grpc_health_v1.Health_ServiceDesc, s)
	t.Cleanup(server.Stop)
	return server, c
}

// repeatingClient returns a client that sends calls again for so long.
func repeatingClient(t *testing.T, address string, coder munge.Coder, d time.Duration) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := munge.Dial(address, "n1", "n9", coder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetRepeatTime(d)
	return grpc_health_v1.NewHealthClient(conn)
}

// kindsOfCall are a call with a single reply and a call with a stream of replies.
var kindsOfCall = map[string]func(context.Context, grpc_health_v1.HealthClient) error{
	"a reply": func(ctx context.Context, c grpc_health_v1.HealthClient) error {
		_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "a"})
		return err
	},
	"a stream": func(ctx context.Context, c grpc_health_v1.HealthClient) error {
		n, err := readStream(ctx, c, "a")
		if err == nil && n != 3 {
			return errors.New("messages are missing")
		}
		return err
	},
}

// closingCoder closes the connections of the first credentials that it is to decode.
type closingCoder struct {
	munge.Coder
	left     atomic.Int32 // connections that are still to be closed
	closeAll func()

	mu      sync.Mutex
	tickets []sentTicket // in the order of arrival
}

type sentTicket struct {
	Version int
	Nonce   string
	Age     int64 `json:"age_ms"`
}

func (c *closingCoder) Decode(ctx context.Context, credential string) (*munge.Credential, error) {
	decoded, err := c.Coder.Decode(ctx, credential)
	if err != nil {
		return nil, err
	}
	var ticket sentTicket
	if err := json.Unmarshal(decoded.Payload, &ticket); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.tickets = append(c.tickets, ticket)
	c.mu.Unlock()
	if c.left.Add(-1) >= 0 {
		c.closeAll()
		<-ctx.Done()
	}
	return decoded, nil // munge may have decoded before the connection was closed
}

// TestSentAgain: a call is sent again while its connections are closed before the server has admitted the call, and is
// carried out once.
func TestSentAgain(t *testing.T) {
	const closed = 3
	first := func(n int) bool { return n <= closed }
	for name, ask := range kindsOfCall {
		for stage, arrange := range map[string]func(*earlyCloser, *closingCoder){
			"at once":                         func(l *earlyCloser, _ *closingCoder) { l.atOnce = first },
			"before its request":              func(l *earlyCloser, _ *closingCoder) { l.early = first },
			"while its credential is decoded": func(_ *earlyCloser, c *closingCoder) { c.left.Store(closed) },
		} {
			t.Run(name+" closed "+stage, func(t *testing.T) {
				realm, s := mungetest.NewRealm(), &service{}
				coder := &closingCoder{Coder: realm.As(0, 0)}
				server, l := startEarlyCloser(t, "127.0.0.1:0", longAgo(), coder, s)
				coder.closeAll = l.closeAll
				arrange(l, coder)
				go server.Serve(l)
				if err := ask(t.Context(), repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), time.Minute)); err != nil {
					t.Errorf("the call: %v", err)
				}
				if got := s.countCalls(); got != 1 {
					t.Errorf("the call was carried out %d times, want once", got)
				}
				if got := l.countConnections(); got != closed+1 {
					t.Errorf("the client has connected %d times, want %d", got, closed+1)
				}
				for i, ticket := range coder.tickets {
					if i > 0 && ticket.Version != 2 || ticket.Nonce != coder.tickets[0].Nonce {
						t.Errorf("ticket %d of %+v: want version 2 of each but the first, and one nonce", i, coder.tickets)
					}
				}
			})
		}
	}
}

// TestNotSentTwice: a call that was admitted is not carried out again, however its connection ended.
func TestNotSentTwice(t *testing.T) {
	for name, ask := range kindsOfCall {
		t.Run(name, func(t *testing.T) {
			realm, s := mungetest.NewRealm(), &service{hold: make(chan struct{})}
			server, l := startEarlyCloser(t, "127.0.0.1:0", longAgo(), realm.As(0, 0), s)
			defer close(s.hold)
			go server.Serve(l)
			ended := make(chan error, 1)
			client := repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), time.Minute)
			go func() { ended <- ask(t.Context(), client) }()
			waitUntil(t, "the call is carried out", func() bool { return s.countCalls() == 1 })
			l.closeAll()
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Errorf("the call: %v; want Unavailable", err)
			}
			if got := s.countCalls(); got != 1 {
				t.Errorf("the call was carried out %d times", got)
			}
			if got := l.countConnections(); got != 2 {
				t.Errorf("the client has connected %d times, want twice: the server says that the call was admitted", got)
			}
		})
	}
}

// TestNotSentToAnother: a daemon that began after a call was first sent does not know which calls the daemon before carried out,
// and refuses the call. So does a daemon of a release that knows no repeated calls.
func TestNotSentToAnother(t *testing.T) {
	realm := mungetest.NewRealm()
	start := func(t *testing.T, coder munge.Coder, began time.Time) (next *service, err error) {
		t.Helper()
		before := &service{hold: make(chan struct{})}
		server, l := startEarlyCloser(t, "127.0.0.1:0", longAgo(), realm.As(0, 0), before)
		defer close(before.hold)
		go server.Serve(l)
		ended := make(chan error, 1)
		client := repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), time.Minute)
		go func() { ended <- kindsOfCall["a reply"](t.Context(), client) }()
		waitUntil(t, "the call is carried out", func() bool { return before.countCalls() == 1 })
		l.Close()
		next = &service{}
		server, other := startEarlyCloser(t, l.Addr().String(), began, coder, next)
		go server.Serve(other)
		l.closeAll()
		return next, <-ended
	}
	t.Run("a daemon that has just begun", func(t *testing.T) {
		next, err := start(t, realm.As(0, 0), time.Now())
		if n := next.countCalls(); status.Code(err) != codes.Unavailable || n != 0 {
			t.Errorf("the call: %v, carried out %d times more; want Unavailable, not carried out", err, n)
		}
	})
	t.Run("a daemon of an older release", func(t *testing.T) {
		next, err := start(t, olderCoder{realm.As(0, 0)}, longAgo())
		if n := next.countCalls(); status.Code(err) != codes.Unavailable || n != 0 {
			t.Errorf("the call: %v, carried out %d times more; want Unavailable, not carried out", err, n)
		}
	})
}

// olderCoder has a server refuse, as an older release does, tickets of other versions than 1.
type olderCoder struct{ munge.Coder }

func (o olderCoder) Decode(ctx context.Context, credential string) (*munge.Credential, error) {
	c, err := o.Coder.Decode(ctx, credential)
	var ticket sentTicket
	if err != nil || json.Unmarshal(c.Payload, &ticket) == nil && ticket.Version == 1 {
		return c, err
	}
	return nil, munge.ErrRefused
}

// TestGivesUp: a client sends a call again a few times only, and says what happened. It stops when its context ends, and
// does not wait for a daemon that is gone.
func TestGivesUp(t *testing.T) {
	realm := mungetest.NewRealm()
	start := func(t *testing.T) *earlyCloser {
		t.Helper()
		server, l := startEarlyCloser(t, "127.0.0.1:0", longAgo(), realm.As(0, 0), &service{})
		l.early = func(int) bool { return true }
		go server.Serve(l)
		return l
	}
	for name, ask := range kindsOfCall {
		t.Run("after a time, "+name, func(t *testing.T) {
			l, began := start(t), time.Now()
			err := ask(t.Context(), repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), 400*time.Millisecond))
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), " connections within ") || !strings.Contains(err.Error(), " without an answer; the last: ") {
				t.Errorf("the call: %v; want what happened", err)
			}
			// gRPC may connect once more, and again, for a call if the connection ends before the call is on its way.
			if got, most := l.countConnections(), mostConnections(time.Since(began)); got < 2 || got > most {
				t.Errorf("the client has connected %d times, want 2 to %d", got, most)
			}
		})
	}
	t.Run("at the end of its context", func(t *testing.T) {
		l := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		client := repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), time.Hour)
		go func() { ended <- kindsOfCall["a reply"](ctx, client) }()
		waitUntil(t, "the call is sent again", func() bool { return l.countConnections() > 1 })
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("the call: %v; want Canceled", err)
		}
	})
	t.Run("without a daemon", func(t *testing.T) {
		l := start(t)
		l.early = func(int) bool { l.Close(); return true }
		err := kindsOfCall["a reply"](t.Context(), repeatingClient(t, l.Addr().String(), realm.As(1001, 1001), time.Hour))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("the call: %v; want Unavailable", err)
		}
	})
}

// mostConnections returns how many connections a client makes at most in that time if all are closed without an answer: after
// the first there are pauses of 10, 20, 40, 80, 160 and 320 ms at least, and of 500 ms.
func mostConnections(d time.Duration) int {
	n := 1
	for pause := 10 * time.Millisecond; d >= pause; n++ {
		d -= pause
		pause = min(2*pause, 500*time.Millisecond)
	}
	return n
}

// TestFloodOfOwnHost: a client's connections are closed for those of another program of its host, and its call is
// carried out.
func TestFloodOfOwnHost(t *testing.T) {
	const floods, connections = 2, 1200
	realm, s := mungetest.NewRealm(), &service{}
	check := &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: limitsOf}
	check.SetBegan(longAgo())
	address := startLimited(t, check, s)
	a := &attacker{t: t, address: address}
	var dials atomic.Int32
	conn, err := munge.Dial(address, "n1", "n9", realm.As(1001, 1001), grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
		if dials.Add(1) <= floods && err == nil {
			for range connections {
				go a.noteEnd(a.dialServer(hello))
			}
			waitUntil(t, "the oldest connections are closed", func() bool { return a.countOpen() <= 512 })
		}
		return conn, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("the call: %v", err)
	}
	if got, n := s.countCalls(), dials.Load(); got != 1 || n <= floods {
		t.Errorf("carried out %d times, after %d connections; want once, after more than %d", got, n, floods)
	}
}
