// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package overlay is the network of capsules: each capsule has an address, which moves with the
// capsule.
//
// # The way of a packet
//
//	capsule A                 node 1                          node 2                capsule B
//	┌────────────────┐   ┌──────────────────────┐       ┌──────────────────────┐   ┌──────────┐
//	│ eth0 A/32      │   │ sing812.0  A/32 ─► it│       │B/32 ─► sing812.1     │   │eth0 B/32 │
//	│ default ─► ────┼───┤                      │       │                      ├───┤          │
//	│ 169.254.1.1    │   │ B/32 via node 2      ├───────┤ A/32 via node 1      │   │          │
//	└────────────────┘   └──────────────────────┘       └──────────────────────┘   └──────────┘
//
// A capsule's eth0 is an end of a veth pair; the other end is an interface of the node,
// named sing… . Neither end asks for MACs: the neighbour entries are permanent, and a capsule's MAC is made
// from its address, so that a program sees the same network after a move.
//
// Between nodes that are neighbours (no gateway between them) a capsule's packets travel
// as they are, by a host route per capsule. Where there is a gateway they travel in vxlan, with a
// forwarding table that this package writes: the kernel learns no entries and floods no packets.
//
// Where no other rules look at a node's packets, capsules' packets pass by the nodes' routing and netfilter: see
// short_path.go. What arrives is the same.
//
// # Which packets pass
//
// A capsule talks to the capsules of its own job, to its node, and to every host outside, under the
// node's address (masquerade). A capsule does not talk to capsules of other jobs, wherever they
// run. Its node and the nodes that are neighbours of it can talk to it. An nftables table of ours,
// singularity, says so; firewall.go draws it.
//
// A node forwards for other hosts as before: where forwarding was off on an interface, this package
// turns it on for that interface only, and packets that came in there and do not go to a capsule
// are dropped as before.
//
// # Where a capsule is
//
// Only SetPeers says where a capsule is. A capsule that still runs on a node that was taken for
// dead has an address without a route. The nodes of its old peers drop its packets, because these
// come from another MAC than that of the node which SetPeers named (stray_packets.go).
//
// # Where the state is kept
//
// The kernel has the state: an interface carries its capsule's name and address in its
// alias, routes carry our protocol number, the table has a set for each job. A new process finds
// all of this by Open; Sweep removes entries that are not needed any more. The firewall is always
// written whole, in a single transaction, from the node's interfaces and the peers: a flushed table
// comes back with the next call, and Repair is a call for that.
//
// # Locks
//
//	Overlay.mu    the peers that SetPeers set, and the short path; only the holder changes the node
//
// No call of netlink waits for a capsule under Overlay.mu. Lock and Unlock need no Overlay.
//
// # Limits
//
//   - IPv4 only: eth0 has no IPv6 address; lo has ::1.
//   - A connection to the outside, or between a node and a capsule, ends with a move: ResetConnections. Connections to
//     the outside that a process within the node answers (Divert) can be saved and made again (TakeConnection).
//   - The host of a node behind a gateway cannot reach a capsule: only capsules' packets travel in vxlan.
//   - A packet filter of the node's own that drops forwarded packets also drops packets
//     forwarded to and from capsules. Open finds such filters in nftables: see Overlay.Notes.
//   - Multicast and broadcast stay in the capsule.
package overlay
