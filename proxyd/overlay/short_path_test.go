// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forwardedBy returns how many packets a node has forwarded by its routing.
func forwardedBy(t *testing.T, n *node) int {
	t.Helper()
	var text []byte
	failOn(t, withinNamespace(n.ns, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	}))
	var names []string
	for line := range strings.SplitSeq(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Ip:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "ForwDatagrams" {
				count, err := strconv.Atoi(fields[i])
				failOn(t, err)
				return count
			}
		}
	}
	t.Fatalf("no ForwDatagrams in\n%s", text)
	return 0
}

// checkForwards sends bytes from a to b and back, and checks whether a node has forwarded any of these packets.
func checkForwards(t *testing.T, a, b *box, want bool) {
	t.Helper()
	before := forwardedBy(t, a.node) + forwardedBy(t, b.node)
	c, err := dialIn(a.ns, b.addr, patience)
	failOn(t, err)
	defer c.Close()
	checkEchoes(t, c, 1<<20)
	if got := forwardedBy(t, a.node) + forwardedBy(t, b.node) - before; (got > 0) != want {
		t.Errorf("from %s to %s and back: the nodes have forwarded %d packets, want some: %v; no short path: %q, %q", a.name, b.name, got, want, a.node.ShortPath(), b.node.ShortPath())
	}
}

// TestShortPath: packets between capsules of a job are not forwarded by the nodes' routing, unless that is switched off,
// and fragments arrive as well.
func TestShortPath(t *testing.T) {
	for _, mode := range []string{"auto", ShortPathOff} {
		t.Run(mode, func(t *testing.T) {
			b := newLab(t, Config{ShortPath: mode})
			n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
			a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n1.addCapsule("812.2", "100.64.0.10")
			introduceAll(t, "812", a0, a1, a2)
			for _, to := range []*box{a0, a1, a2} {
				listenAndEcho(t, to.ns)
				for _, from := range []*box{a0, a1, a2} {
					if from != to {
						checkForwards(t, from, to, mode == ShortPathOff)
					}
				}
			}
			checkDatagram(t, a0, a1, 5000)
		})
	}
}

// checkDatagram sends a datagram from a to b.
func checkDatagram(t *testing.T, a, b *box, size int) {
	t.Helper()
	to := listenUDP(t, b)
	var from net.Conn
	failOn(t, withinNamespace(a.ns, func() (err error) {
		from, err = net.Dial("udp4", to.LocalAddr().String())
		return err
	}))
	defer from.Close()
	_, err := from.Write(make([]byte, size))
	failOn(t, err)
	failOn(t, to.SetDeadline(time.Now().Add(patience)))
	if n, _, err := to.ReadFrom(make([]byte, size+1)); n != size || err != nil {
		t.Errorf("%d bytes of a datagram of %d have arrived: %v", n, size, err)
	}
}

func listenUDP(t *testing.T, c *box) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	failOn(t, withinNamespace(c.ns, func() (err error) {
		conn, err = net.ListenPacket("udp4", c.addr.String()+":9")
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestShortPathRefused: a node on which something else looks at packets, or routes them, forwards packets as ever, and
// says why. When that is gone, the short path is back.
func TestShortPathRefused(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
	introduceAll(t, "812", a0, a1)
	listenAndEcho(t, a1.ns)
	checkForwards(t, a0, a1, false)
	rule := netlink.NewRule()
	rule.Table, rule.Priority, rule.Src = 77, 1000, hostNet(netip.MustParseAddr("10.9.9.9"))
	policy := &netlink.XfrmPolicy{
		Src: hostNet(netip.MustParseAddr("10.9.9.9")), Dst: hostNet(netip.MustParseAddr("10.9.9.8")), Dir: netlink.XFRM_DIR_OUT,
		Tmpls: []netlink.XfrmPolicyTmpl{{Src: net.IPv4(10, 9, 9, 9), Dst: net.IPv4(10, 9, 9, 8), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL}},
	}
	for name, try := range map[string]struct {
		spoil, mend func() error
		why         string
	}{
		"nftables": {func() error { return changeForeignTable(false) }, func() error { return changeForeignTable(true) }, "nftables has the chain watch of table site"},
		"rule":     {func() error { return netlink.RuleAdd(rule) }, func() error { return netlink.RuleDel(rule) }, "ip has a rule for table 77"},
		"IPsec":    {func() error { return netlink.XfrmPolicyAdd(policy) }, func() error { return netlink.XfrmPolicyDel(policy) }, "the node has policies of IPsec"},
		"tc":       {func() error { return changeForeignFilter(false) }, func() error { return changeForeignFilter(true) }, "tc has another filter at eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := withinNamespace(n1.ns, try.spoil)
			if name == "IPsec" && errors.Is(err, unix.EPROTONOSUPPORT) {
				t.Skipf("SKIP: a kernel without IPsec: %v", err)
			}
			failOn(t, err)
			failOn(t, n1.Repair(t.Context()))
			if got := n1.ShortPath(); got != try.why {
				t.Errorf("ShortPath = %q, want %q", got, try.why)
			}
			checkForwards(t, a0, a1, true)
			failOn(t, withinNamespace(n1.ns, try.mend))
			failOn(t, n1.Repair(t.Context()))
			checkForwards(t, a0, a1, false)
		})
	}
}

// changeForeignTable adds a table with a rule that counts forwarded packets, or removes it.
func changeForeignTable(remove bool) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "site"})
	if remove {
		c.DelTable(table)
		return c.Flush()
	}
	chain := c.AddChain(&nftables.Chain{Table: table, Name: "watch", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
	return c.Flush()
}

// changeForeignFilter adds a filter of another program at eth0, or removes it.
func changeForeignFilter(remove bool) error {
	l, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	f := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{
		LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 7, Protocol: unix.ETH_P_ALL,
	}, Name: "site", DirectAction: true}
	if remove {
		return netlink.FilterDel(f)
	}
	p, err := newFilterProgram("site", asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()})
	if err != nil {
		return err
	}
	defer p.Close()
	f.Fd = p.FD()
	return netlink.FilterAdd(f)
}

// TestShortPathRemoved: no interface has a program when the job has no capsule elsewhere, and after a successor that does
// not want the short path.
func TestShortPathRemoved(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	a0, a1 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9")
	filters := func() (n int) {
		failOn(t, withinNamespace(n1.ns, func() error {
			found, err := findFilters()
			n = len(found)
			return err
		}))
		return n
	}
	introduceAll(t, "812", a0, a1)
	if got := filters(); got != 2 {
		t.Errorf("%d interfaces have a program, want two: the capsule's and eth0", got)
	}
	failOn(t, n1.SetPeers(t.Context(), "812", nil))
	if got := filters(); got != 0 {
		t.Errorf("the job has no peers, and %d interfaces have a program, want none", got)
	}
	introduceAll(t, "812", a0, a1)
	b.cfg.ShortPath = ShortPathOff
	n1.openOverlay()
	if got := filters(); got != 0 {
		t.Errorf("after a successor without the short path %d interfaces have a program, want none", got)
	}
	if got := n1.ShortPath(); got != "switched off" {
		t.Errorf("ShortPath = %q, want that it is switched off", got)
	}
}

// TestShortPathStrangers: a frame to another host's MAC, or from another node's MAC, does not reach a capsule, though the
// frame has the addresses of capsules of a job.
func TestShortPathStrangers(t *testing.T) {
	b := newLab(t, Config{})
	n1, n2 := b.addNode("n1", "10.1.0.1/24", ""), b.addNode("n2", "10.1.0.2/24", "")
	n3 := b.addNode("n3", "10.1.0.3/24", "")
	a0, a1, a2 := n1.addCapsule("812.0", "100.64.0.8"), n2.addCapsule("812.1", "100.64.0.9"), n3.addCapsule("812.2", "100.64.0.10")
	introduceAll(t, "812", a0, a1, a2)
	listenAndEcho(t, a0.ns)
	checkForwards(t, a1, a0, false)
	checkForwards(t, a2, a0, false)
	failOn(t, n1.Repair(t.Context())) // knows the MACs of n2 and n3 by now
	own, from2, from3 := macAt(t, n1), macAt(t, n2), macAt(t, n3)
	stranger := net.HardwareAddr{2, 9, 9, 9, 9, 9}
	to := listenUDP(t, a0)
	for _, f := range []struct {
		what           string
		target, sender net.HardwareAddr
	}{
		{"to another MAC", stranger, from2},
		{"from n3's MAC", own, from3},
		{"in order", own, from2}, // the last frame: an earlier frame would have arrived before
	} {
		sendFrame(t, n2, udpFrame(f.target, f.sender, a1.addr, a0.addr, f.what))
	}
	failOn(t, to.SetDeadline(time.Now().Add(patience)))
	text := make([]byte, 100)
	n, _, err := to.ReadFrom(text)
	failOn(t, err)
	if got := string(text[:n]); got != "in order" {
		t.Errorf("the frame %q has reached the capsule", got)
	}
}

func macAt(t *testing.T, n *node) (mac net.HardwareAddr) {
	t.Helper()
	failOn(t, withinNamespace(n.ns, func() error {
		l, err := netlink.LinkByName("eth0")
		if err == nil {
			mac = l.Attrs().HardwareAddr
		}
		return err
	}))
	return mac
}

// udpFrame makes a frame with a datagram to port 9, without checksums of UDP.
func udpFrame(target, sender net.HardwareAddr, from, to netip.Addr, text string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 9)
	udp = binary.BigEndian.AppendUint16(udp, 9)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...)
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(udp)))
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	frame := append(append([]byte{}, target...), sender...)
	return append(append(append(frame, 8, 0), ip...), udp...)
}

// sendFrame sends a frame from a node's eth0.
func sendFrame(t *testing.T, n *node, frame []byte) {
	t.Helper()
	failOn(t, withinNamespace(n.ns, func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index})
	}))
}
