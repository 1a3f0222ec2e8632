// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/obstacles"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// IntervalAuto is the configured interval with which the interval of each job follows from the cost of its checkpoints
// and from how often its nodes fail.
const IntervalAuto time.Duration = -1

// Bounds of an automatic interval. A job that ends within shortestAutoInterval has no periodic checkpoint.
// maxCheckpointShare is the largest share of its time for which a job stands still for periodic checkpoints.
const (
	shortestAutoInterval = 10 * time.Minute
	longestAutoInterval  = 4 * time.Hour
	maxCheckpointShare   = 0.01
)

// autoInterval returns the time between two checkpoints with which a job loses the least, in Young's
// and Daly's first order: sqrt(2 × cost × MTBF). cost is how long the job stands still for a
// checkpoint, 0: not known. nodeMTBF is the mean time between failures of one of its nodes.
func autoInterval(cost, nodeMTBF time.Duration, nodes int) time.Duration {
	mtbf := nodeMTBF.Seconds() / float64(max(nodes, 1))
	best := time.Duration(math.Sqrt(2*cost.Seconds()*mtbf) * float64(time.Second))
	best = min(max(best, shortestAutoInterval), longestAutoInterval)
	return max(best, time.Duration(float64(cost)/maxCheckpointShare))
}

// autoJitter spreads the checkpoints of jobs that began together: an interval is longer by a random
// part, up to this share.
const autoJitter = 0.1

// periodicCheckpoints makes the periodic checkpoints of a run. One goroutine uses it.
type periodicCheckpoints struct {
	j        *job
	every    time.Duration // IntervalAuto: as autoInterval says
	nodeMTBF time.Duration
	nodes    int
	failures int // attempts in a row that made no checkpoint
}

// nextInterval returns the time from the beginning of one checkpoint to that of the next.
func (p *periodicCheckpoints) nextInterval(cost time.Duration) time.Duration {
	if p.every != IntervalAuto {
		return p.every
	}
	// After each checkpoint that has failed, the next comes later.
	d := autoInterval(cost, p.nodeMTBF, p.nodes) << min(p.failures, 3)
	d = min(d, max(longestAutoInterval, autoInterval(cost, p.nodeMTBF, p.nodes)))
	return d + time.Duration(rand.Float64()*autoJitter*float64(d)) //nolint:gosec // no secret
}

// countFailures notes whether a checkpoint was made.
func (p *periodicCheckpoints) countFailures(err error) {
	p.failures++
	if err == nil {
		p.failures = 0
	}
}

// startPeriodic starts the periodic checkpoints, and the looks for obstacles, once a run.
func (j *job) startPeriodic() {
	j.mu.Lock()
	defer j.mu.Unlock()
	run := j.run.Snapshot()
	p := &periodicCheckpoints{j: j, every: run.Record.Options.Interval, nodeMTBF: j.c.NodeMTBF, nodes: len(run.Placement.ThisRun)}
	if p.every == 0 {
		p.every = j.c.Interval
	}
	if j.stopPeriodic != nil {
		return
	}
	ctx, cancel := context.WithCancel(j.c.daemonCtx)
	j.stopPeriodic = cancel
	watch := &obstacles.Watch{Job: &watchedJob{j: j, run: run.Number}, Every: j.c.ObstacleInterval}
	j.c.background.Go(func() { watch.KeepLooking(ctx) })
	if p.every == 0 {
		return
	}
	if meta := run.Meta(); j.captureCost == 0 && meta != nil { // of the checkpoint from which the run resumes
		for _, phase := range meta.Phases {
			j.captureCost += phase.Took
		}
	}
	j.c.background.Go(func() { p.makeCheckpoints(ctx) })
}

// makeCheckpoints makes checkpoints until ctx is done.
func (p *periodicCheckpoints) makeCheckpoints(ctx context.Context) {
	j := p.j
	began := time.Now()
	for {
		cost, captured := j.lastCapture()
		if p.every == IntervalAuto && captured.After(began) { // A checkpoint was made for another reason meanwhile.
			began = captured
		}
		due := began.Add(p.nextInterval(cost))
		if !waits.SleepUnlessDone(ctx, time.Until(due)) {
			return
		}
		if _, captured := j.lastCapture(); p.every == IntervalAuto && captured.After(began) {
			continue
		}
		began = time.Now()
		_, err := j.c.requestCheckpoint(ctx, j, decisions.Request{After: decisions.StaysOnNodes, Reason: "periodic"}, ignorePhase)
		p.countFailures(err)
		if err != nil && ctx.Err() == nil {
			j.log.Warn("periodic checkpoint failed", "error", err)
			if o := (*ObstacleError)(nil); errors.As(err, &o) {
				text := summarizeObstacles(o.Obstacles)
				j.report.TellObstacle(ctx, text)
				if !o.ByCRIU { // the looks take care of the comment from now on
					j.report.SetObstacle(ctx, text)
					continue
				}
			}
			j.report.SetComment(fmt.Sprintf(reports.NoCheckpoint+"%s: %v", time.Now().Format(time.TimeOnly), err))
		}
	}
}

// lastCapture returns how long the newest checkpoint of this run took, and when it began.
func (j *job) lastCapture() (cost time.Duration, began time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.captureCost, j.capturedAt
}

// recordCaptureCost notes the time that a checkpoint took. The job stood still for a part of that time.
func (j *job) recordCaptureCost(began time.Time, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.captureCost, j.capturedAt = took, began
}

// watchedJob is a run of a job as the obstacles.Watch of the run sees it.
type watchedJob struct {
	j    *job
	run  int
	text string // for the job's comment; "": no obstacle
}

// FindObstacles implements obstacles.Job.
func (w *watchedJob) FindObstacles(ctx context.Context) (found []processes.Obstacle, complete bool) {
	j := w.j
	snap := j.run.Snapshot()
	if snap.Record == nil || snap.Number != w.run || snap.State != runs.Running {
		return nil, false
	}
	views := j.viewAll(ctx, snap.Placement.ThisRun)
	return j.obstaclesOf(views), len(views) >= len(snap.Record.Nodes)
}

// NoteObstacles implements obstacles.Job: `singctl show` lists the settled obstacles, and a change is reported to
// the user.
func (w *watchedJob) NoteObstacles(ctx context.Context, settled []processes.Obstacle, changed bool) {
	j := w.j
	j.mu.Lock()
	j.lastObstacles, j.lookedAt = settled, true
	j.mu.Unlock()
	if changed {
		w.reportObstacles(ctx, settled)
	}
	j.report.SetObstacle(ctx, w.text)
}

// reportObstacles tells people of the present obstacles.
func (w *watchedJob) reportObstacles(ctx context.Context, settled []processes.Obstacle) {
	if len(settled) == 0 {
		w.text = ""
		w.j.log.Info("the job can be captured again")
		return
	}
	w.text = summarizeObstacles(settled)
	w.j.log.Info("the job cannot be captured as it is", "error", &ObstacleError{Obstacles: settled})
	w.j.report.TellObstacle(ctx, w.text)
}

// summarizeObstacles names each obstacle once for all processes of a name that have it, such as the ranks of a job.
func summarizeObstacles(found []processes.Obstacle) string {
	type kind struct{ name, what, cure string }
	first, count := []processes.Obstacle{}, map[kind]int{}
	for _, o := range found {
		k := kind{o.Name, o.What, o.Cure}
		if count[k]++; count[k] == 1 {
			first = append(first, o)
		}
	}
	all := make([]string, len(first))
	for i, o := range first {
		all[i] = o.Describe(count[kind{o.Name, o.What, o.Cure}] - 1)
	}
	return strings.Join(all, "; ")
}
