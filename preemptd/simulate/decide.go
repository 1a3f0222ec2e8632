// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
)

// askPolicies asks the policies, and begins the steps that plan accepts. In a simulation a policy that fails is an
// error: else the results would not be of this policy.
func (r *run) askPolicies(ctx context.Context) error {
	if r.now >= r.forget {
		r.counter.Forget(r.timeAt(r.now))
		r.forget = r.now + r.config.Rules.Window.Milliseconds()/8
	}
	policies := r.config.Policies
	if r.config.Kill {
		policies = withoutMoves(policies)
	}
	for _, answer := range chain.Decide(ctx, policies, r.takeSnapshot()) {
		if answer.Err != nil {
			return answer.Err
		}
		r.result.Rejected += len(answer.Plan.Rejected)
		for _, step := range answer.Plan.Steps {
			r.dirty = true
			for _, id := range step.Jobs {
				if err := r.beginStep(answer.Plan.Snapshot, step.Intent, id); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// policyWithoutMoves is a policy on a cluster without capsules: a job that was moved would begin again, so no job is
// moved, and a job that has room only when another job is moved gets no room.
type policyWithoutMoves struct{ chain.Policy }

func withoutMoves(policies []chain.NamedPolicy) []chain.NamedPolicy {
	all := make([]chain.NamedPolicy, len(policies))
	for i, p := range policies {
		all[i] = chain.NamedPolicy{Name: p.Name, Policy: policyWithoutMoves{p.Policy}}
	}
	return all
}

func (p policyWithoutMoves) Ask(ctx context.Context, s *policypb.Snapshot) ([]sdk.Intent, error) {
	intents, err := p.Policy.Ask(ctx, s)
	dropped := map[sdk.JobID]bool{}
	for _, i := range intents {
		if i.Verb == sdk.Migrate {
			dropped[i.Job] = true
			if i.For != 0 {
				dropped[i.For] = true
			}
		}
	}
	return slices.DeleteFunc(intents, func(i sdk.Intent) bool { return dropped[i.Job] || dropped[i.For] }), err
}

// beginStep begins a step for a job.
func (r *run) beginStep(after *sdk.Snapshot, i sdk.Intent, id sdk.JobID) error {
	j := r.activeJob(id)
	then, _ := after.Job(id)
	switch i.Verb {
	case sdk.Preempt:
		j.parks = i.Park
		r.stopJob(j, i.Verb)
	case sdk.Requeue:
		r.requeueJob(j, then, i.Park)
	case sdk.Migrate, sdk.Resize:
		r.moveJob(j, then, i.Verb)
	case sdk.Place, sdk.Resume, sdk.Release:
		if j.state == sdk.Held {
			j.state = sdk.Waiting
			r.enqueueJob(j)
		}
		if len(then.Shares) > 0 {
			r.addClaim(newClaim(j, then.Shares))
		}
	case sdk.Hold:
		r.dequeueJob(j)
		j.state = sdk.Held
	default:
		return fmt.Errorf("simulate: %v: there is no such verb here", i)
	}
	return nil
}

// moveJob has a job go on elsewhere, or with another number of GPUs.
func (r *run) moveJob(j *job, then *sdk.Job, verb sdk.Verb) {
	switch {
	case r.config.Kill: // a moved job would begin again, so no job is moved
		r.result.Rejected++
	case len(j.shares) == 0:
		j.gpus = then.GPUs // the job waits, for another size from now on
	case verb == sdk.Resize && r.canResizeInPlace(j, then):
		r.resizeInPlace(j, then)
	default:
		j.gpus = then.GPUs
		c := newClaim(j, then.Shares)
		c.leaving = true
		r.addClaim(c)
		r.stopJob(j, verb)
	}
}

// requeueJob gives a job another QOS.
func (r *run) requeueJob(j *job, then *sdk.Job, park bool) {
	waits := j.state == sdk.Waiting
	if waits {
		r.dequeueJob(j)
	}
	j.qos, j.tier = then.QOS, then.Tier
	switch {
	case waits && park:
		j.state = sdk.Held
	case waits:
		r.enqueueJob(j)
	case j.state == sdk.Running:
		j.parks = park
		r.stopJob(j, sdk.Requeue)
	}
}

// activeJob is a job that has not ended.
func (r *run) activeJob(id sdk.JobID) *job {
	i, _ := slices.BinarySearchFunc(r.present, id, func(j *job, id sdk.JobID) int { return cmp.Compare(j.ID, id) })
	return r.present[i]
}

func newClaim(j *job, shares []sdk.Share) *claim {
	c := &claim{job: j, wants: map[int32]int{}}
	for _, s := range shares {
		c.wants[s.Node] = s.GPUs.Count()
		c.got = append(c.got, sdk.Share{Node: s.Node, Capsules: s.Capsules})
	}
	return c
}

// addClaim lays claim to a place: the free part of the place is kept from now on, and the job starts there when it
// has all of the place.
func (r *run) addClaim(c *claim) {
	c.job.claim = c
	if !r.fillClaim(c) {
		r.claims = append(r.claims, c)
	}
}

// fillClaim takes the free part of a claim, and starts its job when the claim is whole.
func (r *run) fillClaim(c *claim) bool {
	missing := 0
	for i := range c.got {
		share := &c.got[i]
		set := r.pool.allocateGPUs(share.Node, c.wants[share.Node])
		share.GPUs |= set
		c.wants[share.Node] -= set.Count()
		missing += c.wants[share.Node]
	}
	if missing > 0 || c.leaving {
		return false
	}
	r.dequeueJob(c.job)
	r.startJob(c.job, c.got)
	return true
}

func makeNodes(n, gpus int) []sdk.Node {
	nodes := make([]sdk.Node, n)
	devices := make([]sdk.GPU, n*gpus)
	for i := range nodes {
		nodes[i] = sdk.Node{Name: fmt.Sprintf("n%06d", i), GPUs: devices[i*gpus : (i+1)*gpus : (i+1)*gpus]}
	}
	return nodes
}

// takeSnapshot returns the cluster as preemptd would show it.
func (r *run) takeSnapshot() *sdk.Snapshot {
	r.present = slices.DeleteFunc(r.present, func(j *job) bool { return j.state == sdk.Deferred })
	s := &sdk.Snapshot{
		Cluster: "simulated", Time: r.timeAt(r.now), Rules: r.config.Rules, QOS: r.qos,
		Nodes: r.nodes, Jobs: make([]sdk.Job, len(r.present)),
	}
	half := len(s.Jobs) / 2
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.describeJobs(r.present[:half], s.Jobs[:half])
	}()
	r.describeJobs(r.present[half:], s.Jobs[half:])
	<-done
	return s
}

// describeJobs fills to with the jobs as preemptd would show them, and makes no other change.
func (r *run) describeJobs(present []*job, to []sdk.Job) {
	for i, j := range present {
		r.fillSnapshotJob(j, &to[i])
	}
}

// fillSnapshotJob makes d a job as preemptd would show it.
func (r *run) fillSnapshotJob(j *job, d *sdk.Job) {
	count := r.counter.Job(j.ID, r.timeAt(r.now))
	*d = sdk.Job{
		ID: j.ID, Label: j.label, User: j.User, Account: j.Account, QOS: j.qos, Priority: int64(j.tier),
		State: j.state, Action: j.action, Restarts: j.runs,
		Tier: j.tier, Promised: r.config.Rules.Promised[j.tier], Fraction: count.Fraction(), Counted: count.Counted,
		Preemptable: !j.Rigid, Tasks: j.MaxGPUs, Capsules: j.Nodes, Request: j.GPUs, GPUs: j.gpus, MinGPUs: j.leastGPUs(), MaxGPUs: j.MaxGPUs, Fullest: j.sharing.Fullest,
		Shares: j.shares, Submitted: r.timeAt(j.Submit.Milliseconds()), Eligible: r.timeAt(j.Submit.Milliseconds()), Limit: j.Limit,
		Checkpoint: sdk.Checkpoint{Dump: r.config.Dump, Restore: r.config.Restore, Measured: true},
	}
	if j.claim != nil {
		d.Action = cmp.Or(d.Action, "place")
		d.Shares = mergeShares(j.shares, j.claim.got)
	}
	if j.state == sdk.Held {
		d.HeldBy = sdk.HeldByPreemptd
	}
	if j.Rigid {
		d.Obstacle = "the trace says that it cannot be preempted"
	}
	if r.config.Kill {
		d.MinGPUs, d.MaxGPUs, d.Checkpoint = j.GPUs, j.GPUs, sdk.Checkpoint{}
	}
	if len(j.shares) > 0 {
		d.Started = r.timeAt(j.started)
		d.Leased, d.PauseInPlace = j.holding-j.own, r.config.InPlace
	}
	if j.acted >= 0 {
		d.Acted = r.timeAt(j.acted)
	}
}

// mergeShares joins the shares that a job holds and the shares that are kept for the job.
func mergeShares(held, kept []sdk.Share) []sdk.Share {
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
