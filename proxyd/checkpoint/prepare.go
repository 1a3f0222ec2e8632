// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// prepareRequest begins an attempt on a node.
type prepareRequest struct {
	Release bool `json:"release"`
	Run     int  `json:"run"`
	Stage   bool `json:"stage,omitempty"` // reserve room in the stage
}

// prepareReply is what a node brings into a checkpoint.
type prepareReply struct {
	Capsules   int        `json:"capsules"`
	Programs   int        `json:"programs"`
	Bytes      uint64     `json:"bytes"` // about what a dump will hold at most
	Obstacles  []Obstacle `json:"obstacles"`
	Unrestored []string   `json:"left"`  // programs whose restore is not over
	Steps      []string   `json:"steps"` // whose sruns run in its capsules

	TaskCounts map[string]int `json:"tasks"` // how many a step has, on all nodes
	TasksHere  map[string]int `json:"here"`  // and how many are known here, ended ones too

	Devices []int `json:"devices,omitempty"` // capsules that have a device server

	Staged bool `json:"staged,omitempty"` // there is room in the stage
}

// ObstacleError says what a job has that cannot be captured.
type ObstacleError struct{ Obstacles []Obstacle }

func (e *ObstacleError) Error() string {
	var all []string
	for _, o := range e.Obstacles {
		all = append(all, o.String())
	}
	return strings.Join(all, "; ")
}

// errRestoring is why a job that is not whole again is not captured.
var errRestoring = errors.New("the job is still being restored")

// errScriptEnded is why a job without its batch script is not captured: restored, it would
// begin anew.
var errScriptEnded = errors.New("the batch script has ended")

// errSignalForwarded is what a node says that has passed on Slurm's SIGTERM, because the last
// attempt had failed: a checkpoint would have processes that were killed.
var errSignalForwarded = errors.New("its processes were told to end already")

var errCheckpointInProgress = errors.New("is in progress here")

// errNothingLeft is why a job that runs for Slurm has no programs on its node.
var errNothingLeft = errors.New("has nothing any more on node")

// IsTransient says that an error of Take is one of the moment: the job is in the middle of
// something that ends by itself.
func IsTransient(err error) bool {
	return errors.Is(err, errRestoring) || errors.Is(err, errCheckpointInProgress) || errors.Is(err, errTasksMissing) || errors.Is(err, errNothingLeft) || errors.Is(err, ErrAway)
}

// prepare asks all nodes what they have, and makes room.
func (a *attempt) prepare(ctx context.Context) error {
	j := a.j
	if err := j.checkBatchRuns(ctx); err != nil {
		return err
	}
	number, err := j.c.nextNumber(ctx, j.id, a.id.Number)
	if err != nil {
		return err
	}
	a.id = store.ID{JobID: j.c.storeJob(j.id), Number: number}
	a.log = a.log.With("checkpoint", number)
	j.mu.Lock()
	today, leaves := j.placement.today, a.after != forwardSignal || a.holdAfterwards
	a.meta = Meta{Record: *j.rec, Run: j.run, Reason: a.reason}
	if lc := j.capsules[0]; lc != nil {
		a.meta.Env = lc.note.FirstEnv
	}
	j.mu.Unlock()

	stage := j.c.Stage != nil && !a.skipStage
	a.nodes, a.reports, a.staged, a.upload = today, map[string]*prepareReply{}, false, nil
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	for _, node := range today {
		g.Go(func() error {
			r := &prepareReply{}
			err := j.c.callNode(gctx, node, j.id, a.id.Number, phasePrepare, prepareRequest{leaves, a.meta.Run, stage}, r)
			mu.Lock()
			defer mu.Unlock()
			a.reports[node] = r
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var bytes uint64
	var found []Obstacle
	j.mu.Lock()
	before := j.lastObstacles
	j.mu.Unlock()
	now := time.Now()
	for node, r := range a.reports {
		bytes += r.Bytes
		for _, o := range r.Obstacles {
			found = append(found, o.withSince(node, now, before))
		}
		if len(r.Unrestored) > 0 {
			return fmt.Errorf("%w: %s", errRestoring, strings.Join(r.Unrestored, ", "))
		}
	}
	if err := a.checkComplete(); err != nil {
		return err
	}
	j.mu.Lock()
	j.lastObstacles = found
	j.mu.Unlock()
	if len(found) > 0 {
		return &ObstacleError{found}
	}
	a.nodes = slices.DeleteFunc(slices.Clone(today), func(n string) bool { return a.reports[n].Capsules == 0 })
	a.staged = stage && !slices.ContainsFunc(a.nodes, func(n string) bool { return !a.reports[n].Staged })
	if a.reservation, err = j.c.Store.Reserve(ctx, a.id.String(), bytes); err != nil {
		return err
	}
	return j.reserveNumber(number)
}

// reserveNumber notes that a number is in use: while the job lives no other checkpoint has it, whatever
// becomes of this one. It is done before anything stands still.
func (j *job) reserveNumber(number uint32) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	rec := *j.rec
	rec.LastNumber, j.rec = number, &rec
	return j.c.records.save(&rec)
}

// checkBatchRuns says whether the batch script is there.
func (j *job) checkBatchRuns(ctx context.Context) error {
	j.mu.Lock()
	lc := j.capsules[0]
	j.mu.Unlock()
	if lc == nil {
		return errScriptEnded
	}
	programs, err := lc.capsule.Programs(ctx)
	if err == nil && !slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == batchProgram && !p.Ended }) {
		err = errScriptEnded
	}
	return err
}

// unprepare gives the room back and ends every node's part; those that never heard of
// the attempt say so.
func (a *attempt) unprepare(ctx context.Context) error {
	a.j.mu.Lock()
	a.nodes = a.j.placement.today
	a.j.mu.Unlock()
	err := a.resumeJob(ctx)
	if a.reservation != nil {
		err = errors.Join(err, a.reservation.Release(ctx))
	}
	return err
}

// nextNumber is one more than any that people may have heard of. An attempt that tries again
// keeps its own, unless a checkpoint came of it; 0: it has none yet.
func (c *Conductor) nextNumber(ctx context.Context, job, own uint32) (uint32, error) {
	id := c.storeJob(job)
	all, err := c.Store.List(ctx, &id)
	if err != nil {
		return 0, err
	}
	var last uint32
	for _, s := range all {
		last = max(last, s.ID.Number)
	}
	if up, err := c.uploads.load(job); err != nil {
		return 0, err
	} else if up != nil {
		last = max(last, up.Number)
	}
	if rec, err := c.records.load(job); err != nil {
		return 0, err
	} else if rec != nil && rec.LastNumber != own {
		last = max(last, rec.LastNumber)
	}
	return max(last+1, own), nil
}

// leaderTimeout is after how long without a word from its leader a node ends its part by
// itself. Every phase until the dump is shorter; from then on the leader says that it lives.
const leaderTimeout = 45 * time.Second

// prepareHere begins this node's part.
func (j *job) prepareHere(ctx context.Context, id store.ID, b prepareRequest) (prepareReply, error) {
	var r prepareReply
	j.mu.Lock()
	other, gaveUp, told := j.membership, j.givenUp, j.signalForwarded
	if gaveUp || told {
		j.mu.Unlock()
		if told {
			return r, errSignalForwarded
		}
		return r, errGivenUp
	}
	if other == nil && len(j.capsules) > 0 {
		j.membership = &membership{id: id, release: b.Release, done: make(chan struct{})}
		j.armLeaderTimeout(j.membership)
	}
	j.mu.Unlock()
	if other != nil {
		return r, fmt.Errorf("checkpoint %s %w", other.id, errCheckpointInProgress)
	}
	for _, lc := range j.localCapsules() {
		r.Capsules++
		if lc.devices != nil {
			used, err := j.deviceBytesUsed(ctx, lc)
			if err != nil {
				return r, err
			}
			r.Bytes += used
			r.Devices = append(r.Devices, lc.index)
		}
		programs, err := lc.capsule.Programs(ctx)
		if err != nil {
			return r, err
		}
		for _, p := range programs {
			if p.Ended || p.Waiting {
				continue
			}
			r.Programs++
			r.Bytes += residentBytes(p)
		}
		found, err := j.findObstacles(lc.capsule, programs)
		if err != nil {
			return r, err
		}
		r.Obstacles = append(r.Obstacles, found...)
		j.mu.Lock()
		r.Unrestored = append(r.Unrestored, lc.note.ProgramsToRestore...)
		r.Steps = slices.AppendSeq(r.Steps, maps.Keys(lc.sruns))
		j.mu.Unlock()
		if err := j.countTasks(ctx, lc, programs, &r); err != nil {
			return r, err
		}
	}
	r.Staged = b.Stage && r.Capsules > 0 && j.reserveStage(id, r.Bytes)
	return r, nil
}

// armLeaderTimeout starts the clock that ends a part whose leader is silent. Caller holds j.mu.
func (j *job) armLeaderTimeout(m *membership) {
	if m.stopLeaderTimeout != nil {
		m.stopLeaderTimeout()
	}
	ctx, cancel := context.WithTimeout(j.c.daemonCtx, leaderTimeout)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			j.log.Warn("the leader is silent", "checkpoint", m.id)
			j.resolveOrphaned(context.WithoutCancel(ctx), m.id, m.release)
		}
	})
	m.stopLeaderTimeout = func() bool { defer cancel(); return stop() }
}

// runningPrograms returns the programs of a capsule that run.
func runningPrograms(ctx context.Context, c *capsule.Capsule) ([]capsule.Program, error) {
	all, err := c.Programs(ctx)
	return slices.DeleteFunc(all, func(p capsule.Program) bool { return p.Ended || p.Waiting }), err
}
