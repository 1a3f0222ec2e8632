// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package obstacles watches a running job for obstacles: parts of the job that cannot be captured. An obstacle counts
// when two looks in a row have found it. Package processes finds the obstacles of a capsule, and package checkpoint
// asks all nodes of a job for theirs.
package obstacles

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
)

const (
	// firstLookDelay is the time from the start of a run to the first look for obstacles. By then programs have opened
	// their files and connections, and little work is done.
	firstLookDelay = 30 * time.Second
	// confirmDelay is the time from a look that finds other obstacles than the look before to the next look.
	confirmDelay = 10 * time.Second
)

// Job is the job that a Watch looks at. Its methods are called by a single goroutine.
type Job interface {
	// FindObstacles returns the present obstacles of the job. complete is false if the run is over, or if a node has not
	// reported the obstacles of its part of the job.
	FindObstacles(ctx context.Context) (found []processes.Obstacle, complete bool)
	// NoteObstacles is called after each complete look, with the obstacles that are settled. changed: other obstacles
	// were settled after the look before.
	NoteObstacles(ctx context.Context, settled []processes.Obstacle, changed bool)
}

// Watch looks for obstacles again and again while a job runs, when there is still time to remove them.
type Watch struct {
	Job   Job
	Every time.Duration // 0: only soon after the start

	found settledObstacles
}

// KeepLooking looks until ctx is done. Call KeepLooking once, when the run starts.
func (w *Watch) KeepLooking(ctx context.Context) {
	wait, confirms := firstLookDelay, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		unsure := w.lookForObstacles(ctx)
		switch {
		case unsure && !confirms:
			wait, confirms = confirmDelay, true
			continue
		case w.Every == 0:
			return
		}
		wait, confirms = w.Every, false
	}
}

// lookForObstacles looks once. unsure: the look found other obstacles than the look before.
func (w *Watch) lookForObstacles(ctx context.Context) (unsure bool) {
	found, complete := w.Job.FindObstacles(ctx)
	if !complete {
		return false
	}
	changed, unsure := w.found.addLook(found)
	w.Job.NoteObstacles(ctx, w.found.listSettled(), changed)
	return unsure
}

// settledObstacles are the obstacles that two looks in a row agree on. An obstacle that comes and goes between looks
// does not count: a look that finds an obstacle for the first time, or misses it for the first time, does not change
// the settled obstacles.
type settledObstacles struct {
	settled, before map[string]processes.Obstacle
}

// addLook takes the obstacles that a look found. changed: other obstacles are settled now. unsure: the look found other
// obstacles than the look before.
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

// listSettled returns the settled obstacles in an order that does not depend on when they were found.
func (s *settledObstacles) listSettled() []processes.Obstacle {
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
