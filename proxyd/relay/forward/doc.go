// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package forward is the process of a capsule ("proxyd forward") that takes the capsule's TCP connections to outside
// and carries them to the relay (package stream). The process runs outside of the capsule, as the job's user, with no
// more rights than that; the node's daemon makes the sockets within the capsule and hands them over.
//
//	capsule                     node
//	program ── TCP, by lo ── │ ── forwarder ── link ──► relay ── TCP ──► the other side
//	                              ▲ orders
//	                              daemon
//
// # Orders
//
// The daemon connects to a socket of packets that the forwarder has inherited. Each packet is an order in JSON,
// which is answered before the next; descriptors come along. Text that is too long for a packet comes in a file
// without a name.
//
//	begin    the relay's address, the ticket of the run, perhaps the listener
//	hold     stand still: answered by batches of connections with their sockets. The forwarder keeps still if
//	         the daemon hangs up
//	go       end hold and pause
//	add      connections of a checkpoint, with their sockets
//	ask      whether the relay can connect to an address for a program: its connect() waits
//	status   the connections, and those that were lost; the number of sockets for clients that it lacks
//	supply   sockets for clients
//	pause    connect no more clients to programs, until go
//
// # Clients
//
// A link for offers tells of clients outside that have connected to a port of the relay's host which stands for a port
// of the job (clients.go). The forwarder connects to the program in the capsule, with a socket of the capsule's network
// that the daemon has made and that has the client's address, and takes the connection from the relay by a link.
//
// # At a checkpoint
//
// After hold, the forwarder reads, writes, sends and accepts no bytes and no connections. The daemon saves the
// forwarder's record of each connection (Saved), and its socket (overlay.TakeConnection). Programs stand still, and the
// network of the capsule is locked, so both ends of each connection within the capsule are of the same moment.
package forward
