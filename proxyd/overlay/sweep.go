// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Sweep removes everything that belongs to no capsule of live, and the peers of jobs without a
// capsule in live. live has names as Attach takes them. Call Sweep while no capsule is being made.
func (o *Overlay) Sweep(ctx context.Context, live []string) error {
	jobs := map[string]bool{}
	for _, name := range live {
		job, err := jobOf(name)
		if err != nil {
			return err
		}
		jobs[job] = true
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for job := range o.jobs {
		if !jobs[job] {
			delete(o.jobs, job)
		}
	}
	return withinNamespace(o.ns, func() error {
		here, dead, err := listLinks()
		if err != nil {
			return err
		}
		for _, l := range here {
			if !slices.Contains(live, l.name) {
				dead = append(dead, l.link)
			}
		}
		for _, l := range dead {
			if err := netlink.LinkDel(l); err != nil && !isGone(err) {
				return fmt.Errorf("remove %s: %w", l.Attrs().Name, err)
			}
		}
		return o.removeStale()
	})
}

// Repair restores entries that other programs removed: routes (systemd-networkd removes routes of
// other programs), the firewall (`nft flush ruleset`), settings of interfaces. Repair makes no
// other changes, and so can be called periodically.
func (o *Overlay) Repair(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return withinNamespace(o.ns, func() error {
		here, _, err := listLinks()
		if err != nil {
			return err
		}
		elsewhere := o.remoteCapsules()
		paths, errs := pathsTo(elsewhere)
		errs = errors.Join(errs, o.removeStale(), o.enableForwarding(o.link))
		for _, l := range here {
			if _, moved := elsewhere[l.addr]; moved {
				continue
			}
			if err := o.routeToCapsule(l.link, l.addr); err != nil && !isGone(err) { // the capsule may have ended just now
				errs = errors.Join(errs, fmt.Errorf("capsule %s: %w", l.name, err))
			}
		}
		return errors.Join(errs, o.routePeers(elsewhere, paths))
	})
}

// loadState reads the state that an earlier process set.
func (o *Overlay) loadState() error {
	members, guard, err := readFirewall()
	if err != nil {
		return err
	}
	o.guard = guard
	where, err := routedCapsules()
	if err != nil {
		return err
	}
	for job, addrs := range members {
		peers := map[netip.Addr]netip.Addr{}
		for _, a := range addrs {
			if node, ok := where[a]; ok {
				peers[a] = node
			}
		}
		if len(peers) > 0 {
			o.jobs[job] = peers
		}
	}
	return nil
}

// routedCapsules returns the capsules to which the node has routes, with their nodes.
func routedCapsules() (map[netip.Addr]netip.Addr, error) {
	routes, err := ourRoutes()
	if err != nil {
		return nil, err
	}
	inside, at := map[netip.Addr]netip.Addr{}, 0
	l, err := findLink(vxlanName)
	if err == nil && l != nil {
		at = l.Attrs().Index
		inside, err = listTunnels(l)
	}
	if err != nil {
		return nil, err
	}
	where := map[netip.Addr]netip.Addr{}
	for _, r := range routes {
		addr, ok := addrOf(r.Dst.IP)
		if !ok {
			continue
		}
		if node, ok := addrOf(r.Gw); ok {
			where[addr] = node
		} else if node, ok := inside[addr]; ok && r.LinkIndex == at {
			where[addr] = node
		}
	}
	return where, nil
}
