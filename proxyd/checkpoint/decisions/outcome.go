// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Departure says whether a job leaves its nodes after a checkpoint, and why. The numbers are those of
// rpc.RequestCheckpointCall_After.
type Departure int

// The departures.
const (
	StaysOnNodes        Departure = iota // the job runs on
	LeavesForRequeue                     // Slurm takes the nodes away and runs the job again by itself
	LeavesForPreemption                  // with grace time: this daemon requeues the job
	LeavesAtTimeLimit                    // this daemon requeues the job after its end
)

// LeavesNodes tells whether the job leaves its nodes.
func (d Departure) LeavesNodes() bool { return d != StaysOnNodes }

// Request is a caller's request for a checkpoint.
type Request struct {
	After  Departure // of the job, once the checkpoint is made
	Reason string
	// HoldAfterwards keeps the job frozen after the checkpoint, for HoldTimeout at most: the
	// caller requeues the job next, so the job must neither lose work nor be captured a second
	// time.
	HoldAfterwards bool
}

// HoldTimeout bounds the wait of a frozen job for its requeue.
const HoldTimeout = 20 * time.Second

// outcomeState says whether the outcome of a checkpoint may still change.
type outcomeState int

const (
	outcomeOpen    outcomeState = iota // requests may still change the outcome
	outcomeHolding                     // the checkpoint is committed, and the frozen job waits for its requeue
	outcomeDecided                     // final
)

// Outcome is the decision about the job after an attempt: the job runs on, or leaves its nodes. Requests that join the
// attempt may change the first into the second until the outcome is decided. All methods may be called concurrently.
//
//	open ──► holding ──► decided
type Outcome struct {
	mu     sync.Mutex
	state  outcomeState
	after  Departure     // if the job leaves its nodes, its processes are released
	reason string        // why the processes are released, for people
	hold   bool          // wait for a requeue before the job runs on
	until  time.Time     // end of that wait; each new request moves it
	over   chan struct{} // closed, and set to nil, to end the wait
}

// NewOutcome returns the outcome that a request wants of the attempt that it starts.
func NewOutcome(request Request) *Outcome {
	return &Outcome{after: request.After, reason: request.Reason, hold: request.HoldAfterwards, over: make(chan struct{})}
}

// JoinRequest adds a request. tooLate means that the job runs on already, although the request wants the job to leave
// or to stay frozen.
func (o *Outcome) JoinRequest(request Request) (tooLate bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outcomeDecided {
		return !o.after.LeavesNodes() && (request.After.LeavesNodes() || request.HoldAfterwards)
	}
	if o.after.LeavesNodes() {
		return false
	}
	o.after, o.reason = request.After, request.Reason
	if request.HoldAfterwards {
		o.hold, o.until = true, time.Now().Add(HoldTimeout)
	}
	if request.After.LeavesNodes() {
		o.endWait()
	}
	return false
}

// endWait ends the wait for a requeue. Caller holds o.mu.
func (o *Outcome) endWait() {
	if o.over != nil {
		close(o.over)
		o.over = nil
	}
}

// StopWaiting ends the wait for a requeue: the job receives a signal.
func (o *Outcome) StopWaiting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endWait()
}

// RunOn ends the wait for a requeue that will not come.
func (o *Outcome) RunOn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hold && !o.after.LeavesNodes() {
		o.endWait()
	}
}

// WaitForRequeue keeps the job frozen, if a request asked for that, until a requeue or the timeout. Afterwards no
// request changes the outcome.
func (o *Outcome) WaitForRequeue(ctx context.Context, log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = outcomeHolding
	o.until = time.Now().Add(HoldTimeout)
	for o.hold && o.over != nil && ctx.Err() == nil {
		over, left := o.over, time.Until(o.until)
		if left <= 0 {
			log.Warn("the frozen job was not requeued in time and runs on")
			break
		}
		o.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
		case <-time.After(left):
		}
		o.mu.Lock()
	}
	o.state = outcomeDecided
}

// LeavesNodes tells whether the job leaves its nodes after the checkpoint, so that no later checkpoint
// can replace it.
func (o *Outcome) LeavesNodes() bool {
	after, _ := o.WhatFollows()
	return after.LeavesNodes()
}

// LeavesOrHolds tells whether the job leaves its nodes after the checkpoint, or stays frozen for a requeue.
func (o *Outcome) LeavesOrHolds() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.after.LeavesNodes() || o.hold
}

// WhatFollows returns the outcome, and for people the reason for which the job leaves its nodes.
func (o *Outcome) WhatFollows() (after Departure, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.after, o.reason
}
