// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestAddress: a capsule can be reached at its address, and can reach the node.
func TestAddress(t *testing.T) {
	needRoot(t)
	// The addresses depend on the PID: an earlier run of this test that was killed may have left its
	// interface.
	link := fmt.Sprintf("169.254.%d.", 1+os.Getpid()%250)
	address, gateway := link+"2", link+"1"
	outside := fmt.Sprintf("cap%d", os.Getpid()%100000)
	t.Cleanup(func() { // the kernel removes the interface with a delay
		if l, err := netlink.LinkByName(outside); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	seen := 0
	c := newCapsule(t, func(s *Spec) {
		s.Address = address + "/30"
		s.Network = func(pid int) error {
			seen = pid
			return addVeth(outside, gateway+"/30", pid)
		}
	})
	if seen != c.PID() {
		t.Errorf("Network was called for %d, init is %d", seen, c.PID())
	}
	l, err := net.Listen("tcp", gateway+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	r := task{c: c, argv: []string{"perl", "-MIO::Socket::INET", "-e", fmt.Sprintf(`$| = 1;
		my $up = IO::Socket::INET->new(PeerAddr => "%s:%s") or die "$!"; print $up "from inside\n"; close $up;
		my $l = IO::Socket::INET->new(LocalAddr => "%s", Listen => 1) or die "$!"; print $l->sockport, "\n";
		my $c = $l->accept; print $c "hello\n"`, gateway, port, address)}}.startTask(t)
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); string(got) != "from inside\n" || !strings.HasPrefix(in.RemoteAddr().String(), address+":") {
		t.Errorf("connection from %s: read %q, %v, want the text from inside", in.RemoteAddr(), got, err)
	}
	in.Close()
	port, _ = r.out.nextLine()
	out, err := net.Dial("tcp", address+":"+port)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); string(got) != "hello\n" {
		t.Errorf("the node read %q, %v, want hello", got, err)
	}
	out.Close()
	if status := r.waitForEnd(); status != 0 {
		t.Errorf("status of the program = %#x, want 0", int(status))
	}
	if err := c.Remove(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
}

// addVeth makes a veth, up and with an address here. Its other end is eth0 for pid.
func addVeth(name, address string, pid int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(veth); err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(veth, addr); err != nil {
		return err
	}
	return netlink.LinkSetUp(veth)
}
