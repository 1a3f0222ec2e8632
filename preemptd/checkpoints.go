// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	proxyd "github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// seenCheckpoints keeps the checkpoints that the loop saw last, for the page: a snapshot has the newest of a job only.
type seenCheckpoints struct {
	byJob atomic.Pointer[map[string][]*proxyd.Checkpoint] // by the job's label, oldest first; not changed any more
}

// wrapObserver returns an observer that also keeps the checkpoints that it saw.
func (s *seenCheckpoints) wrapObserver(o reconcile.Observer) reconcile.Observer {
	return &keepingObserver{o, s}
}

type keepingObserver struct {
	reconcile.Observer
	kept *seenCheckpoints
}

// Look looks once.
func (o *keepingObserver) Look(ctx context.Context) (cluster.Observation, error) {
	seen, err := o.Observer.Look(ctx)
	var away *cluster.ProxydError
	if err == nil || errors.As(err, &away) {
		o.kept.byJob.Store(&seen.Checkpoints)
	}
	return seen, err
}

// ofJob returns a job's checkpoints for the page, oldest first.
func (s *seenCheckpoints) ofJob(label string) []web.Checkpoint {
	all := s.byJob.Load()
	if all == nil {
		return nil
	}
	var shown []web.Checkpoint
	for _, c := range (*all)[label] {
		one := web.Checkpoint{
			Number: c.GetNumber(), Made: c.GetCreated().AsTime(), Captured: c.GetLogical(), Stored: c.GetStored(), Reason: c.GetReason(),
			Nodes: c.GetNodes(), Uploading: c.GetState() == "uploading", Problem: c.GetProblem(),
		}
		for _, p := range c.GetPhases() {
			one.Took += p.GetTook().AsDuration()
		}
		shown = append(shown, one)
	}
	return shown
}

// fetchObstacles asks the proxyd that leads a job for the job's obstacles.
func (c *controller) fetchObstacles(ctx context.Context, id int64) ([]web.Obstacle, error) {
	job, err := c.slurm.Job(ctx, slurmrest.JobID(id))
	if err != nil {
		return nil, err
	}
	shown, err := c.newProxyds(c.cfg.Load()).Show(ctx, &job)
	if errors.Is(err, proxyd.ErrNotRunning) {
		return nil, nil // no capsule of the job is there
	}
	if err != nil {
		return nil, err
	}
	return obstacleList(shown.GetObstacles()), nil
}

func obstacleList(found []*proxyd.Obstacle) []web.Obstacle {
	var all []web.Obstacle
	for _, o := range found {
		var where []string
		for _, part := range []string{o.GetProgram(), o.GetNode(), o.GetCommand()} {
			if part != "" {
				where = append(where, part)
			}
		}
		if o.GetPid() != 0 {
			where = append(where, fmt.Sprintf("process %d", o.GetPid()))
		}
		one := web.Obstacle{Where: strings.Join(where, ", "), What: o.GetWhat(), Cure: o.GetCure()}
		if o.GetSince() != nil {
			one.Since = o.GetSince().AsTime()
		}
		all = append(all, one)
	}
	return all
}
