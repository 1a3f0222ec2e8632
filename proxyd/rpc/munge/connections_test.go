// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// hello has the first bytes of a gRPC client.
const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// frameBytes returns a frame of HTTP/2 of a stream.
func frameBytes(kind, flags, stream byte, payload string) string {
	return string([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}) + payload
}

// encodeHeaders returns the frame that begins a request. Each field is written out, none is compressed.
func encodeHeaders(stream byte, fields ...string) string {
	var block []byte
	for i, field := range fields {
		if i%2 == 0 {
			block = append(block, 0) // a name and its value follow
		}
		if n := len(field); n < 127 {
			block = append(block, byte(n))
		} else {
			block = binary.AppendUvarint(append(block, 127), uint64(n-127))
		}
		block = append(block, field...)
	}
	return frameBytes(1, 4, stream, string(block))
}

// callHeaders begins a call of Check with a credential.
func callHeaders(stream byte, credential string) string {
	return encodeHeaders(stream, ":method", "POST", ":scheme", "http", ":path", check, "te", "trailers",
		"content-type", "application/grpc", "singularity-credential", credential)
}

// attacker is a user of the host 127.0.0.1 with connections to a server.
type attacker struct {
	t       *testing.T
	address string

	mu     sync.Mutex
	conns  []net.Conn
	closed int // of conns, by the server
}

func (a *attacker) dialServer(said string) net.Conn {
	a.t.Helper()
	conn, err := net.Dial("tcp", a.address)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	a.mu.Lock()
	a.conns = append(a.conns, conn)
	a.mu.Unlock()
	if _, err := io.WriteString(conn, said); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		a.t.Fatal(err)
	}
	return conn
}

// noteEnd reads from a connection to its end.
func (a *attacker) noteEnd(conn net.Conn) {
	if _, err := io.Copy(io.Discard, conn); err == nil || errors.Is(err, syscall.ECONNRESET) {
		a.mu.Lock()
		a.closed++
		a.mu.Unlock()
	}
}

func (a *attacker) countOpen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns) - a.closed
}

// startLimited starts a server with the limits of proxyd's.
func startLimited(t *testing.T, check *munge.CredentialCheck, s *service) string {
	t.Helper()
	server := grpc.NewServer(append(check.ServerOptions(), munge.ServerLimits(16<<20)...)...)
	check.Register(server, &grpc_health_v1.Health_ServiceDesc, s)
	return listenAndServe(t, server)
}

// limitsOf are the limits of proxyd: root is a daemon.
func limitsOf(c munge.Caller) munge.Limits {
	if c.UID == 0 {
		return munge.Limits{Bytes: 16 << 20}
	}
	return munge.Limits{Bytes: 64 << 10, Calls: 8}
}

// dialFrom returns a client whose connections come from another address of this host, as if from another host.
func dialFrom(t *testing.T, from, address string, coder munge.Coder) grpc_health_v1.HealthClient {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := munge.Dial(address, "n1", "n9", coder, grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", to)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for a minute: %s", what)
		}
	}
}

// usedMemory returns the bytes of memory in use.
func usedMemory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// TestManyStrangers: of 3000 connections of a host without a credential, the oldest are closed. The others cost little
// memory, and daemons of other hosts are served, on connections of before and on new ones.
func TestManyStrangers(t *testing.T) {
	const connections, most, memory = 3000, 512, 48 << 20
	for name, said := range map[string]string{
		"silent":    "",
		"a hello":   hello,
		"a request": hello + callHeaders(1, "nonsense"),
	} {
		t.Run(name, func(t *testing.T) {
			realm := mungetest.NewRealm()
			address := startLimited(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: limitsOf}, &service{})
			known := dialFrom(t, "127.0.0.2", address, realm.As(0, 0))
			if _, err := known.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Fatal(err)
			}
			a := &attacker{t: t, address: address}
			before := usedMemory()
			for range connections {
				go a.noteEnd(a.dialServer(said))
			}
			for from, daemon := range map[string]grpc_health_v1.HealthClient{
				"127.0.0.2": known, "127.0.0.3": dialFrom(t, "127.0.0.3", address, realm.As(0, 0)),
			} {
				if _, err := daemon.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
					t.Errorf("a daemon of %s: %v", from, err)
				}
			}
			waitUntil(t, "the oldest connections are closed", func() bool { return a.countOpen() <= most })
			used := usedMemory() - before
			t.Logf("%d connections are open, with %d KiB", a.countOpen(), used>>10)
			if used > memory {
				t.Errorf("%d MiB are used, want at most %d", used>>20, memory>>20)
			}
		})
	}
}

// TestBytesWithoutCredential: a stranger's requests wait for munge, and the stranger sends a message in parts of one byte,
// which cost most memory. The server reads few of them, and serves a daemon meanwhile.
func TestBytesWithoutCredential(t *testing.T) {
	const connections, each, memory = 8, 6 << 20, 32 << 20
	realm := mungetest.NewRealm()
	slow := &slowMunge{Coder: realm.As(0, 0), threads: make(chan struct{}, 8), answer: make(chan struct{})}
	address := startLimited(t, &munge.CredentialCheck{Node: "n1", Coder: slow, Limits: limitsOf}, &service{})
	daemon := dialFrom(t, "127.0.0.3", address, realm.As(0, 0))
	if _, err := daemon.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	a := &attacker{t: t, address: address}
	before := usedMemory()
	var sent sync.WaitGroup
	for range connections {
		c, err := realm.As(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		conn := a.dialServer(hello + callHeaders(1, c))
		sent.Go(func() {
			part := frameBytes(0, 0, 1, "x")                       // of a message
			conn.SetWriteDeadline(time.Now().Add(3 * time.Second)) //nolint:errcheck // a deadline fails only on a closed connection
			_, err := conn.Write(bytes.Repeat([]byte(part), each/len(part)))
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Error(err) // the server need not take all
			}
		})
	}
	sent.Wait()
	if _, err := daemon.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("a daemon: %v", err)
	}
	used := usedMemory() - before
	t.Logf("%d KiB are used", used>>10)
	if used > memory {
		t.Errorf("%d MiB are used, want at most %d", used>>20, memory>>20)
	}
}

// silentMunge decodes nothing before answer is closed.
type silentMunge struct {
	munge.Coder
	answer chan struct{}
}

func (s silentMunge) Decode(ctx context.Context, credential string) (*munge.Credential, error) {
	select {
	case <-s.answer:
		return s.Coder.Decode(ctx, credential)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRequestsThatWait: of the requests of a connection, few wait for munge at a time, also if each is a few bytes. The
// others are refused.
func TestRequestsThatWait(t *testing.T) {
	const requests, most = 40, 16
	realm := mungetest.NewRealm()
	slow := silentMunge{Coder: realm.As(0, 0), answer: make(chan struct{})}
	address := startLimited(t, &munge.CredentialCheck{Node: "n1", Coder: slow}, &service{})
	credential, err := realm.As(1001, 1001).Encode(t.Context(), makeTicket(check, "n1", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{t: t, address: address}
	first := callHeaders(1, credential)
	for i := len("123456789"); i < len(first); { // each field gets a number, 67 the first, 62 the last
		first = first[:i] + "\x40" + first[i+1:]
		for range 2 {
			i++
			n := int(first[i])
			if n == 127 {
				more, size := binary.Uvarint([]byte(first[i+1:]))
				n, i = n+int(more), i+size
			}
			i += n
		}
		i++
	}
	conn := a.dialServer(hello + first)
	for n := range requests - 1 {
		if _, err := io.WriteString(conn, frameBytes(1, 4, byte(3+2*n), "\xc3\xc2\xc1\xc0\xbf\xbe")); err != nil {
			t.Fatal(err)
		}
	}
	answers := make(chan byte, requests) // the number of the stream
	go func() {
		for in := bufio.NewReader(conn); ; {
			var head [9]byte
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return
			}
			if _, err := in.Discard(int(head[0])<<16 + int(head[1])<<8 + int(head[2])); err != nil {
				return
			}
			if head[3] == 1 {
				answers <- head[8]
			}
		}
	}()
	for range requests - most {
		if stream := <-answers; stream < 2*most {
			t.Errorf("request %d is answered, which waits", stream/2)
		}
	}
	close(slow.answer)
	for range most - 1 { // the first waits for its message now
		if stream := <-answers; stream > 2*most {
			t.Errorf("request %d is answered, which was refused before", stream/2)
		}
	}
}

// TestConnectionsOfUser: a user whose credentials are right has a few connections at a time, and the oldest are closed.
// Daemons have any number.
func TestConnectionsOfUser(t *testing.T) {
	const connections, most = 50, 32
	realm := mungetest.NewRealm()
	address := startLimited(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: limitsOf}, &service{})
	for uid, want := range map[uint32]int{0: connections, 1001: most} {
		a := &attacker{t: t, address: address}
		for range connections {
			dial := func(ctx context.Context, to string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
				if err != nil {
					return nil, err
				}
				w := &closingConn{Conn: conn, ended: func() { a.mu.Lock(); a.closed++; a.mu.Unlock() }}
				a.mu.Lock()
				a.conns = append(a.conns, w)
				a.mu.Unlock()
				return w, nil
			}
			conn, err := munge.Dial(address, "n1", "n9", realm.As(uid, uid), grpc.WithContextDialer(dial))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		waitUntil(t, "connections are closed", func() bool { return a.countOpen() <= want })
		if got := a.countOpen(); got != want {
			t.Errorf("user %d has %d connections, want %d", uid, got, want)
		}
	}
}

// closingConn is a connection that says when the other side has ended it.
type closingConn struct {
	net.Conn
	once  sync.Once
	ended func()
}

func (w *closingConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.once.Do(w.ended)
	}
	return n, err
}

// TestLargeRequests: the bounds of messages without a credential bound no request that may be large: neither the first
// of a connection, nor many at once.
func TestLargeRequests(t *testing.T) {
	realm := mungetest.NewRealm()
	for uid, size := range map[uint32]int{0: 4 << 20, 1001: 60 << 10} {
		s := &service{}
		address := startLimited(t, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0), Limits: limitsOf}, s)
		c := dialServer(t, address, "n1", realm.As(uid, uid))
		ended := make(chan error)
		const rounds, atOnce = 2, 8
		for range rounds {
			for range atOnce {
				go func() {
					_, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("a", size)})
					ended <- err
				}()
			}
			for range atOnce {
				if err := <-ended; err != nil {
					t.Errorf("user %d: a request of %d bytes: %v", uid, size, err)
				}
			}
		}
		if got := s.countCalls(); got != rounds*atOnce {
			t.Errorf("user %d: %d requests were served, want %d", uid, got, rounds*atOnce)
		}
	}
}

// TestSilentStranger: a connection that does not prove a user within the time for that is closed, also if its requests
// are refused.
func TestSilentStranger(t *testing.T) {
	realm := mungetest.NewRealm()
	check := &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}
	check.SetProofTime(50 * time.Millisecond)
	address := startLimited(t, check, &service{})
	for _, said := range []string{"", hello, hello + callHeaders(1, "nonsense")} {
		a := &attacker{t: t, address: address}
		go a.noteEnd(a.dialServer(said))
		waitUntil(t, "the connection is closed", func() bool { return a.countOpen() == 0 })
	}
	alice := dialServer(t, address, "n1", realm.As(1001, 1001))
	stream, err := alice.Watch(metadata.NewOutgoingContext(t.Context(), nil), &grpc_health_v1.HealthCheckRequest{Service: "held"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("a user who was proven: %v", err)
	}
}
