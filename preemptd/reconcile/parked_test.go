// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
)

// beginAction begins an action of a person on the basic job.
func (s *site) beginAction(who, kind string, args action.Args) {
	s.Helper()
	raw, err := action.Encode(kind, args)
	if err != nil {
		s.Fatal(err)
	}
	a, err := s.journal.Begin(s.Context(), journal.Request{Kind: kind, Job: basic, Args: raw, Who: who, Why: "a test"})
	if err != nil {
		s.Fatal(err)
	}
	if a, err = s.loop.Executor.Run(s.Context(), a); err != nil || a.State != journal.Done {
		s.Fatalf("%s by %s: %v %s: %s", kind, who, err, a.State, a.Problem)
	}
}

// TestParkedAndMoved: the hold of a job that is moved and resized while parked stays with
// the person or policy that parked the job.
func TestParkedAndMoved(t *testing.T) {
	for who, holder := range map[string]sdk.Holder{"policy tiers": sdk.HeldByPreemptd, "alice": sdk.HeldByUser, "operator": sdk.HeldByOperator} {
		t.Run(who, func(t *testing.T) {
			s := newSite(t)
			s.beginAction(who, "preempt", action.Args{Hold: true})
			s.beginAction("bob", "migrate", action.Args{Avoid: []string{"n2"}})
			s.beginAction("policy elastic", "resize", action.Args{GPUs: 2})
			var seen sdk.Job
			s.settings.Policies = []chain.NamedPolicy{{Name: "looks", Policy: says(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
				j, _ := s.Job(basic)
				seen = *j
				return nil, nil
			})}}
			s.runTick()
			if seen.State != sdk.Held || seen.HeldBy != holder || !s.readJob(basic).Held {
				t.Errorf("state %d, held by %d, want %d", seen.State, seen.HeldBy, holder)
			}
		})
	}
}
