// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package cut finds a cut of a job over all of its device servers. It joins package barrier, which decides and knows no
// time, to those who carry out what it decides:
//
//	Find ── book ── barrier.Barrier          what the leader knows, and what follows from it
//	  └─ post, one for each device server    Orders ─► Member.Exchange ─► Events
//
// A device server (package server) is a [Member]. For each of its processes it keeps a barrier.Gate over the two gates of the
// process's ring: that of what is counted, with its permissions and counts, and that of all calls.
//
// # An attempt
//
//	Open       the server attaches nobody any more and holds what arrives to make communicators. It tells which processes
//	           there are, and the members of communicators: those that are made, wait, or have left
//	Shut … ShutCalls, Create   as package barrier has them, for processes instead of ranks
//	Forget     all gates open, what was held goes on; the attempt's number is not taken up again
//
// One attempt is one number, and a server is in one attempt at a time. Numbers rise: who opens a higher one has the server forget the
// one before. Each Exchange renews the server's lease; when nobody has come for that long, the leader is lost, and the server does
// Forget by itself. It saves for an attempt only while its cut holds, so a leader that comes back too late cannot commit.
//
// # Ranks and communicators
//
// A barrier.Rank is a process of a member, numbered by the member and then by the process. A barrier.Comm is a hash of what
// package collective calls the communicator's identity, which is the same at all its members.
//
// A communicator becomes known to the barrier when all of its members have been told of. A server tells of a member before the
// program can issue anything with it; but another one's may be slower, so a report with counts of a communicator that is not wholly known
// waits, and all that its rank reports afterwards waits behind it. That is as if the reports were slow, which the barrier allows for.
//
// A split is an operation of its parent: it is counted as one of its collectives and passes the gate as one. What comes of it
// is entered when it is there. Making a communicator from a unique id is a rendezvous: the server holds who arrives during an
// attempt, so that one of which all members had not come when it was opened is begun by Effects.Create only.
//
// A process that is killed takes down the communicators that it was in: their lines are compared no more (barrier.Aborted).
package cut
