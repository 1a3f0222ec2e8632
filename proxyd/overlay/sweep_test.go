// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

var errKilled = errors.New("killed")

// TestAttachCrash: a process dies at each step of Attach. Sweep removes all that it left, and a
// second Attach completes it.
func TestAttachCrash(t *testing.T) {
	steps := attachSteps
	t.Cleanup(func() { attachSteps = steps })
	for i, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			b := newLab(t, Config{})
			n := b.addNode("n1", "10.1.0.1/24", "")
			other := n.addCapsule("811.0", "100.64.0.4")
			listenAndEcho(t, other.ns)
			before := n.describeState()
			attachSteps = slices.Clone(steps)
			attachSteps[i].do = func(a *attachment) error {
				if err := step.do(a); err != nil {
					return err
				}
				return errKilled
			}
			for _, again := range []bool{false, true} {
				c := n.startBare("812.0", "100.64.0.8")
				if err := n.Attach(t.Context(), c.pid, c.name, c.addr); !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				n.openOverlay()
				if again {
					attachSteps = steps
					failOn(t, n.Attach(t.Context(), c.pid, c.name, c.addr))
					listenAndEcho(t, c.ns)
					checkTalks(t, n.ns, c.addr)
				}
				failOn(t, n.Sweep(t.Context(), []string{"811.0"}))
				if after := n.describeState(); after != before {
					t.Errorf("state of the node before Attach and Sweep:\n%s\nafter:\n%s", before, after)
				}
				c.kill()
			}
			checkTalks(t, n.ns, other.addr)
		})
	}
}

// TestReopen: a new process finds the state of an earlier process, and connections go on.
func TestReopen(t *testing.T) {
	b := newLab(t, Config{})
	b.addRouter("10.1.0.254/24", "10.2.0.254/24")
	n1, n2, n3 := b.addNode("n1", "10.1.0.1/24", "10.1.0.254"), b.addNode("n2", "10.1.0.2/24", "10.1.0.254"), b.addNode("n3", "10.2.0.3/24", "10.2.0.254")
	a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n3.addCapsule("812.2", "100.64.0.10")
	introduceAll(t, "812", a0, a1, a2)
	c0, c1 := n1.addCapsule("813.0", "100.64.0.16"), n2.addCapsule("813.1", "100.64.0.17")
	introduceAll(t, "813", c0, c1)
	near, nearEnd := connectPair(t, a0.ns, a1.ns, a1.addr)
	far, farEnd := connectPair(t, a0.ns, a2.ns, a2.addr)
	before := n1.describeState()
	n1.Close()
	n1.openOverlay()
	if after := n1.describeState(); after != before {
		t.Errorf("state of the node before it was opened again:\n%s\nafter:\n%s", before, after)
	}
	failOn(t, n1.Sweep(t.Context(), []string{"812.0", "813.0"}))
	if after := n1.describeState(); after != before {
		t.Errorf("before:\n%s\nafter the sweep:\n%s", before, after)
	}
	for _, c := range [][2]net.Conn{{near, nearEnd}, {farEnd, far}} {
		sendText(t, c[0], "still here")
		expectText(t, c[1], "still here")
	}
	for _, c := range []*box{a0, a1, a2, c0, c1} {
		listenAndEcho(t, c.ns)
	}
	checkTalks(t, a0.ns, a1.addr)
	checkTalks(t, a2.ns, a0.addr)
	checkTalks(t, c0.ns, c1.addr)
	checkDeaf(t, c0.ns, a1.addr)
	checkDeaf(t, a0.ns, c0.addr)

	// Job 813 has ended while no daemon ran.
	c0.kill()
	n1.openOverlay()
	failOn(t, n1.Sweep(t.Context(), []string{"812.0"}))
	if s := n1.describeState(); strings.Contains(s, "813") || strings.Contains(s, "100.64.0.1"+"7") || strings.Contains(s, "10.1.0.2 ") && !strings.Contains(s, "100.64.0.9") {
		t.Errorf("after Sweep, state of job 813:\n%s", s)
	}
	checkTalks(t, a0.ns, a1.addr)
	checkTalks(t, a0.ns, a2.addr)
}

// TestDetach: Detach removes all that the node has of a capsule, whether the capsule still exists
// or not.
func TestDetach(t *testing.T) {
	for _, name := range []string{"812.0", "a-name-that-does-not-fit.4294967295"} {
		for _, gone := range []bool{false, true} {
			b := newLab(t, Config{})
			n := b.addNode("n1", "10.1.0.1/24", "")
			before := n.describeState()
			c := n.addCapsule(name, "100.64.0.8")
			failOn(t, n.SetPeers(t.Context(), name[:strings.LastIndexByte(name, '.')], []Peer{{netip.MustParseAddr("100.64.0.9"), netip.MustParseAddr("10.1.0.2")}}))
			if gone {
				c.kill()
			}
			for range 2 {
				failOn(t, n.Detach(t.Context(), name))
				failOn(t, n.SetPeers(t.Context(), name[:strings.LastIndexByte(name, '.')], nil))
			}
			if after := n.describeState(); after != before {
				t.Errorf("%s, gone is %v: before:\n%s\nafter:\n%s", name, gone, before, after)
			}
			if !gone {
				failOn(t, withinNamespace(c.ns, func() error {
					if l, err := findLink("eth0"); l != nil || err != nil {
						t.Errorf("eth0 after Detach = %v, %v; want none", l, err)
					}
					return nil
				}))
			}
		}
	}
}

// TestAttachAgain: Attach twice for one capsule, for another capsule of the same name, and with
// another address.
func TestAttachAgain(t *testing.T) {
	b := newLab(t, Config{})
	n := b.addNode("n1", "10.1.0.1/24", "")
	one := n.addCapsule("812.0", "100.64.0.8")
	x, y := connectPair(t, n.ns, one.ns, one.addr)
	before := n.describeState()
	failOn(t, n.Attach(t.Context(), one.pid, one.name, one.addr))
	if after := n.describeState(); after != before {
		t.Errorf("state of the node before Attach again:\n%s\nafter:\n%s", before, after)
	}
	sendText(t, x, "still here")
	expectText(t, y, "still here")

	two := n.addCapsule("812.0", "100.64.0.8") // a capsule is not detached yet
	listenAndEcho(t, two.ns)
	checkTalks(t, n.ns, two.addr)
	two.addr = netip.MustParseAddr("100.64.0.9")
	failOn(t, n.Attach(t.Context(), two.pid, two.name, two.addr))
	checkTalks(t, n.ns, two.addr)
	checkDeaf(t, n.ns, one.addr)
}

// TestRepair: other programs remove our routes, firewall and settings.
func TestRepair(t *testing.T) {
	b := newLab(t, Config{})
	b.addRouter("10.1.0.254/24", "10.2.0.254/24")
	n1, n2, n3 := b.addNode("n1", "10.1.0.1/24", "10.1.0.254"), b.addNode("n2", "10.1.0.2/24", "10.1.0.254"), b.addNode("n3", "10.2.0.3/24", "10.2.0.254")
	a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n3.addCapsule("812.2", "100.64.0.10")
	introduceAll(t, "812", a0, a1, a2)
	listenAndEcho(t, a0.ns)
	before := n1.describeState()
	for what, spoil := range map[string]func() error{
		"ruleset": func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			c.FlushRuleset()
			return c.Flush()
		},
		"routes": func() error {
			all, err := ourRoutes()
			for i := range all {
				err = errors.Join(err, netlink.RouteDel(&all[i]))
			}
			return err
		},
		"vxlan": func() error {
			l, err := netlink.LinkByName(vxlanName)
			return errors.Join(err, netlink.LinkDel(l))
		},
		"forwarding": func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0) },
		"down": func() error {
			l, err := netlink.LinkByName("sing812.0")
			return errors.Join(err, netlink.LinkSetDown(l))
		},
		"nothing": func() error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			failOn(t, withinNamespace(n1.ns, spoil))
			failOn(t, n1.Repair(t.Context()))
			if after := n1.describeState(); after != before {
				t.Errorf("state of the node before Repair:\n%s\nafter:\n%s", before, after)
			}
			for _, from := range []*box{a1, a2} {
				checkTalks(t, from.ns, a0.addr)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	needRoot(t)
	for name, try := range map[string]struct {
		cfg Config
		say string
	}{
		"range":    {Config{Range: netip.MustParsePrefix("10.1.0.0/16")}, "range 10.1.0.0/16 of the capsules overlaps route 10.1.0.0/24 dev eth0"},
		"mode":     {Config{Mode: "bridge"}, `mode "bridge": want auto, route or vxlan`},
		"vni":      {Config{VNI: 1 << 24}, "vni 16777216: want 1 to 16777215"},
		"port":     {Config{Port: 70000}, "port 70000: want 1 to 65535"},
		"device":   {Config{Device: "eth7"}, "device eth7: Link not found"},
		"loopback": {Config{Device: "lo"}, "device lo: no IPv4 address"},
		"node":     {Config{Node: netip.MustParseAddr("10.9.9.9")}, "no interface has the address 10.9.9.9"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newLab(t, Config{}).addHost("10.1.0.1/24", "")
			_, err := openIn(try.cfg, ns)
			if err == nil || !strings.Contains(err.Error(), try.say) {
				t.Errorf("error %v, want %q in it", err, try.say)
			}
		})
	}
	t.Run("address", func(t *testing.T) {
		ns := newLab(t, Config{}).addHost("10.1.0.1/24", "")
		failOn(t, withinNamespace(ns, func() error {
			l, err := netlink.LinkByName("lo")
			return errors.Join(err, netlink.AddrAdd(l, &netlink.Addr{IPNet: hostNet(netip.MustParseAddr("100.99.1.2"))}))
		}))
		var inUse *RangeError
		if _, err := openIn(Config{}, ns); !errors.As(err, &inUse) || inUse.By != "the node's address 100.99.1.2" {
			t.Errorf("error %v, want that the range is in use by the node's address 100.99.1.2", err)
		}
	})
	t.Run("no address", func(t *testing.T) {
		if _, err := openIn(Config{}, newNamespace(t)); err == nil || !strings.Contains(err.Error(), "no interface has an IPv4 address") {
			t.Errorf("error %v, want that no interface has an IPv4 address", err)
		}
	})
}

// TestRefused: the errors of calls with wrong arguments, and that such calls change nothing.
func TestRefused(t *testing.T) {
	b := newLab(t, Config{Mode: ModeRoute})
	b.addRouter("10.1.0.254/24", "10.2.0.254/24")
	n := b.addNode("n1", "10.1.0.1/24", "")
	c := n.startBare("812.0", "100.64.0.8")
	before := n.describeState()
	ctx := t.Context()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	inside := Peer{netip.MustParseAddr("100.64.0.9"), netip.MustParseAddr("10.1.0.2")}
	for name, try := range map[string]struct {
		say string
		do  func() error
	}{
		"no number":         {`capsule "812": want a name like 812.0`, func() error { return n.Attach(ctx, c.pid, "812", c.addr) }},
		"path":              {`capsule "../x.0": want a name`, func() error { return n.Attach(ctx, c.pid, "../x.0", c.addr) }},
		"space":             {`capsule "8 1.0": want a name`, func() error { return n.Detach(ctx, "8 1.0") }},
		"outside":           {"address 10.1.0.5 is outside of 100.64.0.0/10", func() error { return n.Attach(ctx, c.pid, "812.0", netip.MustParseAddr("10.1.0.5")) }},
		"no process":        {"no such file", func() error { return n.Attach(ctx, 1<<29, "812.0", c.addr) }},
		"cancelled":         {"context canceled", func() error { return n.Attach(cancelled, c.pid, "812.0", c.addr) }},
		"peer outside":      {"peer 10.1.0.2 on 10.1.0.2: want an address of 100.64.0.0/10", func() error { return n.SetPeers(ctx, "812", []Peer{{inside.Node, inside.Node}}) }},
		"peer without node": {"peer 100.64.0.9 on invalid IP", func() error { return n.SetPeers(ctx, "812", []Peer{{Address: inside.Address}}) }},
		"peer twice": {"peer 100.64.0.9 is said to be on 10.1.0.2 and on 10.1.0.3", func() error {
			return n.SetPeers(ctx, "812", []Peer{inside, {inside.Address, netip.MustParseAddr("10.1.0.3")}})
		}},
		"job":   {`job "a b": want letters`, func() error { return n.SetPeers(ctx, "a b", nil) }},
		"sweep": {`capsule "812": want a name`, func() error { return n.Sweep(ctx, []string{"812"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := try.do(); err == nil || !strings.Contains(err.Error(), try.say) {
				t.Errorf("error %v, want %q in it", err, try.say)
			}
			if after := n.describeState(); after != before {
				t.Errorf("state of the node before the refused call:\n%s\nafter:\n%s", before, after)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		err := n.SetPeers(ctx, "812", []Peer{inside, {netip.MustParseAddr("100.64.0.10"), netip.MustParseAddr("10.7.0.3")}})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "job 812: node 10.7.0.3: no route") {
			t.Error(err)
		}
		if !strings.Contains(n.describeState(), "route 100.64.0.9/32 via 10.1.0.2") {
			t.Errorf("the others are not set:\n%s", n.describeState())
		}
	})
	t.Run("not a neighbour", func(t *testing.T) {
		far := b.addNode("far", "10.1.0.9/24", "10.1.0.254")
		err := far.SetPeers(ctx, "812", []Peer{{inside.Address, netip.MustParseAddr("10.2.0.3")}})
		if !errors.Is(err, ErrNotNeighbour) || !strings.Contains(err.Error(), "job 812: node 10.2.0.3: not a neighbour, and mode is route") {
			t.Error(err)
		}
	})
	t.Run("another eth0", func(t *testing.T) {
		other := n.startBare("812.5", "100.64.0.12")
		b.wireNamespace(other.ns, "eth0", "10.5.0.1/24")
		if err := n.Attach(ctx, other.pid, other.name, other.addr); err == nil || !strings.Contains(err.Error(), "the capsule has another eth0") {
			t.Error(err)
		}
	})
}

// TestNotes: Notes names a filter of the node's own that would drop packets of capsules.
func TestNotes(t *testing.T) {
	b := newLab(t, Config{})
	ns := b.addHost("10.1.0.1/24", "")
	failOn(t, withinNamespace(ns, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		drop := nftables.ChainPolicyDrop
		tb := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "filter"})
		c.AddChain(&nftables.Chain{Table: tb, Name: "FORWARD", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop})
		return c.Flush()
	}))
	o, err := openIn(Config{}, ns)
	failOn(t, err)
	if got := o.Notes(); len(got) != 1 || !strings.Contains(got[0], "chain FORWARD of table filter drops") {
		t.Errorf("Notes = %q, want the chain FORWARD", got)
	}
}
