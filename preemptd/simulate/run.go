// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
)

// Config is a cluster, and how the cluster is run.
type Config struct {
	Nodes int
	GPUs  int // of each node
	Rules sdk.Rules
	Every time.Duration       // policies are asked
	Tiers map[string]sdk.Tier // of QOS; a QOS that is not in the map has the tier of its name
	// Dump and Restore are for how long a job stands still.
	Dump, Restore time.Duration
	// InPlace is for how long a job stands still while leases give it GPUs of its nodes, or take back what they lent it.
	// 0: no job is lent GPUs, and each resize is a dump and a restore.
	InPlace time.Duration
	// Kill is a cluster without capsules: a preempted job loses the work it has done, and no job can be moved or
	// resized.
	Kill bool
	// Losses has the result say why the GPUs that jobs asked for did no work. That takes a look at each job at every
	// event.
	Losses bool
	// Policies are asked as preemptd asks them. Without policies no job is preempted.
	Policies []chain.NamedPolicy
	// Progress is told now and then how far the simulation is; it may be nil.
	Progress func(Progress)
}

// Progress is how far a trace has been played.
type Progress struct {
	Done, Jobs int
	At         time.Duration // since the trace began
}

// job is a job while the trace is played.
type job struct {
	*Job
	label   string   // once it is submitted
	born    sdk.Tier // its tier in the trace
	sharing sdk.Sharing
	qos     string
	tier    sdk.Tier
	parks   bool // the job will be held when it has left its nodes
	state   sdk.JobState
	gpus    int // that the job holds or waits for
	shares  []sdk.Share
	left    int64 // GPU-milliseconds of work
	turn    int   // counts changes, so that older events are known
	runs    int

	since    int64 // when computing began
	computes bool
	started  int64 // this run
	until    int64 // Slurm believes that this run lasts
	holding  int   // GPUs
	own      int   // of holding: those that Slurm gave the job itself, and not leases
	first    int64 // the first run; -1: no run yet
	acted    int64 // when the job was last disturbed; -1: never
	done     int64
	action   string
	lost     *[Causes]float64 // GPU-milliseconds, if losses are counted
	claim    *claim           // the place that the job waits for, or goes to when its checkpoint is made
}

// claim is a place that becomes free bit by bit.
type claim struct {
	job     *job
	leaving bool          // the job is elsewhere still
	wants   map[int32]int // GPUs that are missing still, by node
	got     []sdk.Share
}

// run is the state of a trace while it is played.
type run struct {
	config  Config
	now     int64 // milliseconds
	seq     int64
	events  []event // a heap
	pool    *pool
	nodes   []sdk.Node // never change
	qos     []sdk.QOS
	jobs    []job
	next    int                // of jobs, to be submitted
	queue   []*job             // in Slurm's order
	running map[sdk.JobID]*job //
	present []*job             // in order of ids, and some that are done
	claims  []*claim
	counter *fraction.Counter
	forget  int64 // when the counter forgets old events next
	dirty   bool  // an event came since policies were asked
	left    int   // jobs that are not done
	asked   int64 // when policies were asked
	alive   int64 // when a job last ran, or was still to be submitted

	nextBackfill int64
	looks        bool   // there will be an event for backfill
	ends         []ends // room for backfill to reckon
	steps        int
	course       course
	holdings     []allocationChange // in order of time
	result       Result
}

// idle is how often policies are asked while no job waits and no event comes: they may go by the clock.
const idle = 5 * time.Minute

// patience is for how long no job may run before a simulation is given up: a policy may let jobs go at night, or on
// Sundays.
const patience = 14 * 24 * time.Hour

// epoch is when a trace begins, for snapshots and the counter of GPU fractions.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *run) timeAt(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// Run plays a trace to its end. The jobs of the trace are in order of their submission.
func Run(ctx context.Context, c Config, trace []Job) (*Result, error) {
	r := &run{
		config: c, pool: newPool(c.Nodes, c.GPUs), nodes: makeNodes(c.Nodes, c.GPUs), jobs: make([]job, len(trace)),
		running: map[sdk.JobID]*job{}, counter: fraction.New(c.Rules.Window), left: len(trace), course: newCourse(),
	}
	for i := range trace {
		t := &trace[i]
		if t.GPUs/t.Nodes > c.GPUs || t.Nodes > c.Nodes {
			return nil, fmt.Errorf("job %d: %s on %s; the cluster has %s with %s each", t.ID, sdk.CountOf(t.GPUs, "GPU"), sdk.CountOf(t.Nodes, "node"), sdk.CountOf(c.Nodes, "node"), sdk.CountOf(c.GPUs, "GPU"))
		}
		tier := fraction.TierOf(t.QOS, c.Tiers)
		r.jobs[i] = job{Job: t, born: tier, sharing: sharingOf(t), tier: tier, qos: t.QOS, state: sdk.Deferred, gpus: t.GPUs, left: workOf(t), first: -1, acted: -1}
	}
	r.qos = allQOS(c, trace)
	if len(c.Policies) > 0 {
		r.scheduleEvent(0, tick, nil)
	}
	for r.left > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.playMoment(ctx); err != nil {
			return nil, err
		}
		if r.steps++; c.Progress != nil && r.steps%1024 == 0 {
			c.Progress(Progress{Done: len(trace) - r.left, Jobs: len(trace), At: time.Duration(r.now) * time.Millisecond})
		}
	}
	return r.makeResult(), nil
}

// allQOS returns the QOS that the trace and the configuration name, and a QOS of each tier.
func allQOS(c Config, trace []Job) []sdk.QOS {
	tiers := maps.Clone(c.Tiers)
	if tiers == nil {
		tiers = map[string]sdk.Tier{}
	}
	for t := range sdk.Tier(sdk.Tiers) {
		tiers[t.String()] = fraction.TierOf(t.String(), c.Tiers)
	}
	for i := range trace {
		tiers[trace[i].QOS] = fraction.TierOf(trace[i].QOS, c.Tiers)
	}
	all := make([]sdk.QOS, 0, len(tiers))
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		all = append(all, sdk.QOS{Name: name, Tier: tiers[name]})
	}
	return all
}

// workOf is the work of a job, in GPU-milliseconds.
func workOf(j *Job) int64 { return j.Duration.Milliseconds() * int64(j.GPUs) }

// playMoment plays the submissions and events of the next moment.
func (r *run) playMoment(ctx context.Context) error {
	when, ok := r.nextMoment()
	if !ok {
		return fmt.Errorf("simulate: %d jobs wait for ever", r.left)
	}
	r.countLosses(when)
	r.course.advanceTo(when)
	r.now = when
	for ; r.next < len(r.jobs) && r.jobs[r.next].Submit.Milliseconds() == r.now; r.next++ {
		r.submitJob(&r.jobs[r.next])
	}
	asks := false
	for len(r.events) > 0 && r.events[0].at == r.now {
		var e event
		e, r.events = heapPop(r.events)
		switch {
		case e.kind == tick:
			asks = true
		case e.kind == look:
			r.looks = false
		case e.turn == e.job.turn:
			r.handleEvent(e)
		}
	}
	r.scheduleJobs()
	if asks {
		if r.dirty || len(r.queue) > 0 || r.now-r.asked >= idle.Milliseconds() {
			r.dirty, r.asked = false, r.now
			if err := r.askPolicies(ctx); err != nil {
				return err
			}
		}
		if len(r.running) > 0 || r.next < len(r.jobs) {
			r.alive = r.now
		}
		if r.now-r.alive > patience.Milliseconds() {
			return fmt.Errorf("simulate: nothing has run for %v, and %d jobs are not done: are they held?", patience, r.left)
		}
		r.scheduleEvent(r.now+r.config.Every.Milliseconds(), tick, nil)
	}
	return nil
}

// nextMoment returns the time of the next event or submission.
func (r *run) nextMoment() (when int64, ok bool) {
	if len(r.events) > 0 {
		when, ok = r.events[0].at, true
	}
	if r.next < len(r.jobs) {
		if submit := r.jobs[r.next].Submit.Milliseconds(); !ok || submit < when {
			when, ok = submit, true
		}
	}
	return when, ok
}

// submitJob has a job come into the queue for the first time.
func (r *run) submitJob(j *job) {
	r.dirty = true
	j.state, j.label = sdk.Waiting, strconv.FormatInt(int64(j.ID), 10)
	if len(r.config.Policies) > 0 {
		at, _ := slices.BinarySearchFunc(r.present, j, func(a, b *job) int { return cmp.Compare(a.ID, b.ID) })
		r.present = slices.Insert(r.present, at, j)
	}
	r.enqueueJob(j)
	r.recordState(j, fraction.Waiting)
}

func (r *run) handleEvent(e event) {
	j := e.job
	r.dirty = true
	switch e.kind {
	case restored:
		r.computeFromNow(j)
	case resized:
		r.endResizeInPlace(j)
	case dumped:
		r.leaveNodes(j)
	case finished:
		r.endComputing(j)
		j.turn++
		r.releaseNodes(j)
		j.state, j.done = sdk.Deferred, r.now
		r.recordState(j, fraction.Ended)
		r.left--
		r.result.countEnd(j)
	}
}

// startJob gives a job nodes. A job that has run before comes back from its checkpoint first.
func (r *run) startJob(j *job, shares []sdk.Share) {
	j.turn++
	j.shares, j.state, j.started, j.action, j.claim = shares, sdk.Running, r.now, "", nil
	j.until, j.holding = r.now+j.plannedTime(), gpusIn(shares)
	j.own = j.holding
	r.running[j.ID] = j
	r.holdings = append(r.holdings, allocationChange{r.now, j.born, j.holding})
	if j.first < 0 {
		j.first = r.now
	}
	if j.runs > 0 && !r.config.Kill {
		r.recordState(j, fraction.Stopped)
		r.scheduleEvent(r.now+r.config.Restore.Milliseconds(), restored, j)
		return
	}
	r.computeFromNow(j)
}

// computeFromNow has a job do its work from now on.
func (r *run) computeFromNow(j *job) {
	j.turn++
	j.computes, j.since = true, r.now
	r.course.now.busy += j.holding
	r.recordState(j, fraction.Running)
	r.scheduleEvent(r.now+j.timeFor(j.left, j.holding), finished, j)
}

// stopJob makes a running job begin its checkpoint, or lose the work it has done.
func (r *run) stopJob(j *job, verb sdk.Verb) {
	r.endComputing(j)
	j.turn++
	j.action, j.acted = verb.String(), r.now
	r.result.countStop(j, verb)
	if r.config.Kill {
		r.result.again += workOf(j.Job) - j.left
		j.left = workOf(j.Job)
		r.leaveNodes(j)
		return
	}
	r.result.still += (r.config.Dump + r.config.Restore).Milliseconds() * int64(j.holding)
	r.recordState(j, fraction.Stopped)
	r.scheduleEvent(r.now+r.config.Dump.Milliseconds(), dumped, j)
}

// leaveNodes takes a job off its nodes: to the queue, or to where it goes next.
func (r *run) leaveNodes(j *job) {
	j.turn++
	j.runs++
	r.releaseNodes(j)
	j.state, j.action = sdk.Waiting, ""
	if j.parks {
		j.state, j.parks = sdk.Held, false
	} else {
		r.enqueueJob(j)
	}
	r.recordState(j, fraction.Waiting)
	if c := j.claim; c != nil {
		c.leaving = false
		r.claims = slices.DeleteFunc(r.claims, r.fillClaim)
	}
}

// releaseNodes gives a job's nodes back: first to the jobs that wait for exactly these nodes.
func (r *run) releaseNodes(j *job) {
	delete(r.running, j.ID)
	r.holdings = append(r.holdings, allocationChange{r.now, j.born, -j.holding})
	r.pool.releaseShares(j.shares)
	j.shares, j.holding, j.computes = nil, 0, false
	r.claims = slices.DeleteFunc(r.claims, r.fillClaim)
}

// endComputing ends a time in which a job computed.
func (r *run) endComputing(j *job) {
	if j.computes {
		did := min(j.left, j.workIn(r.now-j.since, j.holding)) // the last millisecond may be used in part
		j.left -= did
		r.result.computed += did
		r.course.now.busy -= j.holding
	}
	j.computes = false
}

func gpusIn(shares []sdk.Share) int {
	n := 0
	for _, s := range shares {
		n += s.GPUs.Count()
	}
	return n
}

// plannedTime is how long Slurm believes that a job takes: its limit; without a limit, the time
// that is left.
func (j *job) plannedTime() int64 {
	if j.Limit > 0 {
		return j.Limit.Milliseconds()
	}
	return j.timeFor(j.left, j.gpus)
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }

// recordState tells the counter the job's state from now on, if there are policies that will ask.
func (r *run) recordState(j *job, state fraction.State) {
	if len(r.config.Policies) == 0 {
		return
	}
	r.counter.Add(fraction.Event{Job: j.ID, At: r.timeAt(r.now), Run: j.runs, State: state, GPUs: j.holding, Request: j.GPUs, Account: j.Account})
}
