// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package power is the policy that keeps the cluster within its power caps: a cap of the site, or a request to draw
// less for a time. Power slows basic jobs first, then parks them, then standard jobs that are above their promise;
// parked jobs go on when there is power again. Power stands last in the chain, so that it sees which jobs the other
// policies are about to start.
package power

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Settings are the settings that a site can change.
type Settings struct {
	// Lead is how long before a cap begins jobs are slowed: a checkpoint takes time.
	Lead sdk.Span `json:"lead"`
	// Margin is the part of a cap that stays free before parked jobs go on.
	Margin float64 `json:"margin"`
	// Idle and Busy are the watts of an idle GPU, and of a GPU at work that has no limit of its own.
	Idle float64 `json:"idle"`
	Busy float64 `json:"busy"`
}

func checkSettings(s Settings) error {
	if s.Margin < 0 || s.Margin >= 1 || s.Idle < 0 || s.Busy < s.Idle {
		return fmt.Errorf("settings: margin %g is from 0 to 1, and busy %g at least idle %g", s.Margin, s.Busy, s.Idle)
	}
	return nil
}

// New returns the policy with its default settings.
func New() *sdk.Stateless[Settings] {
	return &sdk.Stateless[Settings]{
		About:    sdk.Description{Name: "power", Summary: "keeps within power caps, slowing basic jobs first"},
		Settings: Settings{Lead: sdk.Span(2 * time.Minute), Margin: 0.05, Idle: 60, Busy: 400},
		Check:    checkSettings,
		Answer:   decideOn,
	}
}
