// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A node that was taken for dead may run on behind a failed network, with its capsules. When the
// network is back, such a capsule sends packets to peers that were restored elsewhere meanwhile,
// from an address that now belongs to a restored capsule. TCP would accept its bytes, because the
// sequence numbers continue from the same checkpoint.
//
// So the firewall drops packets with a capsule's address that come from another node than the one
// that SetPeers named for the capsule. A node is recognised by its MAC: with vxlan the MAC is
// computed from the node's address, else the neighbour table has it. Packets from an unknown MAC
// pass: a bond may send from several MACs, and a false drop would make a job hang. A node does not
// forward packets to a capsule that has moved away, so a stray packet only meets nodes of its own
// job, which know its node.

// learnMACs returns the known nodes by their MACs. A MAC that was seen once is kept: the kernel
// forgets idle neighbours, but just these neighbours matter here.
func (o *Overlay) learnMACs() map[string]netip.Addr {
	nodes := o.peerNodes()
	for node := range nodes {
		o.macs[string(nodeMAC(node))] = node
	}
	// Without the list fewer MACs are known, which is no reason to fail.
	neighbours, _ := listRetrying(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, netlink.FAMILY_V4) })
	for _, n := range neighbours {
		const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
		if node, ok := addrOf(n.IP); ok && nodes[node] && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
			o.macs[string(n.HardwareAddr)] = node
		}
	}
	return o.macs
}

// probeNeighbours makes the kernel look up the MACs of neighbours, for learnMACs. Packets of a neighbour pass
// until its MAC is known.
func probeNeighbours(nodes map[netip.Addr]nodePath) {
	for node, p := range nodes {
		if p.gateway || p.here {
			continue
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return
		}
		const discard = 9
		_ = unix.Sendto(fd, nil, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Port: discard, Addr: node.As4()})
		unix.Close(fd)
	}
}
