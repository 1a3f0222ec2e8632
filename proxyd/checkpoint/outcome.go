// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// outcomeState says how far is decided what follows a checkpoint.
type outcomeState int

const (
	outcomeOpen    outcomeState = iota // requests may still change what follows
	outcomeHolding                     // the checkpoint is committed, and the frozen job waits for its requeue
	outcomeDecided                     // final
)

// outcome is what follows an attempt: the job runs on, or leaves its nodes. Requests that join the
// attempt may change the first into the second until the outcome is decided.
// All methods may be called concurrently.
//
//	open ──► holding ──► decided
type outcome struct {
	mu     sync.Mutex
	state  outcomeState
	after  verdict       // forwardSignal: the job runs on; else its processes are released
	reason string        // why the processes are released, for people
	hold   bool          // wait for a requeue before the job runs on
	until  time.Time     // end of that wait; each new request moves it
	over   chan struct{} // closed, and set to nil, to end the wait
}

func newOutcome(w checkpointRequest) *outcome {
	return &outcome{after: w.After, reason: w.Reason, hold: w.HoldAfterwards, over: make(chan struct{})}
}

// joinRequest adds a request. late means that the job runs on already, although w wants the job to leave
// or to stay frozen.
func (o *outcome) joinRequest(w checkpointRequest) (late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outcomeDecided {
		return o.after == forwardSignal && (w.After != forwardSignal || w.HoldAfterwards)
	}
	if o.after != forwardSignal {
		return false
	}
	o.after, o.reason = w.After, w.Reason
	if w.HoldAfterwards {
		o.hold, o.until = true, time.Now().Add(holdTimeout)
	}
	if w.After != forwardSignal {
		o.endWait()
	}
	return false
}

// endWait ends the wait for a requeue. Caller holds o.mu.
func (o *outcome) endWait() {
	if o.over != nil {
		close(o.over)
		o.over = nil
	}
}

// stopWaiting ends the wait for a requeue: the job receives a signal.
func (o *outcome) stopWaiting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endWait()
}

// runOn ends the wait for a requeue that will not come.
func (o *outcome) runOn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hold && o.after == forwardSignal {
		o.endWait()
	}
}

// waitForRequeue keeps the job frozen, if a request asked for that, until a requeue or the
// timeout. Afterwards no request changes what follows.
func (o *outcome) waitForRequeue(ctx context.Context, log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = outcomeHolding
	o.until = time.Now().Add(holdTimeout)
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

// leavesNodes tells whether the job leaves its nodes after the checkpoint, so that no later checkpoint
// can replace it.
func (o *outcome) leavesNodes() bool {
	after, _ := o.whatFollows()
	return after != forwardSignal
}

// leavesOrHolds tells whether the job leaves its nodes after the checkpoint, or stays frozen for a requeue.
func (o *outcome) leavesOrHolds() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.after != forwardSignal || o.hold
}

// whatFollows returns what follows, and why.
func (o *outcome) whatFollows() (after verdict, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.after, o.reason
}
