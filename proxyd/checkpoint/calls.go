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

// callNode has a node, this one or another, carry out its part of a phase.
// attempt is the number of the checkpoint, 0 if it is about none.
func (c *Conductor) callNode(ctx context.Context, node string, job, attempt uint32, phase string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var got []byte
	if node == c.Node {
		got, err = c.Phase(ctx, jobName(job), jobName(attempt), phase, b)
	} else {
		got, err = c.Remote.Phase(ctx, node, jobName(job), jobName(attempt), phase, b)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got, into)
}

// callNodeRetrying is ask, and goes on asking for a while when the node's daemon is away: it may
// be starting again. What it asks for may be done twice.
func (c *Conductor) callNodeRetrying(ctx context.Context, within time.Duration, node string, job uint32, phase string, body, into any) error {
	away := func(err error) bool { return errors.Is(err, ErrAway) }
	return retryWhile(ctx, within, away, func() error { return c.callNode(ctx, node, job, 0, phase, body, into) })
}

// retryWhile tries again, for a while, what failed for a reason that passes.
func retryWhile(ctx context.Context, within time.Duration, passes func(error) bool, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if err == nil || !passes(err) || time.Since(began) > within || !sleepUnlessDone(ctx, retryInterval) {
			return err
		}
	}
}

// Phase carries out this node's part of a phase. The caller has made sure that a daemon
// of the cluster asks. attempt names the checkpoint.
func (c *Conductor) Phase(ctx context.Context, job, attempt, phase string, body []byte) ([]byte, error) {
	id, err := parseJobName(job)
	if err != nil {
		return nil, err
	}
	number, err := parseJobName(attempt)
	if err != nil {
		return nil, err
	}
	ckpt := store.ID{JobID: c.storeJob(id), Number: number}
	if do, ok := nodeHandlers[phase]; ok {
		return encodeReply(do(ctx, c, ckpt, body))
	}
	j := c.findJob(id)
	switch {
	case j != nil:
	case phase == callMakeCapsules:
		j = c.jobFor(id)
	case phase == phasePrepare:
		var b prepareRequest
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, err
		}
		if c.hasLostCapsules(id, b.Run) {
			return nil, errCapsuleLost
		}
		return json.Marshal(prepareReply{}) // no task of it has been here
	case phase == callResume:
		return json.Marshal(empty{})
	case phase == callView:
		return json.Marshal([]CapsuleView(nil))
	default:
		return nil, fmt.Errorf("job %s: %w", job, ErrNoJob)
	}
	do, ok := jobHandlers[phase]
	if !ok {
		return nil, fmt.Errorf("phase %q is not known here: is this proxyd older than its leader?", phase)
	}
	return encodeReply(do(ctx, j, ckpt, body))
}

func encodeReply(got any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(got)
}

// handler is what a phase is to a job of this node, or to the node itself.
type handler[T any] func(ctx context.Context, who T, id store.ID, body []byte) (any, error)

// nodeHandlers is what each phase of an upload is to one node, which need not have the job any
// more.
var nodeHandlers map[string]handler[*Conductor]

// jobHandlers is what each phase is to one node.
var jobHandlers map[string]handler[*job]

func init() { // tables that refer to functions which refer to them
	nodeHandlers = map[string]handler[*Conductor]{
		callUpload:      decodeFor((*Conductor).uploadHere),
		callShareStatus: decodeFor((*Conductor).shareStatusHere),
		callDropShare:   decodeFor((*Conductor).dropShareHere),
	}
	jobHandlers = map[string]handler[*job]{
		phasePrepare:  decodeFor((*job).prepareHere),
		callExchange:  decodeFor((*job).exchangeHere),
		phaseFreeze:   decodeFor((*job).freezeHere),
		phaseDrain:    decodeFor((*job).drainHere),
		phaseHalt:     decodeFor((*job).freezeBatchHere),
		phaseDump:     decodeFor((*job).dumpHere),
		callHeartbeat: decodeFor((*job).heartbeatHere),
		callResume:    decodeFor((*job).resumeRetrying),
		callRelease:   decodeFor((*job).releaseHere),
		callRequestCheckpoint: decodeFor(func(j *job, ctx context.Context, _ store.ID, w checkpointRequest) (empty, error) {
			_, err := j.c.requestCheckpoint(ctx, j, w)
			return empty{}, err
		}),
		callMakeCapsules: decodeFor(func(j *job, ctx context.Context, _ store.ID, b makeCapsulesRequest) (empty, error) {
			return empty{}, j.makeCapsulesForLeader(ctx, b)
		}),
		callView:             decodeFor((*job).viewHere),
		callAwaitDecision:    decodeFor((*job).awaitDecisionHere),
		callNodeRestored:     decodeFor((*job).nodeRestored),
		callUnrestored:       decodeFor((*job).unrestoredHere),
		callReconnectDevices: decodeFor((*job).reconnectHere),
		callUnlock:           decodeFor((*job).unlockHere),
	}
}

type empty struct{}

// decodeFor decodes the body for a member's function.
func decodeFor[T, In, Out any](do func(T, context.Context, store.ID, In) (Out, error)) handler[T] {
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

// membership is what this node does in an attempt.
type membership struct {
	id                store.ID
	release           bool
	leaderWriter      shareWriter // of the leader, whose attempt commits or aborts it
	ownWriter         shareWriter // of another node
	stageRoom         *stage.Room // in this node's stage
	stopLeaderTimeout func() bool // stops the clock that ends a part whose leader is silent
	dumping           bool        // it takes as long as it takes

	done         chan struct{} // closed when the capsules run again, or are gone
	capsulesGone bool          // the latter; set before
}

// wait returns when a part is over.
func (m *membership) wait(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// membershipIn returns this node's part in an attempt, if it is in that one.
func (j *job) membershipIn(id store.ID) (*membership, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.membership == nil || j.membership.id != id {
		return nil, errOtherAttempt
	}
	return j.membership, nil
}
