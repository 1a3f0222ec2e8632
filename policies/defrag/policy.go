// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package defrag is the policy that moves small jobs together so that a large job fits: where enough GPUs for a
// waiting job are free, but not together on as many nodes as the job needs. Defrag does so if the moves pay: they are
// to take less time than the job would wait.
package defrag

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Settings are the settings that a site can change.
type Settings struct {
	// Patience is for how long a job has waited before other jobs are moved: Slurm may find room
	// by itself.
	Patience sdk.Span `json:"patience"`
	// Pays is how many GPU-seconds the job must gain for each that the moves take.
	Pays float64 `json:"pays"`
	// Most is how many jobs are moved at once.
	Most int `json:"most"`
}

func checkSettings(s Settings) error {
	if s.Most < 1 || s.Pays < 0 {
		return fmt.Errorf("settings: most is at least 1 and pays at least 0, not %d and %g", s.Most, s.Pays)
	}
	return nil
}

// New returns the policy with its default settings.
func New() *sdk.Stateless[Settings] {
	return &sdk.Stateless[Settings]{
		About:    sdk.Description{Name: "defrag", Summary: "moves small jobs together so that a large one fits"},
		Settings: Settings{Patience: sdk.Span(2 * time.Minute), Pays: 2, Most: 8},
		Check:    checkSettings,
		Answer:   decideOn,
	}
}
