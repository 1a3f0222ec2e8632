// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// eachLock runs a test with the lock of this kernel and with that for older ones.
func eachLock(t *testing.T, f func(t *testing.T, lock func(pid int) error)) {
	t.Run("egress", func(t *testing.T) { f(t, Lock) })
	t.Run("output", func(t *testing.T) { f(t, func(pid int) error { return lockNetwork(pid, false, false) }) })
}

// connectPair connects a to b and returns both ends.
func connectPair(t *testing.T, a, b *os.File, to netip.Addr) (here, there net.Conn) {
	t.Helper()
	var l net.Listener
	failOn(t, withinNamespace(b, func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:7")
		return err
	}))
	defer l.Close()
	here, err := dialIn(a, to, patience)
	failOn(t, err)
	there, err = l.Accept()
	failOn(t, err)
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

func checkSilent(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	failOn(t, c.SetReadDeadline(time.Now().Add(d)))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came through the lock, %v", n, err)
	}
}

func expectText(t *testing.T, c net.Conn, want string) {
	t.Helper()
	failOn(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("received %q, %v, want %q", got, err, want)
	}
}

func sendText(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := c.Write([]byte(what)); err != nil {
		t.Errorf("write %q: %v", what, err)
	}
}

// TestLock: a connection outlives a lock of both ends, and a lock of one end.
func TestLock(t *testing.T) {
	eachLock(t, func(t *testing.T, lock func(int) error) {
		b := newLab(t, Config{})
		n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
		a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
		introduceAll(t, "812", a0, a1)
		for name, try := range map[string]struct {
			from, to *box
			addr     netip.Addr
			lock     []*box
		}{
			"both":     {a0, a1, a1.addr, []*box{a0, a1}},
			"receiver": {a0, a1, a1.addr, []*box{a1}},
			"sender":   {a0, a1, a1.addr, []*box{a0}},
			"loopback": {a0, a0, netip.MustParseAddr("127.0.0.1"), []*box{a0}},
			"itself":   {a0, a0, a0.addr, []*box{a0}},
		} {
			t.Run(name, func(t *testing.T) {
				x, y := connectPair(t, try.from.ns, try.to.ns, try.addr)
				sendText(t, x, "before")
				expectText(t, y, "before")
				for _, c := range try.lock {
					for range 2 {
						failOn(t, lock(c.pid))
						if on, err := isLocked(c.pid); err != nil || !on {
							t.Errorf("isLocked after Lock = %v, %v", on, err)
						}
					}
				}
				sendText(t, x, "during")
				sendText(t, y, "answer")
				checkSilent(t, y, 500*time.Millisecond)
				checkSilent(t, x, 10*time.Millisecond)
				for _, c := range try.lock {
					for range 2 {
						failOn(t, Unlock(c.pid))
						if on, err := isLocked(c.pid); err != nil || on {
							t.Errorf("isLocked after Unlock = %v, %v", on, err)
						}
					}
				}
				expectText(t, y, "during")
				expectText(t, x, "answer")
				sendText(t, y, "after")
				expectText(t, x, "after")
			})
		}
	})
}

// TestUnlockLoopback: in a locked network packets pass by lo again, at once and of all kinds, but not to another capsule.
func TestUnlockLoopback(t *testing.T) {
	for name, egress := range map[string]bool{"egress": true, "output": false} {
		t.Run(name, func(t *testing.T) {
			b := newLab(t, Config{})
			n1 := b.addNode("n1", "10.1.0.1/24", "")
			a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n1.addCapsule("812.1", "100.64.0.9")
			introduceAll(t, "812", a0, a1)
			x, y := connectPair(t, a0.ns, a1.ns, a1.addr)
			own, there := connectPair(t, a0.ns, a0.ns, netip.MustParseAddr("127.0.0.1"))
			itself, here := connectPair(t, a0.ns, a0.ns, a0.addr)
			failOn(t, lockNetwork(a0.pid, egress, false))
			failOn(t, lockNetwork(a0.pid, egress, true))
			if on, err := isLocked(a0.pid); err != nil || !on {
				t.Errorf("isLocked after UnlockLoopback = %v, %v", on, err)
			}
			sendText(t, own, "by lo")
			expectText(t, there, "by lo")
			sendText(t, itself, "by its own address")
			expectText(t, here, "by its own address")
			sendText(t, x, "to another")
			checkSilent(t, y, 500*time.Millisecond)
			failOn(t, Unlock(a0.pid))
			expectText(t, y, "to another")
		})
	}
}

// TestLockNoReset: a locked capsule without a socket for a packet does not answer the packet with a
// reset.
func TestLockNoReset(t *testing.T) {
	eachLock(t, func(t *testing.T, lock func(int) error) {
		b := newLab(t, Config{})
		n1 := b.addNode("n1", "10.1.0.1/24", "")
		a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n1.addCapsule("812.1", "100.64.0.9")
		if _, err := dialIn(a0.ns, a1.addr, patience); !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatalf("connect to a port without a listener, unlocked: %v; want ECONNREFUSED", err)
		}
		failOn(t, lock(a1.pid))
		for _, ns := range []*os.File{a0.ns, n1.ns, a1.ns} {
			var late net.Error
			if _, err := dialIn(ns, a1.addr, 300*time.Millisecond); !errors.As(err, &late) || !late.Timeout() {
				t.Errorf("connect to a locked capsule: %v; want a timeout", err)
			}
		}
	})
}

// TestLockLong: a connection survives a lock that is longer than the time after which TCP gives up
// on a full queue.
func TestLockLong(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: waits for half a minute")
	}
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
	introduceAll(t, "812", a0, a1)
	quiet, quietEnd := connectPair(t, a1.ns, a0.ns, a0.addr)
	x, y := connectPair(t, a0.ns, a1.ns, a1.addr)
	sendText(t, x, "before")
	expectText(t, y, "before")
	failOn(t, errors.Join(Lock(a0.pid), Lock(a1.pid)))
	sendText(t, x, "during")
	const long = 12 * time.Second
	checkSilent(t, y, long)
	began := time.Now()
	failOn(t, errors.Join(Unlock(a0.pid), Unlock(a1.pid)))
	sendText(t, quiet, "at once")
	expectText(t, quietEnd, "at once")
	// Only a connection with data on its way waits for TCP's next try, up to as long again as the
	// lock.
	if took := time.Since(began); took > long/2 {
		t.Errorf("data that was not on its way took %v after the unlock", took)
	}
	failOn(t, y.SetReadDeadline(began.Add(long+patience)))
	got := make([]byte, 6)
	if _, err := io.ReadFull(y, got); err != nil || string(got) != "during" {
		t.Errorf("received %q, %v, want during", got, err)
	}
	t.Logf("data came %v after a lock of %v", time.Since(began), long)
}

// TestLockUDP: a program that sends UDP gets no error while its network is locked.
func TestLockUDP(t *testing.T) {
	b := newLab(t, Config{})
	n1 := b.addNode("n1", "10.1.0.1/24", "")
	a0 := n1.addCapsule("812.0", "100.64.0.8")
	failOn(t, Lock(a0.pid))
	failOn(t, withinNamespace(a0.ns, func() error {
		for _, to := range []string{"100.64.0.9:9", "127.0.0.1:9", "10.1.0.1:9"} {
			c, err := net.Dial("udp4", to)
			if err != nil {
				return err
			}
			defer c.Close()
			for range 3 {
				if _, err := c.Write([]byte("x")); err != nil {
					t.Errorf("write to %s while locked: %v", to, err)
				}
			}
		}
		return nil
	}))
}

// TestLockMark: packets with CRIU's mark pass, on their way out and in.
func TestLockMark(t *testing.T) {
	eachLock(t, func(t *testing.T, lock func(int) error) {
		b := newLab(t, Config{})
		n1 := b.addNode("n1", "10.1.0.1/24", "")
		a0 := n1.addCapsule("812.0", "100.64.0.8")
		failOn(t, lock(a0.pid))
		failOn(t, withinNamespace(a0.ns, func() error {
			pc, err := net.ListenPacket("udp4", "127.0.0.1:9")
			if err != nil {
				return err
			}
			defer pc.Close()
			for _, mark := range []int{0, 1, criuMark} {
				c, err := net.Dial("udp4", "127.0.0.1:9")
				if err != nil {
					return err
				}
				defer c.Close()
				raw, err := c.(syscall.Conn).SyscallConn()
				if err != nil {
					return err
				}
				var bad error
				err = raw.Control(func(fd uintptr) { bad = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
				if err := errors.Join(err, bad); err != nil {
					return err
				}
				_, _ = c.Write([]byte{byte(mark)}) // EPERM, with the lock for older kernels
				wait := 100 * time.Millisecond     // for a packet that must not arrive
				if mark == criuMark {
					wait = patience
				}
				failOn(t, pc.SetReadDeadline(time.Now().Add(wait)))
				_, _, err = pc.ReadFrom(make([]byte, 1))
				if passed := err == nil; passed != (mark == criuMark) {
					t.Errorf("mark %#x: passed is %v", mark, passed)
				}
			}
			return nil
		}))
	})
}

// isLocked tells whether the network of a process is locked.
func isLocked(pid int) (locked bool, err error) {
	err = withinNetworkOf(pid, func(c *nftables.Conn) (err error) {
		locked, err = hasTable(c, nftables.TableFamilyINet)
		return err
	})
	return locked, err
}

// TestLockOfNode: the node's own network is never locked.
func TestLockOfNode(t *testing.T) {
	needRoot(t)
	before, err := os.Readlink("/proc/self/ns/net")
	failOn(t, err)
	if thread, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || thread != before {
		t.Fatalf("the test is in %s, its process in %s, %v", thread, before, err)
	}
	for name, f := range map[string]func(int) error{"lock": Lock, "unlock": Unlock} {
		if err := f(os.Getpid()); err == nil || !strings.Contains(err.Error(), "is in the node's network namespace") {
			t.Errorf("%s in the node's own network namespace: error %v; want a refusal", name, err)
		}
		if err := f(1 << 29); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a process that does not exist: %v", name, err)
		}
	}
}
