// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package collective is the software GPU's NCCL: collectives and messages between the ranks of a
// job, over TCP between device servers. The package works on bytes and ranks; it has no devices.
//
// # Results do not depend on the placement
//
// A process holds any ranks of a communicator. A reduction gives the same bits for every
// distribution of the ranks, every number of processes and every way of the bytes, because the
// reduction is always this tree:
//
//	value of a rank      = the rank's Send; with PreMulSum the Send, multiplied by the rank's factor
//	value of n > 1 ranks = value of the first k ∘ value of the other n-k, where k is the
//	                      largest power of two below n
//
// and each ∘ is rounded to the operation's type. A process merges the vectors of its own ranks
// only along whole subtrees (node, coverRanks); from ranks that form no subtree the process sends
// several contributions. Ranks in aligned blocks of a power of two cost nothing extra.
//
// # Numbers
//
//	sum, prod   integers wrap; floats as IEEE 754, to nearest, ties to even, subnormals kept
//	min, max    give an operand: a number wins against a NaN; -0 is less than +0
//	avg         the sum, then a single division by the number of ranks: floats are rounded once more,
//	            integers cut towards zero
//	premulsum   each rank's vector times its factor, rounded to the type, then the sum
//
// A NaN that is computed is always the same: sign clear, all other bits set (0x7fffffff, 0x7fff, 0x7f …);
// a vector that is not combined with another, in a communicator of a single rank, keeps its own.
// float8 does not overflow: a result that is too large, even infinity as an operand of a sum or product,
// becomes the largest number, as in CUDA's conversions.
//
// # Order
//
// Groups of a rank on a communicator are carried out in the order of Issue. Ranks agree on the
// order of a communicator's collectives, as with NCCL; an operation's kind, type, count, reduction
// and root travel with its messages, and ranks that do not agree get ErrMismatch instead of
// numbers. Sends and receives are matched by their order for each pair of ranks, apart from
// collectives; within a group they happen at the same time and so cannot wait for each other in a
// circle. Communicators are independent: each has connections and goroutines of its own.
//
// # How bytes go
//
// By size, the same for all processes, and without influence on results (tuning):
//
//	small, few processes    each process sends its contributions to every other and computes for itself:
//	                        a single message time, and only that counts below 16 KiB; the work is done
//	                        n times, so from 9 processes on
//	small, many processes   up the reduction tree, down a binomial tree: 2·log₂ n message times
//	large                   in slices: each process gets all contributions to its slice, adds them in
//	                        the tree's order, and sends the result to all. Each process sends and receives
//	                        2·(n-1)/n of the vector, as in a ring, but in two message times. Steps of
//	                        256 KiB a process overlap, three at a time: enough to hide a step's
//	                        arithmetic behind its neighbours' bytes, and small enough for the cache
//
// Memory is three steps' contributions, no more than about 12 MiB. Operations that only move
// bytes (gather, scatter, all-to-all …) go directly between the programs' memories; broadcast
// takes a binomial tree or a chain (see run.broadcastParts).
//
// # Failures
//
// A process that dies, a connection that breaks, a peer that breaks the protocol, Abort: each makes
// the communicator fail in all processes. Every process is connected to every other, and the
// connections carry this communicator only, so the failure reaches all processes directly.
// Operations return when no goroutine touches their memory any more, at most a second later. A
// peer's machine that falls silent is found by the kernel (Config.Dead).
//
// # On the wire
//
// Two processes have a connection for each communicator. The connection begins with a handshake
// (handshake.go), then both sides send frames: a header of 40 bytes (wire.go) and, for some kinds,
// a payload of at most 256 KiB.
//
//	receiver → sender   ready    I have room for message K, of n bytes
//	sender → receiver   data     the next bytes of K; only after ready
//	sender → receiver   eager    all of a collective's small message, before ready; at most 32 that
//	                             the receiver has not taken
//	receiver → sender   credit   number of eager messages that the receiver has taken
//	both                bye      I have sent all that I had to send, and leave
//	both                abort    why the communicator is dead
//
// So a payload's place is known before it comes, and a peer can make a process hold 32 small messages
// and a fixed number of notes, and no more.
//
// # Locks
//
//	Node.mu
//	Comm.mu
//	└ link.mu
//
// No goroutine calls a callback, or waits, with a lock held.
package collective
