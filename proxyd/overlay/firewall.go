// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// firewall is the content of a node's table. Written out, with B0 a capsule of job 812
// that is on another node:
//
//	table ip singularity {
//	  set capsules { iifname . ip saddr: the addresses that each interface may send from }
//	  set away     { B0: capsules of our jobs that are not here }
//	  set macs     { the MACs of other nodes, as far as they are known }
//	  set homes    { B0 . ether saddr: which of these B0 may come from }
//	  set guarded  { interfaces on which we have turned forwarding on }
//	  set nodes    { which nodes may send us vxlan }
//	  map jobs     { A0 : jump job_812, B0 : jump job_812, … }
//	  set job_812  { A0, B0 }
//	  chain job_812 { ip daddr @job_812 accept }
//
//	  chain early { hook prerouting, raw
//	    iifgroup OURS iifname . ip saddr != @capsules drop
//	    iifgroup != OURS iiftype ether ip saddr @away ether saddr @macs ip saddr . ether saddr != @homes drop
//	    iifname singvx ip saddr != @away drop
//	    ip saddr RANGE ip daddr RANGE notrack
//	  }
//	  chain forward { hook forward, filter
//	    iifgroup != OURS oifgroup != OURS ip saddr RANGE ip daddr RANGE drop
//	    ip saddr vmap @jobs
//	    ip saddr RANGE ip daddr RANGE drop
//	    iifname @guarded oifgroup != OURS drop
//	  }
//	  chain outside { hook postrouting, srcnat: ip saddr RANGE ip daddr != RANGE masquerade }
//	  chain input   { hook input, filter:       udp dport PORT ip saddr != @nodes drop }
//	  chain output  { hook output, filter:      oifname singvx ip saddr != RANGE reject }
//	}
//
// Packets between capsules are not tracked: after a move a node sees only the rest of a connection,
// and a filter of the node's that drops invalid states would cut them.
//
// Rules that decide about most packets come first: a packet from capsule to capsule is accepted
// after three look-ups. Every verdict but drop leaves the packet to the node's other tables.
type firewall struct {
	space    netip.Prefix
	capsules []local
	homes    map[netip.Addr]netip.Addr // capsules on other nodes, with their nodes
	macs     map[string]netip.Addr     // MAC to node
	guarded  []string
	nodes    []netip.Addr
	port     int // of vxlan
	jobs     map[string][]netip.Addr
}

const (
	tableName = "singularity"
	jobPrefix = "job_" // the underscore distinguishes the prefix from "jobs"
)

func newTable(family nftables.TableFamily) *nftables.Table {
	return &nftables.Table{Family: family, Name: tableName}
}

// newTransaction starts a transaction; Flush of the result applies all of its changes, or no change
// if one fails.
func newTransaction() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		// A batch is sent as a single message, and the kernel answers every command in it: both need
		// large buffers.
		return errors.Join(c.SetWriteBuffer(8<<20), c.SetReadBuffer(8<<20))
	}))
}

// writeTable replaces the table of the thread's namespace in a transaction.
func (f firewall) writeTable() error {
	c, err := newTransaction()
	if err != nil {
		return err
	}
	t := renewTable(c, nftables.TableFamilyIPv4)
	if err := f.addSets(c, t); err != nil {
		return err
	}
	f.addChains(c, t)
	return c.Flush()
}

// renewTable gives a transaction an empty table. The transaction adds the table first, so that the
// deletion cannot fail.
func renewTable(c *nftables.Conn, family nftables.TableFamily) *nftables.Table {
	t := c.AddTable(newTable(family))
	c.DelTable(t)
	return c.AddTable(newTable(family))
}

func (f firewall) addSets(c *nftables.Conn, t *nftables.Table) error {
	var capsules, homes, away, guarded, nodes, macs, jobs []nftables.SetElement
	for _, l := range f.capsules {
		capsules = append(capsules, setElement(paddedName(l.link.Attrs().Name), l.addr.AsSlice()))
	}
	inhabitants := map[netip.Addr][]netip.Addr{} // of a node
	for _, a := range sortedAddresses(f.homes) {
		away = append(away, setElement(a.AsSlice()))
		inhabitants[f.homes[a]] = append(inhabitants[f.homes[a]], a)
	}
	for _, m := range slices.Sorted(maps.Keys(f.macs)) {
		macs = append(macs, nftables.SetElement{Key: []byte(m)})
		for _, a := range inhabitants[f.macs[m]] {
			homes = append(homes, setElement(a.AsSlice(), []byte(m)))
		}
	}
	for _, name := range f.guarded {
		guarded = append(guarded, setElement(paddedName(name)))
	}
	for _, a := range f.nodes {
		nodes = append(nodes, setElement(a.AsSlice()))
	}
	pair := nftables.MustConcatSetType
	for _, s := range []struct {
		name     string
		kind     nftables.SetDatatype
		elements []nftables.SetElement
	}{
		{"capsules", pair(nftables.TypeIFName, nftables.TypeIPAddr), capsules},
		{"away", nftables.TypeIPAddr, away},
		{"macs", nftables.TypeEtherAddr, macs},
		{"homes", pair(nftables.TypeIPAddr, nftables.TypeEtherAddr), homes},
		{"guarded", nftables.TypeIFName, guarded},
		{"nodes", nftables.TypeIPAddr, nodes},
	} {
		set := &nftables.Set{Table: t, Name: s.name, KeyType: s.kind, Concatenation: s.name == "capsules" || s.name == "homes"}
		if s.kind == nftables.TypeIFName {
			set.KeyByteOrder = binaryutil.NativeEndian // without this, nft shows the names as ""
		}
		if err := fillSet(c, set, s.elements); err != nil {
			return err
		}
	}
	for _, job := range slices.Sorted(maps.Keys(f.jobs)) {
		var members []nftables.SetElement
		for _, a := range f.jobs[job] {
			members = append(members, setElement(a.AsSlice()))
			e := setElement(a.AsSlice())
			e.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: jobPrefix + job}
			jobs = append(jobs, e)
		}
		set := &nftables.Set{Table: t, Name: jobPrefix + job, KeyType: nftables.TypeIPAddr}
		if err := fillSet(c, set, members); err != nil {
			return err
		}
		chain := c.AddChain(&nftables.Chain{Table: t, Name: jobPrefix + job})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: joinRules(addressIn(destination, set.Name, false), acceptPacket())})
	}
	return fillSet(c, &nftables.Set{Table: t, Name: "jobs", KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict, IsMap: true}, jobs)
}

// fillSet creates a set with elements. The kernel has a faster kind of set if the size is given; no
// element is added later. The length of a message's list has 16 bits, so elements are sent in
// parts.
func fillSet(c *nftables.Conn, s *nftables.Set, elements []nftables.SetElement) error {
	s.Size = uint32(len(elements))
	if err := c.AddSet(s, nil); err != nil {
		return err
	}
	for part := range slices.Chunk(elements, 250) {
		if err := c.SetAddElements(s, part); err != nil {
			return err
		}
	}
	return nil
}

func (f firewall) addChains(c *nftables.Conn, t *nftables.Table) {
	const eq, ne = expr.CmpOpEq, expr.CmpOpNeq
	for _, h := range []struct {
		name     string
		kind     nftables.ChainType
		hook     *nftables.ChainHook
		priority *nftables.ChainPriority
		rules    []rule
	}{
		{"early", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, []rule{
			joinRules(fromCapsule(eq), matchForeignLink("capsules"), dropPacket()),
			joinRules(fromCapsule(ne), matchEthernet(), addressIn(source, "away", false), macIn("macs"), matchForeignMAC("homes"), dropPacket()),
			joinRules(fromLink(vxlanName, eq), addressIn(source, "away", true), dropPacket()),
			joinRules(matchRange(f.space), dontTrack()),
		}},
		{"forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, []rule{
			joinRules(fromCapsule(ne), toCapsule(ne), matchRange(f.space), dropPacket()),
			jumpBySource("jobs"),
			joinRules(matchRange(f.space), dropPacket()),
			joinRules(linkIn("guarded"), toCapsule(ne), dropPacket()),
		}},
		{"outside", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, []rule{
			joinRules(matchAddress(source, f.space, eq), matchAddress(destination, f.space, ne), masqueradeSource()),
		}},
		{"input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter, []rule{
			joinRules(udpTo(f.port), addressIn(source, "nodes", true), dropPacket()),
		}},
		{"output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter, []rule{
			joinRules(toLink(vxlanName, eq), matchAddress(source, f.space, ne), rejectPacket()),
		}},
	} {
		chain := c.AddChain(&nftables.Chain{Table: t, Name: h.name, Type: h.kind, Hooknum: h.hook, Priority: h.priority})
		for _, r := range h.rules {
			c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: r})
		}
	}
}

// readFirewall reads the state that only the table has: the jobs' capsules, and the interfaces on
// which this package has enabled forwarding.
func readFirewall() (jobs map[string][]netip.Addr, guarded []string, err error) {
	c, err := newTransaction()
	if err != nil {
		return nil, nil, err
	}
	ours, err := hasTable(c, nftables.TableFamilyIPv4)
	if err != nil || !ours {
		return nil, nil, err
	}
	sets, err := c.GetSets(newTable(nftables.TableFamilyIPv4))
	if err != nil {
		return nil, nil, err
	}
	jobs = map[string][]netip.Addr{}
	for _, s := range sets {
		job, isJob := strings.CutPrefix(s.Name, jobPrefix)
		if s.IsMap || !isJob && s.Name != "guarded" {
			continue
		}
		elements, err := c.GetSetElements(s)
		if err != nil {
			return nil, nil, fmt.Errorf("set %s: %w", s.Name, err)
		}
		for _, e := range elements {
			if !isJob {
				guarded = append(guarded, strings.TrimRight(string(e.Key), "\x00"))
			} else if a, ok := netip.AddrFromSlice(e.Key); ok {
				jobs[job] = append(jobs[job], a)
			}
		}
	}
	return jobs, guarded, nil
}

// hasTable tells whether our table exists.
func hasTable(c *nftables.Conn, family nftables.TableFamily) (bool, error) {
	all, err := c.ListTablesOfFamily(family)
	return slices.ContainsFunc(all, func(t *nftables.Table) bool { return t.Name == tableName }), err
}

func sortedAddresses[V any](m map[netip.Addr]V) []netip.Addr {
	return slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
}
