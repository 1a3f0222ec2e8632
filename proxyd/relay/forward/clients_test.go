// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/connections"
)

// startClients starts a forwarder of a run that connects clients to a program, and returns the address for clients.
func (s *site) startClients(run int, program netip.AddrPort, resumed ...SavedConnection) (process, string) {
	s.t.Helper()
	var ids []string
	for _, c := range resumed {
		ids = append(ids, c.ID)
	}
	ticket := fmt.Sprint("ticket of run ", run)
	failOn(s.t, s.Admit(connections.Admission{Job: "812", UID: 7, Run: run, Ticket: connections.HashTicket(ticket), Connections: ids, Listen: []uint16{program.Port()}}))
	at := s.Listening("812")[0]
	if at.Public == 0 {
		s.t.Fatalf("the relay does not listen: %v", at.Problem)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	path := filepath.Join(s.t.TempDir(), "control")
	control, err := localsock.Listen(path, 0o600)
	failOn(s.t, err)
	go func() { _ = Run(ctx, control, slog.New(slog.DiscardHandler)) }()
	p := process{s.ordersAt(path), path, cancel}
	ports := Ports{Address: program.Addr(), Ports: []uint16{program.Port()}, Range: netip.MustParsePrefix("100.64.0.0/10")}
	failOn(s.t, p.Begin(s.t.Context(), Relay{Address: s.wire, Ticket: ticket, Clients: ports}, nil))
	return p, netip.AddrPortFrom(s.at, at.Public).String()
}

// supplySockets gives a forwarder as many sockets as are wanted.
func (s *site) supplySockets(p process) {
	s.t.Helper()
	st, err := p.Status(s.t.Context())
	failOn(s.t, err)
	if st.Wanted == 0 {
		s.t.Error("no sockets are wanted")
	}
	var all []*os.File
	defer func() { localsock.CloseAll(all) }()
	for range st.Wanted {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		failOn(s.t, err)
		all = append(all, os.NewFile(uintptr(fd), "socket"))
	}
	failOn(s.t, p.Supply(s.t.Context(), all))
}

func (s *site) dialClient(at string) *net.TCPConn {
	s.t.Helper()
	c, err := net.Dial("tcp", at)
	failOn(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	failOn(s.t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// isReset tells that a client is reset, perhaps before net.Dial returns.
func (s *site) isReset(at string) {
	s.t.Helper()
	c, err := net.Dial("tcp", at)
	if err == nil {
		defer c.Close()
		failOn(s.t, c.SetDeadline(time.Now().Add(patience)))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, unix.ECONNRESET) {
		s.t.Errorf("the client: %v, want a reset", err)
	}
}

// TestClients: a client reaches the program, stays connected while the capsule is away, and is reset if no program
// listens. A client that comes meanwhile waits.
func TestClients(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t, connections.Clients{First: 40000, Last: 49999, PerUser: 4, PerPort: 4, WaitAtMost: time.Hour})
	program := s.listenAt("127.0.0.1:0")
	accept := func() *net.TCPConn {
		failOn(t, program.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
		c, err := program.Accept()
		failOn(t, err)
		t.Cleanup(func() { c.Close() })
		failOn(t, c.SetDeadline(time.Now().Add(patience)))
		return c.(*net.TCPConn)
	}
	hears := func(c net.Conn, want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
			t.Errorf("the program read %q, %v, want %q", b, err, want)
		}
	}
	says := func(c net.Conn, text string) {
		_, err := io.WriteString(c, text)
		failOn(t, err)
	}
	p, at := s.startClients(1, netip.MustParseAddrPort(program.Addr().String()))
	first := s.dialClient(at) // waits until there are sockets
	says(first, "question")
	s.supplySockets(p)
	inner := accept()
	if from := inner.RemoteAddr().(*net.TCPAddr).IP.String(); from != s.at.String() {
		t.Errorf("the program sees the client at %s, want %s", from, s.at)
	}
	hears(inner, "question")
	s.cutLinks()
	says(inner, "answer")
	hears(first, "answer")

	all, sockets := p.freezeConnections(t)
	second := s.dialClient(at)
	says(first, "more")
	says(second, "patience")
	p.end()
	p, again := s.startClients(2, netip.MustParseAddrPort(program.Addr().String()), all...)
	if again != at {
		t.Errorf("clients come at %s, then at %s", at, again)
	}
	failOn(t, p.Add(t.Context(), all, sockets))
	localsock.CloseAll(sockets)
	s.supplySockets(p)
	hears(inner, "more")
	hears(accept(), "patience")
	if st, err := p.Status(t.Context()); err != nil || len(st.Connections) != 2 {
		t.Errorf("Status = %+v, %v, want 2 connections", st, err)
	}

	program.Close()
	s.isReset(at) // no program listens
	failOn(t, p.Pause(t.Context()))
	fourth := s.dialClient(at)
	failOn(t, fourth.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	if _, err := fourth.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client in a pause: %v, want no end", err)
	}
	failOn(t, p.Continue(t.Context()))
	failOn(t, fourth.SetReadDeadline(time.Now().Add(patience)))
	if _, err := fourth.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after a pause: %v, want a reset", err)
	}
	failOn(t, inner.Close())
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the program's end: %v", err)
	}
}

// TestClientAddress: the addresses of clients as a program sees them.
func TestClientAddress(t *testing.T) {
	p := Ports{Range: netip.MustParsePrefix("100.64.0.0/10")}
	const strange = "192.0.2.1:0"
	for from, want := range map[string]string{
		"198.51.100.7:5555": "198.51.100.7:5555", "[::ffff:198.51.100.7]:5555": "198.51.100.7:5555", "10.0.0.1:80": "10.0.0.1:80",
		"[2001:db8::1]:5555": strange, "127.0.0.1:5555": strange, "100.64.0.9:5555": strange, "169.254.1.2:5555": strange, "0.0.0.0:1": strange,
	} {
		if got := p.clientAddress(netip.MustParseAddrPort(from)).String(); got != want {
			t.Errorf("clientAddress of %s = %s, want %s", from, got, want)
		}
	}
}

// TestClientsLeaveRoom: clients take no more than half of the connections, so programs have the rest.
func TestClientsLeaveRoom(t *testing.T) {
	f := newForwarder(t.Context(), slog.New(slog.DiscardHandler))
	for i := range maxConnections / 2 {
		f.connections[strconv.Itoa(i)] = nil
	}
	if f.addConnection(&connection{}, maxWithClients) {
		t.Error("another client is connected")
	}
}

// TestClientPorts: the relay cannot have a forwarder connect to another port than the job has asked for.
func TestClientPorts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: orders are root's")
	}
	s := newSite(t, connections.Clients{First: 40000, Last: 49999, PerUser: 4, PerPort: 4, WaitAtMost: time.Hour})
	program := s.listenAt("127.0.0.1:0")
	p, _ := s.startClients(1, netip.MustParseAddrPort(program.Addr().String()))
	s.supplySockets(p)
	other := uint16(program.Addr().(*net.TCPAddr).Port ^ 1)
	failOn(t, s.Admit(connections.Admission{Job: "812", UID: 7, Run: 1, Ticket: connections.HashTicket("ticket of run 1"), Listen: []uint16{other}}))
	for _, l := range s.Listening("812") {
		if l.Port != other {
			continue
		}
		s.isReset(net.JoinHostPort(s.at.String(), strconv.Itoa(int(l.Public))))
	}
}
