// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cut finds a cut of a job over all of its device servers. It joins package barrier, which decides and knows no
// time, to the device servers, which carry out what barrier decides:
//
//	Find ── leaderState ── barrier.Barrier         what the leader knows, and what follows from it
//	  └─ memberLink, one for each device server    Orders ─► Member.Exchange ─► Events
//
// A device server (package server) is a [Member]. For each of its processes a device server keeps a barrier.Gate over
// the two gates of the process's ring: the gate of what is counted, with its permissions and counts, and the gate of
// all calls.
//
// # An attempt
//
//	Open       the server attaches no process any more and holds what arrives to make communicators. It tells
//	           which processes there are, and which members of communicators are made, wait, or have left
//	Shut … ShutCalls, Create   as package barrier has them, for processes instead of ranks
//	Keep, Limit, Stay   when the calls' gates are shut: see Settling
//	Forget     all gates open, what was held goes on; the attempt's number is not taken up again
//
// An attempt is a number, and a server is in one attempt at a time. Numbers rise: when a leader opens a higher number,
// the server forgets the attempt before. Each Exchange renews the server's lease; when no Exchange has come for that
// long, the leader is lost, and the server does Forget by itself. The server saves for an attempt only while its cut
// holds, so a leader that comes back too late cannot commit.
//
// # Settling
//
// The barrier finds which collectives are issued before the cut, the same on all ranks. Which of them are carried out
// before it is found afterwards, when all gates are shut (settlement): Drained says that the server has taken a process's
// messages, not that all is done. Each process tells what it keeps back (Pending), and whether it is quiet; the leader
// says what each may keep back (Order.Limit), and when all are quiet with that, that the cut holds (Order.Stay). A server
// of an earlier version carries out everything, and says Still by itself; a leader of an earlier version does not say
// Keep, and the server does so, too.
//
// # Ranks and communicators
//
// A barrier.Rank is a process of a member, numbered by the member and then by the process. A barrier.Comm is a hash of
// the communicator's identity in package collective, which is the same at all its members.
//
// A communicator becomes known to the barrier when all of its members have been told of. A server tells of a member
// before the program can issue anything with it; but another member's server may be slower. So a report with counts of
// a communicator that is not wholly known waits, and all that its rank reports afterwards waits behind that report.
// That is as if the reports were slow, which the barrier allows for.
//
// A split is an operation of its parent: a split is counted as a collective of the parent and passes the gate like a
// collective. The communicators of a split are entered when they exist. Making a communicator from a unique id is a
// rendezvous: the server holds the processes that arrive during an attempt. So if not all members had come before the
// attempt was opened, only Effects.Create begins the communicator.
//
// A process that is killed takes down its communicators: their lines are compared no more (barrier.Aborted).
package cut
