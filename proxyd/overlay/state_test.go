// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// describeState lists all settings of a node that an overlay may change, as text.
func (n *node) describeState() string {
	t := n.lab.t
	t.Helper()
	var lines []string
	failOn(t, withinNamespace(n.ns, func() error {
		all, err := netlink.LinkList()
		if err != nil {
			return err
		}
		names := map[int]string{}
		for _, l := range all {
			names[l.Attrs().Index] = l.Attrs().Name
			lines = append(lines, fmt.Sprintf("link %s %q", l.Attrs().Name, l.Attrs().Alias))
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, r := range routes {
			lines = append(lines, fmt.Sprintf("route %v via %v dev %s", r.Dst, r.Gw, names[r.LinkIndex]))
		}
		neighbours, err := netlink.NeighList(0, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, e := range neighbours {
			if e.State == netlink.NUD_PERMANENT {
				lines = append(lines, fmt.Sprintf("neighbour %v %v", e.IP, e.HardwareAddr))
			}
		}
		lines = append(lines, tableState(t)...)
		return nil
	}))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tableState describes the sets of the thread's table.
func tableState(t testing.TB) (lines []string) {
	c, err := newTransaction()
	if err != nil {
		t.Error(err)
		return nil
	}
	sets, err := c.GetSets(newTable(nftables.TableFamilyIPv4))
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, s := range sets {
		if s.Name == "macs" { // learned, and kept on purpose
			continue
		}
		elements, err := c.GetSetElements(s)
		if err != nil {
			t.Error(err)
		}
		for _, e := range elements {
			lines = append(lines, fmt.Sprintf("set %s %x", s.Name, e.Key))
		}
		if len(elements) == 0 {
			lines = append(lines, "set "+s.Name)
		}
	}
	return lines
}
