// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/jobrequest"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/ledger"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// collectKnown is what the snapshot says beside what was seen.
func (l *Loop) collectKnown(ctx context.Context, settings Settings, seen cluster.Seen) (cluster.Known, error) {
	l.number++
	k := cluster.Known{
		Number: l.number, Rules: settings.Rules, Power: settings.Power,
		Tier:   func(qos string) sdk.Tier { return ledger.TierOf(qos, settings.Tiers) },
		Action: map[int64]string{}, Held: map[int64]cluster.Hold{}, Edited: map[int64]cluster.Edited{},
	}
	if l.Rooms != nil {
		k.Rooms = l.Rooms.Kept()
	}
	open, err := l.Journal.Unfinished(ctx)
	if err != nil {
		return k, err
	}
	if err := underWay(open, k.Action); err != nil {
		return k, err
	}
	latest, err := l.Journal.Latest(ctx)
	if err != nil {
		return k, err
	}
	for i := range latest {
		holder, err := l.holderOf(ctx, &latest[i])
		if err != nil {
			return k, err
		}
		if holder != nil {
			k.Held[holder.Job] = cluster.Hold{Who: holder.Who, Policy: strings.HasPrefix(holder.Who, byPolicy)}
		}
	}
	// Failed actions count too: the same job is not tried again at once.
	if k.Acted, err = l.Journal.Tried(ctx); err != nil {
		return k, err
	}
	origins, err := l.Journal.Origins(ctx)
	if err != nil {
		return k, err
	}
	for job, raw := range origins {
		record, err := jobrequest.Decode(raw)
		if err != nil {
			return k, fmt.Errorf("job %d: %w", job, err)
		}
		k.Edited[job] = cluster.Edited{Record: record, ByPerson: isPerson(record.By), SizedByPerson: isPerson(record.SizedBy.Editor)}
	}
	l.counts.setWindow(settings.Rules.Window)
	l.counts.countJobs(cluster.Build(seen, withoutCounts(k)))
	k.Count, k.Account = l.counts.makeReaders(seen.Time)
	return k, nil
}

func isPerson(who jobrequest.Editor) bool {
	return who.Who != "" && !strings.HasPrefix(who.Who, byPolicy)
}

// maxHolder is how many actions are read to find the holder of a job.
const maxHolder = 100

// holderOf is the action that made the job's hold, by the job's last action: that action may have
// found a hold, which then is of an action before.
func (l *Loop) holderOf(ctx context.Context, last *journal.Action) (*journal.Action, error) {
	left, err := action.HoldLeftBy(last)
	switch {
	case err != nil || left == action.NotHeld:
		return nil, err
	case left == action.HeldByAction:
		return last, nil
	}
	all, err := l.Journal.History(ctx, last.Job, maxHolder)
	if err != nil {
		return nil, err
	}
	return action.LastHolder(all)
}

// underWay fills in what is being done to jobs. A job for which room is being made is being
// placed: else more room would be made for the job with each tick, until the first victim has
// left.
func underWay(open []journal.Action, doing map[int64]string) error {
	for i := range open {
		doing[open[i].Job] = open[i].Kind
	}
	for i := range open {
		var args action.Args
		if err := json.Unmarshal(open[i].Args, &args); err != nil {
			return fmt.Errorf("action %d: %w", open[i].ID, err)
		}
		if args.For != 0 && doing[args.For] == "" {
			doing[args.For] = sdk.Place.String()
		}
	}
	return nil
}

// withoutCounts is what is known before anything is counted.
func withoutCounts(k cluster.Known) cluster.Known {
	k.Count = func(sdk.JobID) (float64, time.Duration) { return 1, 0 }
	k.Account = func(string) float64 { return 1 }
	return k
}

// jobHistory is how often a job had been requeued, and whether by us; and what Slurm remembers of
// earlier times.
type jobHistory struct {
	restarts  int64
	ours      bool
	preempted time.Time
	failed    string
	nodes     string    // where the job ran, or "" if the job did not run
	began     time.Time // the run on these nodes
}

// recordForeign records what other users and programs did: a job that was requeued without an
// action of ours was requeued by Slurm, or by a person.
func (l *Loop) recordForeign(ctx context.Context, settings Settings, seen cluster.Seen, k cluster.Known) error {
	now := make(map[int64]jobHistory, len(seen.Jobs))
	lately := seen.Time.Add(-2 * settings.Interval)
	for i := range seen.Jobs {
		j := &seen.Jobs[i]
		was, met := l.lastSeen[j.ID]
		now[j.ID] = historyOf(j, k.Action[j.ID] != "")
		recent := k.Acted[j.ID].After(lately)
		if l.DryRun || !met || j.Restarts <= was.restarts || was.ours || k.Action[j.ID] != "" || recent {
			continue
		}
		if err := l.Journal.Note(ctx, foreignEvent(j, was, seen)); err != nil {
			return err
		}
	}
	l.lastSeen = now
	return nil
}

func historyOf(j *slurmrest.Job, ours bool) jobHistory {
	h := jobHistory{restarts: j.Restarts, ours: ours, preempted: j.PreemptTime, failed: j.FailedNode}
	switch j.State.Base {
	case slurmrest.Running, slurmrest.Suspended:
		h.nodes, h.began = j.Nodes, j.StartTime
	}
	return h
}

// foreignEvent is what another user or program did. Slurm keeps the time of the last preemption,
// and the node that failed last, through later requeues.
func foreignEvent(j *slurmrest.Job, was jobHistory, seen cluster.Seen) journal.Event {
	e := journal.Event{Job: j.ID, Restarts: j.Restarts, What: "requeued", At: seen.Time, Text: "by Slurm or a person"}
	restarted, down := restartedNode(j, was, seen), downNode(was, seen)
	switch {
	case !j.PreemptTime.IsZero() && !j.PreemptTime.Equal(was.preempted):
		e.What, e.At, e.Text = "preempted", j.PreemptTime, "by Slurm"
	case j.FailedNode != "" && j.FailedNode != was.failed:
		e.What, e.Text = "node failed", j.FailedNode
	case restarted != "":
		e.What, e.Text = "node failed", restarted+", which was back at once"
	case down != "":
		e.What, e.Text = "node failed", down
	}
	return e
}

// restartNoticed is within what time Slurm notices, and requeues the jobs of, a node that failed and was back before Slurm
// missed the node.
const restartNoticed = 5 * time.Minute

// restartedNode returns the node that a requeued job has lost though Slurm names no failed node: Slurm does not when the node
// is back before it is missed. The slurmd of such a node has started during the run, shortly before the requeue. A slurmd
// that was only restarted keeps its jobs: then a requeue by a person has made a checkpoint since. "": there is no such
// node.
func restartedNode(j *slurmrest.Job, was jobHistory, seen cluster.Seen) string {
	if was.nodes == "" {
		return ""
	}
	nodes := jobrequest.HostNames(was.nodes)
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		started := n.SlurmdStartTime
		lived := false
		for _, c := range seen.Checkpoints[j.Label()] {
			lived = lived || c.GetCreated().AsTime().After(started)
		}
		if started.After(was.began) && seen.Time.Sub(started) < restartNoticed && !lived && slices.Contains(nodes, n.Name) {
			return n.Name
		}
	}
	return ""
}

// downNode returns a node on which a requeued job ran and that is down now. Slurm keeps only the name of the node that failed
// last, which does not change when the same node fails again. "": there is no such node.
func downNode(was jobHistory, seen cluster.Seen) string {
	nodes := jobrequest.HostNames(was.nodes)
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		if n.State.Base == "DOWN" && slices.Contains(nodes, n.Name) {
			return n.Name
		}
	}
	return ""
}

// fractionCounts are the GPU fractions, of what this loop has seen.
type fractionCounts struct {
	ledger *ledger.Ledger
	over   time.Duration
	last   map[sdk.JobID]ledger.Event
}

// setWindow begins to count over a window; another window begins anew with what was counted.
func (c *fractionCounts) setWindow(w time.Duration) {
	if c.ledger != nil && c.over == w {
		return
	}
	fresh := ledger.New(w)
	if c.ledger != nil {
		fresh.Add(c.ledger.Events()...)
	}
	c.ledger, c.over = fresh, w
}

// countJobs counts what jobs do now, from when they began it.
func (c *fractionCounts) countJobs(s *sdk.Snapshot) {
	now := make(map[sdk.JobID]ledger.Event, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := ledger.Event{Job: j.ID, At: s.Time, Run: j.Restarts, State: ledgerState(j), Request: j.Request, Account: j.Account}
		if e.State == ledger.Running || e.State == ledger.Stopped {
			e.GPUs = j.GPUs
		}
		was, met := c.last[j.ID]
		if met && was.State == e.State && was.Run == e.Run && was.GPUs == e.GPUs && was.Request == e.Request && was.Account == e.Account {
			now[j.ID] = was
			continue
		}
		switch began := stateBegan(j); {
		case began.IsZero() || began.After(s.Time):
		case !met || began.After(was.At):
			e.At = began
		}
		c.ledger.Add(e)
		now[j.ID] = e
	}
	for id, was := range c.last {
		if _, there := now[id]; !there {
			was.At, was.State, was.GPUs = s.Time, ledger.Ended, 0
			c.ledger.Add(was)
		}
	}
	c.last = now
}

func stateBegan(j *sdk.Job) time.Time {
	switch j.State {
	case sdk.Running:
		return j.Started
	case sdk.Waiting:
		return j.Eligible
	}
	return time.Time{}
}

func ledgerState(j *sdk.Job) ledger.State {
	switch j.State {
	case sdk.Running:
		return ledger.Running
	case sdk.Suspended, sdk.Leaving:
		return ledger.Stopped
	case sdk.Held:
		if j.HeldBy == sdk.HeldByPreemptd {
			return ledger.Waiting
		}
		return ledger.Excused
	case sdk.Deferred:
		return ledger.Excused
	}
	return ledger.Waiting
}

// makeReaders returns how to ask for what is counted up to a time.
func (c *fractionCounts) makeReaders(now time.Time) (job func(sdk.JobID) (float64, time.Duration), account func(string) float64) {
	accounts := c.ledger.Accounts(now)
	job = func(id sdk.JobID) (float64, time.Duration) {
		n := c.ledger.Job(id, now)
		return n.Fraction(), n.Counted
	}
	return job, func(name string) float64 { return accounts[name].Fraction() }
}

func (c *fractionCounts) forgetOld(now time.Time) { c.ledger.Forget(now) }
