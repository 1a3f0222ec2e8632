// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

// Event is something that happened, of a type below. Events of a rank must be handed to Step in
// the order in which they happened, and events of different ranks in any order. The caller drops
// events of an earlier attempt.
type Event interface{ isEvent() }

// The events that ranks report. Counts are the counts that changed since the rank's last report,
// or more, or all; they are read together with the gate (see the package comment).
type (
	// Shut says that the rank's gate is shut; Counts are all that are not 0.
	Shut struct {
		Rank   Rank
		Counts []Count
	}
	// Issued says that an operation was let through the shut gate; with Nudge, that a nudge let
	// it through, which is used up now. A report may tell of several.
	Issued struct {
		Rank   Rank
		Counts []Count
		Nudge  bool
	}
	// Withdrawn says that the rank has given up all permissions that it held.
	Withdrawn struct {
		Rank   Rank
		Counts []Count
	}
	// Reading answers Effects.Read.
	Reading struct {
		Rank   Rank
		Counts []Count
	}
	// Drained says that no counted operation of the rank is in flight.
	Drained struct{ Rank Rank }
	// CallsShut says that no call of the rank is between reserving a slot and its answer,
	// its host functions have returned, its ring is empty and its device idle.
	CallsShut struct{ Rank Rank }
	// Stuck says that the rank cannot be captured, however long the leader waits, because a fault
	// has ended its use of devices; Reason names the fault.
	Stuck struct {
		Rank   Rank
		Reason string
	}
	// Ended says that the rank exited, or will issue no more operations; Counts are all that are
	// not 0. Its issued operations are still carried out.
	Ended struct {
		Rank   Rank
		Counts []Count
	}
	// Died says that the rank, its device server or its node is gone. Its issued operations are
	// lost.
	Died struct{ Rank Rank }
	// Destroyed says that a member gave up its handle and issues no more operations by it.
	// Counts are that member's numbers that are not 0.
	Destroyed struct {
		Rank   Rank
		Comm   Comm
		Member int32
		Counts []Count
	}
)

// The events that the leader itself sees.
type (
	// Start asks for a cut.
	Start struct{}
	// Met says that all ranks are there for the creation of communicators (among the ranks of the
	// Barrier, as in New). The creation may begin when Effects.Create says so, or, with Begun,
	// has begun already: only before Start.
	Met struct {
		Rendezvous Rendezvous
		Begun      bool
	}
	// Created says that a creation that was begun has finished in all its ranks.
	Created struct{ ID uint64 }
	// Aborted says that the communicator is broken. Operations in flight there end with an error.
	Aborted struct{ Comm Comm }
	// Tick says that for a while, a second say, no event came and no effect was due.
	Tick struct{}
	// Deadline says that the attempt's time is up.
	Deadline struct{}
)

func (Shut) isEvent()      {}
func (Issued) isEvent()    {}
func (Withdrawn) isEvent() {}
func (Reading) isEvent()   {}
func (Drained) isEvent()   {}
func (CallsShut) isEvent() {}
func (Stuck) isEvent()     {}
func (Ended) isEvent()     {}
func (Died) isEvent()      {}
func (Destroyed) isEvent() {}
func (Start) isEvent()     {}
func (Met) isEvent()       {}
func (Created) isEvent()   {}
func (Aborted) isEvent()   {}
func (Tick) isEvent()      {}
func (Deadline) isEvent()  {}

// Effects are the actions that the caller must take after a Step, in this order. Ranks that ended
// are sent no messages. Messages to a rank must arrive in the order in which they were sent.
type Effects struct {
	Shut     bool     // shut every gate, each answers Shut
	Withdraw []Rank   // take back every permission from these, each answers Withdrawn
	Raise    []Raise  // let these ranks go on
	Nudge    []Rank   // let each of these ranks issue another operation, of any kind
	Create   []uint64 // begin these creations
	Read     bool     // read every rank's counts once more, each answers Reading
	Drain    bool     // wait for operations in flight, each answers Drained
	// ShutCalls shuts the gate of all calls, each answers CallsShut.
	ShutCalls bool
	// Cut: the cut is found. It lasts until the caller opens the gates.
	Cut bool
	// Failed has the reason why there is no cut. Every gate opens, creations held at a rendezvous
	// begin, the job runs on.
	Failed *Failure
}

// Raise tells a rank the counts that its partners have issued: the rank may issue its next
// operation, of any kind, as long as a count of the rank is below its target. The targets replace
// the targets of an earlier Raise. They are the targets that the rank is below, sorted.
type Raise struct {
	Rank    Rank
	Targets []Count
}
