// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// healthWithin limits the look at the shared folder: preemptd waits 5 s for an answer, and ignores later answers.
const healthWithin = 2 * time.Second

// health describes this node for preemptd.
func (n *node) health(ctx context.Context) *rpc.Health {
	return n.describeHealth(ctx, checkpoint.DescribeLoad(n.conductor))
}

func (n *node) describeHealth(ctx context.Context, load checkpoint.Load) *rpc.Health {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	store, stage, err := n.meter.findSpace(ctx)
	h := &rpc.Health{
		Shared: sharedState(err), Store: spaceMessage(store), Stage: spaceMessage(stage),
		Devices: n.cfg.Devices.Kind, Capsules: uint32(load.Capsules), //nolint:gosec // a list in memory
	}
	if n.conductorWait.isOpen() { // else the daemon may still look for the shared folder
		h.SharedId = n.shared.Mark().ID
	}
	for _, j := range load.Led {
		h.Jobs = append(h.Jobs, &rpc.LedJob{Job: j.ID, Run: int32(j.Run), Obstacle: j.Obstacle}) //nolint:gosec // Slurm's restart count
	}
	return h
}

// sharedState returns the state of the shared folder and its store that err means.
func sharedState(err error) rpc.Health_Shared {
	switch {
	case err == nil:
		return rpc.Health_RIGHT
	case errors.Is(err, errStarting):
		return rpc.Health_SHARED_UNSPECIFIED
	case errors.Is(err, shared.ErrUnmarked):
		return rpc.Health_UNMARKED
	case errors.Is(err, shared.ErrOther):
		return rpc.Health_OTHER
	case errors.Is(err, shared.ErrNoStore):
		return rpc.Health_NO_STORE
	case errors.Is(err, shared.ErrOtherStore):
		return rpc.Health_OTHER_STORE
	case errors.Is(err, shared.ErrSilent), errors.Is(err, context.DeadlineExceeded):
		return rpc.Health_SILENT
	}
	return rpc.Health_UNREADABLE
}

func spaceMessage(s *metrics.Space) *rpc.Space {
	if s == nil {
		return nil
	}
	return &rpc.Space{Size: s.Size, Free: s.Free}
}
