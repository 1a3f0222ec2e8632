// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/messages"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// finishDeadline bounds the step after a commit, and the undoing of an attempt.
const finishDeadline = 30 * time.Second

// attempt is a checkpoint in progress, on the leader.
type attempt struct {
	j      *job
	id     store.ID
	reason string
	log    *slog.Logger
	began  time.Time

	phase        string        // the phase that is carried out; "" before the first; guarded by j.mu, as the next two
	phaseBegan   time.Time     // when that phase began
	phaseChanged chan struct{} // closed when the next phase begins

	nodes       []string // nodes of the job that have capsules
	reports     map[string]*calls.PrepareReply
	reservation *store.Reservation
	writer      upload.ShareWriter
	parts       []store.NodeStreams
	meta        records.Meta

	foundBefore []processes.Obstacle // by CRIU, in the attempt before; guarded by j.mu

	cutNumber      uint64   // identifies the cut to the device servers
	stoppedDevices *cut.Cut // nil: no devices, or the devices work

	skipStage     bool           // write to the store, even if the stages have room
	withoutBase   bool           // do not take over streams of the previous checkpoint
	reconnected   bool           // repeated because a node did not answer
	base          uint32         // number of the checkpoint of which streams are taken over; 0: none
	stopHeartbeat func()         // stops the heartbeat goroutine; nil: none runs
	staged        bool           // written to the stages of the nodes
	upload        *upload.Record // record of the upload, from commit on, if staged

	outcome *decisions.Outcome // whether the job runs on after the checkpoint, or leaves its nodes

	committed  chan struct{} // closed when the checkpoint is committed or has failed
	captureErr error         // why the checkpoint failed; set before committed is closed
	done       chan struct{} // closed when the attempt is over
	err        error
}

// beginPhase notes for people which phase begins.
func (a *attempt) beginPhase(name string) {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	a.phase, a.phaseBegan = name, time.Now()
	close(a.phaseChanged)
	a.phaseChanged = make(chan struct{})
}

// currentPhase returns the phase that is carried out, and a channel that is closed when the next phase begins.
func (a *attempt) currentPhase() (name string, began time.Time, changed <-chan struct{}) {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	return a.phase, a.phaseBegan, a.phaseChanged
}

// run takes the checkpoint, carries out its outcome, and starts the upload of a staged checkpoint.
func (a *attempt) run(ctx context.Context) {
	began := time.Now()
	err := a.takeCheckpoint(ctx)
	j := a.j
	for a.useFallback(err) || a.maySucceedSoon(err) && time.Since(began) < unreachableTimeout && waits.SleepUnlessDone(ctx, retryInterval) {
		a.reconnected = a.reconnected || errors.Is(err, ErrAway)
		a.log.Info("repeat the checkpoint", "store", a.skipStage, "withoutBase", a.withoutBase, "error", err)
		a.meta, a.parts, a.reservation, a.writer = records.Meta{}, nil, nil, nil
		err = a.takeCheckpoint(ctx)
	}
	err = withSharedFolder(ctx, j.c, err)
	a.captureErr = err
	if err == nil {
		took := time.Since(began)
		j.c.Meter.Checkpoint(took)
		j.recordCaptureCost(began, took)
		if !a.staged {
			uploadConductor{j.c}.ReportStored(a.id)
		}
		if a.outcome.LeavesNodes() {
			j.c.captures.Note(took)
		}
		j.report.WriteEvent(records.MakeCheckpointEvent(a.id.Number, a.nodes, a.reason, took))
		j.report.SetComment(reports.CheckpointComment(a.id.Number, time.Now(), a.reason) + a.storageNote())
		close(a.committed)
		a.outcome.WaitForRequeue(ctx, a.log)
		a.endHeartbeat()
		err = a.finish(ctx)
		if a.staged {
			j.c.uploads.Start(a.upload, a.reservation)
		}
	}
	if a.captureErr != nil {
		close(a.committed)
	}
	a.log.Info("checkpoint over", "took", time.Since(began), "error", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	a.err = err
	j.ledAttempt = nil
	close(a.done)
}

// useFallback tells whether the attempt can be repeated at once in another way, and switches to
// that way: past a full stage, or without an unusable base.
func (a *attempt) useFallback(err error) bool {
	full, base := errors.Is(err, upload.ErrStageFull) && !a.skipStage, errors.Is(err, upload.ErrBaseUnusable) && !a.withoutBase
	a.skipStage, a.withoutBase = a.skipStage || full, a.withoutBase || base
	return full || base
}

// maySucceedSoon tells whether the same attempt may succeed soon. The tasks of a step that is being started are
// complete within a moment. A process that stands in the way of criu, such as sshd's while a client logs in, may end soon:
// the job has run on. A device server that is busy was just restored, and works soon. A restarting daemon answers
// again within the time that Slurm leaves to a job that is being ended, and so does slurmctld, which knows the
// addresses of nodes. A node that is back after a loss of power resets the old connection to its daemon: the first call
// fails, and the next call opens a new connection.
func (a *attempt) maySucceedSoon(err error) bool {
	switch {
	case errors.Is(err, errScriptEnded):
		return false
	case errors.Is(err, steps.ErrTasksMissing), errors.Is(err, rpc.ErrNotNow), errors.Is(err, cut.ErrBusy), errors.Is(err, slurm.ErrSilent):
		return true
	}
	return errors.Is(err, ErrAway) && (a.outcome.LeavesNodes() || !a.reconnected)
}

// markDumpError gives the error of the dump of a program the kind by which the leader, on another node too, knows that
// the dump may succeed soon, or that CRIU has found an obstacle.
func markDumpError(program string, err error) error {
	var e *criu.Error
	switch {
	case errors.Is(err, criu.ErrNotNow):
		return answeredError{err, rpc.ErrNotNow}
	case errors.As(err, &e) && e.Part != nil:
		o := processes.Obstacle{Program: program, PID: e.Part.PID, Name: e.Part.Name, What: e.Part.What, Cure: e.Part.Cure}
		return answeredError{err, &rpc.Error{Kind: rpc.ErrObstacle, Obstacles: messages.EncodeObstacles([]processes.Obstacle{o})}}
	}
	return err
}

// storageNote says, for the job's comment, where a staged checkpoint is.
func (a *attempt) storageNote() string {
	if !a.staged {
		return ""
	}
	return ", on its way to the store from " + reports.JoinNames(a.nodes)
}

// Time limits for calls to a node with a daemon that does not answer: unreachableTimeout while Slurm
// waits to kill the job, restoreCallTimeout during a restore, which may take longer.
const (
	unreachableTimeout = 12 * time.Second
	restoreCallTimeout = time.Minute
	retryInterval      = 300 * time.Millisecond
)

// While other nodes dump, the manifest is written and a frozen job waits for its requeue, no call of the attempt
// reaches a node. Heartbeats of the leader tell the node that the leader is alive.

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
		for waits.SleepUnlessDone(ctx, heartbeatInterval) {
			asking, done := context.WithTimeout(ctx, heartbeatInterval)
			if err := a.callEveryNode(asking, calls.Heartbeat); err != nil && ctx.Err() == nil {
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
	if !p.restartLeaderTimeout(id) {
		return calls.Empty{}, errOtherAttempt
	}
	return calls.Empty{}, nil
}
