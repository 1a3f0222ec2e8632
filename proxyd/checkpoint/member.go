// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ask has a node, this one or another, carry out its part of a phase.
// attempt is the number of the checkpoint, 0 if it is about none.
func (c *Conductor) ask(ctx context.Context, node string, job, attempt uint32, phase string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var got []byte
	if node == c.Node {
		got, err = c.Phase(ctx, name(job), name(attempt), phase, b)
	} else {
		got, err = c.Remote.Phase(ctx, node, name(job), name(attempt), phase, b)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got, into)
}

// insist is ask, and goes on asking for a while when the node's daemon is away: it may
// be starting again. What it asks for may be done twice.
func (c *Conductor) insist(ctx context.Context, within time.Duration, node string, job uint32, phase string, body, into any) error {
	away := func(err error) bool { return errors.Is(err, ErrAway) }
	return persist(ctx, within, away, func() error { return c.ask(ctx, node, job, 0, phase, body, into) })
}

// persist tries again, for a while, what failed for a reason that passes.
func persist(ctx context.Context, within time.Duration, passes func(error) bool, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if err == nil || !passes(err) || time.Since(began) > within || !wait(ctx, awayLook) {
			return err
		}
	}
}

// Phase carries out this node's part of a phase. The caller has made sure that a daemon
// of the cluster asks. attempt names the checkpoint.
func (c *Conductor) Phase(ctx context.Context, job, attempt, phase string, body []byte) ([]byte, error) {
	id, err := parseName(job)
	if err != nil {
		return nil, err
	}
	number, err := parseName(attempt)
	if err != nil {
		return nil, err
	}
	ckpt := store.ID{JobID: c.storeJob(id), Number: number}
	if do, ok := nodes[phase]; ok {
		return answer(do(ctx, c, ckpt, body))
	}
	j := c.known(id)
	switch {
	case j != nil:
	case phase == phaseRaise:
		j = c.job(id)
	case phase == phasePrepare:
		var b prepareBody
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, err
		}
		if c.lost(id, b.Run) {
			return nil, errLost
		}
		return json.Marshal(prepareReply{}) // no task of it has been here
	case phase == phaseResume:
		return json.Marshal(none{})
	case phase == phaseView:
		return json.Marshal([]CapsuleView(nil))
	default:
		return nil, fmt.Errorf("job %s: %w", job, ErrNoJob)
	}
	do, ok := members[phase]
	if !ok {
		return nil, fmt.Errorf("phase %q is not known here: is this proxyd older than its leader?", phase)
	}
	return answer(do(ctx, j, ckpt, body))
}

func answer(got any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(got)
}

// work is what a phase is to a job of this node, or to the node itself.
type work[T any] func(ctx context.Context, who T, id store.ID, body []byte) (any, error)

// nodes is what each phase of an upload is to one node, which need not have the job any
// more.
var nodes map[string]work[*Conductor]

// members is what each phase is to one node.
var members map[string]work[*job]

func init() { // tables that refer to functions which refer to them
	nodes = map[string]work[*Conductor]{
		phaseBring:  with((*Conductor).bringHere),
		phaseShare:  with((*Conductor).shareHere),
		phaseForget: with((*Conductor).forgetHere),
	}
	members = map[string]work[*job]{
		phasePrepare:  with((*job).prepareHere),
		phaseExchange: with((*job).exchangeHere),
		phaseFreeze:   with((*job).freezeHere),
		phaseDrain:    with((*job).drainHere),
		phaseHalt:     with((*job).haltHere),
		phaseDump:     with((*job).dumpHere),
		phaseBeat:     with((*job).beatHere),
		phaseResume:   with((*job).resumeSurely),
		phaseRelease:  with((*job).releaseHere),
		phaseLead: with(func(j *job, ctx context.Context, _ store.ID, w wish) (none, error) {
			_, err := j.c.request(ctx, j, w)
			return none{}, err
		}),
		phaseRaise: with(func(j *job, ctx context.Context, _ store.ID, b raiseBody) (none, error) {
			return none{}, j.raiseFor(ctx, b)
		}),
		phaseView:     with((*job).viewHere),
		phaseLeave:    with((*job).leaveHere),
		phaseRestored: with((*job).restoredThere),
		phaseLeft:     with((*job).leftHere),
		phaseMeet:     with((*job).meetHere),
		phaseOpen:     with((*job).openHere),
	}
}

type none struct{}

// with decodes the body for a member's function.
func with[T, In, Out any](do func(T, context.Context, store.ID, In) (Out, error)) work[T] {
	return func(ctx context.Context, who T, id store.ID, b []byte) (any, error) {
		var in In
		if len(b) > 0 {
			if err := json.Unmarshal(b, &in); err != nil {
				return nil, err
			}
		}
		return do(who, ctx, id, in)
	}
}

// errOtherAttempt is what a node says that takes part in another checkpoint.
var errOtherAttempt = errors.New("this node takes no part in that checkpoint (any more)")

// part is what this node does in an attempt.
type part struct {
	id      store.ID
	release bool
	leads   outlet      // of the leader, whose attempt commits or aborts it
	joined  outlet      // of another node
	room    *stage.Room // in this node's stage
	lapse   func() bool // stops the clock that ends a part whose leader is silent
	dumping bool        // it takes as long as it takes

	over chan struct{} // closed when the capsules run again, or are gone
	gone bool          // the latter; set before
}

// await returns when a part is over.
func (p *part) await(ctx context.Context) error {
	select {
	case <-p.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// taking returns this node's part in an attempt, if it is in that one.
func (j *job) taking(id store.ID) (*part, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.part == nil || j.part.id != id {
		return nil, errOtherAttempt
	}
	return j.part, nil
}
