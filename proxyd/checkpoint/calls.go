// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// callNode calls a node, also this node, and stores the reply in into unless that is nil. call is
// a name of package calls, args its arguments. attempt is the number of the checkpoint; 0: the
// call concerns no checkpoint.
func (c *Conductor) callNode(ctx context.Context, node string, job, attempt uint32, call string, args, into any) error {
	req, err := calls.EncodeCall(call, args)
	if err != nil {
		return err
	}
	req.Job, req.Attempt = slurm.JobName(job), attempt
	var reply *rpc.CallReply
	if node == c.Node {
		reply, err = c.Call(ctx, req)
	} else {
		reply, err = c.Remote.Call(ctx, node, req)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	if into == nil {
		return nil
	}
	return calls.DecodeReply(reply, into)
}

// callNodeRetrying is callNode, repeated for the time within while the node's daemon does not
// answer, or slurmctld, which knows the node's address: they may be restarting. The called function may run twice.
func (c *Conductor) callNodeRetrying(ctx context.Context, within time.Duration, node string, job uint32, call string, args, into any) error {
	away := func(err error) bool { return errors.Is(err, ErrAway) || errors.Is(err, slurm.ErrSilent) }
	return retryWhile(ctx, within, away, func() error { return c.callNode(ctx, node, job, 0, call, args, into) })
}

// retryWhile repeats do, for the time within, while its error is transient.
func retryWhile(ctx context.Context, within time.Duration, isTransient func(error) bool, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if err == nil || !isTransient(err) || time.Since(began) > within || !waits.SleepUnlessDone(ctx, retryInterval) {
			return err
		}
	}
}

// Call carries out a call of another node's conductor. The caller has checked that the request
// comes from a daemon of the cluster.
func (c *Conductor) Call(ctx context.Context, req *rpc.CallRequest) (*rpc.CallReply, error) {
	id, err := parseJobName(req.GetJob())
	if err != nil {
		return nil, err
	}
	call, args, err := calls.DecodeCall(req)
	if err != nil {
		return nil, err
	}
	reply, err := c.handleCall(ctx, store.ID{JobID: store.PlainJob(c.Cluster, id), Number: req.GetAttempt()}, call, args)
	if err != nil {
		return nil, markTransient(err)
	}
	return calls.EncodeReply(reply)
}

// handleCall carries out a call about a checkpoint of a job, or about the job.
func (c *Conductor) handleCall(ctx context.Context, ckpt store.ID, call string, args any) (any, error) {
	if do, ok := nodeHandlers[call]; ok {
		return do(ctx, c, ckpt, args)
	}
	j := c.jobs.findJob(ckpt.Job)
	switch {
	case j != nil:
	case call == calls.MakeCapsules:
		j = c.jobFor(ckpt.Job)
	case call == calls.PhasePrepare:
		if b, ok := args.(calls.PrepareArgs); ok && c.jobs.hasLostCapsules(ckpt.Job, b.Run) {
			return nil, errCapsuleLost
		}
		return calls.PrepareReply{}, nil // No task of the job has run on this node.
	case call == calls.Resume:
		return calls.Empty{}, nil
	case call == calls.View:
		return []calls.CapsuleView(nil), nil
	default:
		return nil, notHereError{ckpt.Job}
	}
	do, ok := jobHandlers[call]
	if !ok {
		return nil, calls.ErrUnknown
	}
	return do(ctx, j, ckpt, args)
}

// notHereError is the answer of a node to a call about a job that the node has no part of, or no more. Other nodes receive
// rpc.ErrNotHere.
type notHereError struct{ job uint32 }

func (e notHereError) Error() string { return fmt.Sprintf("job %d: %v", e.job, ErrNoJob) }

// Is implements the interface of errors.Is.
func (e notHereError) Is(target error) bool { return target == ErrNoJob || target == rpc.ErrNotHere }

// handler carries out a call for a job of this node, or for the node itself.
type handler[T any] func(ctx context.Context, callee T, id store.ID, args any) (any, error)

// nodeHandlers has the calls of an upload. The node need not know the job any more.
var nodeHandlers map[string]handler[*Conductor]

// jobHandlers has the calls that concern a job of this node.
var jobHandlers map[string]handler[*job]

func init() { // In init, because the tables refer to functions that refer to the tables.
	nodeHandlers = map[string]handler[*Conductor]{
		calls.UploadShare: handlerOf(func(c *Conductor, ctx context.Context, id store.ID, b calls.UploadShareArgs) (upload.ShareReply, error) {
			return c.uploads.UploadShareHere(ctx, id, b.Ticket)
		}),
		calls.ShareStatus: handlerOf(func(c *Conductor, _ context.Context, id store.ID, _ calls.Empty) (upload.ShareStatus, error) {
			return c.uploads.ShareStatusHere(id)
		}),
		calls.DropShare: handlerOf(func(c *Conductor, _ context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
			return calls.Empty{}, c.uploads.DropShareHere(id)
		}),
	}
	jobHandlers = map[string]handler[*job]{
		calls.PhasePrepare: participantHandler(handlerOf((*participant).prepareHere)),
		calls.Exchange:     participantHandler(handlerOf((*participant).exchangeHere)),
		calls.PhaseFreeze:  participantHandler(handlerOf((*participant).freezeHere)),
		calls.PhaseDrain:   participantHandler(handlerOf((*participant).drainHere)),
		calls.PhaseHalt:    participantHandler(handlerOf((*participant).freezeBatchHere)),
		calls.PhaseDump:    participantHandler(handlerOf((*participant).dumpHere)),
		calls.Heartbeat:    participantHandler(handlerOf((*participant).heartbeatHere)),
		calls.Resume:       participantHandler(handlerOf((*participant).resumeRetrying)),
		calls.Release:      participantHandler(handlerOf((*participant).releaseHere)),
		calls.RequestCheckpoint: handlerOf(func(j *job, ctx context.Context, _ store.ID, w decisions.Request) (calls.Empty, error) {
			_, err := j.c.requestCheckpoint(ctx, j, w, ignorePhase)
			return calls.Empty{}, err
		}),
		calls.MakeCapsules: handlerOf(func(j *job, ctx context.Context, _ store.ID, b calls.MakeCapsulesArgs) (calls.Empty, error) {
			return calls.Empty{}, withSharedFolder(ctx, j.c, j.restore.makeCapsulesForLeader(ctx, b))
		}),
		calls.AsksRequeue: handlerOf((*job).noteRequesterHere),
		calls.ProgramRuns: handlerOf((*job).programRunsHere),
		calls.View:        handlerOf((*job).viewHere),
		calls.AwaitDecision: handlerOf(func(j *job, ctx context.Context, _ store.ID, _ calls.Empty) (calls.Empty, error) {
			return calls.Empty{}, j.ending.awaitDecisionHere(ctx)
		}),
		calls.NodeRestored:     restoreHandler(handlerOf((*restore).nodeRestored)),
		calls.Unrestored:       restoreHandler(handlerOf((*restore).unrestoredHere)),
		calls.ReconnectDevices: restoreHandler(handlerOf((*restore).reconnectHere)),
		calls.Unlock:           restoreHandler(handlerOf((*restore).unlockHere)),
	}
}

// handlerOf makes a handler of a function that takes the arguments of a call.
func handlerOf[T, In, Out any](do func(T, context.Context, store.ID, In) (Out, error)) handler[T] {
	return func(ctx context.Context, callee T, id store.ID, args any) (any, error) {
		in, ok := args.(In)
		if !ok {
			return nil, calls.ErrUnknown
		}
		return do(callee, ctx, id, in)
	}
}

// participantHandler makes a handler for a job of a handler for this node's part in its checkpoints.
func participantHandler(do handler[*participant]) handler[*job] {
	return func(ctx context.Context, j *job, id store.ID, args any) (any, error) {
		return do(ctx, &j.participant, id, args)
	}
}

// restoreHandler makes a handler for a job of a handler for its restore.
func restoreHandler(do handler[*restore]) handler[*job] {
	return func(ctx context.Context, j *job, id store.ID, args any) (any, error) {
		return do(ctx, &j.restore, id, args)
	}
}

// errOtherAttempt is the answer of a node that takes no part in the named checkpoint.
var errOtherAttempt = errors.New("this node takes no part in that checkpoint")
