// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"sync"
	"time"
)

// TerminationState says whether a SIGTERM of Slurm has come, and whether its meaning is decided.
type TerminationState int

// The states of a run's SIGTERM.
const (
	TerminationNone     TerminationState = iota // Slurm has sent no SIGTERM in this run
	TerminationDeciding                         // programs wait for the decision of the conductor
	TerminationDecided                          // decided; a further SIGTERM is decided again
)

// Termination has the programs from which SIGTERM is withheld until the conductor has decided its meaning. Signal names
// such a program. All methods may be called concurrently.
//
//	none ──► deciding ◄──► decided
type Termination[Signal any] struct {
	mu        sync.Mutex
	state     TerminationState
	withheld  []Signal
	requester *Requester // the program that asked Slurm for a requeue; nil: no program did
}

// WithholdFor adds a program, and returns true if a decision must be started.
func (t *Termination[Signal]) WithholdFor(signal Signal) (start bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = append(t.withheld, signal)
	start = t.state != TerminationDeciding
	t.state = TerminationDeciding
	return start
}

// EndDecision ends a decision, and returns the programs that have waited for the decision.
func (t *Termination[Signal]) EndDecision() []Signal {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.withheld
	t.withheld, t.state = nil, TerminationDecided
	return all
}

// CurrentState tells whether Slurm has sent a SIGTERM, and whether its meaning is decided.
func (t *Termination[Signal]) CurrentState() TerminationState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// ForgetEarlierRun forgets the programs and the decision of an earlier run. A decision in progress goes on.
func (t *Termination[Signal]) ForgetEarlierRun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld, t.requester = nil, nil
	if t.state == TerminationDecided {
		t.state = TerminationNone
	}
}

// ForgetWithheld forgets the programs of a run that was removed.
func (t *Termination[Signal]) ForgetWithheld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = nil
}

// NoteRequester remembers a program that asks Slurm for a requeue.
func (t *Termination[Signal]) NoteRequester(r *Requester) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requester = r
}

// RecentRequester returns the program that asked for the requeue that Slurm makes; nil: no program
// did, or not recently.
func (t *Termination[Signal]) RecentRequester() *Requester {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.requester.isRecent() {
		return nil
	}
	return t.requester
}

// Requester is a program that asked Slurm to requeue a job.
type Requester struct {
	Node    string
	Capsule int
	Program string
	At      time.Time
}

// requestWithin is how long Slurm may take to carry out a requeue that a program asked for.
const requestWithin = 2 * time.Minute

// isRecent says that a request is recent enough to be the cause of the requeue that Slurm makes.
func (r *Requester) isRecent() bool { return r != nil && time.Since(r.At) <= requestWithin }
