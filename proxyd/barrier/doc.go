// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package barrier finds a cut in a job with collectives: a moment at which every rank has
// issued the same operations and no operation is in flight. The Barrier is a state machine
// without clocks, goroutines or sockets: events go in through Step, the actions to take come out
// as Effects, and the caller (package cut) sends and waits. So the tests can try every
// interleaving, and they do.
//
// There are two parts. The leader of the attempt has the [Barrier]. The node of each process that has
// a ring has a [Gate] for the process, beside its counts.
//
// # Which operations are counted, and where
//
// The steady state costs no message and no call. For each handle of a communicator the
// shim keeps, in the header of the process's ring where its device server reads it:
//
//	the collectives that this member has issued     a number       Key{Comm, Member}
//	its sends to each member that it sent to        a number       Key{…, Send, Peer}
//	its receives from each that it received from    a number       Key{…, Recv, Peer}
//
// A number counts issued operations, not completed ones. The number is raised in the reservation
// of the slot that carries the operation, under the lock that all counted operations of a process
// pass, and the gate is tested under that lock: so when the gate shuts, the rank's report has all
// operations that it issued, and no operation follows. All collectives, sends and
// receives of a group (ncclGroupStart … End) are a single operation, with a single slot and
// a single test of the gate at the outermost end; all numbers are raised at once. The launch
// of a graph with collectives in it is such an operation as well; calls captured into a graph
// are neither issued nor counted. A process with several devices is a single Rank with a
// single Gate, though it has several members.
//
// With the gate open this is the load of a word and an addition for each collective,
// in a cache line that the reservation holds anyway. While a gate is shut, threads that wait
// there sleep; each operation let through is reported at once, because other ranks may wait for
// that report.
//
// # The rule
//
// The numbers of all members of a communicator make a line, and so do the sends and
// receives of each direction of a pair. At a cut, all numbers of a line are equal.
//
//	A rank that is below the highest number of ANY of its lines may issue its next
//	operation, of whatever kind. Where that raises a highest number, the number is
//	raised for all at once.
//
// Simpler rules are wrong; testdata/ has a transcript, and the tests a check, for each.
//
//	Start    shut all gates, without waiting: threads may be in a synchronous call,
//	         in host code, or gone                                         (closing)
//	chase    Raise the ranks that are below; Tick: Nudge                       (chasing)
//	level    all numbers equal: Withdraw the nudges that were not used
//	Read     all ranks' numbers again;  a number that grew is a failure    (reading)
//	Drain    counted operations in flight end                              (draining)
//	ShutCalls  the second gate, that of all calls                          (sealing)
//	Cut
//
// Creating a communicator is a rendezvous that the leader's node keeps: a member that
// waits in it can be captured, and asks again when it is restored. The real creation begins
// only when all members have arrived, for all at once. During an attempt it begins only when
// Effects.Create says so. As with any operation, that is when a rank that waits there is behind.
// Before that the wait can be interrupted; afterwards the leader waits for the creation.
//
// A Nudge lets every rank issue a further operation. Nudges are for waits that no count shows: a
// rank that is behind has host code that waits for a rank that is not behind (for a message over
// TCP, a file). A Nudge is given at a Tick, when no rank moves. Its only cost is that the cut may
// no longer be the least.
//
// # Why it is right
//
// For each number let i be the count that the rank has issued, and k the count that it has reported to the leader.
// Always:
//
//	(1) k ≤ i: reports are true, arrive in order, and numbers only grow.
//	(2) A rank with its gate shut issues only if some number of its own is below a
//	    target, or by a nudge.
//	(3) A target is the highest k of its line at some time, so it never exceeds the
//	    highest k now.
//
// Safety. Suppose all gates are known to be shut, on each line all k are equal, and no
// permission is out that numbers do not use up: each nudge was reported as used, or
// its withdrawal was acknowledged, and so were targets on a communicator that broke. Then i = k. For if a rank issued
// an operation after its last report, then before the first such operation its numbers were its k; by (2) a number of
// these was below a target, which by (3) is at most the highest k of its line now; but that is its own k. For the same
// reason no further operation can be issued. So each operation was issued by all ranks that it needs or by no rank, and
// no creation is on the way. The devices of all members have the issued operations, so these end, and Drain waits for
// that; if a stream waits for a step that the host takes only behind the gate, Drain waits until the Deadline. The
// second reading finds the same counts unless a shim is broken; then the attempt fails with the name of that rank.
//
// Minimality. Without nudges, a rank issues at a shut gate only where another rank has truly
// issued more. By induction no rank passes the least fixed point: the smallest numbers, at or
// after the numbers at which the gates shut, that are equal on all lines. An equal state is a
// fixed point, so the cut is that point. In a data-parallel loop it is the count of the furthest
// rank. (A rank with several threads has no least fixed point; the first half still holds.)
//
// Progress. A rank that is behind either issues, or its host code waits for something:
// for another rank that is behind, and so on, or for a rank at a gate, which the next nudge
// lets go. So a job that can run on without a barrier can run on with a barrier. Counts and
// targets only grow, a nudge is spent by an operation, and a Tick without a change has no effect.
// So the search ends, at the latest at the job's next point at which all numbers are equal (the
// optimiser's step, as a rule). If that takes too long there is the Deadline: the attempt fails
// and says which ranks are behind, and on which communicators. Only the program bounds the time:
// groups that are shifted against each other have no cut in between.
//
// The tests drive Step and Gate through every interleaving of small programs, with
// messages delayed and overtaking messages of other ranks, and show all of this: no state is
// stuck, no path is endless, each ends in a safe cut or a failure with a reason. They find the
// mistake in each simpler rule, and compare the cut with the least fixed point found by trying
// all cuts.
//
// # When something breaks
//
//	A rank dies         the attempt fails with its name. Operations that other ranks issued to
//	                    it end with an error, as in NCCL.
//	A rank ends         its issued operations stay issued. It owes no answer and holds no
//	                    permission. If it ends behind somewhere, the attempt fails.
//	Handle destroyed    the same for that member's numbers.
//	Aborted             its lines are compared no more; permissions that came from them
//	                    are withdrawn.
//	A rank is Stuck     the attempt fails at once, with the reason: more time would not help.
//	A report is absurd  (a number goes back, grows at a shut gate, belongs to another)
//	                    the attempt fails with the rank's name. The rank harms its own
//	                    job only, since a Barrier is of a single job.
//	The leader is lost  each member opens its gates and forgets the attempt. Orders of
//	                    an attempt carry its number, and a forgotten attempt is not
//	                    taken up again: the member refuses to dump for it, so it cannot
//	                    be committed. Opening some gates and not all does no harm:
//	                    ranks that are ahead wait as if the rest were slow. Creations on the
//	                    way go on, and creations that were held are asked for again at the next
//	                    leader's rendezvous.
//
// A process that makes its ring during an attempt waits until the attempt is over.
// A failed attempt opens every gate, begins the held creations, and may be repeated later
// with a new Barrier; so may an attempt after a Cut, once the caller has opened the gates.
package barrier
