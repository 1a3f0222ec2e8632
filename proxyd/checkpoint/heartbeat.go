// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A node that has dumped its capsules hears nothing of its own attempt while others dump theirs, the manifest is written, and the job
// stands for its requeue. So that it does not take its leader for dead, that says from time to time that it lives.

const (
	// heartbeatInterval is how often: several times in a lapse, also if a node does not answer.
	heartbeatInterval = 10 * time.Second
	// heartbeatLimit is longer than all that a leader beats for. One that hangs is as good as dead.
	heartbeatLimit = 35 * time.Minute
)

// startHeartbeat has all nodes that take part hear that their leader lives, until beatNoMore. What a node answers is seen when more is asked of it.
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
			if err := a.callEveryNode(asking, callHeartbeat, empty{}); err != nil && ctx.Err() == nil {
				a.log.Info("not all nodes hear their leader", "error", err)
			}
			done()
		}
	}()
}

// endHeartbeat returns when nothing is said any more. It may be called when nothing was.
func (a *attempt) endHeartbeat() {
	if a.stopHeartbeat != nil {
		a.stopHeartbeat()
		a.stopHeartbeat = nil
	}
}

// heartbeatHere hears that the leader lives.
func (j *job) heartbeatHere(_ context.Context, id store.ID, _ empty) (empty, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.membership
	if m == nil || m.id != id {
		return empty{}, errOtherAttempt
	}
	if !m.dumping { // else the end of the call is the end of it
		j.armLeaderTimeout(m)
	}
	return empty{}, nil
}
