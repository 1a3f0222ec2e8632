// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "sync"

// terminationState says what is known of a SIGTERM of Slurm.
type terminationState int

const (
	terminationNone     terminationState = iota // Slurm has sent none in this run
	terminationDeciding                         // programs wait for the decision of handleTermination
	terminationDecided                          // decided; a further SIGTERM is decided again
)

// termination has the programs whose SIGTERM is withheld until handleTermination has decided what
// follows. All methods may be called concurrently.
//
//	none ──► deciding ◄──► decided
type termination struct {
	mu        sync.Mutex
	state     terminationState
	withheld  []withheldSignal
	requester *requester // the program that asked Slurm for a requeue; nil: none did
}

// withholdFor adds a program, and returns true if a decision must be started.
func (t *termination) withholdFor(signal withheldSignal) (start bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = append(t.withheld, signal)
	start = t.state != terminationDeciding
	t.state = terminationDeciding
	return start
}

// endDecision ends a decision, and returns the programs that wait for it.
func (t *termination) endDecision() []withheldSignal {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.withheld
	t.withheld, t.state = nil, terminationDecided
	return all
}

func (t *termination) currentState() terminationState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// forgetEarlierRun forgets what belongs to an earlier run. A decision in progress goes on.
func (t *termination) forgetEarlierRun() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld, t.requester = nil, nil
	if t.state == terminationDecided {
		t.state = terminationNone
	}
}

// forgetWithheld forgets the programs of a run that was removed.
func (t *termination) forgetWithheld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = nil
}

// noteRequester remembers a program that asks Slurm for a requeue.
func (t *termination) noteRequester(r *requester) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requester = r
}

// recentRequester returns the program that asked for the requeue that Slurm makes; nil: no program
// did, or not recently.
func (t *termination) recentRequester() *requester {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.requester.isRecent() {
		return nil
	}
	return t.requester
}
