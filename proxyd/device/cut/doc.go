// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cut finds a cut of a job over all of its device servers. It joins package barrier, which makes the decisions
// and has no clock, to the device servers, which carry them out:
//
//	Find ── leaderState ── barrier.Barrier         events that the leader has heard, and the orders that follow
//	  └─ memberLink, one for each device server    Orders ─► Member.Exchange ─► Events
//
// A device server (package server) is a [Member]. For each of its processes a device server keeps a barrier.Gate over
// the two gates of the process's ring: the gate of the counted operations, with its permissions and counts, and the
// gate of all calls.
//
// # An attempt
//
//	Open       the server attaches no further process and holds the processes that come to make communicators. It tells
//	           which processes there are, and which members of communicators are made, wait, or have left
//	Shut … ShutCalls, Create   as package barrier has them, for processes instead of ranks
//	Keep, Limit, Stay   when the calls' gates are shut: see Settling
//	Forget     all gates open, held processes go on; the attempt's number is not used again
//
// An attempt is a number, and a server is in one attempt at a time. Numbers rise: when a leader opens a higher number,
// the server forgets the attempt before. Each Exchange begins the server's LeaderTimeout anew; when no Exchange has
// come for that long, the server takes the leader for lost and does Forget by itself. The server saves for an attempt
// only while its cut holds, so a leader that comes back too late cannot commit.
//
// # Settling
//
// The barrier finds which collectives are issued before the cut, the same on all ranks. How many of them are carried
// out before the cut is found afterwards, when all gates are shut (settlement): Drained says that the server has taken
// a process's messages, not that their work has ended. Each process reports the operations that it keeps back
// (Pending), and whether it is quiet. The leader orders how many each may keep back (Order.Limit). When all are quiet
// within these limits, the leader orders that the cut holds (Order.Stay). A server of an earlier version carries out
// all operations, and says Still by itself. A leader of an earlier version does not say Keep; then this server does the
// same.
//
// # Ranks and communicators
//
// A barrier.Rank is a process of a member, numbered by the member and then by the process. A barrier.Comm is a hash of
// the communicator's identity in package collective, which is the same at all its members.
//
// A communicator becomes known to the barrier when the servers have reported all of its members. A server reports a
// member before the program can issue anything with it; but another member's server may be slower. So a report with
// counts of a communicator that is not wholly known waits, and all that its rank reports afterwards waits behind that
// report. For the barrier these reports are merely slow, which the barrier allows for.
//
// A split is an operation of its parent: a split is counted as a collective of the parent and passes the gate like a
// collective. The communicators of a split are entered when they exist. Making a communicator from a unique id is a
// rendezvous: the server holds the processes that arrive during an attempt. So if not all members had come before the
// attempt was opened, only Effects.Create begins the communicator.
//
// A process that is killed takes down its communicators: their lines are compared no more (barrier.Aborted).
package cut
