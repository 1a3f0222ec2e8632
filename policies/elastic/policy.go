// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package elastic is the policy that lets jobs grow beyond their requested size, into idle GPUs, and takes these GPUs
// back as soon as a job waits for them: before any job is preempted, so elastic stands before tiers in the chain.
package elastic

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Settings are the settings that a site can change.
type Settings struct {
	// Payback is how soon a job that grows must have won back the time that this takes.
	Payback sdk.Span `json:"payback"`
	// Most is how many jobs are resized at once.
	Most int `json:"most"`
}

func checkSettings(s Settings) error {
	if s.Most < 1 {
		return fmt.Errorf("settings: most is at least 1, not %d", s.Most)
	}
	return nil
}

// New returns the policy with its default settings.
func New() *sdk.Stateless[Settings] {
	return &sdk.Stateless[Settings]{
		About:    sdk.Description{Name: "elastic", Summary: "lends idle GPUs to jobs that can grow"},
		Settings: Settings{Payback: sdk.Span(10 * time.Minute), Most: 8},
		Check:    checkSettings,
		Answer:   decideOn,
	}
}
