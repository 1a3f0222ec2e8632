// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Packets between capsules of a job take a short path: a BPF program at the node's end of the sender's veth hands them
// to the interface towards the receiver's node, and a program at that interface of the other node hands them to the
// receiver's eth0. Such a packet passes neither the forwarding of a node nor netfilter, and interrupts a node once less.
//
// The programs decide as the firewall does, from the same members, homes and MACs: they hand over packets that the
// firewall would accept, and leave each other packet to the kernel, which drops it or not. They leave packets with
// options or a VLAN's tag. They do not count a packet's hops, for neither program is met twice.
//
// The filters of the kernel have the programs, and the programs their tables, so all go on without this process. They
// are written anew whenever the firewall is.

// shortWay says which packets a way is for: those from one capsule to another. link is the node's end of the sender's
// veth, or 0 for packets of other nodes.
type shortWay struct {
	link     uint32
	from, to netip.Addr
}

// shortExit says where such packets go: by the interface link to another node, or, if inward, into the capsule behind
// the veth of which link is the node's end. home is the sender's node, if that is another one.
type shortExit struct {
	inward bool
	link   uint32
	home   netip.Addr
}

// Sizes of the tables' keys and values. Addresses are in the order of the network, all else in the node's.
const (
	shortWaySize  = 12
	shortExitSize = 12
	shortMACSize  = 8 // a MAC, and two zeros
)

func (w shortWay) encodeKey() []byte {
	return append(append(nativeBytes(w.link), w.from.AsSlice()...), w.to.AsSlice()...)
}

func (e shortExit) encodeValue() []byte {
	inward, home := uint32(0), make([]byte, 4)
	if e.inward {
		inward = 1
	}
	if e.home.IsValid() {
		home = e.home.AsSlice()
	}
	return append(append(nativeBytes(inward), nativeBytes(e.link)...), home...)
}

// shortPath is what is to be written: the ways, and the interfaces at which packets of these ways arrive.
type shortPath struct {
	ways     map[shortWay]shortExit
	macs     map[string]netip.Addr // MAC to node
	capsules map[int]bool          // nodes' ends of veths
	outer    map[int]bool          // interfaces towards other nodes
}

// ShortPath tells why the short path is not used on this node: "" if it is used where there is a use for it.
func (o *Overlay) ShortPath() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.noShort
}

// writeShortPath writes the programs anew, as the firewall f has it, or removes them. If that fails, no program is left
// that knows former members of a job, or writeShortPath returns an error.
func (o *Overlay) writeShortPath(f firewall) error {
	s := o.planShortPath(f)
	var err error
	if o.noShort, err = o.refuseShortPath(s); err != nil {
		o.noShort = err.Error()
	}
	if o.noShort != "" || len(s.ways) == 0 {
		return o.removeFilters(nil)
	}
	if err := o.attachShortPath(s); err != nil {
		o.noShort = err.Error()
		return o.removeFilters(nil)
	}
	return o.removeFilters(s)
}

// planShortPath lists the ways between capsules of a job of which one is here. Nodes behind a gateway, and those towards
// which the interface is no Ethernet or part of another one, keep the long path.
func (o *Overlay) planShortPath(f firewall) *shortPath {
	s := &shortPath{map[shortWay]shortExit{}, f.macs, map[int]bool{}, map[int]bool{}}
	here, job := map[netip.Addr]int{}, map[netip.Addr]string{}
	for _, l := range f.capsules {
		here[l.addr] = l.link.Attrs().Index
	}
	for name, members := range f.jobs {
		for _, a := range members {
			job[a] = name
		}
	}
	paths, _ := pathsTo(f.homes) // nodes without a path have no way here
	plain := map[int]bool{}
	for _, p := range paths {
		if _, known := plain[p.link]; !known {
			plain[p.link] = isPlainEthernet(p.link)
		}
	}
	for _, l := range f.capsules {
		own := here[l.addr]
		for _, a := range f.jobs[job[l.addr]] {
			if other, ok := here[a]; ok && a != l.addr {
				s.capsules[own] = true
				s.ways[shortWay{uint32(own), l.addr, a}] = shortExit{inward: true, link: uint32(other)}
			}
			node, ok := f.homes[a]
			if p := paths[node]; ok && o.cfg.Mode != ModeVXLAN && !p.gateway && plain[p.link] {
				s.capsules[own], s.outer[p.link] = true, true
				s.ways[shortWay{uint32(own), l.addr, a}] = shortExit{link: uint32(p.link)}
				s.ways[shortWay{0, a, l.addr}] = shortExit{inward: true, link: uint32(own), home: node}
			}
		}
	}
	return s
}

// isPlainEthernet tells whether packets of an interface have a header of Ethernet, and are not received by a bridge, a
// bond or a VRF instead.
func isPlainEthernet(index int) bool {
	l, err := netlink.LinkByIndex(index)
	return err == nil && l.Attrs().EncapType == "ether" && l.Attrs().MasterIndex == 0
}

// attachShortPath loads the programs and puts them at the interfaces.
func (o *Overlay) attachShortPath(s *shortPath) error {
	programs, err := loadShortPath(s)
	if err != nil {
		return fmt.Errorf("no BPF program: %w", err)
	}
	defer programs.close()
	for index := range s.capsules {
		if err := o.attachFilter(index, programs.ofCapsules); err != nil {
			return err
		}
	}
	for index := range s.outer {
		if err := o.attachFilter(index, programs.ofNodes); err != nil {
			return err
		}
	}
	return nil
}

const (
	filterName     = "singularity"
	filterPriority = 0x5347
)

// attachFilter puts a program at the ingress of an interface, in the place of an earlier one. A queueing discipline of
// the kind clsact, which alone can carry it, stays when the program is removed: other programs may use it by then.
func (o *Overlay) attachFilter(index int, p *ebpf.Program) error {
	discipline := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
	if err := netlink.QdiscAdd(discipline); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("clsact: %w", err)
	}
	if o.filters != nil {
		o.filters[index] = true
	}
	f := ourFilter(index)
	f.Fd, f.Name, f.DirectAction = p.FD(), filterName, true
	if err := netlink.FilterReplace(f); err != nil {
		return fmt.Errorf("BPF filter: %w", err)
	}
	return nil
}

func ourFilter(index int) *netlink.BpfFilter {
	return &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{
		LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: filterPriority,
	}}
}

// removeFilters removes our programs from the interfaces that s does not name, or, if s is nil, from all.
func (o *Overlay) removeFilters(s *shortPath) error {
	if o.filters == nil { // a predecessor's are looked for once
		found, err := findFilters()
		if err != nil {
			return err
		}
		o.filters = found
	}
	for index := range o.filters {
		if s != nil && (s.capsules[index] || s.outer[index]) {
			continue
		}
		if err := netlink.FilterDel(ourFilter(index)); err != nil && !isGone(err) && !errors.Is(err, unix.EINVAL) { // EINVAL: without clsact
			return fmt.Errorf("remove BPF filter: %w", err)
		}
		delete(o.filters, index)
	}
	return nil
}

// findFilters returns the interfaces with a program of ours.
func findFilters() (map[int]bool, error) {
	links, err := listRetrying(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	found := map[int]bool{}
	for _, l := range links {
		ours, _, err := ingressFilters(l)
		if err != nil {
			return nil, err
		}
		if ours {
			found[l.Attrs().Index] = true
		}
	}
	return found, nil
}

// ingressFilters tells whether an interface has our filter for packets that arrive, and whether it has others.
func ingressFilters(l netlink.Link) (ours, others bool, err error) {
	all, err := listRetrying(func() ([]netlink.Filter, error) { return netlink.FilterList(l, netlink.HANDLE_MIN_INGRESS) })
	if err != nil && !isGone(err) && !errors.Is(err, unix.EINVAL) { // EINVAL: without clsact
		return false, false, fmt.Errorf("filters of %s: %w", l.Attrs().Name, err)
	}
	for _, f := range all {
		if b, ok := f.(*netlink.BpfFilter); ok && f.Attrs().Priority == filterPriority && b.Name == filterName {
			ours = true
		} else {
			others = true
		}
	}
	return ours, others, nil
}
