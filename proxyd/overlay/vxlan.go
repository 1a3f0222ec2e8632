// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// To reach capsule B on node N by vxlan takes three entries, all static:
//
//	route      B/32 dev singvx
//	neighbour  B has nodeMAC(N)
//	forwarding nodeMAC(N) is at N
//
// singvx itself has nodeMAC(this node), so that N's packets are for us.

// vxlanLink returns the node's vxlan interface, and creates it if no interface has this
// configuration.
func (o *Overlay) vxlanLink() (netlink.Link, error) {
	l, err := findLink(vxlanName)
	if err != nil {
		return nil, err
	}
	if l != nil && !o.isConfiguredVXLAN(l) {
		if err := netlink.LinkDel(l); err != nil {
			return nil, err
		}
		l = nil
	}
	if l == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = vxlanName, nodeMAC(o.cfg.Node), o.tunnelMTU()
		err := netlink.LinkAdd(&netlink.Vxlan{
			LinkAttrs: attrs, VxlanId: o.cfg.VNI, Port: o.cfg.Port, SrcAddr: ipOf(o.cfg.Node), UDPCSum: true, NoAge: true,
		})
		if err != nil {
			return nil, &MissingError{"vxlan", fmt.Sprintf("needs a kernel with CONFIG_VXLAN, and UDP port %d", o.cfg.Port), err}
		}
		if l, err = netlink.LinkByName(vxlanName); err != nil {
			return nil, err
		}
	}
	err = errors.Join(
		setSysctl("ipv6", vxlanName, "disable_ipv6", "1"),
		setSysctl("ipv4", vxlanName, "forwarding", "1"),
		setSysctl("ipv4", vxlanName, "rp_filter", "0"), // firewall.go checks the source instead
		netlink.LinkSetUp(l),
	)
	return l, err
}

func (o *Overlay) tunnelMTU() int {
	if o.cfg.Mode == ModeVXLAN {
		return o.mtu
	}
	return o.mtu - vxlanOverhead
}

func (o *Overlay) isConfiguredVXLAN(l netlink.Link) bool {
	v, ok := l.(*netlink.Vxlan)
	return ok && v.VxlanId == o.cfg.VNI && v.Port == o.cfg.Port && v.SrcAddr.Equal(ipOf(o.cfg.Node)) && !v.Learning &&
		v.HardwareAddr.String() == nodeMAC(o.cfg.Node).String() && v.MTU == o.tunnelMTU()
}

// addTunnel routes a capsule's address through vxlan.
func (o *Overlay) addTunnel(l netlink.Link, addr, node netip.Addr) error {
	at := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT,
		IP: ipOf(node), HardwareAddr: nodeMAC(node),
	}
	if err := netlink.NeighSet(at); err != nil {
		return fmt.Errorf("vxlan: %w", err)
	}
	if err := o.addNeighbour(l, addr, nodeMAC(node)); err != nil {
		return fmt.Errorf("vxlan: %w", err)
	}
	return o.routeToLink(l, addr)
}

// listTunnels returns the addresses routed through vxlan, with their nodes.
func listTunnels(l netlink.Link) (map[netip.Addr]netip.Addr, error) {
	list, err := listRetrying(func() ([]netlink.Neigh, error) { return netlink.NeighList(l.Attrs().Index, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("vxlan: list neighbours: %w", err)
	}
	all := map[netip.Addr]netip.Addr{}
	for _, n := range list {
		addr, ok := addrOf(n.IP)
		if node, isNode := nodeOfMAC(n.HardwareAddr); ok && isNode {
			all[addr] = node
		}
	}
	return all, nil
}

// pruneTunnels removes tunnels to capsules that are not there any more, and the interface with
// the last tunnel.
func (o *Overlay) pruneTunnels(elsewhere map[netip.Addr]netip.Addr) error {
	l, err := findLink(vxlanName)
	if err != nil || l == nil {
		return err
	}
	all, err := listTunnels(l)
	if err != nil {
		return err
	}
	used := map[netip.Addr]bool{}
	for addr, node := range all {
		if elsewhere[addr] == node {
			used[node] = true
			continue
		}
		if err := netlink.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, Family: unix.AF_INET, IP: ipOf(addr)}); err != nil && !isGone(err) {
			return fmt.Errorf("vxlan: remove %s: %w", addr, err)
		}
	}
	if len(used) == 0 && o.cfg.Mode != ModeVXLAN {
		return netlink.LinkDel(l)
	}
	table, err := listRetrying(func() ([]netlink.Neigh, error) { return netlink.NeighList(l.Attrs().Index, unix.AF_BRIDGE) })
	if err != nil {
		return fmt.Errorf("vxlan: list forwarding: %w", err)
	}
	for i := range table {
		if node, ok := nodeOfMAC(table[i].HardwareAddr); ok && !used[node] {
			if err := netlink.NeighDel(&table[i]); err != nil && !isGone(err) {
				return fmt.Errorf("vxlan: remove node %s: %w", node, err)
			}
		}
	}
	return nil
}
