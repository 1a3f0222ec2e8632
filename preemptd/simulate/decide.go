// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// decide asks the policies, and begins what plan lets through.
func (r *run) decide(ctx context.Context) error {
	r.ledger.Forget(r.time(r.now))
	s := r.snapshot()
	for _, ask := range r.config.Decide {
		intents, err := ask(ctx, s)
		if err != nil {
			return err
		}
		p := plan.Try(s, intents)
		r.result.Rejected += len(p.Rejected)
		for _, step := range p.Steps {
			for _, id := range step.Jobs {
				if err := r.begin(p.Snapshot, step.Intent, id); err != nil {
					return err
				}
			}
		}
		s = p.Snapshot
	}
	return nil
}

// begin begins one step for one job.
func (r *run) begin(after *sdk.Snapshot, i sdk.Intent, id sdk.JobID) error {
	j := r.active(id)
	then, _ := after.Job(id)
	switch i.Verb {
	case sdk.Preempt:
		r.stop(j, "preempt")
	case sdk.Migrate, sdk.Resize:
		if !j.computes && len(j.shares) == 0 {
			j.gpus = i.GPUs // it waits, for another size from now on
			return nil
		}
		j.gpus = then.GPUs
		c := newClaim(j, then.Shares)
		c.leaving = true
		r.lay(c)
		r.stop(j, i.Verb.String())
	case sdk.Place:
		r.lay(newClaim(j, then.Shares))
	default:
		return fmt.Errorf("simulate: %v: nothing here holds, releases or requeues", i)
	}
	return nil
}

// active is a job that has not ended.
func (r *run) active(id sdk.JobID) *job {
	if j := r.running[id]; j != nil {
		return j
	}
	i := slices.IndexFunc(r.queue, func(j *job) bool { return j.ID == id })
	return r.queue[i]
}

func newClaim(j *job, shares []sdk.Share) *claim {
	c := &claim{job: j, wants: map[int32]int{}}
	for _, s := range shares {
		c.wants[s.Node] = s.GPUs.Count()
		c.got = append(c.got, sdk.Share{Node: s.Node, Capsules: s.Capsules})
	}
	return c
}

// lay lays claim to a place: what is free of it is kept from now on, and the job starts there
// when it has all of it.
func (r *run) lay(c *claim) {
	c.job.claim = c
	if !r.fill(c) {
		r.claims = append(r.claims, c)
	}
}

// fill takes what is free of a claim, and starts its job when nothing is missing.
func (r *run) fill(c *claim) bool {
	missing := 0
	for i := range c.got {
		share := &c.got[i]
		set := r.pool.takeFrom(share.Node, c.wants[share.Node])
		share.GPUs |= set
		c.wants[share.Node] -= set.Count()
		missing += c.wants[share.Node]
	}
	if missing > 0 || c.leaving {
		return false
	}
	r.dequeue(c.job)
	r.start(c.job, c.got)
	return true
}

// snapshot is the cluster as preemptd would show it.
func (r *run) snapshot() *sdk.Snapshot {
	s := &sdk.Snapshot{Cluster: "simulated", Time: r.time(r.now), Rules: r.config.Rules, Nodes: make([]sdk.Node, r.config.Nodes)}
	gpus := make([]sdk.GPU, r.config.Nodes*r.config.GPUs)
	for n := range s.Nodes {
		s.Nodes[n] = sdk.Node{Name: fmt.Sprintf("n%06d", n), GPUs: gpus[n*r.config.GPUs : (n+1)*r.config.GPUs : (n+1)*r.config.GPUs]}
	}
	s.Jobs = make([]sdk.Job, 0, len(r.running)+len(r.queue))
	for _, j := range r.running {
		s.Jobs = append(s.Jobs, r.describe(j))
	}
	for _, j := range r.queue {
		s.Jobs = append(s.Jobs, r.describe(j))
	}
	slices.SortFunc(s.Jobs, func(a, b sdk.Job) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// describe is one job as preemptd would show it.
func (r *run) describe(j *job) sdk.Job {
	count := r.ledger.Job(j.ID, r.time(r.now))
	d := sdk.Job{
		ID: j.ID, Label: fmt.Sprint(int64(j.ID)), User: j.User, Account: j.Account, QOS: j.QOS, Priority: int64(j.tier),
		State: j.state, Action: j.action, Restarts: j.runs,
		Tier: j.tier, Promised: r.config.Rules.Promised[j.tier], Fraction: count.Fraction(), Counted: count.Counted,
		Preemptable: !j.Rigid, Tasks: j.GPUs, Capsules: j.Nodes, Request: j.GPUs, GPUs: j.gpus, MinGPUs: j.MinGPUs, MaxGPUs: j.GPUs,
		Shares: j.shares, Submitted: r.time(j.Submit.Milliseconds()), Eligible: r.time(j.Submit.Milliseconds()), Limit: j.Limit,
		Checkpoint: sdk.Checkpoint{Dump: r.config.Dump, Restore: r.config.Restore, Measured: true},
	}
	if j.claim != nil {
		d.Action = cmp.Or(d.Action, "place")
		d.Shares = merge(j.shares, j.claim.got)
	}
	if j.Rigid {
		d.Obstacle = "the trace says that it cannot be preempted"
	}
	if r.config.Kill {
		d.MinGPUs, d.MaxGPUs, d.Checkpoint = j.GPUs, j.GPUs, sdk.Checkpoint{}
	}
	if len(j.shares) > 0 {
		d.Started = r.time(j.started)
	}
	if j.acted >= 0 {
		d.Acted = r.time(j.acted)
	}
	return d
}

// merge is what a job holds and what is kept for it.
func merge(held, kept []sdk.Share) []sdk.Share {
	all := slices.Concat(held, slices.DeleteFunc(slices.Clone(kept), func(s sdk.Share) bool { return s.GPUs == 0 }))
	slices.SortStableFunc(all, func(a, b sdk.Share) int { return cmp.Compare(a.Node, b.Node) })
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].Node == s.Node {
			merged[n-1].GPUs |= s.GPUs
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// DefaultRules are those of a cluster whose site says nothing else.
func DefaultRules(promised [sdk.Tiers]float64) sdk.Rules {
	return sdk.Rules{Window: time.Hour, Promised: promised, MinRun: time.Minute, CoolDown: 5 * time.Minute}
}
