// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Policy says to which addresses the relay connects.
type Policy struct {
	// Allow lists the addresses to which the relay connects. Empty: all addresses except its own host's.
	Allow []netip.Prefix
	// Deny lists addresses to which the relay does not connect, although Allow has them.
	Deny []netip.Prefix

	// own returns the addresses of the host, at which the relay may reach services that programs of other hosts may not.
	own func() ([]net.Addr, error)
}

// hostsOwn lists addresses, beside those that package netip knows, which mean different destinations on each host.
var hostsOwn = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("255.255.255.255/32"),
	// Services that a provider of virtual machines has for each of them, with secrets of the machine. Most are at
	// 169.254.0.0/16, which is link-local.
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud, classic
}

// checkAddress returns an error with the reason if the relay does not connect to an address.
func (p *Policy) checkAddress(to netip.AddrPort) error {
	a := to.Addr().Unmap()
	if !a.IsValid() || to.Port() == 0 {
		return fmt.Errorf("%s is no address", to)
	}
	within := func(x netip.Prefix) bool { return x.Contains(a) }
	switch {
	// Loopback, link-local and the relay's own addresses name different hosts on the relay and on the node.
	case a.IsLoopback(), a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), slices.ContainsFunc(hostsOwn, within):
		return fmt.Errorf("%s means another address on each host: the relay does not connect to it", a)
	case !a.Is4(): // capsules have no other addresses to outside
		return fmt.Errorf("%s is no IPv4 address", a)
	case slices.ContainsFunc(p.Deny, within):
		return fmt.Errorf("the site does not let the relay connect to %s (relay.deny)", a)
	case slices.ContainsFunc(p.Allow, within):
		return nil
	case len(p.Allow) > 0:
		return fmt.Errorf("the site does not let the relay connect to %s (relay.allow)", a)
	}
	own := p.own
	if own == nil {
		own = net.InterfaceAddrs
	}
	all, err := own()
	if err != nil {
		return err
	}
	for _, o := range all {
		if x, ok := o.(*net.IPNet); ok && x.IP.Equal(a.AsSlice()) {
			return fmt.Errorf("%s is the relay's own host: it connects there only if relay.allow names that address", a)
		}
	}
	return nil
}
