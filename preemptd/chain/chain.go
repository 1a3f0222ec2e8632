// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package chain makes a decision: policies are asked in their order, each on the cluster as the policies before leave
// it, and plan tries the intents of each policy. The loop, the simulator and singctl's trial of a policy all decide
// by this package, so their results agree.
package chain

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// Policy is asked for its intents. *policy.Policy is a Policy.
type Policy interface {
	Ask(ctx context.Context, snapshot *policypb.Snapshot) ([]sdk.Intent, error)
}

// NamedPolicy is a policy with the site's name.
type NamedPolicy struct {
	Name string
	Policy
}

// Answer is the result of asking a policy.
type Answer struct {
	Policy string
	Plan   *plan.Plan // nil: the policy failed
	Err    error      // why
}

// Decide asks all policies. A policy that fails is passed over. When ctx ends there are fewer
// answers than policies.
func Decide(ctx context.Context, policies []NamedPolicy, s *sdk.Snapshot) []Answer {
	answers := make([]Answer, 0, len(policies))
	var encoded *policypb.Snapshot // of s
	for _, p := range policies {
		if encoded == nil {
			encoded = sdk.Encode(s)
		}
		intents, err := p.Ask(ctx, encoded)
		if ctx.Err() != nil {
			return answers
		}
		if err != nil {
			answers = append(answers, Answer{Policy: p.Name, Err: err})
			continue
		}
		tried := plan.Try(s, intents)
		if tried.Snapshot != s {
			s, encoded = tried.Snapshot, nil
		}
		answers = append(answers, Answer{Policy: p.Name, Plan: tried})
	}
	return answers
}
