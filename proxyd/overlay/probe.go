// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vxlanOverhead is the size of the headers that vxlan adds to a packet: IPv4, UDP, vxlan,
// Ethernet.
const vxlanOverhead = 50

// probeNode lists the steps that take over a node.
func (o *Overlay) probeNode() error {
	if os.Geteuid() != 0 {
		return &MissingError{"root", "run as root", unix.EPERM}
	}
	device, err := o.findNode()
	if err != nil {
		return err
	}
	o.link, o.mtu = device.Attrs().Name, device.Attrs().MTU
	if o.cfg.Mode == ModeVXLAN {
		o.mtu -= vxlanOverhead
	}
	if err := o.checkRange(); err != nil {
		return err
	}
	if err := o.loadState(); err != nil {
		return &MissingError{"nftables", "needs a kernel with CONFIG_NF_TABLES", err}
	}
	missing := []error{probeVeth()}
	if o.cfg.Mode == ModeVXLAN {
		_, err := o.vxlanLink()
		missing = append(missing, err)
	}
	if err := o.enableForwarding(o.link); err != nil {
		missing = append(missing, &MissingError{"forwarding", "net.ipv4.conf." + o.link + ".forwarding must be writable", err})
	}
	if err := o.writeFirewall(); err != nil {
		missing = append(missing, &MissingError{"nftables", "needs CONFIG_NF_TABLES_IPV4, NFT_NAT, NFT_MASQ, NFT_CT, NFT_REJECT_IPV4", err})
	}
	if err := errors.Join(missing...); err != nil {
		return err
	}
	o.notes, err = foreignFilters()
	return err
}

// findNode completes cfg.Node, and returns the interface with that address.
func (o *Overlay) findNode() (netlink.Link, error) {
	addrs, err := listRetrying(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	want := 0
	if o.cfg.Device != "" {
		l, err := netlink.LinkByName(o.cfg.Device)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", o.cfg.Device, err)
		}
		want = l.Attrs().Index
	} else if !o.cfg.Node.IsValid() {
		// The kernel's choice for a route to the outside; a node of a closed network has no such
		// route.
		if r, err := netlink.RouteGet(net.IPv4(192, 0, 2, 1)); err == nil && len(r) > 0 {
			want = r[0].LinkIndex
		}
	}
	for _, a := range addrs {
		addr, ok := addrOf(a.IP)
		if !ok || a.Scope != unix.RT_SCOPE_UNIVERSE || want != 0 && a.LinkIndex != want || o.cfg.Node.IsValid() && addr != o.cfg.Node {
			continue
		}
		l, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil {
			return nil, err
		}
		if l.Attrs().Flags&net.FlagLoopback != 0 && !o.cfg.Node.IsValid() {
			continue
		}
		o.cfg.Node = addr
		return l, nil
	}
	switch {
	case o.cfg.Node.IsValid():
		return nil, fmt.Errorf("no interface has the address %s", o.cfg.Node)
	case o.cfg.Device != "":
		return nil, fmt.Errorf("device %s: no IPv4 address", o.cfg.Device)
	}
	return nil, errors.New("no interface has an IPv4 address")
}

// checkRange refuses a range that hosts of the node's network may use.
func (o *Overlay) checkRange() error {
	routes, err := listRetrying(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil || r.Protocol == routeProtocol {
			continue
		}
		base, ok := addrOf(r.Dst.IP)
		ones, _ := r.Dst.Mask.Size()
		if !ok || ones == 0 {
			continue
		}
		if dst := netip.PrefixFrom(base, ones); dst.Overlaps(o.cfg.Range) {
			by := "route " + dst.String()
			if l, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
				by += " dev " + l.Attrs().Name
			}
			return &RangeError{o.cfg.Range, by}
		}
	}
	// A VPN's routes may be in another table; its address is visible.
	addrs, err := listRetrying(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		if addr, ok := addrOf(a.IP); ok && o.cfg.Range.Contains(addr) {
			return &RangeError{o.cfg.Range, "the node's address " + addr.String()}
		}
	}
	return nil
}

// probeVeth creates and removes a pair; the kernel may load a module for that.
func probeVeth() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Group = probeName, linkGroup
	err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: probeName + "2"})
	if err != nil && !errors.Is(err, unix.EEXIST) { // left by a process that died here
		return &MissingError{"veth", "needs a kernel with CONFIG_VETH", err}
	}
	l, err := netlink.LinkByName(probeName)
	if err != nil {
		return err
	}
	return netlink.LinkDel(l)
}

// enableForwarding enables forwarding for packets from an interface. If forwarding was enabled there
// before, packets of other hosts need no guard.
func (o *Overlay) enableForwarding(link string) error {
	on, err := isForwarding(link)
	if err != nil || on {
		return err
	}
	// The interface is guarded before forwarding is enabled; the firewall is written as a whole
	// anyway.
	if !slices.Contains(o.guard, link) {
		o.guard = append(o.guard, link)
		if err := o.writeFirewall(); err != nil {
			return err
		}
	}
	return setSysctl("ipv4", link, "forwarding", "1")
}

// guardedLinks returns the interfaces that still need a guard. A guard ends when an administrator, or
// docker, enables forwarding for the whole node.
func (o *Overlay) guardedLinks() []string {
	if all, err := isForwarding("all"); err == nil && all {
		o.guard = nil
	}
	return o.guard
}

// foreignFilters names chains of other tables that drop forwarded packets by default. iptables is
// included in its nftables variant.
func foreignFilters() ([]string, error) {
	c, err := newTransaction()
	if err != nil {
		return nil, err
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	var notes []string
	for _, ch := range chains {
		f := ch.Table.Family
		if ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookForward || ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop ||
			f != nftables.TableFamilyIPv4 && f != nftables.TableFamilyINet {
			continue
		}
		notes = append(notes, fmt.Sprintf("nftables: chain %s of table %s drops what is forwarded and not accepted there: it must accept what goes to and comes from interfaces named %s*",
			ch.Name, ch.Table.Name, linkPrefix))
	}
	return notes, nil
}
