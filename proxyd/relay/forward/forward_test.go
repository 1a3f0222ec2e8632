// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

const patience = 20 * time.Second

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ownAddress returns an address of this host that a relay may connect to if it is named.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	failOn(t, err)
	for _, a := range all {
		if x, ok := a.(*net.IPNet); ok && x.IP.To4() != nil && !x.IP.IsLoopback() && !x.IP.IsLinkLocalUnicast() {
			return netip.AddrFrom4([4]byte(x.IP.To4()))
		}
	}
	t.Skip("SKIP: this host has no address but that of lo")
	return netip.Addr{}
}

// site is a relay, with a wire to it that a test can cut.
type site struct {
	*connections.Holder
	t    *testing.T
	at   netip.Addr
	wire string

	mu    sync.Mutex
	links []net.Conn
}

func newSite(t *testing.T, clients ...connections.Clients) *site {
	t.Helper()
	at := ownAddress(t)
	s := &site{t: t, at: at, Holder: connections.New(t.Context(), connections.Config{
		Clients: append(clients, connections.Clients{})[0],
		Policy:  connections.Policy{Allow: []netip.Prefix{netip.PrefixFrom(at, 32)}}, PerUser: 4, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
	})}
	l := s.listenAt("127.0.0.1:0")
	go func() { _ = s.Serve(l) }()
	wire := s.listenAt("127.0.0.1:0")
	s.wire = wire.Addr().String()
	go func() {
		for {
			a, err := wire.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				a.Close()
				continue
			}
			s.mu.Lock()
			s.links = append(s.links, a, b)
			s.mu.Unlock()
			for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				}()
			}
		}
	}()
	return s
}

func (s *site) listenAt(at string) net.Listener {
	s.t.Helper()
	l, err := net.Listen("tcp", at)
	failOn(s.t, err)
	s.t.Cleanup(func() { l.Close() })
	return l
}

// cutLinks breaks all links.
func (s *site) cutLinks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.links {
		c.Close()
	}
	s.links = nil
}

// process is a forwarder that gets orders.
type process struct {
	Orders
	path string // of the socket for orders
	end  func()
}

// freezeConnections stops the forwarder, and returns all connections with duplicates of their sockets.
func (p process) freezeConnections(t *testing.T) (all []SavedConnection, sockets []*os.File) {
	t.Helper()
	failOn(t, p.Hold(t.Context(), func(some []SavedConnection, files []*os.File) error {
		if len(some) > Batch {
			t.Errorf("%d connections at a time", len(some))
		}
		for i, f := range files {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return err
			}
			all, sockets = append(all, some[i]), append(sockets, os.NewFile(uintptr(fd), f.Name()))
		}
		return nil
	}))
	return all, sockets
}

// startForwarder starts a forwarder of a run, which has connections of a checkpoint.
func (s *site) startForwarder(run int, resumed ...SavedConnection) process {
	s.t.Helper()
	var ids []string
	for _, c := range resumed {
		ids = append(ids, c.ID)
	}
	ticket := fmt.Sprint("ticket of run ", run)
	failOn(s.t, s.Admit(connections.Admission{Job: "812", UID: 7, Run: run, Ticket: connections.HashTicket(ticket), Connections: ids}))
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	path := filepath.Join(s.t.TempDir(), "control")
	control, err := localsock.Listen(path, 0o600)
	failOn(s.t, err)
	go func() { _ = Run(ctx, control, slog.New(slog.DiscardHandler)) }()
	p := process{s.ordersAt(path), path, cancel}
	failOn(s.t, p.Begin(s.t.Context(), Relay{Address: s.wire, Ticket: ticket}, nil))
	return p
}

func (s *site) ordersAt(path string) Orders {
	s.t.Helper()
	c, err := localsock.Dial(path)
	failOn(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	return NewOrders(c)
}

// connectProgram makes a connection of a program, of which the forwarder has the other end.
func (s *site) connectProgram(p process, id, to string) *net.TCPConn {
	s.t.Helper()
	l := s.listenAt("127.0.0.1:0")
	program, err := net.Dial("tcp", l.Addr().String())
	failOn(s.t, err)
	s.t.Cleanup(func() { program.Close() })
	inner, err := l.Accept()
	failOn(s.t, err)
	f, err := inner.(*net.TCPConn).File()
	failOn(s.t, err)
	inner.Close()
	failOn(s.t, p.Add(s.t.Context(), []SavedConnection{{ID: id + "-0123456789abcdef", To: to}}, []*os.File{f}))
	f.Close()
	failOn(s.t, program.SetDeadline(time.Now().Add(patience)))
	return program.(*net.TCPConn)
}

// startEcho starts a server that answers each byte with its successor.
func (s *site) startEcho() string {
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 32<<10)
				for {
					n, err := c.Read(b)
					for i := range b[:n] {
						b[i]++
					}
					if _, bad := c.Write(b[:n]); err != nil || bad != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestAway: links break at random moments, and the capsule is taken away and comes back, again and again. The
// program gets an answer to each byte, and the end.
func TestAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	run := 1
	p := s.startForwarder(run)
	program := s.connectProgram(p, "first", s.startEcho())
	sent := make([]byte, 4<<20)
	for i := range sent {
		sent[i] = byte(i * 7 >> 5)
	}
	got := make(chan []byte, 1)
	go func() {
		all, err := io.ReadAll(program)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	often := make(chan struct{}) // closed when the capsule was taken away often enough
	go func() {
		for b := sent; len(b) > 0; b = b[min(len(b), 100_000):] {
			if len(b) <= 2_000_000 {
				<-often
			}
			if _, err := program.Write(b[:min(len(b), 100_000)]); err != nil {
				t.Error(err)
			}
		}
		if err := program.CloseWrite(); err != nil {
			t.Error(err)
		}
	}()
	random := rand.New(rand.NewPCG(1, 2))
	for {
		select {
		case all := <-got:
			for i := range sent {
				sent[i]++
			}
			if !bytes.Equal(all, sent) {
				t.Errorf("%d bytes came back, %d were sent; equal: %v", len(all), len(sent), bytes.Equal(all, sent[:min(len(all), len(sent))]))
			}
			return
		case <-time.After(time.Duration(random.IntN(100)) * time.Millisecond):
		}
		if random.IntN(2) > 0 {
			s.cutLinks()
			continue
		}
		all, sockets := p.freezeConnections(t)
		p.end()
		run++
		p = s.startForwarder(run, all...)
		failOn(t, p.Add(t.Context(), all, sockets))
		localsock.CloseAll(sockets)
		if run == 4 {
			close(often)
		}
	}
}

// TestRunOn: a capsule that was held goes on, and so does another connection.
func TestRunOn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	to := s.startEcho()
	a, b := s.connectProgram(p, "a", to), s.connectProgram(p, "b", to)
	checkAnswer(t, a, "abc", "bcd")
	checkAnswer(t, b, "abc", "bcd")
	_, sockets := p.freezeConnections(t)
	if len(sockets) != 2 {
		t.Errorf("%d sockets, want 2", len(sockets))
	}
	localsock.CloseAll(sockets)
	failOn(t, p.Continue(t.Context()))
	checkAnswer(t, a, "bcd", "cde")
	checkAnswer(t, b, "bcd", "cde")
	st, err := p.Status(t.Context())
	if err != nil || len(st.Connections) != 2 || st.Connections[0].To != to || !st.Connections[0].Opened {
		t.Errorf("Status = %+v, %v, want 2 opened connections", st, err)
	}
}

func checkAnswer(t *testing.T, c net.Conn, question, want string) {
	t.Helper()
	_, err := io.WriteString(c, question)
	failOn(t, err)
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Errorf("the program read %q, %v, want %q", b, err, want)
	}
}

// awaitLost waits until the forwarder has lost a connection, and returns the reason.
func awaitLost(t *testing.T, p process) LostConnection {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		st, err := p.Status(t.Context())
		failOn(t, err)
		if len(st.Lost) > 0 {
			return st.Lost[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no connection is lost")
	return LostConnection{}
}

func isReset(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the program gets %v, want a reset", err)
	}
}

// TestOlderCheckpoint: a capsule that comes back from a checkpoint after which it ran on gets a reset, with the
// reason.
func TestOlderCheckpoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	program := s.connectProgram(p, "first", s.startEcho())
	checkAnswer(t, program, "abc", "bcd")
	all, sockets := p.freezeConnections(t)
	failOn(t, p.Continue(t.Context()))
	checkAnswer(t, program, "abcd", "bcde")
	p.end()
	p = s.startForwarder(2, all...)
	failOn(t, p.Add(t.Context(), all, sockets))
	localsock.CloseAll(sockets)
	if l := awaitLost(t, p); !l.Resumed || !strings.Contains(l.Reason, "already received bytes") {
		t.Errorf("lost connection = %+v, want a resumed one with the reason", l)
	}
	isReset(t, program)
}

// TestRefused: the program gets a reset if the relay refuses to connect, or cannot, and the reason is reported.
func TestRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	closed := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	closed.Close()
	for to, want := range map[string]string{
		"127.0.0.1:22": "does not connect", "169.254.169.254:80": "does not connect", "192.0.2.1:80": "relay.allow",
		closed.Addr().String(): "refused",
	} {
		p := s.startForwarder(1)
		program := s.connectProgram(p, "x", to)
		isReset(t, program)
		if l := awaitLost(t, p); l.To != to || !strings.Contains(l.Reason, want) {
			t.Errorf("lost connection to %s = %+v, want %s", to, l, want)
		}
		p.end()
	}
	p := s.startForwarder(1)
	to := s.startEcho()
	for n := range 4 {
		checkAnswer(t, s.connectProgram(p, fmt.Sprint("n", n), to), "a", "b")
	}
	isReset(t, s.connectProgram(p, "n4", to))
	if l := awaitLost(t, p); !strings.Contains(l.Reason, "relay.per_user") {
		t.Errorf("lost connection = %+v, want relay.per_user as the reason", l)
	}
	s.Forget("812")
	failOn(t, s.Admit(connections.Admission{Job: "812", UID: 8, Run: 1, Ticket: "x"}))
	if err := s.Admit(connections.Admission{Job: "812", UID: 7, Run: 1, Ticket: "x"}); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("Admit of another user's job: error %v", err)
	}
}

// TestAbandoned: a job that resumes without a connection has the relay end it.
func TestAbandoned(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	p := s.startForwarder(1)
	program := s.connectProgram(p, "first", l.Addr().String())
	_, err := io.WriteString(program, "abc")
	failOn(t, err)
	outer, err := l.Accept()
	failOn(t, err)
	b := make([]byte, 3)
	_, err = io.ReadFull(outer, b)
	failOn(t, err)
	p.end()
	s.startForwarder(2)
	failOn(t, outer.SetReadDeadline(time.Now().Add(patience)))
	if _, err := outer.Read(b); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the other side gets %v, want a reset", err)
	}
}

// TestAccepted: connections are accepted as they come. A connection that a program has made, and that the
// forwarder has not accepted yet, is in the checkpoint; a connection to the listener itself is refused.
func TestAccepted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	lo := s.listenAt("127.0.0.1:0")
	for _, x := range []net.Listener{l, lo} {
		f, err := x.(*net.TCPListener).File()
		failOn(t, err)
		defer f.Close()
		failOn(t, p.Begin(t.Context(), Relay{}, f))
	}
	first, err := net.Dial("tcp", l.Addr().String())
	failOn(t, err)
	defer first.Close()
	for end := time.Now().Add(patience); ; {
		st, err := p.Status(t.Context())
		failOn(t, err)
		if len(st.Connections) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection is not accepted")
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, sockets := p.freezeConnections(t)
	localsock.CloseAll(sockets)
	for _, x := range []net.Listener{l, lo} {
		c, err := net.Dial("tcp", x.Addr().String())
		failOn(t, err)
		defer c.Close()
	}
	all, sockets := p.freezeConnections(t)
	localsock.CloseAll(sockets)
	if len(all) != 2 || all[0].To != l.Addr().String() || all[1].To != l.Addr().String() {
		t.Errorf("%+v, want two connections to %s", all, l.Addr())
	}
}

// TestFenced: the forwarder of an earlier run, on a node that was taken for dead, gets no connection any more.
func TestFenced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	old := s.startForwarder(1)
	program := s.connectProgram(old, "first", s.startEcho())
	checkAnswer(t, program, "abc", "bcd")
	s.startForwarder(2)
	_, err := io.WriteString(program, "abc")
	failOn(t, err)
	failOn(t, program.SetReadDeadline(time.Now().Add(time.Second)))
	if n, err := program.Read(make([]byte, 3)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: want none", n, err)
	}
	if err := s.Admit(connections.Admission{Job: "812", UID: 7, Run: 1, Ticket: connections.HashTicket("x")}); err == nil {
		t.Error("a run that is over is admitted")
	}
}

// TestKeptBytes: the bytes that root's daemon reads from a capsule at a checkpoint are bounded, although programs and
// the other side send all that they can, and do not read.
func TestKeptBytes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	p := s.startForwarder(1)
	program := s.connectProgram(p, "first", l.Addr().String())
	outer, err := l.Accept()
	failOn(t, err)
	defer outer.Close()
	var both sync.WaitGroup
	for _, c := range []net.Conn{program, outer} {
		failOn(t, c.SetWriteDeadline(time.Now().Add(2*time.Second)))
		both.Go(func() {
			for b := make([]byte, 1<<20); ; {
				if _, err := c.Write(b); err != nil {
					return // no socket takes more for two seconds
				}
			}
		})
	}
	both.Wait()
	all, sockets := p.freezeConnections(t)
	defer localsock.CloseAll(sockets)
	unread, err := unix.IoctlGetInt(int(sockets[0].Fd()), unix.SIOCINQ)
	failOn(t, err)
	unsent, err := unix.IoctlGetInt(int(sockets[0].Fd()), unix.SIOCOUTQ)
	failOn(t, err)
	of := all[0].Stream
	t.Logf("the forwarder keeps %d and %d bytes, its socket %d unread and %d unsent", len(of.Out), len(of.In), unread, unsent)
	if most := 2 * stream.Window; len(of.Out) > stream.Window || len(of.In) > stream.Window || unread > most || unsent > most {
		t.Errorf("want at most %d in each buffer of the socket", most)
	}
}

// TestHeldInBatches: Hold hands out all connections, some at a time, or no connections if the caller wants none.
func TestHeldInBatches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	const many = 2*Batch + 3
	failOn(t, p.Hold(t.Context(), nil)) // so the relay refuses no connection
	for n := range many {
		s.connectProgram(p, fmt.Sprint("n", n), "192.0.2.1:80")
	}
	calls := 0
	failOn(t, p.Hold(t.Context(), func(some []SavedConnection, sockets []*os.File) error {
		if calls++; len(some) != len(sockets) {
			t.Errorf("%d connections, %d sockets", len(some), len(sockets))
		}
		return nil
	}))
	all, sockets := p.freezeConnections(t)
	localsock.CloseAll(sockets)
	if len(all) != many || calls != 3 {
		t.Errorf("%d connections in %d calls, want %d in 3", len(all), calls, many)
	}
}

// TestAsk: the relay's answers to programs that ask for addresses. A connection that the relay has made belongs to the
// program that asked, and ends if no program takes it.
func TestAsk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	closed := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	closed.Close()
	from := closed.Addr().String() // a port that is free
	for to, want := range map[string]stream.Cause{
		"127.0.0.1:22": stream.CauseProhibited, "192.0.2.1:80": stream.CauseProhibited, closed.Addr().String(): stream.CauseRefused,
	} {
		if got, err := p.Ask(t.Context(), from, to); got != want || err != nil {
			t.Errorf("Ask for %s = %q, %v, want %q", to, got, err, want)
		}
	}
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	to := l.Addr().String()
	for range 2 { // the kernel repeats a request
		if got, err := p.Ask(t.Context(), from, to); got != "" || err != nil {
			t.Fatalf("Ask = %q, %v, want no cause", got, err)
		}
	}
	outer, err := l.Accept()
	failOn(t, err)
	defer outer.Close()
	_, err = io.WriteString(outer, "hello")
	failOn(t, err)
	// The forwarder's listener has the address that the program asks for.
	failOn(t, l.Close())
	f, err := s.listenAt(to).(*net.TCPListener).File()
	failOn(t, err)
	defer f.Close()
	failOn(t, p.Begin(t.Context(), Relay{Address: s.wire, Ticket: "ticket of run 1"}, f))
	local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	program, err := (&net.Dialer{LocalAddr: local}).Dial("tcp", to)
	failOn(t, err)
	defer program.Close()
	failOn(t, program.SetDeadline(time.Now().Add(patience)))
	checkAnswer(t, program, "abc", "hello")
	b := make([]byte, 3)
	if _, err := io.ReadFull(outer, b); err != nil || string(b) != "abc" {
		t.Errorf("the other side read %q, %v, want abc", b, err)
	}
	// The relay drops a connection that was refused after it has answered.
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, connections := s.Counts()
		if connections == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the relay has %d connections, want 1", connections)
		}
	}
}

// TestAskedInVain: the relay ends a connection that no program takes.
func TestAskedInVain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	l := s.listenAt(netip.AddrPortFrom(s.at, 0).String())
	if got, err := p.Ask(t.Context(), "192.0.2.9:40000", l.Addr().String()); got != "" || err != nil {
		t.Fatalf("Ask = %q, %v, want no cause", got, err)
	}
	outer, err := l.Accept()
	failOn(t, err)
	failOn(t, outer.SetReadDeadline(time.Now().Add(patience)))
	if _, err := outer.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the other side gets %v, want a reset", err)
	}
}

// TestAskWithoutRelay: connect() waits for a relay that is away, and for a relay that does not know the job yet.
func TestAskWithoutRelay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t)
	p := s.startForwarder(1)
	failOn(t, p.Begin(t.Context(), Relay{Address: s.wire, Ticket: "unknown"}, nil))
	answer := make(chan error, 1)
	ask := s.ordersAt(p.path)
	go func() {
		cause, err := ask.Ask(t.Context(), "192.0.2.9:40000", s.startEcho())
		if cause != "" {
			err = errors.New(string(cause))
		}
		answer <- err
	}()
	for end := time.Now().Add(patience); ; {
		st, err := p.Status(t.Context())
		failOn(t, err)
		if st.Refused {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the relay is not asked")
		}
		time.Sleep(10 * time.Millisecond)
	}
	failOn(t, p.Hold(t.Context(), nil))
	failOn(t, p.Begin(t.Context(), Relay{Address: s.wire, Ticket: "ticket of run 1"}, nil))
	select {
	case err := <-answer:
		t.Errorf("an answer while the forwarder stands still: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	failOn(t, p.Continue(t.Context()))
	failOn(t, <-answer)
}
