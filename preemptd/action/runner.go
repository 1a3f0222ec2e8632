// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Slurm is the part of a client of Slurm that actions use. *slurmrest.Client is a Slurm.
type Slurm interface {
	Job(ctx context.Context, ref slurmrest.Ref) (slurmrest.Job, error)
	Update(ctx context.Context, ref slurmrest.Ref, edit slurmrest.JobUpdate) error
	Requeue(ctx context.Context, ref slurmrest.Ref, opt slurmrest.RequeueOptions) (slurmrest.RequeueResult, error)
}

// Proxyd is the part of a client of proxyd that actions use; it asks the node that leads the job. Errors are errors
// of package rpc.
type Proxyd interface {
	// Checkpoint makes a checkpoint of a running job.
	Checkpoint(ctx context.Context, job *slurmrest.Job, reason string) (*rpc.Checkpoint, error)
	// RunOn has a job run on that stands still after a checkpoint.
	RunOn(ctx context.Context, job *slurmrest.Job) error
	// Lend has a running job have so many GPUs on each of its nodes, by jobs of its user that lend it theirs, and
	// returns these jobs. An error means that it has as many as before.
	Lend(ctx context.Context, job *slurmrest.Job, gpus int64, qos string) ([]uint32, error)
	// Show tells of a running job.
	Show(ctx context.Context, job *slurmrest.Job) (*rpc.Job, error)
	// Checkpoints lists the checkpoints of a job.
	Checkpoints(ctx context.Context, job *slurmrest.Job) ([]*rpc.Checkpoint, error)
}

// Journal is the part of the journal that actions use. *journal.Journal is a Journal.
type Journal interface {
	Save(ctx context.Context, a *journal.Action, text string) error
	Origin(ctx context.Context, job int64) (json.RawMessage, error)
	SetOrigin(ctx context.Context, job int64, shape json.RawMessage) error
}

// Patience is how long each step may take before the action is undone. A zero field has
// the default.
type Patience struct {
	Checkpoint time.Duration // 15 minutes
	Leave      time.Duration // until the nodes are free after a requeue; 10 minutes
	Start      time.Duration // until a job that was moved or resized runs, and as long for the restore; 10 minutes
	Other      time.Duration // 3 minutes
}

func (p Patience) withDefaults() Patience {
	for _, d := range []struct {
		at        *time.Duration
		otherwise time.Duration
	}{{&p.Checkpoint, 15 * time.Minute}, {&p.Leave, 10 * time.Minute}, {&p.Start, 10 * time.Minute}, {&p.Other, 3 * time.Minute}} {
		if *d.at == 0 {
			*d.at = d.otherwise
		}
	}
	return p
}

// Runner does actions. A Runner is safe for concurrent use, with a different action in each call.
type Runner struct {
	Slurm    Slurm
	Proxyd   Proxyd
	Journal  Journal
	Patience Patience
	// LeaseQOS is the QOS of the jobs that lend GPUs; nil or "": that of the job that they lend to.
	LeaseQOS func() string
	// Sizes refuses sizes that a job cannot have, before anything is done; nil: Slurm refuses them later.
	Sizes *Sizes
	// Now and Sleep replace the clock; nil: the real clock.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	// Poll is how often a step looks that waits for something; default 1 s.
	Poll time.Duration
}

func (r *Runner) currentTime() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Runner) sleepFor(ctx context.Context, d time.Duration) error {
	if r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (r *Runner) pollInterval() time.Duration {
	if r.Poll == 0 {
		return time.Second
	}
	return r.Poll
}

// Run carries out an action from where the journal left the action to its end, and returns the ended action. Run
// returns an error only if the action has not ended: ctx's, or the journal's, without which no step may be taken.
// Then Run may be called again with the action as the journal has it.
func (r *Runner) Run(ctx context.Context, a journal.Action) (journal.Action, error) {
	w, err := r.loadAction(a)
	if err != nil { // written by a newer preemptd, or by hand
		a.State, a.Problem = journal.Stuck, err.Error()
		return a, r.Journal.Save(ctx, &a, a.Problem)
	}
	for !w.a.State.Ended() {
		if err := w.advance(ctx); err != nil {
			return w.a, fmt.Errorf("action %d: job %d: %s: %w", a.ID, a.Job, a.Kind, err)
		}
	}
	return w.a, nil
}

// actionRun is an action in progress.
type actionRun struct {
	r    *Runner
	a    journal.Action
	kind kind
	args Args
	memo memo
	job  slurmrest.Job // as of the last look
}

func (r *Runner) loadAction(a journal.Action) (*actionRun, error) {
	k, err := findKind(a.Kind)
	if err != nil {
		return nil, err
	}
	w := &actionRun{r: r, a: a, kind: k}
	if err := json.Unmarshal(a.Args, &w.args); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if err := json.Unmarshal(a.Memo, &w.memo); err != nil {
		return nil, fmt.Errorf("memo: %w", err)
	}
	if name, old := oldStepNames[w.a.Step]; old {
		w.a.Step = name
	}
	if w.a.Step == "" {
		w.a.Step = w.currentSteps()[0].name
	}
	if stepIndex(w.currentSteps(), w.a.Step) < 0 {
		return nil, fmt.Errorf("%s has no step %q", a.Kind, a.Step)
	}
	return w, nil
}

// memo is the memory of an action: facts that the action found, and changes that it made.
type memo struct {
	Restarts int64  `json:"restarts"`          // of the job at the action's check
	Ran      bool   `json:"ran,omitempty"`     // the job ran then
	WasHeld  bool   `json:"wasHeld,omitempty"` // the job was held before the action's own hold, by another user
	From     string `json:"from,omitempty"`    // its nodes then

	Checkpoint string `json:"checkpoint,omitempty"`
	RanOn      bool   `json:"ranOn,omitempty"`      // proxyd was told that no requeue follows the checkpoint
	Lent       bool   `json:"lent,omitempty"`       // the job has its size in place, by leases
	Leases     string `json:"leases,omitempty"`     // for people
	ParkSent   bool   `json:"parkSent,omitempty"`   // the action is about to requeue and hold, or hold, the job
	Parked     bool   `json:"parked,omitempty"`     // requeued and held, or held: by us unless WasHeld
	RestartsAt int64  `json:"restartsAt,omitempty"` // of the job when it was parked

	Touched  bool `json:"touched,omitempty"`  // from here on the job may differ from its first state
	Released bool `json:"released,omitempty"` // no hold is ours any more
	// ReleaseMarked: after the release, the job's comment said that it was released.
	ReleaseMarked bool `json:"releaseMarked,omitempty"`

	Found        jobrequest.Request `json:"found"`            // the job's request when it was parked
	Asked        jobrequest.Request `json:"asked"`            // its user's request
	Editor       jobrequest.Editor  `json:"editor"`           // the user or action that had made Found
	SizedBy      jobrequest.Sizer   `json:"sizedBy,omitzero"` // the user or action that had chosen its size
	Target       jobrequest.Request `json:"target"`           // the request that the job is to have
	Edited       bool               `json:"edited,omitempty"` // the job has the request Target
	EditRepeated bool               `json:"again,omitempty"`  // Slurm forgot that, or the release

	// EndsAs is how an action that is being undone will have ended.
	EndsAs    journal.State `json:"then,omitempty"`
	StaysHeld bool          `json:"kept,omitempty"` // a hold of ours could not be released
}

// saveStep writes the action with its memo.
func (w *actionRun) saveStep(ctx context.Context, text string) error {
	raw, err := json.Marshal(w.memo)
	if err != nil {
		return err
	}
	w.a.Memo = raw
	return w.r.Journal.Save(ctx, &w.a, text)
}

func (w *actionRun) jobRef() slurmrest.Ref { return slurmrest.JobID(w.a.Job) }
