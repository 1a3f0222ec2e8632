// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
)

type asked func(s *sdk.Snapshot) ([]sdk.Intent, error)

func (f asked) Ask(_ context.Context, pb *policypb.Snapshot) ([]sdk.Intent, error) {
	s, err := sdk.Decode(pb)
	if err != nil {
		return nil, err
	}
	return f(s)
}

// Each policy sees the cluster as the policies before leave it; a policy that fails is passed over.
func TestDecide(t *testing.T) {
	s := sdktest.Cluster(sdktest.Size{Nodes: 4, GPUs: 8, Jobs: 30, Fill: 0.8, Seed: 3})
	var waiting sdk.JobID
	for _, j := range s.Jobs {
		if j.State == sdk.Waiting && j.Tier == sdk.Basic {
			waiting = j.ID
		}
	}
	hold := asked(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
		return []sdk.Intent{{Verb: sdk.Hold, Job: waiting, Reason: "full"}}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	answers := chain.Decide(ctx, []chain.NamedPolicy{
		{Name: "first", Policy: hold},
		{Name: "bad", Policy: asked(func(*sdk.Snapshot) ([]sdk.Intent, error) { return nil, errors.New("crash") })},
		{Name: "second", Policy: asked(func(s *sdk.Snapshot) ([]sdk.Intent, error) {
			if j, _ := s.Job(waiting); j.State != sdk.Held || j.Action != "hold" {
				t.Errorf("the second policy sees %+v, and not the hold of the first", j)
			}
			return []sdk.Intent{{Verb: sdk.Hold, Job: waiting, Reason: "again"}}, nil
		})},
		{Name: "stopped", Policy: asked(func(*sdk.Snapshot) ([]sdk.Intent, error) { cancel(); return nil, nil })},
		{Name: "late", Policy: hold},
	}, s)
	if len(answers) != 3 || answers[1].Policy != "bad" || answers[1].Plan != nil || answers[1].Err == nil {
		t.Fatalf("answers %+v", answers)
	}
	if len(answers[0].Plan.Steps) != 1 || len(answers[2].Plan.Rejected) != 1 {
		t.Errorf("first %+v, second %+v", answers[0].Plan, answers[2].Plan)
	}
}
