// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// criuMark is the mark of the packets that CRIU itself makes a socket send (SOCCR_MARK).
const criuMark = 0xC114

// Lock cuts the network namespace of the process pid off: nothing comes in and nothing
// goes out, by lo either, but what CRIU sends. Connections live on and notice a delay,
// which is at most as long again as the lock if something was under way when it began.
// Between the first dump or restore of a job's capsules and the last one, each must be
// locked: the kernel of one that is not there yet, or no longer, would answer the others'
// packets with resets. It takes effect at once and whole. It may be called again.
//
// Where a packet is dropped on its way out matters. In the output hook a program sees
// EPERM from its send, unless it is TCP's, which tries again. At the interface a program
// sees nothing; but TCP takes that for a full queue, probes twice a second, and gives the
// connection up after tcp_retries2 probes, which is eight seconds. So TCP is dropped in the
// one place, and the rest in the other.
func Lock(pid int) error {
	err := lock(pid, true)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) { // before Linux 5.16
		err = lock(pid, false)
	}
	if err != nil {
		return fmt.Errorf("lock network of process %d: %w", pid, err)
	}
	return nil
}

// lock is Lock with a hook at the interfaces, or for kernels without one.
func lock(pid int, egress bool) error {
	return inside(pid, func(c *nftables.Conn) error {
		var everything, tcp rule
		if egress {
			tcp = meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_TCP})
		}
		t := renew(c, nftables.TableFamilyINet)
		shut(c, everything, &nftables.Chain{Table: t, Name: "in", Hooknum: nftables.ChainHookInput})
		shut(c, tcp, &nftables.Chain{Table: t, Name: "out", Hooknum: nftables.ChainHookOutput})
		if !egress {
			return c.Flush()
		}
		links, err := dump(netlink.LinkList)
		if err != nil {
			return err
		}
		t = renew(c, nftables.TableFamilyNetdev)
		for _, l := range links {
			name := l.Attrs().Name
			shut(c, everything, &nftables.Chain{Table: t, Name: "out_" + name, Hooknum: nftables.ChainHookEgress, Device: name})
		}
		return c.Flush()
	})
}

// shut makes a chain that drops what a rule says, except CRIU's packets. A rule and not the
// chain's policy: policies come into force one after the other.
func shut(c *nftables.Conn, what rule, chain *nftables.Chain) {
	chain.Type, chain.Priority = nftables.ChainTypeFilter, nftables.ChainPriorityRaw
	c.AddChain(chain)
	for _, r := range []rule{join(marked(criuMark), accept()), join(what, drop())} {
		c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: r})
	}
}

// Unlock takes Lock back. It may be called for a process whose network is not locked.
func Unlock(pid int) error {
	err := inside(pid, func(c *nftables.Conn) error {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyNetdev} {
			c.DelTable(c.AddTable(table(family)))
		}
		return c.Flush()
	})
	if err != nil {
		return fmt.Errorf("unlock network of process %d: %w", pid, err)
	}
	return nil
}

// Locked tells whether the network of a process is locked.
func Locked(pid int) (locked bool, err error) {
	err = inside(pid, func(c *nftables.Conn) (err error) {
		locked, err = has(c, nftables.TableFamilyINet)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("network of process %d: %w", pid, err)
	}
	return locked, nil
}

// inside runs f, with a transaction to carry out, in the network namespace of a process.
func inside(pid int, f func(*nftables.Conn) error) error {
	node, err := ownNetns()
	if err != nil {
		return err
	}
	defer node.Close()
	ns, err := capsuleNetns(pid, node)
	if err != nil {
		return err
	}
	defer ns.Close()
	return within(ns, func() error {
		c, err := transaction()
		if err != nil {
			return err
		}
		return f(c)
	})
}
