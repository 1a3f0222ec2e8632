// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Elastic is the policy that lets jobs grow beyond what they asked for, into GPUs that are
// idle, and takes these back as soon as somebody waits for them: before anybody is preempted,
// so it stands before tiers in the chain.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// version is what Describe says; releases set it.
var version = "0.1.0-dev"

// settings are what a site can change.
type settings struct {
	// Payback is how soon a job that grows must have won back the time that this takes.
	Payback sdk.Span `json:"payback"`
	// Most is how many jobs are resized at once.
	Most int `json:"most"`
}

type elastic struct{ settings settings }

func newElastic() *elastic {
	return &elastic{settings{Payback: sdk.Span(10 * time.Minute), Most: 8}}
}

// Describe says who this is.
func (e *elastic) Describe() sdk.Description {
	return sdk.Description{Name: "elastic", Version: version, Summary: "lends idle GPUs to jobs that can grow"}
}

// Configure takes settings.
func (e *elastic) Configure(data []byte) error {
	if err := sdk.Settings(data, &e.settings); err != nil {
		return err
	}
	if e.settings.Most < 1 {
		return fmt.Errorf("settings: most is at least 1, not %d", e.settings.Most)
	}
	return nil
}

// Decide answers with intents.
func (e *elastic) Decide(_ context.Context, s *sdk.Snapshot) ([]sdk.Intent, error) {
	return decideOn(s, e.settings), nil
}

func main() { sdk.Serve(newElastic()) }
