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
	{phasePrepare, 10 * time.Second, (*attempt).prepare, (*attempt).unprepare}, // who takes part, what stands in the way, space
	{phaseCut, time.Minute, (*attempt).cut, (*attempt).goOn},                   // devices stand still, at a cut of all ranks
	{phaseFreeze, 10 * time.Second, (*attempt).freezeTasks, (*attempt).resume}, // the tasks of steps stand still
	{phaseDrain, 15 * time.Second, (*attempt).drain, nil},                      // what they wrote has come out at the batch script's end
	{phaseHalt, 10 * time.Second, (*attempt).freezeRest, nil},                  // the batch script stands still, no packet moves
	{phaseDump, 30 * time.Minute, (*attempt).dump, (*attempt).dropChunks},      // all capsules, side by side, into chunks
	{phaseCommit, time.Minute, (*attempt).commit, nil},                         // the manifest, last: now the checkpoint exists
}

// Names of phases, between nodes.
const (
	phasePrepare = "prepare"
	phaseCut     = "cut"
	phaseFreeze  = "freeze"
	phaseDrain   = "drain"
	phaseHalt    = "halt"
	phaseDump    = "dump"
	phaseCommit  = "commit"
	phaseBeat    = "beat" // of dump and what follows: the leader lives

	phaseExchange = "exchange" // of cut: the leader and a device server

	// After commit, one of these.
	phaseResume  = "resume"  // the job runs on; also the undoing
	phaseRelease = "release" // its processes go, the nodes are free

	phaseView  = "view"  // what programs a node has, for people
	phaseLead  = "lead"  // a node asks the leader for a checkpoint
	phaseLeave = "leave" // a node that Slurm is done with asks whether its capsules are wanted

	// Of a restore.
	phaseRaise    = "raise"    // make the capsules
	phaseRestore  = "restore"  // a program comes back; of one node, when its task is there
	phaseRestored = "restored" // a node tells the leader that its programs are back
	phaseLeft     = "left"     // the leader asks which are not
	phaseMeet     = "meet"     // the device servers find each other
	phaseOpen     = "open"     // all are: let packets pass

	// Of an upload.
	phaseBring  = "bring"  // a node's share goes into the store
	phaseShare  = "share"  // how far it is
	phaseForget = "forget" // it is not needed any more
)

// endDeadline bounds what follows a commit, and undoing.
const endDeadline = 30 * time.Second

// attempt is a checkpoint being made, seen from the leader.
type attempt struct {
	j      *job
	id     store.ID
	reason string
	log    *slog.Logger
	tell   func(phase string, done, total int64)

	nodes   []string // that have capsules
	reports map[string]*prepareReply
	room    *store.Reservation
	out     outlet
	parts   []store.Part
	meta    Meta

	barrier uint64   // the number of the cut
	still   *cut.Cut // nil: there are no devices, or they work

	direct bool    // into the store, whatever the stages have room for
	alone  bool    // not upon the checkpoint before
	base   uint32  // the checkpoint upon which it is dumped; 0: none
	hush   func()  // ends what says that this leader lives; nil: nothing does
	staged bool    // into the stages of its nodes
	up     *Upload // once it counts, if it is staged

	// Protected by job.mu.
	then   verdict       // what follows: passOn, the job runs on; else its processes are released
	exit   string        // why they are, in words
	stands bool          // passOn, but not before until, or something else is decided
	until  time.Time     // that; pushed on by each who wishes it
	ending bool          // what follows is decided
	turn   chan struct{} // closed, and nil, when it need not stand any longer

	counted chan struct{} // closed when the checkpoint counts, or none came of it
	taken   error         // why none; set before
	over    chan struct{} // closed when all is done
	err     error
}

// wish is what somebody wants of a checkpoint.
type wish struct {
	Then   verdict `json:"then"`
	Reason string  `json:"reason"`
	// Stands has the job stand still afterwards, for standing at most: who asks requeues it
	// next, and nothing shall be lost, nor be captured a second time.
	Stands bool `json:"stands,omitempty"`
}

// standing is how long a job waits for a requeue.
const standing = 20 * time.Second

// request makes a checkpoint, or waits for the one that is being made, and has the job
// released afterwards unless the wish is passOn. It may be called on any node of the job.
func (c *Conductor) request(ctx context.Context, j *job, w wish) (*attempt, error) {
	if leader := j.leader(); leader != c.Node {
		return nil, c.insist(ctx, awayWithin, leader, j.id, phaseLead, w, nil)
	}
	if w.Then == passOn && !w.Stands { // the one before is worth more than another; who leaves cannot wait
		if err := c.brought(ctx, j.id, func() {}); err != nil {
			return nil, err
		}
	}
	for {
		a, late := c.lead(j, w)
		if a == nil {
			return nil, nil
		}
		end := a.over
		if w.Stands && !late {
			end = a.counted
		}
		select {
		case <-end:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		switch {
		case late:
		case w.Stands:
			return a, a.taken
		default:
			return a, a.err
		}
	}
}

// lead begins an attempt, or joins the one that is being made. late: that one lets the job
// run on already, though it is wanted to leave or to stand. None is begun for a node that was away and
// asks late: the run is captured, and there is nothing left of it.
func (c *Conductor) lead(j *job, w wish) (a *attempt, late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left {
		return nil, false
	}
	a = j.lead
	switch {
	case a == nil:
		a = &attempt{
			j: j, reason: w.Reason, then: w.Then, exit: w.Reason, stands: w.Stands, turn: make(chan struct{}),
			counted: make(chan struct{}), over: make(chan struct{}), tell: func(string, int64, int64) {},
		}
		j.lead = a
		c.spawn(a.run)
	case a.ending:
		late = a.then == passOn && (w.Then != passOn || w.Stands)
	case a.then == passOn:
		a.then, a.exit = w.Then, w.Reason
		if w.Stands {
			a.stands, a.until = true, time.Now().Add(standing)
		}
		if w.Then != passOn {
			a.move()
		}
	}
	return a, late
}

// move has an attempt stand no longer. Caller holds j.mu.
func (a *attempt) move() {
	if a.turn != nil {
		close(a.turn)
		a.turn = nil
	}
}

// stand waits, if somebody wished that, until it is decided what follows. From then on nobody's wish changes that.
func (a *attempt) stand(ctx context.Context) {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	a.until = time.Now().Add(standing)
	for a.stands && a.turn != nil && ctx.Err() == nil {
		turn, left := a.turn, time.Until(a.until)
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
	a.ending = true
}

// brought waits until this node leads no upload of a job, and tells if it does.
func (c *Conductor) brought(ctx context.Context, job uint32, waits func()) error {
	for {
		c.mu.Lock()
		b := c.bringing[job]
		c.mu.Unlock()
		if b == nil {
			return nil
		}
		waits()
		select {
		case <-b.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run takes the checkpoint and does what follows.
func (a *attempt) run(ctx context.Context) {
	began := time.Now()
	err := a.take(ctx)
	j := a.j
	for a.otherwise(err) || a.passes(err) && time.Since(began) < awayWithin && wait(ctx, awayLook) {
		a.log.Info("again", "store", a.direct, "alone", a.alone, "error", err)
		a.meta, a.parts, a.room, a.out = Meta{}, nil, nil, nil
		err = a.take(ctx)
	}
	a.taken = err
	if err == nil {
		j.c.Meter.Checkpoint(time.Since(began))
		if !a.staged {
			j.c.inStore(a.id)
		}
		if a.pressing() {
			j.c.captured(time.Since(began))
		}
		j.happened(eventCheckpoint, a.nodes, fmt.Sprintf("%d (%s), in %s", a.id.Number, a.reason, time.Since(began).Round(time.Millisecond)))
		j.say(fmt.Sprintf("checkpoint %d at %s (%s)", a.id.Number, time.Now().Format(time.TimeOnly), a.reason) + a.whither())
		close(a.counted)
		a.stand(ctx)
		a.beatNoMore()
		err = a.end(ctx)
		if a.staged {
			j.c.bring(a.up, a.room)
		}
	}
	if a.taken != nil {
		close(a.counted)
	}
	a.log.Info("checkpoint over", "took", time.Since(began), "error", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	a.err = err
	j.lead = nil
	close(a.over)
}

// otherwise says that another try may succeed at once in another way, which it is made in from now on.
func (a *attempt) otherwise(err error) bool {
	full, base := errors.Is(err, errStageFull) && !a.direct, errors.Is(err, errBase) && !a.alone
	a.direct, a.alone = a.direct || full, a.alone || base
	return full || base
}

// passes says that another try may succeed soon. A step that is being started has all its tasks in
// a moment; a daemon that is being started again is back, and Slurm is patient for longer.
func (a *attempt) passes(err error) bool {
	return !errors.Is(err, errEnding) && (errors.Is(err, errPartial) || errors.Is(err, ErrAway) && a.pressing())
}

// whither says where a checkpoint is that is not in the store yet.
func (a *attempt) whither() string {
	if !a.staged {
		return ""
	}
	return ", on its way to the store from " + join(a.nodes)
}

// How long, and how often, a node's daemon that does not answer is asked again: while Slurm
// waits to kill a job, and while one is restored, which waits for nothing else.
const (
	awayWithin  = 12 * time.Second
	raiseWithin = time.Minute
	awayLook    = 300 * time.Millisecond
)

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pressing says that there is no later time for this checkpoint.
func (a *attempt) pressing() bool {
	a.j.mu.Lock()
	defer a.j.mu.Unlock()
	return a.then != passOn
}

// take makes a checkpoint of the job or leaves the job as it was. Its error names the
// job, the checkpoint and the phase, and joins what went wrong while undoing.
func (a *attempt) take(ctx context.Context) error {
	a.log = a.j.log.With("reason", a.reason)
	for i, p := range phases {
		began := time.Now()
		a.tell(p.name, 0, 0)
		a.log.Debug("phase begins", "phase", p.name)
		err := within(ctx, p.deadline, a, p.do)
		a.j.c.Meter.Phase(p.name, time.Since(began), err != nil)
		if err != nil {
			err = fmt.Errorf("job %d: checkpoint %d: %s: %w", a.j.id, a.id.Number, p.name, err)
			a.j.happened(eventNone, a.nodes, err.Error())
			a.j.logCriu(err)
			return errors.Join(err, a.undo(ctx, phases[:i+1]))
		}
		a.log.Info("phase", "phase", p.name, "took", time.Since(began))
		a.meta.Phases = append(a.meta.Phases, PhaseTime{p.name, time.Since(began)})
	}
	return nil
}

// undo runs to its end even when ctx is done: a cancelled checkpoint must still thaw the
// job.
func (a *attempt) undo(ctx context.Context, done []phase) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, p := range slices.Backward(done) {
		if p.undo == nil {
			continue
		}
		if err := within(ctx, endDeadline, a, p.undo); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

func within(ctx context.Context, d time.Duration, a *attempt, do func(*attempt, context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(a, ctx)
}

// everywhere has all nodes that take part do something, at the same time. When one fails
// the others are told to stop.
func (a *attempt) everywhere(ctx context.Context, phase string, body any) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error { return a.j.c.ask(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	return g.Wait()
}

// each is everywhere for what must be done on every node whatever happens on others.
func (a *attempt) each(ctx context.Context, phase string, body any) error {
	errs := make([]error, len(a.nodes))
	var all sync.WaitGroup
	for i, node := range a.nodes {
		all.Go(func() { errs[i] = a.j.c.ask(ctx, node, a.j.id, a.id.Number, phase, body, nil) })
	}
	all.Wait()
	return errors.Join(errs...)
}
