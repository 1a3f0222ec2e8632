// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestNeighbours: capsules of a job talk to each other on any nodes, and to nodes, and nodes talk
// to them.
func TestNeighbours(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n1.addCapsule("812.2", "100.64.0.10")
	introduceAll(t, "812", a0, a1, a2)
	for _, c := range []*box{a0, a1, a2} {
		callers := listenAndEcho(t, c.ns)
		for _, from := range []*box{a0, a1, a2} {
			t.Run(from.name+" calls "+c.name, func(t *testing.T) {
				checkTalks(t, from.ns, c.addr)
				if got := waitForCaller(t, callers); got != from.addr {
					t.Errorf("called by %s, not by %s", got, from.addr)
				}
			})
		}
		for _, from := range []*node{n1, n2} {
			t.Run(from.name+" calls "+c.name, func(t *testing.T) {
				checkTalks(t, from.ns, c.addr)
				if got := waitForCaller(t, callers); got != from.addr {
					t.Errorf("called by %s, not by %s", got, from.addr)
				}
			})
		}
	}
	for _, to := range []*node{n1, n2} {
		callers := listenAndEcho(t, to.ns)
		for _, from := range []*box{a0, a1} {
			t.Run(from.name+" calls "+to.name, func(t *testing.T) {
				checkTalks(t, from.ns, to.addr)
				want := from.node.addr
				if from.node == to {
					want = from.addr
				}
				if got := waitForCaller(t, callers); got != want {
					t.Errorf("called by %s, not by %s", got, want)
				}
			})
		}
	}
}

// TestOutside: a capsule reaches hosts that do not know its address, and such hosts do not reach
// the capsule.
func TestOutside(t *testing.T) {
	b := newLab(t, Config{})
	b.addRouter("10.1.0.254/24", "192.168.7.254/24")
	n1 := b.addNode("n1", "10.1.0.1/24", "10.1.0.254")
	far, near := b.addHost("192.168.7.9/24", "192.168.7.254"), b.addHost("10.1.0.99/24", "")
	a := n1.addCapsule("812.0", "100.64.0.8")
	for addr, ns := range map[string]*os.File{"192.168.7.9": far, "10.1.0.99": near} {
		callers := listenAndEcho(t, ns)
		checkTalks(t, a.ns, netip.MustParseAddr(addr))
		if got := waitForCaller(t, callers); got != n1.addr {
			t.Errorf("%s was called by %s, not by %s", addr, got, n1.addr)
		}
		checkDeaf(t, ns, a.addr)
	}
}

// TestRouter: nodes between which there is a gateway use vxlan, the other nodes do not.
func TestRouter(t *testing.T) {
	for _, mode := range []string{ModeAuto, ModeVXLAN} {
		t.Run(mode, func(t *testing.T) {
			b := newLab(t, Config{Mode: mode})
			b.addRouter("10.1.0.254/24", "10.2.0.254/24")
			n1, n2, n3 := b.addNode("n1", "10.1.0.1/24", "10.1.0.254"), b.addNode("n2", "10.1.0.2/24", "10.1.0.254"), b.addNode("n3", "10.2.0.3/24", "10.2.0.254")
			a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n3.addCapsule("812.2", "100.64.0.10")
			all := []*box{a0, a1, a2}
			introduceAll(t, "812", all...)
			for _, c := range all {
				callers := listenAndEcho(t, c.ns)
				for _, from := range all {
					if from == c {
						continue
					}
					before := bytesSent(t, from.node)
					conn, err := dialIn(from.ns, c.addr, patience)
					failOn(t, err)
					checkEchoes(t, conn, 4<<20)
					conn.Close()
					if got := waitForCaller(t, callers); got != from.addr {
						t.Errorf("%s called by %s, not by %s", c.name, got, from.addr)
					}
					want := mode == ModeVXLAN || (from == a2) != (c == a2)
					if got := bytesSent(t, from.node) > before+4<<20; got != want {
						t.Errorf("from %s to %s through vxlan: %v", from.name, c.name, got)
					}
				}
			}
			// The host of a node has no address in the tunnel, and its connections are refused at once.
			if mode == ModeAuto {
				_, err := dialIn(n1.ns, a2.addr, patience)
				if !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EPERM) {
					t.Errorf("from a host through vxlan: %v", err)
				}
			}
			// When a capsule comes to this side, the vxlan interface is removed.
			n3.Detach(t.Context(), "812.2")
			a2 = n2.addCapsule("812.2", "100.64.0.10")
			introduceAll(t, "812", a0, a1, a2)
			listenAndEcho(t, a2.ns)
			checkTalks(t, a0.ns, a2.addr)
			if mode == ModeAuto && bytesSent(t, n1) != 0 {
				t.Error("n1 still has a vxlan interface")
			}
		})
	}
}

// bytesSent returns how many bytes a node has sent by vxlan.
func bytesSent(t *testing.T, n *node) (sent uint64) {
	t.Helper()
	failOn(t, withinNamespace(n.ns, func() error {
		l, err := findLink(vxlanName)
		if l != nil {
			sent = l.Attrs().Statistics.TxBytes
		}
		return err
	}))
	return sent
}

// TestVXLANStrangers: a host that is no peer's node cannot put packets into the tunnel.
func TestVXLANStrangers(t *testing.T) {
	b := newLab(t, Config{Mode: ModeVXLAN})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	evil := b.addNode("evil", "10.1.0.66/24", "")
	a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
	introduceAll(t, "812", a0, a1)
	got := make(chan string, 8)
	var pc net.PacketConn
	failOn(t, withinNamespace(a0.ns, func() (err error) {
		pc, err = net.ListenPacket("udp4", "0.0.0.0:9")
		return err
	}))
	defer pc.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, _, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			got <- string(buf[:n])
		}
	}()
	say := func(from *box, what string) {
		failOn(t, withinNamespace(from.ns, func() error {
			c, err := net.Dial("udp4", "100.64.0.8:9")
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte(what))
			return err
		}))
	}
	// A machine that has our software and claims to have 812.1.
	fake := evil.addCapsule("812.1", "100.64.0.9")
	failOn(t, evil.SetPeers(t.Context(), "812", []Peer{{a0.addr, n1.addr}, {fake.addr, evil.addr}}))
	say(fake, "evil")
	say(a1, "good")
	if first := <-got; first != "good" {
		t.Errorf("812.0 received %q first, want good", first)
	}
}

// TestIsolation: capsules of different jobs do not reach each other, not even with a stolen
// address.
func TestIsolation(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2, n3 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", ""), b.addNode("n3", "10.1.0.3/24", "")
	a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
	introduceAll(t, "812", a0, a1)
	c0, c1, c2 := n1.addCapsule("813.0", "100.64.0.16"), n2.addCapsule("813.1", "100.64.0.17"), n3.addCapsule("813.2", "100.64.0.18")
	introduceAll(t, "813", c0, c1, c2)
	for _, c := range []*box{a0, a1, c0, c1, c2} {
		listenAndEcho(t, c.ns)
	}
	for _, from := range []*box{c0, c1, c2} {
		for _, to := range []*box{a0, a1} {
			t.Run(from.name+" calls "+to.name, func(t *testing.T) { checkDeaf(t, from.ns, to.addr) })
			t.Run(to.name+" calls "+from.name, func(t *testing.T) { checkDeaf(t, to.ns, from.addr) })
		}
	}
	checkTalks(t, c0.ns, c2.addr)
	checkTalks(t, a0.ns, a1.addr)

	t.Run("another's address", func(t *testing.T) {
		// A job's root user may take any address for his own. His packets must not reach 812.1.
		failOn(t, withinNamespace(c0.ns, func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.AddrAdd(l, &netlink.Addr{IPNet: hostNet(a0.addr)})
		}))
		for _, to := range []netip.Addr{a1.addr, n1.addr, n2.addr} {
			if c, err := dialFrom(c0.ns, a0.addr, to, 300*time.Millisecond); err == nil {
				c.Close()
				t.Errorf("connected to %s from %s", to, a0.addr)
			}
		}
		checkTalks(t, a0.ns, a1.addr)
	})
	t.Run("a capsule leaves the job", func(t *testing.T) {
		failOn(t, n1.SetPeers(t.Context(), "812", nil))
		checkDeaf(t, a0.ns, a1.addr)
		introduceAll(t, "812", a0, a1)
		checkTalks(t, a0.ns, a1.addr)
	})
}

// TestGuard: a node that did not forward between its networks before does not forward between them
// now.
func TestGuard(t *testing.T) {
	b := newLab(t, Config{})
	n1 := b.addNode("n1", "10.1.0.1/24", "")
	b.wireNamespace(n1.ns, "eth1", "192.168.7.1/24")
	a0 := n1.addCapsule("812.0", "100.64.0.8")
	left, right := b.addHost("10.1.0.99/24", "10.1.0.1"), b.addHost("192.168.7.99/24", "192.168.7.1")
	listenAndEcho(t, left)
	listenAndEcho(t, right)
	listenAndEcho(t, a0.ns)
	checkDeaf(t, left, netip.MustParseAddr("192.168.7.99"))
	checkDeaf(t, right, netip.MustParseAddr("10.1.0.99"))
	checkTalks(t, a0.ns, netip.MustParseAddr("10.1.0.99"))
	checkTalks(t, left, a0.addr) // a host with a route may connect

	// When the administrator makes the node a router, it is a router.
	failOn(t, withinNamespace(n1.ns, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	failOn(t, n1.Repair(t.Context()))
	checkTalks(t, left, netip.MustParseAddr("192.168.7.99"))
	checkTalks(t, right, netip.MustParseAddr("10.1.0.99"))
}

// TestMove: packets go to the node that SetPeers named, and packets of a capsule that was left
// behind are dropped.
func TestMove(t *testing.T) {
	for _, mode := range []string{ModeRoute, ModeVXLAN} {
		t.Run(mode, func(t *testing.T) {
			b := newLab(t, Config{Mode: mode})
			n1, n2, n3 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", ""), b.addNode("n3", "10.1.0.3/24", "")
			old, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
			introduceAll(t, "812", old, a1)
			listenAndEcho(t, old.ns)
			fromNew := listenAndEcho(t, a1.ns)
			checkTalks(t, a1.ns, old.addr)
			checkTalks(t, old.ns, a1.addr)
			waitForCaller(t, fromNew)
			zombie, err := dialIn(old.ns, a1.addr, patience)
			failOn(t, err)
			defer zombie.Close()
			waitForCaller(t, fromNew)
			checkEchoes(t, zombie, 1000)

			// n1 is not told of the new place: it was cut off.
			a0 := n3.addCapsule("812.0", "100.64.0.8")
			introduceAll(t, "812", a0, a1)
			atNew := listenAndEcho(t, a0.ns)
			checkTalks(t, a1.ns, a0.addr)
			waitForCaller(t, atNew)
			checkTalks(t, a0.ns, a1.addr)
			waitForCaller(t, fromNew)
			checkDeaf(t, old.ns, a1.addr)
			failOn(t, zombie.SetDeadline(time.Now().Add(300*time.Millisecond)))
			if _, err := zombie.Write([]byte("x")); err == nil {
				if _, err := zombie.Read(make([]byte, 1)); err == nil {
					t.Error("packets of the capsule that was left behind still arrive")
				}
			}
			// Now n1 is told that 812.0 is on n3.
			introduceAll(t, "812", a0, a1)
			failOn(t, n1.SetPeers(t.Context(), "812", []Peer{{a0.addr, n3.addr}, {a1.addr, n2.addr}}))
			checkDeaf(t, old.ns, a1.addr)
			if mode == ModeRoute {
				checkTalks(t, n1.ns, a1.addr)
			}
			// Then 812.0 moves back to n1.
			failOn(t, n3.Detach(t.Context(), "812.0"))
			failOn(t, n1.Attach(t.Context(), old.pid, "812.0", old.addr))
			introduceAll(t, "812", old, a1)
			checkTalks(t, old.ns, a1.addr)
		})
	}
}

// TestMany: 64 capsules on a node, of a single job and of 32 jobs.
func TestMany(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	far := n2.addCapsule("900.64", "100.64.9.0")
	var one []*box
	began := time.Now()
	for i := range 64 {
		one = append(one, n1.addCapsule(fmt.Sprintf("900.%d", i), fmt.Sprintf("100.64.8.%d", i)))
	}
	t.Logf("64 capsules attached in %v", time.Since(began))
	introduceAll(t, "900", append(one, far)...)
	listenAndEcho(t, far.ns)
	for _, c := range one {
		checkTalks(t, c.ns, far.addr)
	}
	listenAndEcho(t, one[63].ns)
	checkTalks(t, one[0].ns, one[63].addr)
	checkTalks(t, far.ns, one[63].addr)
	for _, c := range one {
		failOn(t, n1.Detach(t.Context(), c.name))
	}
	failOn(t, n1.SetPeers(t.Context(), "900", nil))
}

// TestBigJob: SetPeers with a thousand nodes.
func TestBigJob(t *testing.T) {
	b := newLab(t, Config{})
	b.addRouter("10.1.0.254/16", "10.2.0.254/16")
	n1 := b.addNode("n1", "10.1.0.1/16", "10.1.0.254")
	a0 := n1.addCapsule("7.0", "100.65.0.0")
	peers := []Peer{{a0.addr, n1.addr}}
	for i := 1; i < 2000; i++ {
		node := netip.AddrFrom4([4]byte{10, byte(1 + i%2), byte(i >> 8), byte(i)})
		peers = append(peers, Peer{netip.AddrFrom4([4]byte{100, 65, byte(i >> 8), byte(i)}), node})
	}
	began := time.Now()
	failOn(t, n1.SetPeers(t.Context(), "7", peers))
	t.Logf("2000 peers in %v", time.Since(began))
	began = time.Now()
	failOn(t, n1.SetPeers(t.Context(), "7", peers[:1000]))
	t.Logf("1000 of them in %v", time.Since(began))
	routes := 0
	failOn(t, withinNamespace(n1.ns, func() error {
		all, err := ourRoutes()
		routes = len(all)
		return err
	}))
	if routes != 1000 {
		t.Errorf("SetPeers made %d routes, want 1000", routes)
	}
}
