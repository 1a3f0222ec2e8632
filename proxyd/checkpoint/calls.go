// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// callNode calls a node, this one included, and decodes the reply into into unless that is nil.
// attempt is the number of the checkpoint; 0: the call concerns no checkpoint.
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

// callNodeRetrying is callNode, repeated for the time within while the node's daemon does not
// answer: the daemon may be restarting. The called function may run twice.
func (c *Conductor) callNodeRetrying(ctx context.Context, within time.Duration, node string, job uint32, phase string, body, into any) error {
	away := func(err error) bool { return errors.Is(err, ErrAway) }
	return retryWhile(ctx, within, away, func() error { return c.callNode(ctx, node, job, 0, phase, body, into) })
}

// retryWhile repeats do, for the time within, while its error is transient.
func retryWhile(ctx context.Context, within time.Duration, passes func(error) bool, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if err == nil || !passes(err) || time.Since(began) > within || !sleepUnlessDone(ctx, retryInterval) {
			return err
		}
	}
}

// Phase carries out a call of another node's conductor. The caller has checked that the request
// comes from a daemon of the cluster. phase is one of the names in phases.go, attempt the number
// of a checkpoint or 0.
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
	j := c.jobs.find(id)
	switch {
	case j != nil:
	case phase == callMakeCapsules:
		j = c.jobFor(id)
	case phase == phasePrepare:
		var b prepareRequest
		if err := json.Unmarshal(body, &b); err != nil {
			return nil, err
		}
		if c.jobs.hasLostCapsules(id, b.Run) {
			return nil, errCapsuleLost
		}
		return json.Marshal(prepareReply{}) // No task of the job has run on this node.
	case phase == callResume:
		return json.Marshal(empty{})
	case phase == callView:
		return json.Marshal([]CapsuleView(nil))
	default:
		return nil, fmt.Errorf("job %s: %w", job, ErrNoJob)
	}
	do, ok := jobHandlers[phase]
	if !ok {
		return nil, fmt.Errorf("call %q is not known here: is this proxyd older than the leader's?", phase)
	}
	return encodeReply(do(ctx, j, ckpt, body))
}

func encodeReply(got any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(got)
}

// handler carries out a call for a job of this node, or for the node itself.
type handler[T any] func(ctx context.Context, who T, id store.ID, body []byte) (any, error)

// nodeHandlers has the calls of an upload. The node need not know the job any more.
var nodeHandlers map[string]handler[*Conductor]

// jobHandlers has the calls that concern a job of this node.
var jobHandlers map[string]handler[*job]

func init() { // In init, because the tables refer to functions that refer to the tables.
	nodeHandlers = map[string]handler[*Conductor]{
		callUpload:      decodeFor((*Conductor).uploadHere),
		callShareStatus: decodeFor((*Conductor).shareStatusHere),
		callDropShare:   decodeFor((*Conductor).dropShareHere),
	}
	jobHandlers = map[string]handler[*job]{
		phasePrepare:  byParticipant(decodeFor((*participant).prepareHere)),
		callExchange:  byParticipant(decodeFor((*participant).exchangeHere)),
		phaseFreeze:   byParticipant(decodeFor((*participant).freezeHere)),
		phaseDrain:    byParticipant(decodeFor((*participant).drainHere)),
		phaseHalt:     byParticipant(decodeFor((*participant).freezeBatchHere)),
		phaseDump:     byParticipant(decodeFor((*participant).dumpHere)),
		callHeartbeat: byParticipant(decodeFor((*participant).heartbeatHere)),
		callResume:    byParticipant(decodeFor((*participant).resumeRetrying)),
		callRelease:   byParticipant(decodeFor((*participant).releaseHere)),
		callRequestCheckpoint: decodeFor(func(j *job, ctx context.Context, _ store.ID, w checkpointRequest) (empty, error) {
			_, err := j.c.requestCheckpoint(ctx, j, w)
			return empty{}, err
		}),
		callMakeCapsules: decodeFor(func(j *job, ctx context.Context, _ store.ID, b makeCapsulesRequest) (empty, error) {
			return empty{}, j.restore.makeCapsulesForLeader(ctx, b)
		}),
		callAsksRequeue: decodeFor((*job).asksThere),
		callProgramRuns: decodeFor((*job).runsHere),
		callView:        decodeFor((*job).viewHere),
		callAwaitDecision: decodeFor(func(j *job, ctx context.Context, _ store.ID, _ empty) (empty, error) {
			return empty{}, j.ending.awaitDecisionHere(ctx)
		}),
		callNodeRestored:     byRestore(decodeFor((*restore).nodeRestored)),
		callUnrestored:       byRestore(decodeFor((*restore).unrestoredHere)),
		callReconnectDevices: byRestore(decodeFor((*restore).reconnectHere)),
		callUnlock:           byRestore(decodeFor((*restore).unlockHere)),
	}
}

type empty struct{}

// decodeFor makes a handler of a function: the handler decodes the body for the function.
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

// byParticipant makes a handler for a job of a handler for this node's part in its checkpoints.
func byParticipant(do handler[*participant]) handler[*job] {
	return func(ctx context.Context, j *job, id store.ID, b []byte) (any, error) { return do(ctx, &j.part, id, b) }
}

// byRestore makes a handler for a job of a handler for its restore.
func byRestore(do handler[*restore]) handler[*job] {
	return func(ctx context.Context, j *job, id store.ID, b []byte) (any, error) {
		return do(ctx, &j.restore, id, b)
	}
}

// errOtherAttempt is the answer of a node that takes no part in the named checkpoint.
var errOtherAttempt = errors.New("this node takes no part in that checkpoint")
