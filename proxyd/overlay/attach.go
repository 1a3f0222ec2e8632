// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const capsuleLink = "eth0"

// attachment is a capsule that is being attached.
type attachment struct {
	*Overlay
	name    string
	addr    netip.Addr
	capsule *os.File // the capsule's network namespace
	link    netlink.Link
}

// attachSteps lists the steps that give a capsule its eth0. Each step can be repeated. Sweep finds
// the interface that an interrupted step left, because an interface is in our group from its
// creation on.
var attachSteps = []struct {
	name string
	do   func(*attachment) error
}{
	{"interface", (*attachment).ensureLinkPair},
	{"alias", (*attachment).labelLink},
	{"firewall", func(a *attachment) error { return a.writeFirewall() }}, // before the first packet can arrive
	{"the node's end", func(a *attachment) error { return a.routeToCapsule(a.link, a.addr) }},
	{"the capsule's end", (*attachment).configureLink},
}

// Attach gives the capsule with the first process pid an eth0 with the address addr/32, a default route, and
// reachability from this node and from capsules of its job. name is JOB.NUMBER, unique on this node. Attach
// may be called again, for the same capsule or, with the same name, for its successor. Capsule.Spec.Address
// stays empty, and the capsule must not have another eth0.
//
// Attach replaces the node that SetPeers set for addr: the address is on this node now.
func (o *Overlay) Attach(ctx context.Context, pid int, name string, addr netip.Addr) error {
	job, err := jobOf(name)
	if err != nil {
		return err
	}
	if !o.cfg.Range.Contains(addr) {
		return fmt.Errorf("capsule %s: address %s is outside of %s", name, addr, o.cfg.Range)
	}
	capsule, err := capsuleNetns(pid, o.ns)
	if err != nil {
		return fmt.Errorf("capsule %s: %w", name, err)
	}
	defer capsule.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.jobs[job], addr)
	a := &attachment{Overlay: o, name: name, addr: addr, capsule: capsule}
	return withinNamespace(o.ns, func() error {
		for _, step := range attachSteps {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := step.do(a); err != nil {
				return fmt.Errorf("capsule %s: %s: %w", name, step.name, err)
			}
		}
		return nil
	})
}

// ensureLinkPair returns the capsule's interface, and creates the pair if needed. An interface of the
// same name that leads to another capsule is a predecessor's, and is removed.
func (a *attachment) ensureLinkPair() error {
	var inside netlink.Link
	err := withinNamespace(a.capsule, func() (err error) {
		inside, err = findLink(capsuleLink)
		return err
	})
	if err != nil {
		return err
	}
	l, err := findLink(linkName(a.name))
	if err != nil {
		return err
	}
	if l != nil && inside != nil && inside.Attrs().ParentIndex == l.Attrs().Index {
		name, addr, ok := parseAlias(l.Attrs().Alias)
		if !ok || name == a.name && addr == a.addr {
			a.link = l
			return nil
		}
		inside = nil // removed together with the other end
	}
	if l != nil {
		if l.Attrs().Group != linkGroup {
			return fmt.Errorf("%s is not ours", l.Attrs().Name)
		}
		if err := netlink.LinkDel(l); err != nil {
			return err
		}
	}
	if inside != nil {
		return fmt.Errorf("the capsule has another %s", capsuleLink)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Group, attrs.MTU, attrs.HardwareAddr = linkName(a.name), linkGroup, a.mtu, gatewayMAC()
	pair := &netlink.Veth{
		LinkAttrs: attrs,
		PeerName:  capsuleLink, PeerHardwareAddr: capsuleMAC(a.addr), PeerMTU: uint32(a.mtu),
		PeerNamespace: netlink.NsFd(a.capsule.Fd()),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	a.link, err = netlink.LinkByName(attrs.Name)
	return err
}

func (a *attachment) labelLink() error {
	return netlink.LinkSetAlias(a.link, linkAlias(a.name, a.addr))
}

// routeToCapsule routes the node's end of a capsule's veth to the capsule.
func (o *Overlay) routeToCapsule(l netlink.Link, addr netip.Addr) error {
	name := l.Attrs().Name
	err := errors.Join(
		setSysctl("ipv6", name, "disable_ipv6", "1"),
		setSysctl("ipv4", name, "forwarding", "1"),
		setSysctl("ipv4", name, "rp_filter", "1"),
	)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	if err := o.addNeighbour(l, addr, capsuleMAC(addr)); err != nil {
		return err
	}
	return o.routeToLink(l, addr)
}

// configureLink sets up the capsule's end of the veth.
func (a *attachment) configureLink() error {
	return withinNamespace(a.capsule, func() error {
		if err := setSysctl("ipv6", capsuleLink, "disable_ipv6", "1"); err != nil {
			return err
		}
		l, err := netlink.LinkByName(capsuleLink)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(l, &netlink.Addr{IPNet: hostNet(a.addr)}); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		if err := a.addNeighbour(l, gatewayAddress, gatewayMAC()); err != nil {
			return err
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: ipOf(gatewayAddress), Flags: int(netlink.FLAG_ONLINK)})
	})
}

// addNeighbour adds a permanent neighbour entry: addr has mac.
func (o *Overlay) addNeighbour(l netlink.Link, addr netip.Addr, mac []byte) error {
	return netlink.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: ipOf(addr), HardwareAddr: mac,
	})
}

// routeToLink routes a capsule's address to an interface.
func (o *Overlay) routeToLink(l netlink.Link, addr netip.Addr) error {
	return netlink.RouteReplace(&netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: hostNet(addr), Scope: netlink.SCOPE_LINK, Src: ipOf(o.cfg.Node), Protocol: routeProtocol,
	})
}

// Detach removes a capsule's interface, routes and firewall entries from the node. The capsule may
// be gone already, and most of its network with it. Detach may be called again, and for a capsule
// that never existed.
func (o *Overlay) Detach(ctx context.Context, name string) error {
	if _, err := jobOf(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return withinNamespace(o.ns, func() error {
		l, err := findLink(linkName(name))
		if err == nil && l != nil && l.Attrs().Group == linkGroup {
			err = netlink.LinkDel(l)
		}
		if err != nil && !isGone(err) {
			return fmt.Errorf("capsule %s: remove %s: %w", name, linkName(name), err)
		}
		return o.removeStale()
	})
}

// findLink returns an interface of the thread's namespace; nil if it does not exist.
func findLink(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	if isGone(err) {
		return nil, nil
	}
	return l, err
}

func isGone(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
}
