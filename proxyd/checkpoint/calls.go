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

// callNode calls a node, also this node, and returns the reply. attempt is the number of the checkpoint; 0: the call
// concerns no checkpoint.
func callNode[Args, Reply any](
	ctx context.Context, c *Conductor, node string, job, attempt uint32, call calls.Call[Args, Reply], args Args,
) (Reply, error) {
	req := call.EncodeArgs(args)
	req.Job, req.Attempt = slurm.JobName(job), attempt
	var m *rpc.CallReply
	var err error
	if node == c.Node {
		m, err = c.Call(ctx, req)
	} else {
		m, err = c.Remote.Call(ctx, node, req)
	}
	if err != nil {
		var none Reply
		return none, fmt.Errorf("node %s: %w", node, err)
	}
	return call.DecodeReply(m)
}

// callNodeRetrying is callNode, repeated for the time within while the node's daemon does not
// answer, or slurmctld, which knows the node's address: they may be restarting. The called function may run twice.
func callNodeRetrying[Args, Reply any](
	ctx context.Context, c *Conductor, within time.Duration, node string, job uint32, call calls.Call[Args, Reply], args Args,
) (reply Reply, err error) {
	away := func(err error) bool { return errors.Is(err, ErrAway) || errors.Is(err, slurm.ErrSilent) }
	err = retryWhile(ctx, within, away, func() error {
		var failure error
		reply, failure = callNode(ctx, c, node, job, 0, call, args)
		return failure
	})
	return reply, err
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
	reply, err := c.handleCall(ctx, store.ID{JobID: store.PlainJob(c.Cluster, id), Number: req.GetAttempt()}, req)
	if err != nil {
		return nil, markTransient(err)
	}
	return reply, nil
}

// handleCall carries out a call about a checkpoint of a job, or about the job. Where the answer is that the job has no
// part on this node, the reply is an empty message.
func (c *Conductor) handleCall(ctx context.Context, ckpt store.ID, req *rpc.CallRequest) (*rpc.CallReply, error) {
	name := calls.NameOf(req)
	if do, ok := c.nodeHandlers[name]; ok {
		return do(ctx, c, ckpt, req)
	}
	do, ok := c.jobHandlers[name]
	if !ok {
		return nil, calls.ErrUnknown
	}
	j := c.jobs.findJob(ckpt.Job)
	switch {
	case j != nil:
	case name == calls.MakeCapsules.Name():
		j = c.jobFor(ckpt.Job)
	case name == calls.Prepare.Name():
		if b, err := calls.Prepare.DecodeArgs(req); err == nil && c.jobs.hasLostCapsules(ckpt.Job, b.Run) {
			return nil, errCapsuleLost
		}
		return &rpc.CallReply{}, nil // No task of the job has run on this node.
	case name == calls.Resume.Name(), name == calls.View.Name():
		return &rpc.CallReply{}, nil
	default:
		return nil, notHereError{ckpt.Job}
	}
	return do(ctx, j, ckpt, req)
}

// notHereError is the answer of a node to a call about a job that the node has no part of, or no more. Other nodes receive
// rpc.ErrNotHere.
type notHereError struct{ job uint32 }

func (e notHereError) Error() string { return fmt.Sprintf("job %d: %v", e.job, ErrNoJob) }

// Is implements the interface of errors.Is.
func (e notHereError) Is(target error) bool { return target == ErrNoJob || target == rpc.ErrNotHere }

// handler carries out a call for a job of this node, or for the node itself.
type handler[T any] func(ctx context.Context, callee T, id store.ID, req *rpc.CallRequest) (*rpc.CallReply, error)

// handlers has the function that carries out each call, by the call's name.
type handlers[T any] map[string]handler[T]

// makeNodeHandlers makes the handlers of calls for which the node need not know the job any more.
func makeNodeHandlers() handlers[*Conductor] {
	h := handlers[*Conductor]{}
	setHandler(h, calls.UploadShare, func(c *Conductor, ctx context.Context, id store.ID, b calls.UploadShareArgs) (upload.ShareReply, error) {
		return c.uploads.UploadShareHere(ctx, id, b.Ticket)
	})
	setHandler(h, calls.ShareStatus, func(c *Conductor, _ context.Context, id store.ID, _ calls.Empty) (upload.ShareStatus, error) {
		return c.uploads.ShareStatusHere(id)
	})
	setHandler(h, calls.DropShare, func(c *Conductor, _ context.Context, id store.ID, _ calls.Empty) (calls.Empty, error) {
		return calls.Empty{}, c.uploads.DropShareHere(id)
	})
	return h
}

// makeJobHandlers makes the handlers of calls that concern a job of this node.
func makeJobHandlers() handlers[*job] {
	h := handlers[*job]{}
	addParticipantHandlers(h)
	addRestoreHandlers(h)
	setHandler(h, calls.RequestCheckpoint, func(j *job, ctx context.Context, _ store.ID, w decisions.Request) (calls.Empty, error) {
		_, err := j.c.requestCheckpoint(ctx, j, w, ignorePhase)
		return calls.Empty{}, err
	})
	setHandler(h, calls.AsksRequeue, (*job).noteRequesterHere)
	setHandler(h, calls.ProgramRuns, (*job).programRunsHere)
	setHandler(h, calls.View, (*job).viewHere)
	setHandler(h, calls.AwaitDecision, func(j *job, ctx context.Context, _ store.ID, _ calls.Empty) (calls.Empty, error) {
		return calls.Empty{}, j.ending.awaitDecisionHere(ctx)
	})
	return h
}

// addParticipantHandlers adds the handlers of calls for the node's part in a checkpoint.
func addParticipantHandlers(h handlers[*job]) {
	part := func(j *job) *participant { return &j.participant }
	setPartHandler(h, part, calls.Prepare, (*participant).prepareHere)
	setPartHandler(h, part, calls.Exchange, (*participant).exchangeHere)
	setPartHandler(h, part, calls.Freeze, (*participant).freezeHere)
	setPartHandler(h, part, calls.Drain, (*participant).drainHere)
	setPartHandler(h, part, calls.Halt, (*participant).freezeBatchHere)
	setPartHandler(h, part, calls.Dump, (*participant).dumpHere)
	setPartHandler(h, part, calls.Heartbeat, (*participant).heartbeatHere)
	setPartHandler(h, part, calls.Resume, (*participant).resumeRetrying)
	setPartHandler(h, part, calls.Release, (*participant).releaseHere)
}

// addRestoreHandlers adds the handlers of calls for the job's restore.
func addRestoreHandlers(h handlers[*job]) {
	part := func(j *job) *restore { return &j.restore }
	setHandler(h, calls.MakeCapsules, func(j *job, ctx context.Context, _ store.ID, b calls.MakeCapsulesArgs) (calls.Empty, error) {
		return calls.Empty{}, withSharedFolder(ctx, j.c, j.restore.makeCapsulesForLeader(ctx, b))
	})
	setPartHandler(h, part, calls.NodeRestored, (*restore).nodeRestored)
	setPartHandler(h, part, calls.Unrestored, (*restore).unrestoredHere)
	setPartHandler(h, part, calls.ReconnectDevices, (*restore).reconnectHere)
	setPartHandler(h, part, calls.Unlock, (*restore).unlockHere)
}

// setHandler has do carry out a call.
func setHandler[T, Args, Reply any](
	h handlers[T], call calls.Call[Args, Reply], do func(T, context.Context, store.ID, Args) (Reply, error),
) {
	h[call.Name()] = func(ctx context.Context, callee T, id store.ID, req *rpc.CallRequest) (*rpc.CallReply, error) {
		args, err := call.DecodeArgs(req)
		if err != nil {
			return nil, err
		}
		reply, err := do(callee, ctx, id, args)
		if err != nil {
			return nil, err
		}
		return call.EncodeReply(reply)
	}
}

// setPartHandler has do carry out a call, for a part of the job.
func setPartHandler[Part, Args, Reply any](
	h handlers[*job], part func(*job) Part, call calls.Call[Args, Reply], do func(Part, context.Context, store.ID, Args) (Reply, error),
) {
	setHandler(h, call, func(j *job, ctx context.Context, id store.ID, args Args) (Reply, error) {
		return do(part(j), ctx, id, args)
	})
}

// errOtherAttempt is the answer of a node that takes no part in the named checkpoint.
var errOtherAttempt = errors.New("this node takes no part in that checkpoint")
