// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Constants of a diverted capsule.
const (
	divertTable  = "singularity_outside"
	divertedMark = 0x5148 // of packets to outside
	arrivedMark  = 0x5149 // of packets that came in by eth0, and of sockets that were accepted from these
	grantedMark  = 0x514a // of requests that Grant sends
	divertRoutes = 5148   // number of the table of routes
	// divertPort is the port of the listener. Programs of users cannot listen there.
	divertPort = 9
)

// Divert has a process within the node answer all TCP connections that programs of a capsule make to other
// addresses than capsules'. Divert returns the listener that accepts these: an accepted connection has the
// address that the program has asked for as its local address, and the program's socket looks connected
// to that address. Connections that reach the capsule from outside are left alone. pid is a process of
// the capsule, after Attach. Divert is called before programs run.
//
//	program ──► output: mark 0x5148 ──► ip rule: by lo ──► prerouting: tproxy ──► listener
//	              its first packet ─────────────────────────► DivertRequests
//	DivertRequests ──► output, mark 0x514a ──► ip rule: by lo ──► prerouting: tproxy ──► listener
//
// The first packet of a connection (SYN) does not reach the listener by itself: connect() waits until Requests.Grant or
// Refuse, so connect() returns the same result as without Divert.
//
// There is no address translation, so a connection depends on its two sockets alone: both can be saved and made
// again (TakeConnection), and go on.
func (o *Overlay) Divert(pid int) (*os.File, error) {
	var listener *os.File
	err := withinNetworkNamespace(pid, func() (err error) {
		listener, err = divertHere(o.cfg.Range)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("divert the connections of process %d to outside: %w", pid, err)
	}
	return listener, nil
}

// divertHere is Divert in the thread's namespace. space is the range of capsules' addresses.
func divertHere(space netip.Prefix) (*os.File, error) {
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_fwmark_accept", []byte("1"), 0); err != nil {
		return nil, err
	}
	if err := divertRoute(); err != nil {
		return nil, err
	}
	if err := writeDivertTable(space); err != nil {
		return nil, err
	}
	return divertListener()
}

// divertRoute adds the rule and the route by which marked packets are delivered to this host
// itself.
func divertRoute() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: all, Table: divertRoutes, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	for _, mark := range []uint32{divertedMark, grantedMark} {
		r := netlink.NewRule()
		r.Family, r.Table, r.Mark, r.Priority = unix.AF_INET, divertRoutes, mark, 100
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("rule: %w", err)
		}
	}
	return nil
}

// writeDivertTable writes, in a transaction:
//
//	table ip singularity_outside {
//	  chain in  { hook prerouting, mangle
//	    iifname != lo meta mark set 0x5149
//	    meta mark 0x5148 meta l4proto tcp tcp flags & (syn | ack) == syn drop
//	    meta mark 0x514a meta mark set 0x5148
//	    meta mark 0x5148 meta l4proto tcp tproxy to :9 accept
//	  }
//	  chain out { hook output, route, mangle
//	    meta l4proto tcp meta mark != 0x5149 meta mark != 0x514a ip daddr != RANGE ip daddr != 127.0.0.0/8 meta mark set 0x5148
//	  }
//	}
func writeDivertTable(space netip.Prefix) error {
	c, err := newTransaction()
	if err != nil {
		return err
	}
	const eq, ne = expr.CmpOpEq, expr.CmpOpNeq
	t := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: divertTable})
	c.DelTable(t)
	t = c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: divertTable})
	tcp := matchMeta(expr.MetaKeyL4PROTO, eq, []byte{unix.IPPROTO_TCP})
	in := c.AddChain(&nftables.Chain{Table: t, Name: "in", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle})
	out := c.AddChain(&nftables.Chain{Table: t, Name: "out", Type: nftables.ChainTypeRoute, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityMangle})
	for _, r := range []struct {
		chain *nftables.Chain
		rule  rule
	}{
		{in, joinRules(fromLink("lo", ne), setMark(arrivedMark))},
		{in, joinRules(matchMark(divertedMark), tcp, beginsTCP(), dropPacket())},
		{in, joinRules(matchMark(grantedMark), setMark(divertedMark))},
		{in, joinRules(matchMark(divertedMark), tcp, toListener(divertPort), acceptPacket())},
		{out, joinRules(tcp, matchMeta(expr.MetaKeyMARK, ne, nativeBytes(arrivedMark)), matchMeta(expr.MetaKeyMARK, ne, nativeBytes(grantedMark)),
			matchAddress(destination, space, ne), matchAddress(destination, netip.MustParsePrefix("127.0.0.0/8"), ne), setMark(divertedMark))},
	} {
		c.AddRule(&nftables.Rule{Table: t, Chain: r.chain, Exprs: r.rule})
	}
	return c.Flush()
}

// setMark: meta mark set MARK
func setMark(mark uint32) rule {
	return rule{
		&expr.Immediate{Register: reg1, Data: nativeBytes(mark)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg1},
	}
}

// beginsTCP: tcp flags & (syn | ack) == syn
func beginsTCP() rule {
	return rule{
		&expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1},
		&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 1, Mask: []byte{flagSYN | flagACK}, Xor: []byte{0}},
		compareData(expr.CmpOpEq, []byte{flagSYN}),
	}
}

// toListener: tproxy to :PORT
func toListener(port uint16) rule {
	return rule{
		&expr.Immediate{Register: reg1, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.TProxy{Family: unix.NFPROTO_IPV4, TableFamily: unix.NFPROTO_IPV4, RegPort: reg1},
	}
}

// divertListener listens in the thread's namespace. Accepted sockets may have any address, as the listener.
func divertListener() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "listener for connections to outside")
	for _, step := range []struct {
		call string
		err  func() error
	}{
		{"IP_TRANSPARENT", func() error { return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1) }},
		{"SO_REUSEADDR", func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }},
		{"bind", func() error {
			return unix.Bind(fd, &unix.SockaddrInet4{Port: divertPort, Addr: [4]byte{127, 0, 0, 1}})
		}},
		{"listen", func() error { return unix.Listen(fd, unix.SOMAXCONN) }},
	} {
		if err := step.err(); err != nil {
			f.Close()
			return nil, os.NewSyscallError(step.call, err)
		}
	}
	return f, nil
}

// CheckDivert tells whether this kernel has the features that Divert and DivertRequests need. It tries them in a
// network namespace that ends with its thread.
func CheckDivert() error {
	answer := make(chan error, 1)
	go func() {
		// Never unlocked: the thread cannot be used for other goroutines, and ends with this one.
		runtime.LockOSThread()
		answer <- tryDivert()
	}()
	return <-answer
}

// tryDivert leaves its thread in another network namespace.
func tryDivert() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return err
	}
	listener, err := divertHere(netip.MustParsePrefix("100.64.0.0/10"))
	if err != nil {
		return fmt.Errorf("divert connections (nftables with tproxy): %w", err)
	}
	listener.Close()
	packets, err := openPackets()
	if err != nil {
		return err
	}
	return packets.Close()
}

// DivertRelisten returns a listener for a capsule with diverted connections, after the process
// with the former listener has ended.
func DivertRelisten(pid int) (f *os.File, err error) {
	err = withinNetworkNamespace(pid, func() (err error) {
		f, err = divertListener()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return f, nil
}
