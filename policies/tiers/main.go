// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Tiers is the policy that keeps what tiers are promised. Work of a higher tier that waits
// gets its place by shrinking, then by preempting, the cheapest jobs of lower tiers that are
// above what they are promised; what was shrunk grows again when there is room.
//
// It decides from the snapshot alone, in the order of decide.go. The queue stays Slurm's:
// where there is room, Slurm starts jobs; what is preempted waits in Slurm's queue, and
// starts again by itself.
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
	// Hurry says for each tier when its waiting work may disturb others: when no more than this
	// part of the time for which it can wait is left. 1: at once; 0: only when its promise is
	// about to be broken. Basic never does.
	Hurry struct {
		Standard float64 `json:"standard"`
		Premium  float64 `json:"premium"`
	} `json:"hurry"`
	// Most is for how many waiting jobs room is made at once.
	Most int `json:"most"`
	// Patience is for how long Slurm may leave a job of a tier waiting though there is room,
	// before it is put there.
	Patience sdk.Span `json:"patience"`
	// Payback is how soon a job that grows must have won back the time that this takes.
	Payback sdk.Span `json:"payback"`
}

// tiers is the policy.
type tiers struct{ settings settings }

func newTiers() *tiers {
	t := &tiers{}
	t.settings.Hurry.Standard, t.settings.Hurry.Premium = 0.5, 1
	t.settings.Most = 32
	t.settings.Patience = sdk.Span(time.Minute)
	t.settings.Payback = sdk.Span(10 * time.Minute)
	return t
}

// Describe says who this is.
func (t *tiers) Describe() sdk.Description {
	return sdk.Description{Name: "tiers", Version: version, Summary: "keeps what premium and standard jobs are promised"}
}

// Configure takes settings.
func (t *tiers) Configure(data []byte) error {
	if err := sdk.Settings(data, &t.settings); err != nil {
		return err
	}
	for _, hurry := range []float64{t.settings.Hurry.Standard, t.settings.Hurry.Premium} {
		if hurry < 0 || hurry > 1 {
			return fmt.Errorf("settings: hurry is from 0 to 1, not %g", hurry)
		}
	}
	if t.settings.Most < 1 {
		return fmt.Errorf("settings: most is at least 1, not %d", t.settings.Most)
	}
	return nil
}

// Decide answers with intents.
func (t *tiers) Decide(_ context.Context, s *sdk.Snapshot) ([]sdk.Intent, error) {
	return decideOn(s, t.settings), nil
}

func main() { sdk.Serve(newTiers()) }
