// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// runState says where a run of a job stands on this node.
type runState int

const (
	runUnknown        runState = iota // no task of the run has come to this node, or the run is over
	runRestoring                      // the programs of its checkpoint are being restored
	runRunning                        // all its programs run: the run began anew, or all are restored
	runReleased                       // captured for a requeue, and its processes are ended
	runTerminated                     // not captured, and its programs got SIGTERM
	runRequeuedItself                 // a program of the run had asked for the requeue, and has ended
	runGivenUp                        // not to be restored, or without a part that was lost: being ended
	runStates                         // number of states
)

func (s runState) String() string {
	return [...]string{"unknown", "restoring", "running", "released", "terminated", "requeued itself", "given up"}[s]
}

// runTransitions lists the states that may follow each state.
//
// A restore that is complete changes only the state restoring: programs that got SIGTERM meanwhile
// are not complete any more, and a run that is leaving does not come back.
// A released run is not given up: Slurm is requeueing the job already. A run that was given up may
// be released by a checkpoint that was in progress.
var runTransitions = [runStates][]runState{
	runUnknown:        {runRestoring, runRunning, runGivenUp},
	runRestoring:      {runUnknown, runRunning, runReleased, runTerminated, runRequeuedItself, runGivenUp},
	runRunning:        {runUnknown, runReleased, runTerminated, runRequeuedItself, runGivenUp},
	runReleased:       {runUnknown},
	runTerminated:     {runUnknown, runReleased, runRequeuedItself, runGivenUp},
	runRequeuedItself: {runUnknown, runReleased, runTerminated, runGivenUp},
	runGivenUp:        {runUnknown, runReleased},
}

// runTransitionError is returned for a transition that runTransitions does not list.
type runTransitionError struct{ from, to runState }

func (e *runTransitionError) Error() string {
	return fmt.Sprintf("a run that is %s cannot become %s", e.from, e.to)
}

// runSnapshot is a run at a moment. What it points to does not change: a record is replaced.
type runSnapshot struct {
	rec       *records.Record // nil: the run was not looked up in Slurm yet
	number    int             // Slurm's restart count at the start of the run
	placement records.Placement
	point     *resumePoint // nil: the run began anew
	state     runState
	been      [runStates]bool // all states of the run so far
}

// hasBeen tells whether the run is in a state, or was before.
func (s runSnapshot) hasBeen(state runState) bool { return s.state == state || s.been[state] }

// meta describes the checkpoint from which the run resumes; nil: the run began anew.
func (s runSnapshot) meta() *records.Meta {
	if s.point == nil {
		return nil
	}
	return s.point.meta
}

// run is the run of a job that this node knows. All methods may be called concurrently. Its lock is taken
// after all other locks.
type run struct {
	mu  sync.Mutex
	now runSnapshot
}

func (r *run) snapshot() runSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// beginNext replaces the run by a run that is restored from point, or begins anew.
func (r *run) beginNext(rec *records.Record, number int, nodes []string, point *resumePoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.point != point {
		r.now.point.close()
	}
	first := runRunning
	if point != nil {
		first = runRestoring
	}
	r.now = runSnapshot{rec: rec, number: number, placement: records.Placement{First: rec.Nodes, Today: nodes}, point: point}
	r.now.setState(first)
}

// enterState makes the run enter a state. It returns a *runTransitionError, and changes nothing, if the
// state may not follow the present state.
func (r *run) enterState(next runState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(runTransitions[r.now.state], next) {
		return &runTransitionError{r.now.state, next}
	}
	r.now.setState(next)
	return nil
}

func (s *runSnapshot) setState(next runState) {
	if next == runUnknown {
		s.been = [runStates]bool{}
	}
	s.state, s.been[next] = next, true
}

// changeRecord replaces the record by a copy that edit has changed, and saves the copy. It does
// nothing if there is no record or edit returns false.
func (r *run) changeRecord(save func(*records.Record) error, edit func(*records.Record) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.rec == nil {
		return nil
	}
	rec := *r.now.rec
	if !edit(&rec) {
		return nil
	}
	r.now.rec = &rec
	return save(&rec)
}

// closePoint closes the checkpoint from which the run resumes: the run is being removed.
func (r *run) closePoint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.point.close()
	r.now.point = nil
}
