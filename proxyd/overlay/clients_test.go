// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dialInside connects a client's socket to a program that listens in a capsule, and returns both ends.
func dialInside(t *testing.T, a *box, l net.Listener, client string) (forwarder, program *net.TCPConn) {
	t.Helper()
	sockets, err := ClientSockets(a.pid, 2)
	failOn(t, err)
	failOn(t, sockets[1].Close())
	fd := int(sockets[0].Fd())
	at := l.Addr().(*net.TCPAddr).AddrPort()
	failOn(t, unix.SetNonblock(fd, false))
	failOn(t, unix.Bind(fd, sockaddrOf(netip.MustParseAddrPort(client))))
	failOn(t, unix.Connect(fd, sockaddrOf(at)))
	if waits, err := HasUnaccepted(a.pid, []uint16{at.Port()}); err != nil || !waits {
		t.Errorf("HasUnaccepted before the program accepts = %v, %v; want true", waits, err)
	}
	conn, err := net.FileConn(sockets[0])
	failOn(t, err)
	failOn(t, sockets[0].Close())
	t.Cleanup(func() { conn.Close() })
	failOn(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	in, err := l.Accept()
	failOn(t, err)
	t.Cleanup(func() { in.Close() })
	if waits, err := HasUnaccepted(a.pid, []uint16{at.Port()}); err != nil || waits {
		t.Errorf("HasUnaccepted after the program has accepted = %v, %v; want false", waits, err)
	}
	return conn.(*net.TCPConn), in.(*net.TCPConn)
}

// TestClientSockets: a program of a capsule sees a client's address, and both ends go on after the forwarder's end was made
// again.
func TestClientSockets(t *testing.T) {
	_, a0, _ := makeDiverted(t)
	var l net.Listener
	failOn(t, withinNamespace(a0.ns, func() (err error) {
		l, err = net.Listen("tcp4", a0.addr.String()+":8888")
		return err
	}))
	defer l.Close()
	forwarder, program := dialInside(t, a0, l, "192.0.2.9:5555")
	other, otherEnd := dialInside(t, a0, l, "192.0.2.10:5555")
	if got := program.RemoteAddr().String(); got != "192.0.2.9:5555" {
		t.Errorf("the program sees the client at %s", got)
	}
	sendText(t, forwarder, "question")
	expectText(t, program, "question")
	sendText(t, program, "answer")
	expectText(t, forwarder, "answer")
	failOn(t, Lock(a0.pid))
	sendText(t, program, "on its way")
	sendText(t, forwarder, "and back")
	made, c, unread, unsent := takeAway(t, a0, forwarder)
	failOn(t, Unlock(a0.pid))
	if len(unread) != 0 || string(c.Sent)+string(unsent) != "and back" {
		t.Errorf("saved bytes: unread %q, sent %q, unsent %q", unread, c.Sent, unsent)
	}
	sendText(t, made, string(unsent)+"!")
	expectText(t, program, "and back!")
	expectText(t, made, "on its way")
	sendText(t, other, "other")
	expectText(t, otherEnd, "other")
}

// TestClientSocketsConfined: packets of such a socket to another host are diverted, as those of any socket of the
// capsule.
func TestClientSocketsConfined(t *testing.T) {
	_, a0, l := makeDiverted(t)
	sockets, err := ClientSockets(a0.pid, 1)
	failOn(t, err)
	defer sockets[0].Close()
	fd := int(sockets[0].Fd())
	failOn(t, unix.SetNonblock(fd, false))
	failOn(t, unix.Bind(fd, sockaddrOf(netip.MustParseAddrPort("192.0.2.9:5555"))))
	failOn(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
	// The connection is diverted, as that of any program of the capsule.
	failOn(t, unix.Connect(fd, sockaddrOf(netip.MustParseAddrPort("10.1.0.2:80"))))
	failOn(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	c, err := l.Accept()
	failOn(t, err)
	defer c.Close()
	if from, to := c.RemoteAddr().String(), c.LocalAddr().String(); from != "192.0.2.9:5555" || to != "10.1.0.2:80" {
		t.Errorf("accepted a connection from %s to %s", from, to)
	}
}
