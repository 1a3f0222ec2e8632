// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
)

const (
	// firstLookDelay is the time from the start of a run to the first look for what would keep the job from being captured. By
	// then programs have opened what they work with, and little work is done.
	firstLookDelay = 30 * time.Second
	// confirmDelay is the time from a look that finds something else than the look before to the next look.
	confirmDelay = 10 * time.Second
)

// obstacleWatch looks again and again, while a job runs, for what would keep it from being captured, and tells the user:
// there is still time to do something about it. One goroutine uses an obstacleWatch.
type obstacleWatch struct {
	j     *job
	run   int
	every time.Duration // 0: only soon after the start
	found settledObstacles
	text  string // for the job's comment; "": nothing stands in the way
}

// keepLooking looks until ctx is done.
func (w *obstacleWatch) keepLooking(ctx context.Context) {
	wait, confirms := firstLookDelay, false
	for sleepUnlessDone(ctx, wait) {
		unsure := w.lookForObstacles(ctx)
		switch {
		case unsure && !confirms:
			wait, confirms = confirmDelay, true
			continue
		case w.every == 0:
			return
		}
		wait, confirms = w.every, false
	}
}

// lookForObstacles looks once. unsure: the look found something else than the look before.
func (w *obstacleWatch) lookForObstacles(ctx context.Context) (unsure bool) {
	j := w.j
	snap := j.run.Snapshot()
	if snap.Record == nil || snap.Number != w.run || snap.State != runs.Running {
		return false
	}
	views := j.viewAll(ctx, snap.Placement.ThisRun)
	if len(views) < len(snap.Record.Nodes) { // what the other nodes have is not known
		return false
	}
	changed, unsure := w.found.addLook(j.obstaclesOf(views))
	settled := w.found.list()
	j.mu.Lock()
	j.lastObstacles, j.lookedAt = settled, true
	j.mu.Unlock()
	if changed {
		w.reportObstacles(ctx, settled)
	}
	j.report.SetObstacle(ctx, w.text)
	return unsure
}

// reportObstacles tells people what stands in the way now.
func (w *obstacleWatch) reportObstacles(ctx context.Context, settled []processes.Obstacle) {
	if len(settled) == 0 {
		w.text = ""
		w.j.log.Info("the job can be captured again")
		return
	}
	err := &ObstacleError{settled}
	w.text = err.Error()
	w.j.log.Info("the job cannot be captured as it is", "error", err)
	w.j.report.TellObstacle(ctx, err)
}

// settledObstacles are the obstacles that two looks in a row agree on. What comes and goes between looks changes nothing:
// a look that finds an obstacle for the first time, or misses it for the first time, leaves it as it was.
type settledObstacles struct {
	settled, before map[string]processes.Obstacle
}

// addLook takes what a look found. changed: other obstacles are settled now. unsure: the look found something else than
// the look before.
func (s *settledObstacles) addLook(found []processes.Obstacle) (changed, unsure bool) {
	now, next := map[string]processes.Obstacle{}, map[string]processes.Obstacle{}
	for _, o := range found {
		key := strings.Join([]string{o.Node, o.Program, o.Name, o.What}, "\x00") // a successor of the process is the same obstacle
		now[key] = o
		if hasKey(s.before, key) || hasKey(s.settled, key) {
			next[key] = o
		}
	}
	for key, o := range s.settled {
		if !hasKey(now, key) && hasKey(s.before, key) {
			next[key] = o
		}
	}
	changed, unsure = !sameKeys(next, s.settled), !sameKeys(now, s.before)
	s.settled, s.before = next, now
	return changed, unsure
}

// list returns the settled obstacles in an order that does not depend on when they were found.
func (s *settledObstacles) list() []processes.Obstacle {
	return slices.SortedFunc(maps.Values(s.settled), func(a, b processes.Obstacle) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Program, b.Program), cmp.Compare(a.PID, b.PID), cmp.Compare(a.What, b.What))
	})
}

func hasKey[V any](m map[string]V, key string) bool {
	_, has := m[key]
	return has
}

func sameKeys[V any](a, b map[string]V) bool {
	return maps.EqualFunc(a, b, func(V, V) bool { return true })
}

// obstaclesOf returns the obstacles in views of capsules.
func (j *job) obstaclesOf(views []calls.CapsuleView) []processes.Obstacle {
	j.mu.Lock()
	before := j.lastObstacles
	j.mu.Unlock()
	now := time.Now()
	var found []processes.Obstacle
	for _, v := range views {
		for _, o := range v.Obstacles {
			found = append(found, o.WithSince(v.Capsule.GetNode(), now, before))
		}
	}
	return found
}
