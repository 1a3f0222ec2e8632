// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A node that was taken for dead may be alive behind a network that failed, and its
// capsules with it. When the network is back, such a capsule goes on sending to peers
// that were restored meanwhile, from the address that is now a restored capsule's. TCP
// would take its bytes for the other's: sequence numbers fit, since both went on from
// the same checkpoint.
//
// So the firewall drops what has a capsule's address and comes from a node on which that
// capsule is not known to be. A node is known by its MAC: in vxlan that is made from its
// address, else the neighbour table has it. A MAC that no node is known by is let pass: a
// bond may send from several, and to be sure of them is not worth a job that hangs. What
// is sent to a capsule that has moved is not passed on by the node it has left; therefore
// a stray packet only meets nodes of its own job, and those have known its node.

// learn returns the nodes by their MACs. Who was seen once stays: the kernel forgets a
// neighbour that nobody talks to, and that is just when it is needed.
func (o *Overlay) learn() map[string]netip.Addr {
	nodes := o.nodes()
	for node := range nodes {
		o.macs[string(nodeMAC(node))] = node
	}
	// Without the list there are fewer MACs, which is no reason to fail.
	neighbours, _ := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, netlink.FAMILY_V4) })
	for _, n := range neighbours {
		const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
		if node, ok := addrOf(n.IP); ok && nodes[node] && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
			o.macs[string(n.HardwareAddr)] = node
		}
	}
	return o.macs
}

// meet makes the kernel find out the MACs of neighbours, for learn. They answer when they
// like: until then their packets pass.
func meet(nodes map[netip.Addr]path) {
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
