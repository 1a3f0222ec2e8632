// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descriptorOf returns a descriptor of a connection's socket, as the daemon gets it.
func descriptorOf(t *testing.T, c net.Conn) *os.File {
	t.Helper()
	f, err := c.(*net.TCPConn).File()
	failOn(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestResetConnections: a program in a locked capsule gets from our reset the same result as from
// its peer's, and other connections go on.
func TestResetConnections(t *testing.T) {
	eachLock(t, func(t *testing.T, lock func(int) error) {
		b := newLab(t, Config{})
		n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
		a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
		introduceAll(t, "812", a0, a1)
		outside := b.addHost("10.1.0.9/24", "")
		to := netip.MustParseAddr("10.1.0.9")

		idle, _ := connectPair(t, a0.ns, outside, to)
		unread, unreadEnd := connectPair(t, a0.ns, outside, to)
		sendText(t, unreadEnd, "had arrived")
		expectText(t, unread, "had")
		closed, closedEnd := connectPair(t, a0.ns, outside, to)
		sendText(t, closedEnd, "last")
		failOn(t, closedEnd.Close())
		expectText(t, closed, "last")
		kept, keptEnd := connectPair(t, a0.ns, a1.ns, a1.addr)

		failOn(t, errors.Join(lock(a0.pid), lock(a1.pid)))
		reading := make(chan error, 1)
		go func() {
			_, err := idle.Read(make([]byte, 1))
			reading <- err
		}()
		sendText(t, kept, "during")
		failOn(t, ResetConnections(a0.pid, []*os.File{descriptorOf(t, idle), descriptorOf(t, unread), descriptorOf(t, closed)}))

		select {
		case err := <-reading:
			if !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("read in progress at the reset: %v; want ECONNRESET", err)
			}
		case <-time.After(patience):
			t.Error("a program that was reading still waits")
		}
		expectText(t, unread, " arrived")
		if _, err := unread.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("after what had arrived: %v", err)
		}
		if _, err := closed.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read from a connection that the other end had closed: %v", err)
		}
		if _, err := closed.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("write to a connection that the other end had closed: %v", err)
		}
		failOn(t, ResetConnections(a0.pid, []*os.File{descriptorOf(t, idle)})) // no connection any more
		failOn(t, errors.Join(Unlock(a0.pid), Unlock(a1.pid)))
		expectText(t, keptEnd, "during")
		sendText(t, keptEnd, "after")
		expectText(t, kept, "after")
	})
}

// TestResetMapped: a connection of an IPv6 socket to an IPv4 address is reset, too.
func TestResetMapped(t *testing.T) {
	b := newLab(t, Config{})
	n1 := b.addNode("n1", "10.1.0.1/24", "")
	a0 := n1.addCapsule("812.0", "100.64.0.8")
	callers := listenAndEcho(t, n1.ns)
	var fd int
	failOn(t, withinNamespace(a0.ns, func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		mapped := netip.AddrFrom16(netip.MustParseAddr("10.1.0.1").As16())
		return unix.Connect(fd, &unix.SockaddrInet6{Port: 7, Addr: mapped.As16()})
	}))
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	waitForCaller(t, callers)
	failOn(t, Lock(a0.pid))
	failOn(t, ResetConnections(a0.pid, []*os.File{f}))
	if _, err := unix.Read(int(f.Fd()), make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("read after the reset: %v; want ECONNRESET", err)
	}
}
