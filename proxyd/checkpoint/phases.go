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

// phase is one step that all nodes of a job take together; each has a file of its own.
// undo must be safe when do stopped half way.
type phase struct {
	name     string
	deadline time.Duration
	do, undo func(*attempt, context.Context) error
}

// phases is a checkpoint, top to bottom. Nothing before commit destroys anything: a
// failure undoes what was done, in reverse, and the job runs on.
var phases = []phase{
	{phasePrepare, 10 * time.Second, (*attempt).prepare, (*attempt).unprepare},    // who takes part, what stands in the way, space
	{phaseCut, time.Minute, (*attempt).findCut, (*attempt).resumeDevices},         // devices stand still, at a cut of all ranks
	{phaseFreeze, 10 * time.Second, (*attempt).freezeTasks, (*attempt).resumeJob}, // the tasks of steps stand still
	{phaseDrain, 15 * time.Second, (*attempt).drain, nil},                         // what they wrote has come out at the batch script's end
	{phaseHalt, 10 * time.Second, (*attempt).freezeBatch, nil},                    // the batch script stands still, no packet moves
	{phaseDump, 30 * time.Minute, (*attempt).dump, (*attempt).dropChunks},         // all capsules, side by side, into chunks
	{phaseCommit, time.Minute, (*attempt).commit, nil},                            // the manifest, last: now the checkpoint exists
}

// Names of phases, between nodes.
const (
	phasePrepare  = "prepare"
	phaseCut      = "cut"
	phaseFreeze   = "freeze"
	phaseDrain    = "drain"
	phaseHalt     = "halt"
	phaseDump     = "dump"
	phaseCommit   = "commit"
	callHeartbeat = "beat" // of dump and what follows: the leader lives

	callExchange = "exchange" // of cut: the leader and a device server

	// After commit, one of these.
	callResume  = "resume"  // the job runs on; also the undoing
	callRelease = "release" // its processes go, the nodes are free

	callView              = "view"  // what programs a node has, for people
	callRequestCheckpoint = "lead"  // a node asks the leader for a checkpoint
	callAwaitDecision     = "leave" // a node that Slurm is done with asks whether its capsules are wanted

	// Of a restore.
	callMakeCapsules     = "raise"    // make the capsules
	restoreStep          = "restore"  // a program comes back; of one node, when its task is there
	callNodeRestored     = "restored" // a node tells the leader that its programs are back
	callUnrestored       = "left"     // the leader asks which are not
	callReconnectDevices = "meet"     // the device servers find each other
	callUnlock           = "open"     // all are: let packets pass

	// Of an upload.
	callUpload      = "bring"  // a node's share goes into the store
	callShareStatus = "share"  // how far it is
	callDropShare   = "forget" // it is not needed any more
)

// finishDeadline bounds what follows a commit, and undoing.
const finishDeadline = 30 * time.Second

// attempt is a checkpoint being made, seen from the leader.
type attempt struct {
	j        *job
	id       store.ID
	reason   string
	log      *slog.Logger
	progress func(phase string, done, total int64)

	nodes       []string // that have capsules
	reports     map[string]*prepareReply
	reservation *store.Reservation
	writer      shareWriter
	parts       []store.Part
	meta        Meta

	cutNumber      uint64   // the number of the cut
	stoppedDevices *cut.Cut // nil: there are no devices, or they work

	skipStage     bool    // into the store, whatever the stages have room for
	withoutBase   bool    // not upon the checkpoint before
	base          uint32  // the checkpoint upon which it is dumped; 0: none
	stopHeartbeat func()  // ends what says that this leader lives; nil: nothing does
	staged        bool    // into the stages of its nodes
	upload        *Upload // once it counts, if it is staged

	// Protected by job.mu.
	after          verdict       // what follows: passOn, the job runs on; else its processes are released
	releaseReason  string        // why they are, in words
	holdAfterwards bool          // passOn, but not before until, or something else is decided
	holdUntil      time.Time     // that; pushed on by each who wishes it
	outcomeDecided bool          // what follows is decided
	holdOver       chan struct{} // closed, and nil, when it need not stand any longer

	committed  chan struct{} // closed when the checkpoint counts, or none came of it
	captureErr error         // why none; set before
	done       chan struct{} // closed when all is done
	err        error
}

// checkpointRequest is what somebody wants of a checkpoint.
type checkpointRequest struct {
	After  verdict `json:"then"`
	Reason string  `json:"reason"`
	// Stands has the job stand still afterwards, for standing at most: who asks requeues it
	// next, and nothing shall be lost, nor be captured a second time.
	HoldAfterwards bool `json:"stands,omitempty"`
}

// holdTimeout is how long a job waits for a requeue.
const holdTimeout = 20 * time.Second

// requestCheckpoint makes a checkpoint, or waits for the one that is being made, and has the job
// released afterwards unless the wish is passOn. It may be called on any node of the job.
func (c *Conductor) requestCheckpoint(ctx context.Context, j *job, w checkpointRequest) (*attempt, error) {
	if leader := j.leaderNode(); leader != c.Node {
		return nil, c.callNodeRetrying(ctx, unreachableTimeout, leader, j.id, callRequestCheckpoint, w, nil)
	}
	if w.After == forwardSignal && !w.HoldAfterwards { // the one before is worth more than another; who leaves cannot wait
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

// startOrJoinAttempt begins an attempt, or joins the one that is being made. late: that one lets the job
// run on already, though it is wanted to leave or to stand. None is begun for a node that was away and
// asks late: the run is captured, and there is nothing left of it.
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

// stopWaiting has an attempt stand no longer. Caller holds j.mu.
func (a *attempt) stopWaiting() {
	if a.holdOver != nil {
		close(a.holdOver)
		a.holdOver = nil
	}
}

// waitForRequeue waits, if somebody wished that, until it is decided what follows. From then on nobody's wish changes that.
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

// waitForUpload waits until this node leads no upload of a job, and tells if it does.
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

// run takes the checkpoint and does what follows.
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

// useFallback says that another try may succeed at once in another way, which it is made in from now on.
func (a *attempt) useFallback(err error) bool {
	full, base := errors.Is(err, errStageFull) && !a.skipStage, errors.Is(err, errBaseUnusable) && !a.withoutBase
	a.skipStage, a.withoutBase = a.skipStage || full, a.withoutBase || base
	return full || base
}

// isTransient says that another try may succeed soon. A step that is being started has all its tasks in
// a moment; a daemon that is being started again is back, and Slurm is patient for longer.
func (a *attempt) isTransient(err error) bool {
	return !errors.Is(err, errScriptEnded) && (errors.Is(err, errTasksMissing) || errors.Is(err, ErrAway) && a.mustCaptureNow())
}

// storageNote says where a checkpoint is that is not in the store yet.
func (a *attempt) storageNote() string {
	if !a.staged {
		return ""
	}
	return ", on its way to the store from " + joinNames(a.nodes)
}

// How long, and how often, a node's daemon that does not answer is asked again: while Slurm
// waits to kill a job, and while one is restored, which waits for nothing else.
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

// mustCaptureNow says that there is no later time for this checkpoint.
func (a *attempt) mustCaptureNow() bool {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	return a.after != forwardSignal
}

// takeCheckpoint makes a checkpoint of the job or leaves the job as it was. Its error names the
// job, the checkpoint and the phase, and joins what went wrong while undoing.
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

// undoPhases runs to its end even when ctx is done: a cancelled checkpoint must still thaw the
// job.
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

// callNodesTogether has all nodes that take part do something, at the same time. When one fails
// the others are told to stop.
func (a *attempt) callNodesTogether(ctx context.Context, phase string, body any) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error { return a.j.c.callNode(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	return g.Wait()
}

// callEveryNode is everywhere for what must be done on every node whatever happens on others.
func (a *attempt) callEveryNode(ctx context.Context, phase string, body any) error {
	errs := make([]error, len(a.nodes))
	var all sync.WaitGroup
	for i, node := range a.nodes {
		all.Go(func() { errs[i] = a.j.c.callNode(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	all.Wait()
	return errors.Join(errs...)
}
