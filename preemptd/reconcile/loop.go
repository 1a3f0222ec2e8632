// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Observer looks at the cluster. *cluster.Watch is an Observer.
type Observer interface {
	Look(ctx context.Context) (cluster.Observation, error)
}

// Executor carries actions out. *action.Runner is an Executor.
type Executor interface {
	Run(ctx context.Context, a journal.Action) (journal.Action, error)
}

// Journal is the part of the journal that the loop uses. *journal.Journal is a Journal.
type Journal interface {
	Begin(ctx context.Context, r journal.Request) (journal.Action, error)
	Unfinished(ctx context.Context) ([]journal.Action, error)
	Latest(ctx context.Context) ([]journal.Action, error)
	Tried(ctx context.Context) (map[int64]time.Time, error)
	Origins(ctx context.Context) (map[int64]json.RawMessage, error)
	History(ctx context.Context, job int64, most int) ([]journal.Action, error)
	Note(ctx context.Context, e journal.Event) error
	Forget(ctx context.Context, before time.Time, alive []int64) error
}

// Commenter writes the comment that Slurm shows of a job. *slurmrest.Client is a Commenter.
type Commenter interface {
	Update(ctx context.Context, job slurmrest.Ref, u slurmrest.JobUpdate) error
}

// Settings are the settings that may change while the loop runs.
type Settings struct {
	Interval   time.Duration
	MaxActions int           // at a time
	Retention  time.Duration // of actions that have ended
	KeepRoom   time.Duration // for the job for which it was made; 0: not at all
	Rules      sdk.Rules
	Power      cluster.Power
	Tiers      map[string]sdk.Tier // of QOS, where the tier's name is another
	Policies   []chain.NamedPolicy // in the order in which they are asked
}

// Decision is the result of a tick, for people.
type Decision struct {
	Number   uint64
	Time     time.Time
	Accepted []Choice
	Rejected []Refusal
	Problems []string // of policies, and of proxyd
	// Waiting are the jobs that wait for room, have a promise, and have no action for them.
	Waiting []Wait
}

// Choice is an intent that was accepted.
type Choice struct {
	Policy  string
	Intent  sdk.Intent
	Verdict Verdict
	Outcome string // "begun", "waits for job 12", "dry run", or the reason for a failure
}

// Verdict is the fate of an accepted intent. The text is its name for metrics.
type Verdict string

// The verdicts.
const (
	Begun  Verdict = "begun"
	Waits  Verdict = "waits"   // a later tick may begin the action
	DryRun Verdict = "dry-run" // no action is begun
	Failed Verdict = "failed"  // the action could not be begun
)

// Refusal is an intent that was rejected, with its policy.
type Refusal struct {
	Policy string
	plan.Rejection
}

// Loop observes the cluster at each tick, has policies decide, and starts the actions that they want. Its fields are
// set before Run and not changed.
type Loop struct {
	Observer Observer
	Executor Executor
	Journal  Journal
	// Commenter tells the users of actions that the journal has lost.
	Commenter Commenter
	// Rooms may be nil: then room that is made for a job goes to any job to which Slurm gives it.
	Rooms    Rooms
	Settings func() Settings
	Log      *slog.Logger
	// DryRun decides and begins no action.
	DryRun bool
	// Grace is how long actions may go on when the loop is to end.
	Grace time.Duration
	// OnDecision is called with each decision, OnTick after each tick, and OnActionEnd with each action
	// that has ended, from many goroutines. They may be nil.
	OnDecision  func(Decision, *sdk.Snapshot)
	OnTick      func(took time.Duration, err error)
	OnActionEnd func(journal.Action)

	wake        chan struct{}
	number      uint64
	loggedWaits map[sdk.JobID]*loggedWait
	counts      fractionCounts
	lastSeen    map[int64]jobHistory
	comparedAll bool // the jobs were compared with the journal, at the first tick
	forgotAt    time.Time
	mu          sync.Mutex
	running     map[int64]bool // by action
	actions     sync.WaitGroup
}

// Wake has the loop look at once. Any goroutine may call Wake, once Run has begun.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run runs until ctx ends or the mandate is lost. Actions in progress then have Grace to come to an
// end; the rest is for the next preemptd.
func (l *Loop) Run(ctx context.Context) error {
	l.wake = make(chan struct{}, 1)
	l.running = map[int64]bool{}
	acting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	err := l.tickUntilDone(ctx, acting)
	if errors.Is(err, journal.ErrLost) { // another preemptd carries them out
		stop()
	}
	ended := make(chan struct{})
	go func() {
		l.actions.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return err
	case <-time.After(l.Grace):
	}
	stop()
	<-ended
	return err
}

func (l *Loop) tickUntilDone(ctx, acting context.Context) error {
	for {
		began := time.Now()
		err := l.Tick(ctx, acting)
		if errors.Is(err, journal.ErrLost) {
			return err
		}
		if l.OnTick != nil && ctx.Err() == nil {
			l.OnTick(time.Since(began), err)
		}
		if err != nil && ctx.Err() == nil { // Slurm is away, or the disk is full: there are no decisions meanwhile
			l.Log.Warn("no decision this time", "error", err)
		}
		timer := time.NewTimer(l.Settings().Interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-l.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Tick is a round. acting is the life of the actions that Tick starts.
func (l *Loop) Tick(ctx, acting context.Context) error {
	settings := l.Settings()
	// Actions that were begun go on, also when Slurm is away: an action waits by itself.
	if err := l.continueActions(ctx, acting); err != nil {
		return err
	}
	seen, err := l.Observer.Look(ctx)
	var away *cluster.ProxydError
	decision := Decision{Time: seen.Time}
	switch {
	case errors.As(err, &away):
		decision.Problems = append(decision.Problems, err.Error())
	case err != nil:
		return fmt.Errorf("look: %w", err)
	}
	known, err := l.collectKnown(ctx, settings, seen)
	if err != nil {
		return err
	}
	if err := l.recordForeign(ctx, settings, seen, known); err != nil {
		return err
	}
	lost, err := l.reportLostActions(ctx, seen)
	if err != nil {
		return err
	}
	decision.Problems = append(decision.Problems, lost...)
	l.commentEndedHolds(ctx, seen)
	stuck, err := l.releasePinnedNodes(ctx, seen, known)
	if err != nil {
		return err
	}
	decision.Problems = append(decision.Problems, stuck...)
	snapshot := cluster.Build(seen, known)
	l.commentEndedLeases(ctx, seen, snapshot)
	decision.Number = snapshot.Number
	chosen := l.askPolicies(ctx, settings, snapshot, &decision)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = l.beginActions(ctx, settings, snapshot, chosen, &decision)
	decision.Waiting = explainWaiting(settings, snapshot, &decision)
	l.reportDecision(decision, snapshot)
	if err != nil {
		return err
	}
	if err := l.keepRooms(ctx, settings, seen); err != nil {
		return err
	}
	if err := l.continueActions(ctx, acting); err != nil {
		return err
	}
	return l.forgetOld(ctx, settings, seen)
}

// continueActions carries out the unfinished actions of the journal that no goroutine carries out.
func (l *Loop) continueActions(ctx, acting context.Context) error {
	if l.DryRun {
		return nil
	}
	open, err := l.Journal.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, a := range open {
		l.mu.Lock()
		there := l.running[a.ID]
		l.running[a.ID] = true
		l.mu.Unlock()
		if !there {
			l.actions.Go(func() { l.runAction(acting, a) })
		}
	}
	return nil
}

func (l *Loop) runAction(ctx context.Context, a journal.Action) {
	log := l.Log.With("action", a.ID, "job", a.Job, "kind", a.Kind, "who", a.Who)
	log.Info("action", "why", a.Why, "step", a.Step)
	a, err := l.Executor.Run(ctx, a)
	l.mu.Lock()
	delete(l.running, a.ID)
	l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		log.Info("action interrupted; it goes on at the next start", "step", a.Step)
		return
	case err != nil: // the journal could not be written; the next tick tries again
		log.Error("cannot write an action to the journal", "step", a.Step, "error", err)
		return
	case a.State == journal.Done:
		log.Info("action ended", "state", a.State)
	default:
		log.Warn("action ended", "state", a.State, "problem", a.Problem)
	}
	if l.OnActionEnd != nil {
		l.OnActionEnd(a)
	}
	l.Wake()
}

func (l *Loop) reportDecision(d Decision, s *sdk.Snapshot) {
	for _, c := range d.Accepted {
		l.Log.Info("decided", "policy", c.Policy, "job", c.Intent.Job, "intent", c.Intent.String(), "reason", c.Intent.Reason, "outcome", c.Outcome)
	}
	for i := range d.Rejected {
		r := &d.Rejected[i]
		l.Log.Info("rejected", "policy", r.Policy, "job", r.Intent.Job, "intent", r.Intent.String(), "invariant", r.Invariant, "detail", r.Detail)
	}
	for _, p := range d.Problems {
		l.Log.Warn("a policy or a proxyd has a problem", "text", p)
	}
	l.logWaiting(d.Waiting)
	if l.OnDecision != nil {
		l.OnDecision(d, s)
	}
}

// forgetInterval is how often the journal forgets.
const forgetInterval = time.Hour

func (l *Loop) forgetOld(ctx context.Context, settings Settings, seen cluster.Observation) error {
	if l.DryRun || seen.Time.Sub(l.forgotAt) < forgetInterval {
		return nil
	}
	alive := make([]int64, len(seen.Jobs))
	for i := range seen.Jobs {
		alive[i] = seen.Jobs[i].ID
	}
	if err := l.Journal.Forget(ctx, seen.Time.Add(-settings.Retention), alive); err != nil {
		return err
	}
	l.counts.forgetOld(seen.Time)
	l.forgotAt = seen.Time
	return nil
}
