// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package tiers is the policy that keeps the promises to tiers. Work of a higher tier that waits gets its place by
// shrinking, then by preempting, the cheapest jobs of lower tiers that are above their promise; shrunk jobs grow
// again when there is room.
//
// Tiers decides from the snapshot alone, in the order of decide.go. The queue stays Slurm's: where there is room,
// Slurm starts jobs; a preempted job waits in Slurm's queue, and starts again by itself.
package tiers

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Settings are the settings that a site can change.
type Settings struct {
	// Hurry says for each tier when its waiting work may disturb other jobs: when no more than
	// this part of the time for which the work can wait is left. 1: at once; 0: only when its
	// promise is about to be broken. Basic never does.
	Hurry struct {
		Standard float64 `json:"standard"`
		Premium  float64 `json:"premium"`
	} `json:"hurry"`
	// Most is for how many waiting jobs room is made at once.
	Most int `json:"most"`
	// Moves is how many jobs of its own tier or higher may move to other nodes so that a job that needs most of a node
	// has room. 0: no job moves.
	Moves int `json:"moves"`
	// Patience is for how long Slurm may leave a job of a tier waiting though there is room,
	// before the policy places the job.
	Patience sdk.Span `json:"patience"`
	// Payback is how soon a job that grows must have won back the time that this takes.
	Payback sdk.Span `json:"payback"`
}

func defaultSettings() Settings {
	s := Settings{Most: 32, Moves: 8, Patience: sdk.Span(time.Minute), Payback: sdk.Span(10 * time.Minute)}
	s.Hurry.Standard, s.Hurry.Premium = 0.5, 1
	return s
}

func checkSettings(s Settings) error {
	for _, hurry := range []float64{s.Hurry.Standard, s.Hurry.Premium} {
		if hurry < 0 || hurry > 1 {
			return fmt.Errorf("settings: hurry is from 0 to 1, not %g", hurry)
		}
	}
	if s.Most < 1 {
		return fmt.Errorf("settings: most is at least 1, not %d", s.Most)
	}
	if s.Moves < 0 {
		return fmt.Errorf("settings: moves is at least 0, not %d", s.Moves)
	}
	return nil
}

// New returns the policy with its default settings.
func New() *sdk.Stateless[Settings] {
	return &sdk.Stateless[Settings]{
		About:    sdk.Description{Name: "tiers", Summary: "keeps what premium and standard jobs are promised"},
		Settings: defaultSettings(),
		Check:    checkSettings,
		Answer:   decideOn,
	}
}
