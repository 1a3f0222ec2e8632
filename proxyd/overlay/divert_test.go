// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// makeDiverted makes a capsule. A listener of the test accepts its connections to outside.
func makeDiverted(t *testing.T) (*lab, *box, net.Listener) {
	t.Helper()
	b, a0, l, r := divertedAsking(t)
	go func() {
		for {
			q, err := r.Next()
			if err == nil {
				err = r.Grant(q)
			}
			if err != nil {
				if !errors.Is(err, os.ErrClosed) {
					t.Error(err)
				}
				return
			}
		}
	}()
	return b, a0, l
}

// divertedAsking is makeDiverted for a test that answers the requests itself.
func divertedAsking(t *testing.T) (*lab, *box, net.Listener, *Requests) {
	t.Helper()
	b := newLab(t, Config{})
	n1 := b.addNode("n1", "10.1.0.1/24", "")
	a0 := n1.addCapsule("812.0", "100.64.0.8")
	f, err := n1.Divert(a0.pid)
	failOn(t, err)
	l, err := net.FileListener(f)
	failOn(t, err)
	f.Close()
	t.Cleanup(func() { l.Close() })
	r, err := DivertRequests(a0.pid)
	failOn(t, err)
	t.Cleanup(func() { failOn(t, r.Close()) })
	return b, a0, l, r
}

// dialOutside connects a program of a capsule to an address outside, and returns both ends.
func dialOutside(t *testing.T, a *box, l net.Listener, to string) (program, forwarder *net.TCPConn) {
	t.Helper()
	var fd int
	at := netip.MustParseAddrPort(to)
	failOn(t, withinNamespace(a.ns, func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(fd, sockaddrOf(at))
	}))
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	c, err := net.FileConn(f)
	failOn(t, err)
	t.Cleanup(func() { c.Close() })
	failOn(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	o, err := l.Accept()
	failOn(t, err)
	t.Cleanup(func() { o.Close() })
	if got := o.LocalAddr().String(); got != to {
		t.Errorf("the program asked for %s, the forwarder sees %s", to, got)
	}
	return c.(*net.TCPConn), o.(*net.TCPConn)
}

// TestDivert: connections of programs to outside reach the listener, and no other connections do.
func TestDivert(t *testing.T) {
	b, a0, l := makeDiverted(t)
	program, forwarder := dialOutside(t, a0, l, "192.0.2.7:443")
	if got := program.RemoteAddr().String(); got != "192.0.2.7:443" {
		t.Errorf("the program's other end is %s", got)
	}
	if got := program.LocalAddr().(*net.TCPAddr).IP.String(); got != "100.64.0.8" {
		t.Errorf("the program's address is %s", got)
	}
	sendText(t, program, "question")
	expectText(t, forwarder, "question")
	sendText(t, forwarder, "answer")
	expectText(t, program, "answer")

	// Connections from the node into the capsule and between capsules are not diverted.
	in, inEnd := connectPair(t, a0.node.ns, a0.ns, a0.addr)
	sendText(t, in, "in")
	expectText(t, inEnd, "in")
	sendText(t, inEnd, "out")
	expectText(t, in, "out")
	a1 := b.addNode("n2", "10.1.0.2/24", "").addCapsule("812.1", "100.64.0.9")
	introduceAll(t, "812", a0, a1)
	kept, keptEnd := connectPair(t, a0.ns, a1.ns, a1.addr)
	sendText(t, kept, "between")
	expectText(t, keptEnd, "between")
}

// takeAway saves the forwarder's end of a connection, closes the socket without a packet, as happens when
// the process ends in a locked capsule, and makes the socket again.
func takeAway(t *testing.T, a *box, forwarder *net.TCPConn) (made *net.TCPConn, c *Connection, unread, unsent []byte) {
	t.Helper()
	f := descriptorOf(t, forwarder)
	c, unread, unsent, err := TakeConnection(f)
	failOn(t, err)
	failOn(t, unix.SetsockoptInt(int(f.Fd()), unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOn)) // then close sends no packet
	failOn(t, f.Close())
	failOn(t, forwarder.Close())
	again, err := MakeConnection(a.pid, c)
	failOn(t, err)
	defer again.Close()
	g, err := net.FileConn(again)
	failOn(t, err)
	t.Cleanup(func() { g.Close() })
	return g.(*net.TCPConn), c, unread, unsent
}

// TestTakeConnection: a connection goes on when its end was made again, with bytes on their way in both
// directions, again and again.
func TestTakeConnection(t *testing.T) {
	_, a0, l := makeDiverted(t)
	program, forwarder := dialOutside(t, a0, l, "192.0.2.7:443")
	other, otherEnd := dialOutside(t, a0, l, "192.0.2.7:443")
	sendText(t, program, "before")
	for range 3 {
		expectText(t, forwarder, "before")
		sendText(t, program, "unread")
		failOn(t, Lock(a0.pid))
		sendText(t, program, "on its way")
		sendText(t, forwarder, "and back")
		var unread, unsent []byte
		var c *Connection
		forwarder, c, unread, unsent = takeAway(t, a0, forwarder)
		if string(unread) != "unread" {
			t.Errorf("unread bytes of the saved connection = %q", unread)
		}
		failOn(t, Unlock(a0.pid))
		if got := string(c.Sent) + string(unsent); got != "and back" {
			t.Errorf("saved bytes: sent %q, unsent %q; together want and back", c.Sent, unsent)
		}
		sendText(t, forwarder, string(unsent)+"!")
		expectText(t, program, "and back!")
		expectText(t, forwarder, "on its way")
		sendText(t, program, "before")
	}
	sendText(t, other, "other")
	expectText(t, otherEnd, "other")
}

// TestTakeMuch: no byte of full buffers is lost, in both directions.
func TestTakeMuch(t *testing.T) {
	_, a0, l := makeDiverted(t)
	program, forwarder := dialOutside(t, a0, l, "192.0.2.7:443")
	want := make([]byte, 24<<20)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	fill := func(c *net.TCPConn) int {
		failOn(t, c.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
		n, err := c.Write(want)
		if err == nil {
			t.Error("the buffers take everything: the test shows nothing")
		}
		failOn(t, c.SetWriteDeadline(time.Time{}))
		return n
	}
	up, down := fill(program), fill(forwarder)
	failOn(t, Lock(a0.pid))
	made, _, unread, unsent := takeAway(t, a0, forwarder)
	failOn(t, Unlock(a0.pid))
	go func() { _, _ = made.Write(append(unsent, want[down:]...)) }()
	go func() { _, _ = program.Write(want[up:]) }()
	got := make([]byte, len(want))
	failOn(t, made.SetReadDeadline(time.Now().Add(patience)))
	n := copy(got, unread)
	if _, err := io.ReadFull(made, got[n:]); err != nil || !bytes.Equal(got, want) {
		t.Errorf("from the program: %v", err)
	}
	failOn(t, program.SetReadDeadline(time.Now().Add(patience)))
	if _, err := io.ReadFull(program, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("to the program: %v", err)
	}
}

// waitForTCPState waits until the kernel has a connection in a state.
func waitForTCPState(t *testing.T, c *net.TCPConn, want uint8) {
	t.Helper()
	raw, err := c.SyscallConn()
	failOn(t, err)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // a state has no event
		var info *unix.TCPInfo
		var failed error
		failOn(t, raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) }))
		failOn(t, failed)
		if info.State == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the connection is in state %d, want %d", info.State, want)
		}
	}
}

// TestTakeHalf: a connection of which one direction has ended goes on in the other direction.
func TestTakeHalf(t *testing.T) {
	_, a0, l := makeDiverted(t)
	t.Run("the program's", func(t *testing.T) {
		program, forwarder := dialOutside(t, a0, l, "192.0.2.7:80")
		sendText(t, program, "last")
		failOn(t, program.CloseWrite())
		waitForTCPState(t, forwarder, unix.BPF_TCP_CLOSE_WAIT) // the program's end has come
		failOn(t, Lock(a0.pid))
		made, c, unread, _ := takeAway(t, a0, forwarder)
		failOn(t, Unlock(a0.pid))
		if !c.Ended || string(unread) != "last" {
			t.Errorf("the saved connection: ended %v, unread %q; want true and last", c.Ended, unread)
		}
		sendText(t, made, "answer")
		failOn(t, made.CloseWrite())
		expectText(t, program, "answer")
		if _, err := program.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // of net
			t.Error(err)
		}
	})
	t.Run("the other side's", func(t *testing.T) {
		program, forwarder := dialOutside(t, a0, l, "192.0.2.7:80")
		failOn(t, forwarder.CloseWrite())
		if _, err := program.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // of net
			t.Error(err)
		}
		waitForTCPState(t, forwarder, unix.BPF_TCP_FIN_WAIT2) // the end is acknowledged
		failOn(t, Lock(a0.pid))
		made, c, _, _ := takeAway(t, a0, forwarder)
		failOn(t, Unlock(a0.pid))
		if c.Ending {
			t.Error("the end was acknowledged")
		}
		sendText(t, program, "still")
		expectText(t, made, "still")
	})
	t.Run("the other side's, on its way", func(t *testing.T) {
		program, forwarder := dialOutside(t, a0, l, "192.0.2.7:80")
		failOn(t, Lock(a0.pid))
		failOn(t, forwarder.CloseWrite())
		made, c, _, _ := takeAway(t, a0, forwarder)
		failOn(t, Unlock(a0.pid))
		if !c.Ending {
			t.Error("the end was not acknowledged")
		}
		failOn(t, made.CloseWrite())
		if _, err := program.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // of net
			t.Error(err)
		}
		sendText(t, program, "still")
		expectText(t, made, "still")
	})
}
