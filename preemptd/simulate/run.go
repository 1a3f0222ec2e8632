// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/ledger"
)

// Config is a cluster, and how it is run.
type Config struct {
	Nodes int
	GPUs  int // of each node
	Rules sdk.Rules
	Every time.Duration       // policies are asked
	Tiers map[string]sdk.Tier // of QOS; those that are not in it have the tier of their name
	// Dump and Restore are for how long a job stands still.
	Dump, Restore time.Duration
	// Kill is a cluster without capsules: a preempted job loses what it has done, and none can
	// be moved or resized.
	Kill bool
	// Decide is asked in order, each on what the ones before leave. None: nobody is preempted.
	Decide []Decide
}

// Decide is one policy: a snapshot in, intents out.
type Decide func(ctx context.Context, s *sdk.Snapshot) ([]sdk.Intent, error)

// job is one job while the trace is played.
type job struct {
	*Job
	tier   sdk.Tier
	state  sdk.JobState
	gpus   int // that it holds or waits for
	shares []sdk.Share
	left   int64 // GPU-milliseconds of work
	turn   int   // counts what changed, so that older events are known
	runs   int

	since    int64 // it computes
	computes bool
	started  int64 // this run
	first    int64 // the first run; -1: none
	acted    int64 // when it was last disturbed; -1: never
	done     int64
	action   string
	claim    *claim // the place that it waits for, or goes to when its checkpoint is made
}

// claim is a place that becomes free bit by bit.
type claim struct {
	job     *job
	leaving bool          // the job is elsewhere still
	wants   map[int32]int // GPUs that are missing still, by node
	got     []sdk.Share
}

// run is one trace being played.
type run struct {
	config  Config
	now     int64 // milliseconds
	seq     int64
	events  events
	pool    *pool
	jobs    []job
	queue   []*job
	running map[sdk.JobID]*job
	claims  []*claim
	ledger  *ledger.Ledger
	dirty   bool // something happened since policies were asked
	left    int  // jobs that are not done

	nextBackfill int64
	looks        bool // there will be an event for it
	result       Result
}

// epoch is when a trace begins, for snapshots and the ledger.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *run) time(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// Run plays a trace to its end.
func Run(ctx context.Context, c Config, trace []Job) (*Result, error) {
	r := &run{config: c, pool: newPool(c.Nodes, c.GPUs), jobs: make([]job, len(trace)), running: map[sdk.JobID]*job{}, ledger: ledger.New(c.Rules.Window), left: len(trace)}
	for i := range trace {
		t := &trace[i]
		if t.GPUs/t.Nodes > c.GPUs || t.Nodes > c.Nodes {
			return nil, fmt.Errorf("job %d: %d GPUs on %d nodes; the cluster has %d nodes with %d", t.ID, t.GPUs, t.Nodes, c.Nodes, c.GPUs)
		}
		r.jobs[i] = job{Job: t, tier: ledger.TierOf(t.QOS, c.Tiers), state: sdk.Deferred, gpus: t.GPUs, left: work(t), first: -1, acted: -1}
		r.at(t.Submit.Milliseconds(), submitted, &r.jobs[i])
	}
	if len(c.Decide) > 0 {
		r.at(0, tick, nil)
	}
	for r.left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.step(ctx); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// work is what a job has to do, in GPU-milliseconds.
func work(j *Job) int64 { return j.Duration.Milliseconds() * int64(j.GPUs) }

// step plays one moment.
func (r *run) step(ctx context.Context) error {
	if len(r.events) == 0 {
		return fmt.Errorf("simulate: %d jobs wait for ever", r.left)
	}
	r.now = r.events[0].at
	asks := false
	for len(r.events) > 0 && r.events[0].at == r.now {
		e, _ := heap.Pop(&r.events).(event)
		switch {
		case e.kind == tick:
			asks = true
		case e.kind == look:
			r.looks = false
		case e.turn == e.job.turn:
			r.happens(e)
		}
	}
	r.schedule()
	if asks {
		if r.dirty || len(r.queue) > 0 {
			if err := r.decide(ctx); err != nil {
				return err
			}
		}
		r.dirty = false
		r.at(r.now+r.config.Every.Milliseconds(), tick, nil)
	}
	return nil
}

func (r *run) happens(e event) {
	j := e.job
	r.dirty = true
	switch e.kind {
	case submitted:
		j.state = sdk.Waiting
		r.enqueue(j)
		r.record(j, ledger.Waiting)
	case restored:
		r.compute(j)
	case dumped:
		r.leave(j)
	case finished:
		r.pause(j)
		j.turn++
		r.release(j)
		j.state, j.done = sdk.Deferred, r.now
		r.record(j, ledger.Ended)
		r.left--
		r.result.ended(j)
	}
}

// start gives a job nodes. One that has run before comes back from its checkpoint first.
func (r *run) start(j *job, shares []sdk.Share) {
	j.turn++
	j.shares, j.state, j.started, j.action, j.claim = shares, sdk.Running, r.now, "", nil
	r.running[j.ID] = j
	if j.first < 0 {
		j.first = r.now
	}
	if j.runs > 0 && !r.config.Kill {
		r.record(j, ledger.Stopped)
		r.at(r.now+r.config.Restore.Milliseconds(), restored, j)
		return
	}
	r.compute(j)
}

// compute has a job do its work from now on.
func (r *run) compute(j *job) {
	j.turn++
	j.computes, j.since = true, r.now
	r.record(j, ledger.Running)
	r.at(r.now+ceil(j.left, int64(j.held())), finished, j)
}

// stop has a running job make its checkpoint, or lose what it has done.
func (r *run) stop(j *job, action string) {
	r.pause(j)
	j.turn++
	j.action, j.acted = action, r.now
	r.result.Preemptions++
	if r.config.Kill {
		r.result.lost += work(j.Job) - j.left
		r.result.again += work(j.Job) - j.left
		j.left = work(j.Job)
		r.leave(j)
		return
	}
	r.result.lost += (r.config.Dump + r.config.Restore).Milliseconds() * int64(j.held())
	r.record(j, ledger.Stopped)
	r.at(r.now+r.config.Dump.Milliseconds(), dumped, j)
}

// leave takes a job off its nodes: to the queue, or to where it goes next.
func (r *run) leave(j *job) {
	j.turn++
	j.runs++
	r.release(j)
	j.state, j.action = sdk.Waiting, ""
	r.enqueue(j)
	r.record(j, ledger.Waiting)
	if c := j.claim; c != nil {
		c.leaving = false
		r.claims = slices.DeleteFunc(r.claims, r.fill)
	}
}

// release gives a job's nodes back: first to who waits for just these.
func (r *run) release(j *job) {
	delete(r.running, j.ID)
	r.pool.give(j.shares)
	j.shares, j.computes = nil, false
	r.claims = slices.DeleteFunc(r.claims, r.fill)
}

// pause ends a time in which a job computed.
func (r *run) pause(j *job) {
	if j.computes {
		did := min(j.left, (r.now-j.since)*int64(j.held())) // the last millisecond may be used in part
		j.left -= did
		r.result.computed += did
	}
	j.computes = false
}

func (j *job) held() int {
	n := 0
	for _, s := range j.shares {
		n += s.GPUs.Count()
	}
	return n
}

// planned is how long Slurm believes that a job takes: its limit. Without one it knows.
func (j *job) planned() int64 {
	if j.Limit > 0 {
		return j.Limit.Milliseconds()
	}
	return ceil(j.left, int64(j.gpus))
}

// expected is when Slurm believes that a running job ends.
func (j *job) expected(now int64) int64 { return max(now+1, j.started+j.planned()) }

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// record tells the ledger what the job does from now on.
func (r *run) record(j *job, state ledger.State) {
	r.ledger.Add(ledger.Event{Job: j.ID, At: r.time(r.now), Run: j.runs, State: state, GPUs: j.held(), Request: j.GPUs, Account: j.Account})
}
