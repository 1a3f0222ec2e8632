// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// While other nodes dump, the manifest is written and a frozen job waits for its requeue, a node
// hears nothing of its attempt. Heartbeats of the leader tell the node that the leader is alive.

const (
	// Several heartbeats fit into leaderTimeout, also if a node does not answer.
	heartbeatInterval = 10 * time.Second
	// heartbeatLimit is longer than any attempt. A leader that hangs counts as dead.
	heartbeatLimit = 35 * time.Minute
)

// startHeartbeat sends a heartbeat to all nodes of the attempt every heartbeatInterval, until
// endHeartbeat. Errors are only logged: the next phase shows them.
func (a *attempt) startHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeatLimit)
	over := make(chan struct{})
	a.stopHeartbeat = func() {
		cancel()
		<-over
	}
	go func() {
		defer close(over)
		for sleepUnlessDone(ctx, heartbeatInterval) {
			asking, done := context.WithTimeout(ctx, heartbeatInterval)
			if err := a.callEveryNode(asking, calls.Heartbeat, calls.Empty{}); err != nil && ctx.Err() == nil {
				a.log.Info("heartbeat failed on some nodes", "error", err)
			}
			done()
		}
	}()
}

// endHeartbeat returns when no heartbeat is sent any more. It may be called without
// startHeartbeat.
func (a *attempt) endHeartbeat() {
	if a.stopHeartbeat != nil {
		a.stopHeartbeat()
		a.stopHeartbeat = nil
	}
}

// heartbeatHere restarts the leader timeout.
func (p *participant) heartbeatHere(_ context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
	if !p.hearLeader(id) {
		return calls.Empty{}, errOtherAttempt
	}
	return calls.Empty{}, nil
}
