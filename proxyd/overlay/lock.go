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

// criuMark is the mark of packets that CRIU itself sends from a socket (SOCCR_MARK).
const criuMark = 0xC114

// Lock isolates the network namespace of the process pid: no packet enters or leaves, also not by
// lo, except packets of CRIU. Connections survive and notice a delay, which is at most twice the
// time of the lock if data was on its way. From the first dump or restore of a job's capsules to
// the last, each capsule must be locked: the kernel of a missing capsule would answer packets of
// other capsules with resets. Lock takes effect at once. Lock may be called again.
//
// The hook in which a packet is dropped matters. In the output hook a program gets EPERM from its
// send, except with TCP, which retries. At the interface the program gets no error; but TCP takes
// the drop for a full queue, probes twice a second, and gives the connection up after
// tcp_retries2 probes, which is eight seconds. So TCP is dropped in the output hook, and all else
// at the interface.
func Lock(pid int) error { return lockRetrying(pid, false) }

// UnlockLoopback lets packets pass by lo, but not by other interfaces, in a network that is locked. It is for a capsule
// with all of its programs restored, before they run: packets between them are not lost then, while other capsules of
// the job may still be without their programs.
func UnlockLoopback(pid int) error { return lockRetrying(pid, true) }

func lockRetrying(pid int, loopback bool) error {
	err := lockNetwork(pid, true, loopback)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) { // before Linux 5.16
		err = lockNetwork(pid, false, loopback)
	}
	if err != nil {
		return fmt.Errorf("lock network of process %d: %w", pid, err)
	}
	return nil
}

// lockNetwork implements Lock with a hook at the interfaces, or without a hook for older kernels. loopback says whether
// packets pass by lo.
func lockNetwork(pid int, egress, loopback bool) error {
	return withinNetworkOf(pid, func(c *nftables.Conn) error {
		var everything, tcp, in, out rule
		if egress {
			tcp = matchMeta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_TCP})
		}
		if loopback {
			in = matchMeta(expr.MetaKeyIIF, expr.CmpOpNeq, nativeBytes(loopbackIndex))
			out = matchMeta(expr.MetaKeyOIF, expr.CmpOpNeq, nativeBytes(loopbackIndex))
		}
		t := renewTable(c, nftables.TableFamilyINet)
		addDropChain(c, in, &nftables.Chain{Table: t, Name: "in", Hooknum: nftables.ChainHookInput})
		addDropChain(c, joinRules(out, tcp), &nftables.Chain{Table: t, Name: "out", Hooknum: nftables.ChainHookOutput})
		if !egress {
			return c.Flush()
		}
		links, err := listRetrying(netlink.LinkList)
		if err != nil {
			return err
		}
		t = renewTable(c, nftables.TableFamilyNetdev)
		for _, l := range links {
			name := l.Attrs().Name
			if loopback && l.Attrs().Index == loopbackIndex {
				continue
			}
			addDropChain(c, everything, &nftables.Chain{Table: t, Name: "out_" + name, Hooknum: nftables.ChainHookEgress, Device: name})
		}
		return c.Flush()
	})
}

// addDropChain creates a chain that drops the packets that a rule matches, except CRIU's. The chain
// has a rule and not a policy, because policies of several chains take effect one after the other.
func addDropChain(c *nftables.Conn, what rule, chain *nftables.Chain) {
	chain.Type, chain.Priority = nftables.ChainTypeFilter, nftables.ChainPriorityRaw
	c.AddChain(chain)
	for _, r := range []rule{joinRules(matchMark(criuMark), acceptPacket()), joinRules(what, dropPacket())} {
		c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: r})
	}
}

// Unlock undoes Lock. Unlock may be called for a process without a locked network.
func Unlock(pid int) error {
	err := withinNetworkOf(pid, func(c *nftables.Conn) error {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyNetdev} {
			c.DelTable(c.AddTable(newTable(family)))
		}
		return c.Flush()
	})
	if err != nil {
		return fmt.Errorf("unlock network of process %d: %w", pid, err)
	}
	return nil
}

// withinNetworkOf runs f with a new transaction in the network namespace of a process.
func withinNetworkOf(pid int, f func(*nftables.Conn) error) error {
	return withinNetworkNamespace(pid, func() error {
		c, err := newTransaction()
		if err != nil {
			return err
		}
		return f(c)
	})
}
