// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A lab is a network of nodes, each a network namespace, that has no connection to the
// machine's.
type lab struct {
	t    testing.TB
	cfg  Config
	hubs map[string]*os.File // namespaces with a bridge, by the subnet's prefix
}

// node is a machine in a lab.
type node struct {
	*Overlay
	lab  *lab
	name string
	ns   *os.File
	addr netip.Addr
}

// box stands for a capsule: a process with a network namespace.
type box struct {
	node *node
	name string
	addr netip.Addr
	pid  int
	ns   *os.File
	kill func()
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it makes network namespaces")
	}
}

func newLab(t testing.TB, cfg Config) *lab {
	t.Helper()
	needRoot(t)
	return &lab{t: t, cfg: cfg, hubs: map[string]*os.File{}}
}

func failOn(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNamespace makes a network namespace with lo up.
func newNamespace(t testing.TB) *os.File {
	t.Helper()
	type made struct {
		f   *os.File
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		done <- made{f, err}
	}()
	m := <-done
	failOn(t, m.err)
	t.Cleanup(func() { m.f.Close() })
	failOn(t, withinNamespace(m.f, func() error { return setUp("lo") }))
	return m.f
}

func setUp(link string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// wireNamespace connects a namespace to the subnet of addr, "10.1.0.1/24", by an interface.
func (b *lab) wireNamespace(ns *os.File, link, addr string) {
	b.t.Helper()
	a, err := netlink.ParseAddr(addr)
	failOn(b.t, err)
	subnet := netip.MustParsePrefix(addr).Masked().String()
	hub := b.hubs[subnet]
	if hub == nil {
		hub = newNamespace(b.t)
		b.hubs[subnet] = hub
		failOn(b.t, withinNamespace(hub, func() error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "br"
			return errors.Join(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}), setUp("br"))
		}))
	}
	port := "p" + strings.ReplaceAll(a.IP.String(), ".", "x")
	failOn(b.t, withinNamespace(ns, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = link
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(hub.Fd())}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l))
	}))
	failOn(b.t, withinNamespace(hub, func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		br, err := netlink.LinkByName("br")
		return errors.Join(err, netlink.LinkSetMaster(l, br), netlink.LinkSetUp(l))
	}))
}

// addHost makes a machine with an address that is no node of ours.
func (b *lab) addHost(addr, via string) *os.File {
	b.t.Helper()
	ns := newNamespace(b.t)
	b.wireNamespace(ns, "eth0", addr)
	if via != "" {
		failOn(b.t, withinNamespace(ns, func() error { return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(via)}) }))
	}
	return ns
}

// addRouter connects subnets.
func (b *lab) addRouter(addrs ...string) {
	b.t.Helper()
	ns := newNamespace(b.t)
	for i, a := range addrs {
		b.wireNamespace(ns, fmt.Sprintf("eth%d", i), a)
	}
	failOn(b.t, withinNamespace(ns, func() error { return setSysctl("ipv4", "all", "forwarding", "1") }))
}

func (b *lab) addNode(name, addr, via string) *node {
	b.t.Helper()
	n := &node{lab: b, name: name, ns: b.addHost(addr, via), addr: netip.MustParsePrefix(addr).Addr()}
	n.openOverlay()
	return n
}

// openOverlay opens the node's overlay; called again, it opens a new one.
func (n *node) openOverlay() {
	n.lab.t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", n.ns.Fd()))
	failOn(n.lab.t, err)
	o, err := openIn(n.lab.cfg, f)
	failOn(n.lab.t, err)
	n.Overlay = o
	n.lab.t.Cleanup(func() { o.Close() })
}

// startBare starts a process with a network namespace.
func (n *node) startBare(name, addr string) *box {
	t := n.lab.t
	t.Helper()
	cmd := exec.Command("cat") // ends with us: our end of the pipe is closed then
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	_, err := cmd.StdinPipe()
	failOn(t, err)
	failOn(t, cmd.Start())
	ns, err := capsuleNetns(cmd.Process.Pid, n.ns)
	failOn(t, err)
	c := &box{node: n, name: name, addr: netip.MustParseAddr(addr), pid: cmd.Process.Pid, ns: ns}
	killed := false
	c.kill = func() {
		if !killed {
			killed = true
			ns.Close()
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(c.kill)
	failOn(t, withinNamespace(ns, func() error { return setUp("lo") }))
	return c
}

// addCapsule returns a capsule that is attached.
func (n *node) addCapsule(name, addr string) *box {
	n.lab.t.Helper()
	c := n.startBare(name, addr)
	failOn(n.lab.t, n.Attach(context.Background(), c.pid, name, c.addr))
	return c
}

// introduceAll tells each node where a job's capsules are.
func introduceAll(t testing.TB, job string, capsules ...*box) {
	t.Helper()
	var peers []Peer
	nodes := map[*node]bool{}
	for _, c := range capsules {
		peers = append(peers, Peer{c.addr, c.node.addr})
		nodes[c.node] = true
	}
	for n := range nodes {
		failOn(t, n.SetPeers(context.Background(), job, peers))
	}
}

// patience is the time that a test waits for an event that must happen.
const patience = 30 * time.Second

// listenAndEcho answers each connection to port 7 in ns with all that it sends, and tells the
// caller's address.
func listenAndEcho(t testing.TB, ns *os.File) (callers chan netip.Addr) {
	t.Helper()
	var l net.Listener
	failOn(t, withinNamespace(ns, func() (err error) {
		l, err = net.Listen("tcp4", "0.0.0.0:7")
		return err
	}))
	t.Cleanup(func() { l.Close() })
	callers = make(chan netip.Addr, 1024)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			callers <- c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return callers
}

func dialIn(ns *os.File, to netip.Addr, wait time.Duration) (net.Conn, error) {
	return dialFrom(ns, netip.Addr{}, to, wait)
}

func dialFrom(ns *os.File, from, to netip.Addr, wait time.Duration) (c net.Conn, err error) {
	err = withinNamespace(ns, func() (err error) {
		d := net.Dialer{Timeout: wait}
		if from.IsValid() {
			d.LocalAddr = &net.TCPAddr{IP: ipOf(from)}
		}
		c, err = d.Dial("tcp4", netip.AddrPortFrom(to, 7).String())
		return err
	})
	return c, err
}

// checkTalks checks that bytes get from a to b and back.
func checkTalks(t testing.TB, from *os.File, to netip.Addr) {
	t.Helper()
	c, err := dialIn(from, to, patience)
	if err != nil {
		t.Errorf("no connection to %s: %v", to, err)
		return
	}
	defer c.Close()
	checkEchoes(t, c, 1000)
}

// checkEchoes checks that n bytes come back as they were.
func checkEchoes(t testing.TB, c net.Conn, n int) {
	t.Helper()
	failOn(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i ^ i>>8 ^ i>>16)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(out)
		sent <- err
	}()
	in := make([]byte, n)
	got, err := io.ReadFull(c, in)
	if err != nil {
		t.Fatalf("%d of %d bytes came back: %v", got, n, err)
	}
	failOn(t, <-sent)
	if !slices.Equal(in, out) {
		t.Fatal("other bytes came back")
	}
}

// checkDeaf checks that a cannot connect to b.
func checkDeaf(t testing.TB, from *os.File, to netip.Addr) {
	t.Helper()
	if c, err := dialIn(from, to, 300*time.Millisecond); err == nil {
		c.Close()
		t.Errorf("connected to %s, want no connection", to)
	}
}

// waitForCaller waits for a call, and returns the caller.
func waitForCaller(t testing.TB, callers chan netip.Addr) netip.Addr {
	t.Helper()
	select {
	case a := <-callers:
		return a
	case <-time.After(patience):
		t.Fatal("no connection has come")
		return netip.Addr{}
	}
}
