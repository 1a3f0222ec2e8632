// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SetPeers sets the nodes of a job's capsules: of all capsules, or of the capsules on other nodes.
// SetPeers replaces the peers that were set for the job before; nil means that no capsule is on
// another node. Call SetPeers on every node of a job whenever a capsule of it was placed, before a
// program runs in the capsule. A node that cannot be reached is an error, and the peers on other
// nodes are set; the error wraps ErrUnreachable or ErrNotNeighbour, or is a *MissingError.
func (o *Overlay) SetPeers(ctx context.Context, job string, peers []Peer) error {
	if err := checkJob(job); err != nil {
		return err
	}
	said := map[netip.Addr]netip.Addr{}
	for _, p := range peers {
		if !o.cfg.Range.Contains(p.Address) || !p.Node.Is4() {
			return fmt.Errorf("job %s: peer %s on %s: want an address of %s and an IPv4 address", job, p.Address, p.Node, o.cfg.Range)
		}
		if before, ok := said[p.Address]; ok && before != p.Node {
			return fmt.Errorf("job %s: peer %s is said to be on %s and on %s", job, p.Address, before, p.Node)
		}
		said[p.Address] = p.Node
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.jobs[job]; !known && len(said) == 0 {
		return nil // Most jobs start on a single node: no route or rule changes.
	}
	return withinNamespace(o.ns, func() error {
		paths, bad := pathsTo(said)
		maps.DeleteFunc(said, func(_, node netip.Addr) bool { return paths[node].here })
		probeNeighbours(paths)
		o.jobs[job] = said
		if len(said) == 0 {
			delete(o.jobs, job)
		}
		// Capsules that left the job are shut out first.
		err := errors.Join(bad, o.removeStale(), o.routePeers(said, paths), o.removeStale())
		if err != nil {
			return fmt.Errorf("job %s: %w", job, err)
		}
		return nil
	})
}

// nodePath describes the way to another node.
type nodePath struct {
	link    int
	src     net.IP
	gateway bool // there is a gateway in between
	here    bool // the node is this node
}

func pathsTo(said map[netip.Addr]netip.Addr) (paths map[netip.Addr]nodePath, bad error) {
	paths = map[netip.Addr]nodePath{}
	for _, node := range said {
		if _, ok := paths[node]; ok {
			continue
		}
		routes, err := netlink.RouteGet(ipOf(node))
		if err == nil && len(routes) == 0 {
			err = unix.ENETUNREACH
		}
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("node %s: %w: %w", node, ErrUnreachable, err))
			continue
		}
		r := routes[0]
		paths[node] = nodePath{r.LinkIndex, r.Src, r.Gw != nil, r.Type == unix.RTN_LOCAL}
	}
	return paths, bad
}

// routePeers routes addresses to their nodes.
func (o *Overlay) routePeers(said map[netip.Addr]netip.Addr, paths map[netip.Addr]nodePath) (err error) {
	reported := map[string]bool{}
	fail := func(bad error) {
		if !reported[bad.Error()] { // once for each interface and each node
			reported[bad.Error()] = true
			err = errors.Join(err, bad)
		}
	}
	forwarding := map[int]bool{}
	tunnel := sync.OnceValues(o.vxlanLink)
	for _, addr := range sortedAddresses(said) {
		node := said[addr]
		p, ok := paths[node]
		if !ok {
			continue // pathsTo has reported the reason
		}
		if o.cfg.Mode == ModeVXLAN || p.gateway && o.cfg.Mode == ModeAuto {
			l, bad := tunnel()
			if bad == nil {
				bad = o.addTunnel(l, addr, node)
			}
			if bad != nil {
				fail(bad)
			}
			continue
		}
		if p.gateway {
			fail(fmt.Errorf("node %s: %w", node, ErrNotNeighbour))
			continue
		}
		if !forwarding[p.link] {
			forwarding[p.link] = true
			if bad := o.forwardBy(p.link); bad != nil {
				fail(bad)
			}
		}
		r := &netlink.Route{LinkIndex: p.link, Dst: hostNet(addr), Gw: ipOf(node), Src: p.src, Protocol: routeProtocol}
		if bad := netlink.RouteReplace(r); bad != nil {
			fail(fmt.Errorf("route to %s by node %s: %w", addr, node, bad))
		}
	}
	return err
}

func (o *Overlay) forwardBy(index int) error {
	l, err := netlink.LinkByIndex(index)
	if err == nil {
		err = o.enableForwarding(l.Attrs().Name)
	}
	if err != nil {
		return fmt.Errorf("forwarding: %w", err)
	}
	return nil
}

// peerNodes returns the nodes with capsules, of all jobs.
func (o *Overlay) peerNodes() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, peers := range o.jobs {
		for _, node := range peers {
			all[node] = true
		}
	}
	return all
}

// remoteCapsules returns the addresses of all jobs' capsules on other nodes, with these nodes.
func (o *Overlay) remoteCapsules() map[netip.Addr]netip.Addr {
	all := map[netip.Addr]netip.Addr{}
	for _, peers := range o.jobs {
		maps.Copy(all, peers)
	}
	return all
}

// removeStale removes routes, tunnels and entries of the firewall that are not needed any more.
// removeStale adds no route.
func (o *Overlay) removeStale() error {
	return errors.Join(o.writeFirewall(), o.removeStaleRoutes())
}

// removeStaleRoutes removes routes and tunnels that are not needed any more.
func (o *Overlay) removeStaleRoutes() error {
	here, _, err := listLinks()
	if err != nil {
		return err
	}
	elsewhere := o.remoteCapsules()
	known := func(a netip.Addr) bool {
		_, ok := elsewhere[a]
		return ok || slices.ContainsFunc(here, func(l local) bool { return l.addr == a })
	}
	routes, err := ourRoutes()
	if err != nil {
		return err
	}
	for i := range routes {
		if addr, ok := addrOf(routes[i].Dst.IP); ok && known(addr) {
			continue
		}
		if err := netlink.RouteDel(&routes[i]); err != nil && !isGone(err) {
			return fmt.Errorf("remove route to %s: %w", routes[i].Dst, err)
		}
	}
	return o.pruneTunnels(elsewhere)
}

func ourRoutes() ([]netlink.Route, error) {
	routes, err := listRetrying(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return slices.DeleteFunc(routes, func(r netlink.Route) bool { return r.Dst == nil }), nil
}

// writeFirewall writes the firewall anew, and with it the short path.
func (o *Overlay) writeFirewall() error {
	here, _, err := listLinks()
	if err != nil {
		return err
	}
	f := firewall{
		space: o.cfg.Range, port: o.cfg.Port, guarded: o.guardedLinks(),
		homes: o.remoteCapsules(), macs: o.learnMACs(), jobs: map[string][]netip.Addr{},
		nodes: slices.SortedFunc(maps.Keys(o.peerNodes()), netip.Addr.Compare),
	}
	for _, l := range here {
		if _, moved := f.homes[l.addr]; moved {
			continue // a capsule that was given up: its packets must not pass
		}
		f.capsules = append(f.capsules, l)
		job, err := jobOf(l.name)
		if err != nil {
			return err
		}
		f.jobs[job] = append(f.jobs[job], l.addr)
	}
	for job, peers := range o.jobs {
		f.jobs[job] = append(f.jobs[job], sortedAddresses(peers)...)
	}
	if err := f.writeTable(); err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	if err := o.writeShortPath(f); err != nil {
		return fmt.Errorf("short path: %w", err)
	}
	return nil
}
