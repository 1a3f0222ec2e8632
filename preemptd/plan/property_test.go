// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// For all intents, the accepted intents keep every invariant, judged by a second, slow and simple look at the cluster
// before and after.
func TestWhatIsAcceptedKeepsEveryInvariant(t *testing.T) {
	accepted, broken := map[sdk.Verb]int{}, map[plan.Invariant]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := sdktest.Random(r)
		intents := sdktest.RandomIntents(r, s)
		was, _ := sdk.Marshal(s)
		p := plan.Try(s, intents)
		if is, _ := sdk.Marshal(s); !bytes.Equal(was, is) {
			t.Fatalf("seed %d: the snapshot that was given has changed", seed)
		}
		if len(p.Steps)+len(p.Rejected) != len(intents) {
			t.Fatalf("seed %d: %d intents, %d steps, %d rejected", seed, len(intents), len(p.Steps), len(p.Rejected))
		}
		if err := p.Snapshot.Check(); err != nil {
			t.Fatalf("seed %d: Check of the result: %v", seed, err)
		}
		if err := judgePlan(s, p); err != nil {
			t.Fatalf("seed %d: judgePlan: %v", seed, err)
		}
		planAlone(t, seed, s, p)
		for _, step := range p.Steps {
			accepted[step.Intent.Verb]++
		}
		for _, rej := range p.Rejected {
			broken[rej.Invariant]++
		}
	}
	for v := sdk.Preempt; v <= sdk.Place; v++ {
		if accepted[v] < 5 {
			t.Errorf("%v was accepted %d times, too few for this test", v, accepted[v])
		}
	}
	t.Logf("accepted %v, rejected %v", accepted, broken)
}

// planAlone tries the accepted intents alone: all are accepted, and the result is the same.
func planAlone(t *testing.T, seed uint64, s *sdk.Snapshot, p *plan.Plan) {
	t.Helper()
	var intents []sdk.Intent
	for _, step := range p.Steps {
		intents = append(intents, step.Intent)
	}
	q := plan.Try(s, intents)
	if len(q.Rejected) > 0 || !reflect.DeepEqual(p.Steps, q.Steps) || !reflect.DeepEqual(p.Snapshot, q.Snapshot) {
		t.Fatalf("seed %d: tried alone, the accepted intents give another plan; rejected: %v", seed, q.Rejected)
	}
}

// judgePlan looks at the cluster before and after.
func judgePlan(before *sdk.Snapshot, p *plan.Plan) error {
	stepOf := map[sdk.JobID]sdk.Intent{}
	for _, step := range p.Steps {
		for _, id := range step.Jobs {
			if _, twice := stepOf[id]; twice {
				return fmt.Errorf("job %d has two steps", id)
			}
			stepOf[id] = step.Intent
		}
	}
	for i := range before.Jobs {
		was, is := &before.Jobs[i], &p.Snapshot.Jobs[i]
		intent, changed := stepOf[was.ID]
		if !changed {
			if !reflect.DeepEqual(was, is) {
				return fmt.Errorf("job %d changed without a step", was.ID)
			}
			continue
		}
		if err := judgeJob(before, was, is, intent); err != nil {
			return fmt.Errorf("%v: %w", intent, err)
		}
	}
	return judgeNodes(before, p.Snapshot)
}

// stopsJob reports whether a running job is stopped by the intent.
func stopsJob(i sdk.Intent, was *sdk.Job) bool {
	return was.Holds() && i.Verb != sdk.Hold && i.Verb != sdk.Release && i.Verb != sdk.Resume
}

func judgeJob(s *sdk.Snapshot, was, is *sdk.Job, i sdk.Intent) error {
	switch {
	case i.Reason == "" || was.Action != "":
		return fmt.Errorf("an intent without a reason, or for a job with an action: %q", was.Action)
	case is.Tasks != was.Tasks || is.Capsules != was.Capsules || is.CPUs != was.CPUs || is.Memory != was.Memory:
		return fmt.Errorf("its tasks, capsules, CPUs or memory have changed: %+v", is)
	case was.Gang != 0 && was.Gang != i.Job:
		return fmt.Errorf("a gang was split")
	case was.State == sdk.Held && was.HeldBy != sdk.HeldByPreemptd && is.State != sdk.Held:
		return fmt.Errorf("a job is released that a user or proxyd holds")
	case was.State == sdk.Leaving || was.State == sdk.Suspended || was.State == sdk.Deferred && is.Holds():
		return fmt.Errorf("from state %d", was.State)
	case is.GPUs != was.GPUs && (is.GPUs < was.MinGPUs || is.GPUs > was.MaxGPUs):
		return fmt.Errorf("%d GPUs of %d to %d", is.GPUs, was.MinGPUs, was.MaxGPUs)
	}
	if is.Holds() {
		if err := judgePlace(s, is); err != nil {
			return err
		}
	}
	if !stopsJob(i, was) {
		return nil
	}
	return judgeDisturbance(s, was, is, i)
}

// judgeDisturbance returns an error if the job might not be stopped.
func judgeDisturbance(s *sdk.Snapshot, was, is *sdk.Job, i sdk.Intent) error {
	if !was.Preemptable {
		return fmt.Errorf("the job cannot be captured")
	}
	leaving := false
	for _, share := range was.Shares {
		n := s.Nodes[share.Node]
		leaving = leaving || n.State != sdk.NodeUp
		for g := range n.GPUs {
			leaving = leaving || share.GPUs>>g&1 == 1 && n.GPUs[g].Health == sdk.HealthBad
		}
		for _, res := range s.Reservations {
			leaving = leaving || res.Maintenance && slices.Contains(res.Nodes, share.Node)
		}
	}
	if leaving {
		return nil
	}
	if s.Time.Sub(was.Started) < s.Rules.MinRun {
		return fmt.Errorf("the job has just started")
	}
	if !was.Acted.IsZero() && s.Time.Sub(was.Acted) < s.Rules.CoolDown {
		return fmt.Errorf("the job was just moved")
	}
	if i.Verb == sdk.Resize && is.GPUs > was.GPUs || was.Promised == 0 {
		return nil
	}
	cost := (was.Checkpoint.Dump + was.Checkpoint.Restore).Seconds()
	lost := (1-was.Fraction)*was.Counted.Seconds() + cost
	kept := 1 - lost/s.Rules.Window.Seconds()
	for k := range s.Jobs {
		o := &s.Jobs[k]
		if o.ID == i.For && o.Tier > was.Tier && (1-o.Fraction)*o.Counted.Seconds() > (1-o.Promised)*s.Rules.Window.Seconds() {
			return nil
		}
	}
	if kept < was.Promised-1e-6 {
		return fmt.Errorf("the job keeps %.3f of the promised %.3f", kept, was.Promised)
	}
	return nil
}

// judgePlace returns an error if the job may not be on its nodes.
func judgePlace(s *sdk.Snapshot, j *sdk.Job) error {
	capsules, gpus := 0, 0
	for _, share := range j.Shares {
		n := &s.Nodes[share.Node]
		capsules += int(share.Capsules)
		gpus += share.GPUs.Count()
		for g := range n.GPUs {
			if share.GPUs>>g&1 == 1 && (n.GPUs[g].Health == sdk.HealthBad || j.Kind != "" && n.GPUs[g].Kind != j.Kind) {
				return fmt.Errorf("GPU %d of %s is sick or of another kind", g, n.Name)
			}
		}
		if n.State != sdk.NodeUp || !slices.Contains(n.Partitions, j.Partition) || slices.Contains(j.Excluded, share.Node) {
			return fmt.Errorf("node %s is not for it", n.Name)
		}
		for _, res := range s.Reservations {
			if slices.Contains(res.Nodes, share.Node) && (res.Maintenance || res.Name != j.Reservation) && res.End.After(s.Time) && res.Start.Before(s.Time.Add(j.Limit)) {
				return fmt.Errorf("node %s is reserved", n.Name)
			}
		}
		if share.GPUs.Count() != j.Shares[0].GPUs.Count() {
			return fmt.Errorf("uneven: %+v", j.Shares)
		}
	}
	if capsules != j.Capsules || gpus != j.GPUs {
		return fmt.Errorf("the job has %d capsules and %d GPUs, and its shares have %d and %d", j.Capsules, j.GPUs, capsules, gpus)
	}
	return nil
}

// judgeNodes returns an error if a node is given out twice that was not before.
func judgeNodes(before, after *sdk.Snapshot) error {
	for n := range before.Nodes {
		node := &before.Nodes[n]
		wasCPUs, wasMemory := takenOn(before, int32(n))
		cpus, memory := takenOn(after, int32(n))
		if cpus > max(node.CPUs, wasCPUs) || memory > max(node.Memory, wasMemory) {
			return fmt.Errorf("node %s gives %d of %d CPUs and %d of %d MiB", node.Name, cpus, node.CPUs, memory, node.Memory)
		}
	}
	return nil
}

func takenOn(s *sdk.Snapshot, node int32) (cpus int, memory int64) {
	for i := range s.Jobs {
		for _, share := range s.Jobs[i].Shares {
			if share.Node == node {
				cpus += int(share.CPUs)
				memory += share.Memory
			}
		}
	}
	return cpus, memory
}
