// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// phase is a step of a checkpoint that all nodes of the job take together. undo must be safe
// after do stopped half way.
type phase struct {
	name     string
	deadline time.Duration
	do, undo func(*attempt, context.Context) error
}

// phases lists the steps of a checkpoint in order. Nothing before commit destroys data: after a
// failure the phases are undone in reverse order and the job runs on.
var phases = []phase{
	{phasePrepare, 10 * time.Second, (*attempt).prepare, (*attempt).unprepare},    // which nodes take part, what prevents a capture, space
	{phaseCut, time.Minute, (*attempt).findCut, (*attempt).resumeDevices},         // stop the devices at a cut of all ranks
	{phaseFreeze, 10 * time.Second, (*attempt).freezeTasks, (*attempt).resumeJob}, // freeze the tasks of steps
	{phaseDrain, 15 * time.Second, (*attempt).drain, nil},                         // wait until the tasks' output has reached the batch script's side
	{phaseHalt, 10 * time.Second, (*attempt).freezeBatch, nil},                    // freeze the batch script, lock the network
	{phaseDump, 30 * time.Minute, (*attempt).dump, (*attempt).dropChunks},         // write all capsules, in parallel, as chunks
	{phaseCommit, time.Minute, (*attempt).commit, nil},                            // write the manifest last: from now on the checkpoint exists
}

// Names of the phases. The leader calls each node by the name of the phase.
const (
	phasePrepare = "prepare"
	phaseCut     = "cut"
	phaseFreeze  = "freeze"
	phaseDrain   = "drain"
	phaseHalt    = "halt"
	phaseDump    = "dump"
	phaseCommit  = "commit"
)

// Names of the other calls between nodes; calls.go lists the function of each. Daemons of
// different releases exchange these names, and the log has them, so the values never change.
const (
	// During a checkpoint:
	callExchange  = "exchange" // in phase cut: orders to and events from a device server
	callHeartbeat = "beat"     // from dump on: the leader is alive

	// After commit, one of these two:
	callResume  = "resume"  // the job runs on; also undoes an attempt
	callRelease = "release" // end the job's processes: the nodes are free

	// During a restore:
	callMakeCapsules     = "raise"    // make the capsules
	callNodeRestored     = "restored" // a node tells the leader that all its programs are restored
	callUnrestored       = "left"     // list the programs of a node that are not restored yet
	callReconnectDevices = "meet"     // connect the device servers with each other
	callUnlock           = "open"     // unlock the network: all programs are restored

	// During an upload:
	callUpload      = "bring"  // copy a node's share into the store
	callShareStatus = "share"  // how much of a node's share is in the store
	callDropShare   = "forget" // delete a node's share: the upload is over

	// At any time:
	callView              = "view"  // list the programs of a node, for singctl
	callRequestCheckpoint = "lead"  // a node asks the leader for a checkpoint
	callAwaitDecision     = "leave" // a node on which Slurm has ended the job asks whether its capsules are still needed
)

// restoreStep is logged when a node restores a program whose task has come. No node calls
// another for it.
const restoreStep = "restore"

// finishDeadline bounds the step after a commit, and the undoing of an attempt.
const finishDeadline = 30 * time.Second

// attempt is a checkpoint in progress, on the leader.
type attempt struct {
	j        *job
	id       store.ID
	reason   string
	log      *slog.Logger
	progress func(phase string, done, total int64)

	nodes       []string // nodes of the job that have capsules
	reports     map[string]*prepareReply
	reservation *store.Reservation
	writer      shareWriter
	parts       []store.Part
	meta        Meta

	cutNumber      uint64   // identifies the cut to the device servers
	stoppedDevices *cut.Cut // nil: no devices, or the devices work

	skipStage     bool    // write to the store, even if the stages have room
	withoutBase   bool    // do not take over streams of the previous checkpoint
	base          uint32  // number of the checkpoint whose streams are taken over; 0: none
	stopHeartbeat func()  // stops the heartbeat goroutine; nil: none runs
	staged        bool    // written to the stages of the nodes
	upload        *Upload // record of the upload, from commit on, if staged

	// Protected by job.mu.
	after          verdict       // what follows the commit. forwardSignal: the job runs on; else its processes are released
	releaseReason  string        // why the processes are released, for people
	holdAfterwards bool          // wait for a requeue before the job runs on
	holdUntil      time.Time     // end of that wait; each new request moves it
	outcomeDecided bool          // after is final
	holdOver       chan struct{} // closed, and set to nil, to end the wait for a requeue

	committed  chan struct{} // closed when the checkpoint is committed or has failed
	captureErr error         // why the checkpoint failed; set before committed is closed
	done       chan struct{} // closed when the attempt is over
	err        error
}

// checkpointRequest says what a caller wants of a checkpoint.
type checkpointRequest struct {
	After  verdict `json:"then"`
	Reason string  `json:"reason"`
	// HoldAfterwards keeps the job frozen after the checkpoint, for holdTimeout at most: the
	// caller requeues the job next, so the job must neither lose work nor be captured a second
	// time.
	HoldAfterwards bool `json:"stands,omitempty"`
}

// holdTimeout bounds the wait of a frozen job for its requeue.
const holdTimeout = 20 * time.Second

// requestCheckpoint starts a checkpoint, or joins the attempt in progress, and returns when the
// attempt is over (with HoldAfterwards: when the checkpoint is committed). The job is released
// afterwards unless w.After is forwardSignal. It may be called on any node of the job; on a node
// that does not lead, the returned attempt is nil.
func (c *Conductor) requestCheckpoint(ctx context.Context, j *job, w checkpointRequest) (*attempt, error) {
	if leader := j.leaderNode(); leader != c.Node {
		return nil, c.callNodeRetrying(ctx, unreachableTimeout, leader, j.id, callRequestCheckpoint, w, nil)
	}
	if w.After == forwardSignal && !w.HoldAfterwards { // A finished upload of the previous checkpoint is worth more than a new checkpoint. A job that leaves its nodes cannot wait.
		if err := c.waitForUpload(ctx, j.id, func() {}); err != nil {
			return nil, err
		}
	}
	for {
		a, late := c.startOrJoinAttempt(j, w)
		if a == nil {
			return nil, nil
		}
		end := a.done
		if w.HoldAfterwards && !late {
			end = a.committed
		}
		select {
		case <-end:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		switch {
		case late:
		case w.HoldAfterwards:
			return a, a.captureErr
		default:
			return a, a.err
		}
	}
}

// startOrJoinAttempt starts an attempt, or joins the attempt in progress. late means that the
// attempt in progress already lets the job run on, although w wants the job to leave or to stay
// frozen. It returns nil for a run that is already released: a node that could not reach the
// leader in time may ask after the release.
func (c *Conductor) startOrJoinAttempt(j *job, w checkpointRequest) (a *attempt, late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.released {
		return nil, false
	}
	a = j.ledAttempt
	switch {
	case a == nil:
		a = &attempt{
			j: j, reason: w.Reason, after: w.After, releaseReason: w.Reason, holdAfterwards: w.HoldAfterwards, holdOver: make(chan struct{}),
			committed: make(chan struct{}), done: make(chan struct{}), progress: func(string, int64, int64) {},
		}
		j.ledAttempt = a
		c.startBackground(a.run)
	case a.outcomeDecided:
		late = a.after == forwardSignal && (w.After != forwardSignal || w.HoldAfterwards)
	case a.after == forwardSignal:
		a.after, a.releaseReason = w.After, w.Reason
		if w.HoldAfterwards {
			a.holdAfterwards, a.holdUntil = true, time.Now().Add(holdTimeout)
		}
		if w.After != forwardSignal {
			a.stopWaiting()
		}
	}
	return a, late
}

// stopWaiting ends the wait for a requeue. Caller holds j.mu.
func (a *attempt) stopWaiting() {
	if a.holdOver != nil {
		close(a.holdOver)
		a.holdOver = nil
	}
}

// waitForRequeue keeps the job frozen, if a request asked for that, until a requeue or the
// timeout. Afterwards no request changes what follows.
func (a *attempt) waitForRequeue(ctx context.Context) {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	a.holdUntil = time.Now().Add(holdTimeout)
	for a.holdAfterwards && a.holdOver != nil && ctx.Err() == nil {
		turn, left := a.holdOver, time.Until(a.holdUntil)
		if left <= 0 {
			a.log.Warn("the job has stood for a requeue that did not come")
			break
		}
		a.j.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
		case <-time.After(left):
		}
		a.j.mu.Lock()
	}
	a.outcomeDecided = true
}

// waitForUpload returns when this node leads no upload of the job. It calls waits before each
// wait.
func (c *Conductor) waitForUpload(ctx context.Context, job uint32, waits func()) error {
	for {
		c.mu.Lock()
		b := c.activeUploads[job]
		c.mu.Unlock()
		if b == nil {
			return nil
		}
		waits()
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run takes the checkpoint, carries out what follows, and starts the upload of a staged one.
func (a *attempt) run(ctx context.Context) {
	began := time.Now()
	err := a.takeCheckpoint(ctx)
	j := a.j
	for a.useFallback(err) || a.isTransient(err) && time.Since(began) < unreachableTimeout && sleepUnlessDone(ctx, retryInterval) {
		a.log.Info("again", "store", a.skipStage, "alone", a.withoutBase, "error", err)
		a.meta, a.parts, a.reservation, a.writer = Meta{}, nil, nil, nil
		err = a.takeCheckpoint(ctx)
	}
	a.captureErr = err
	if err == nil {
		j.c.Meter.Checkpoint(time.Since(began))
		if !a.staged {
			j.c.reportStored(a.id)
		}
		if a.mustCaptureNow() {
			j.c.noteCaptureTime(time.Since(began))
		}
		j.addEvent(eventCheckpoint, a.nodes, fmt.Sprintf("%d (%s), in %s", a.id.Number, a.reason, time.Since(began).Round(time.Millisecond)))
		j.setComment(fmt.Sprintf("checkpoint %d at %s (%s)", a.id.Number, time.Now().Format(time.TimeOnly), a.reason) + a.storageNote())
		close(a.committed)
		a.waitForRequeue(ctx)
		a.endHeartbeat()
		err = a.finish(ctx)
		if a.staged {
			j.c.startUpload(a.upload, a.reservation)
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
	full, base := errors.Is(err, errStageFull) && !a.skipStage, errors.Is(err, errBaseUnusable) && !a.withoutBase
	a.skipStage, a.withoutBase = a.skipStage || full, a.withoutBase || base
	return full || base
}

// isTransient tells whether the same attempt may succeed soon. The tasks of a step that is being
// started are complete within a moment. A restarting daemon answers again within the time that
// Slurm leaves to a job that is being ended.
func (a *attempt) isTransient(err error) bool {
	return !errors.Is(err, errScriptEnded) && (errors.Is(err, errTasksMissing) || errors.Is(err, ErrAway) && a.mustCaptureNow())
}

// storageNote says, for the job's comment, where a staged checkpoint is.
func (a *attempt) storageNote() string {
	if !a.staged {
		return ""
	}
	return ", on its way to the store from " + joinNames(a.nodes)
}

// Time limits for calls to a node whose daemon does not answer: unreachableTimeout while Slurm
// waits to kill the job, restoreCallTimeout during a restore, which may take longer.
const (
	unreachableTimeout = 12 * time.Second
	restoreCallTimeout = time.Minute
	retryInterval      = 300 * time.Millisecond
)

func sleepUnlessDone(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// mustCaptureNow tells whether the job leaves its nodes after this checkpoint, so that no later
// checkpoint can replace it.
func (a *attempt) mustCaptureNow() bool {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	return a.after != forwardSignal
}

// takeCheckpoint carries out all phases. After a failure the job is as before. The error names
// the job, the checkpoint and the phase, and includes the errors of the undoing.
func (a *attempt) takeCheckpoint(ctx context.Context) error {
	a.log = a.j.log.With("reason", a.reason)
	for i, p := range phases {
		began := time.Now()
		a.progress(p.name, 0, 0)
		a.log.Debug("phase begins", "phase", p.name)
		err := withDeadline(ctx, p.deadline, a, p.do)
		a.j.c.Meter.Phase(p.name, time.Since(began), err != nil)
		if err != nil {
			err = fmt.Errorf("job %d: checkpoint %d: %s: %w", a.j.id, a.id.Number, p.name, err)
			a.j.addEvent(eventFailed, a.nodes, err.Error())
			a.j.logCRIU(err)
			return errors.Join(err, a.undoPhases(ctx, phases[:i+1]))
		}
		a.log.Info("phase", "phase", p.name, "took", time.Since(began))
		a.meta.Phases = append(a.meta.Phases, PhaseTime{p.name, time.Since(began)})
	}
	return nil
}

// undoPhases undoes phases in reverse order. It ignores the end of ctx: the job must be thawed
// after a cancelled checkpoint, too.
func (a *attempt) undoPhases(ctx context.Context, done []phase) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, p := range slices.Backward(done) {
		if p.undo == nil {
			continue
		}
		if err := withDeadline(ctx, finishDeadline, a, p.undo); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

func withDeadline(ctx context.Context, d time.Duration, a *attempt, do func(*attempt, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(a, ctx)
}

// callNodesTogether calls all nodes of the attempt in parallel. The first error cancels the other
// calls.
func (a *attempt) callNodesTogether(ctx context.Context, phase string, body any) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error { return a.j.c.callNode(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	return g.Wait()
}

// callEveryNode calls all nodes of the attempt in parallel, each regardless of errors of other
// nodes.
func (a *attempt) callEveryNode(ctx context.Context, phase string, body any) error {
	errs := make([]error, len(a.nodes))
	var all sync.WaitGroup
	for i, node := range a.nodes {
		all.Go(func() { errs[i] = a.j.c.callNode(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	all.Wait()
	return errors.Join(errs...)
}
