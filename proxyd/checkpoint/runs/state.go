// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// State says where a run of a job stands on this node.
type State int

// The states of a run.
const (
	Unknown        State = iota // no task of the run has come to this node, or the run is over
	Restoring                   // the programs of its checkpoint are being restored
	Running                     // all its programs run: the run began anew, or all are restored
	Released                    // captured for a requeue, and its processes are ended
	Terminated                  // not captured, and its programs got SIGTERM
	RequeuedItself              // a program of the run had asked for the requeue, and has ended
	GivenUp                     // not to be restored, or without a part that was lost: being ended
	states                      // number of states
)

func (s State) String() string {
	return [...]string{"unknown", "restoring", "running", "released", "terminated", "requeued itself", "given up"}[s]
}

// transitions lists the states that may follow each state.
//
// A restore that is complete changes only the state restoring: programs that got SIGTERM meanwhile
// are not complete any more, and a run that is leaving does not come back.
// A released run is not given up: Slurm is requeueing the job already. A run that was given up may
// be released by a checkpoint that was in progress.
var transitions = [states][]State{
	Unknown:        {Restoring, Running, GivenUp},
	Restoring:      {Unknown, Running, Released, Terminated, RequeuedItself, GivenUp},
	Running:        {Unknown, Released, Terminated, RequeuedItself, GivenUp},
	Released:       {Unknown},
	Terminated:     {Unknown, Released, RequeuedItself, GivenUp},
	RequeuedItself: {Unknown, Released, Terminated, GivenUp},
	GivenUp:        {Unknown, Released},
}

// TransitionError is returned for a transition that transitions does not list.
type TransitionError struct{ from, to State }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a run that is %s cannot become %s", e.from, e.to)
}

// Snapshot is a run at a moment. A record that a snapshot points to is never changed: Run replaces the record.
type Snapshot struct {
	Record    *records.Record // nil: the run was not looked up in Slurm yet
	Number    int             // Slurm's restart count at the start of the run
	Placement records.Placement
	Point     *ResumePoint // nil: the run began anew
	State     State
	been      [states]bool // all states of the run so far
}

// HasBeen tells whether the run is in a state, or was before.
func (s Snapshot) HasBeen(state State) bool { return s.State == state || s.been[state] }

// Meta describes the checkpoint from which the run resumes; nil: the run began anew.
func (s Snapshot) Meta() *records.Meta {
	if s.Point == nil {
		return nil
	}
	return s.Point.Meta
}

// Run is the run of a job that this node knows. All methods may be called concurrently. Snapshot, EnterState and ClosePoint
// wait for no file: mu is taken after all other locks. saving is taken before mu, and is held while a record is written into
// the shared folder, which may take as long as a file server is away.
type Run struct {
	saving sync.Mutex
	mu     sync.Mutex
	now    Snapshot
}

// NewRunAt returns a run that stands at a snapshot, for tests.
func NewRunAt(now Snapshot) Run { return Run{now: now} }

// Snapshot returns the present state of the run.
func (r *Run) Snapshot() Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// SavedRecord returns the record when the changes that have begun are saved: a copy that the caller saves next would
// otherwise be overwritten by an earlier change.
func (r *Run) SavedRecord() *records.Record {
	r.saving.Lock()
	defer r.saving.Unlock()
	return r.Snapshot().Record
}

// BeginNext replaces the run by a run that is restored from point, or begins anew. BeginNext waits until a change of the
// earlier run's record is saved.
func (r *Run) BeginNext(rec *records.Record, number int, nodes []string, point *ResumePoint) {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Point != point {
		r.now.Point.Close()
	}
	first := Running
	if point != nil {
		first = Restoring
	}
	r.now = Snapshot{Record: rec, Number: number, Placement: records.Placement{FirstRun: rec.Nodes, ThisRun: nodes}, Point: point}
	r.now.setState(first)
}

// EnterState makes the run enter a state. If that state may not follow the present state, the run keeps its state and
// the error is a *TransitionError.
func (r *Run) EnterState(next State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(transitions[r.now.State], next) {
		return &TransitionError{r.now.State, next}
	}
	r.now.setState(next)
	return nil
}

func (s *Snapshot) setState(next State) {
	if next == Unknown {
		s.been = [states]bool{}
	}
	s.State, s.been[next] = next, true
}

// ChangeRecord replaces the record by a copy that edit has changed, and saves the copy. Without a record, or if edit
// returns false, nothing is replaced or saved. Records are saved in the order in which they were changed.
func (r *Run) ChangeRecord(save func(*records.Record) error, edit func(*records.Record) bool) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	rec := r.editRecord(edit)
	if rec == nil {
		return nil
	}
	return save(rec)
}

// editRecord replaces the record by a copy that edit has changed, and returns the copy; nil if nothing was replaced.
func (r *Run) editRecord(edit func(*records.Record) bool) *records.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Record == nil {
		return nil
	}
	rec := *r.now.Record
	if !edit(&rec) {
		return nil
	}
	r.now.Record = &rec
	return &rec
}

// ClosePoint closes the checkpoint from which the run resumes: the run is being removed.
func (r *Run) ClosePoint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Point.Close()
	r.now.Point = nil
}
