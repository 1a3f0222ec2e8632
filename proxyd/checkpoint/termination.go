// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"sync"
	"time"
)

// terminationState says what is known of a SIGTERM of Slurm.
type terminationState int

const (
	terminationNone     terminationState = iota // Slurm has sent none in this run
	terminationDeciding                         // programs wait for the decision of the conductor
	terminationDecided                          // decided; a further SIGTERM is decided again
)

// termination has the programs whose SIGTERM is withheld until the conductor has decided what
// follows. Signal names such a program. All methods may be called concurrently.
//
//	none ──► deciding ◄──► decided
type termination[Signal any] struct {
	mu        sync.Mutex
	state     terminationState
	withheld  []Signal
	requester *requester // the program that asked Slurm for a requeue; nil: none did
}

// withholdFor adds a program, and returns true if a decision must be started.
func (t *termination[Signal]) withholdFor(signal Signal) (start bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = append(t.withheld, signal)
	start = t.state != terminationDeciding
	t.state = terminationDeciding
	return start
}

// endDecision ends a decision, and returns the programs that wait for it.
func (t *termination[Signal]) endDecision() []Signal {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.withheld
	t.withheld, t.state = nil, terminationDecided
	return all
}

func (t *termination[Signal]) currentState() terminationState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// forgetEarlierRun forgets what belongs to an earlier run. A decision in progress goes on.
func (t *termination[Signal]) forgetEarlierRun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld, t.requester = nil, nil
	if t.state == terminationDecided {
		t.state = terminationNone
	}
}

// forgetWithheld forgets the programs of a run that was removed.
func (t *termination[Signal]) forgetWithheld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = nil
}

// noteRequester remembers a program that asks Slurm for a requeue.
func (t *termination[Signal]) noteRequester(r *requester) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requester = r
}

// recentRequester returns the program that asked for the requeue that Slurm makes; nil: no program
// did, or not recently.
func (t *termination[Signal]) recentRequester() *requester {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.requester.isRecent() {
		return nil
	}
	return t.requester
}

// requester is a program that asked Slurm to requeue a job.
type requester struct {
	Node    string
	Capsule int
	Program string
	At      time.Time
}

// requestWithin is how long it may take Slurm to do what it was asked for.
const requestWithin = 2 * time.Minute

// isRecent says that a request is recent enough to be what Slurm does.
func (r *requester) isRecent() bool { return r != nil && time.Since(r.At) <= requestWithin }
