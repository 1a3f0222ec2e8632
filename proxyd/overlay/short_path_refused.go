// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The short path passes by what an administrator, or another program, has set up for the packets of this node. So it is
// used only where there is no such thing.

// refuseShortPath returns the reason not to use s on this node, or "".
func (o *Overlay) refuseShortPath(s *shortPath) (string, error) {
	if o.cfg.ShortPath == ShortPathOff {
		return "switched off", nil
	}
	for _, look := range []func() (string, error){foreignChain, oldIPTables, encryptedTraffic, foreignRoutingRule} {
		if reason, err := look(); reason != "" || err != nil {
			return reason, err
		}
	}
	for index := range s.outer {
		l, err := netlink.LinkByIndex(index)
		if err != nil {
			return "", err
		}
		if _, others, err := ingressFilters(l); others || err != nil {
			return "tc has another filter at " + l.Attrs().Name, err
		}
	}
	return "", nil
}

// foreignChain names a chain of another nftables table that sees packets on their way through the node. Empty chains
// that accept all do not count: many distributions load these.
func foreignChain() (string, error) {
	c, err := newTransaction()
	if err != nil {
		return "", err
	}
	chains, err := c.ListChains()
	if err != nil {
		return "", fmt.Errorf("list chains: %w", err)
	}
	for _, ch := range chains {
		if ch.Hooknum == nil || ch.Table.Name == tableName || !seesForwarded(ch) {
			continue
		}
		drops := ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop
		rules, err := c.GetRules(ch.Table, ch)
		if err != nil {
			return "", fmt.Errorf("rules of chain %s: %w", ch.Name, err)
		}
		if drops || len(rules) > 0 {
			return fmt.Sprintf("nftables has the chain %s of table %s", ch.Name, ch.Table.Name), nil
		}
	}
	return "", nil
}

// seesForwarded tells whether a chain sees packets that the node forwards. The families number their hooks each by
// itself.
func seesForwarded(ch *nftables.Chain) bool {
	switch ch.Table.Family {
	case nftables.TableFamilyNetdev:
		return true
	case nftables.TableFamilyIPv4, nftables.TableFamilyINet:
		return *ch.Hooknum != *nftables.ChainHookInput && *ch.Hooknum != *nftables.ChainHookOutput
	default:
		return false
	}
}

// oldIPTables says that the node has tables of iptables' older variant, which nftables does not show.
func oldIPTables() (string, error) {
	b, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if names := strings.Fields(string(b)); len(names) > 0 {
		return "iptables has the table " + names[0], nil
	}
	return "", err
}

// encryptedTraffic says that the node has policies of IPsec: bpf_redirect_neigh would send packets in clear.
func encryptedTraffic() (string, error) {
	policies, err := netlink.XfrmPolicyList(netlink.FAMILY_ALL)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return "", nil // a kernel without IPsec
	}
	if len(policies) > 0 {
		return "the node has policies of IPsec", err
	}
	return "", err
}

// foreignRoutingRule names a rule for routing that the kernel did not make, as VPNs have.
func foreignRoutingRule() (string, error) {
	rules, err := listRetrying(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return "", fmt.Errorf("list rules: %w", err)
	}
	own := []int{unix.RT_TABLE_LOCAL, unix.RT_TABLE_MAIN, unix.RT_TABLE_DEFAULT}
	for _, r := range rules {
		if !slices.Contains(own, r.Table) {
			return fmt.Sprintf("ip has a rule for table %d", r.Table), nil
		}
	}
	return "", nil
}
