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
	// beats is how often: several times in a lapse, also if a node does not answer.
	beats = 10 * time.Second
	// beatsWithin is longer than all that a leader beats for. One that hangs is as good as dead.
	beatsWithin = 35 * time.Minute
)

// beat has all nodes that take part hear that their leader lives, until beatNoMore. What a node answers is seen when more is asked of it.
func (a *attempt) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatsWithin)
	over := make(chan struct{})
	a.hush = func() {
		cancel()
		<-over
	}
	go func() {
		defer close(over)
		for wait(ctx, beats) {
			asking, done := context.WithTimeout(ctx, beats)
			if err := a.each(asking, phaseBeat, none{}); err != nil && ctx.Err() == nil {
				a.log.Info("not all nodes hear their leader", "error", err)
			}
			done()
		}
	}()
}

// beatNoMore returns when nothing is said any more. It may be called when nothing was.
func (a *attempt) beatNoMore() {
	if a.hush != nil {
		a.hush()
		a.hush = nil
	}
}

// beatHere hears that the leader lives.
func (j *job) beatHere(_ context.Context, id store.ID, _ none) (none, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.part
	if p == nil || p.id != id {
		return none{}, errOtherAttempt
	}
	if !p.dumping { // else the end of the call is the end of it
		j.wind(p)
	}
	return none{}, nil
}
