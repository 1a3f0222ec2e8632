// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Power is the policy that keeps the cluster within what it may draw: a cap of the site, or a
// request to draw less for a time. Power slows basic jobs first, then parks them, then standard
// jobs that are above what they are promised; parked jobs go on when there is power again. Power
// stands last in the chain, so that it sees what the other policies are about to start.
package main

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// version is what Describe returns; a release sets version.
var version = "0.1.0-dev"

// settings are what a site can change.
type settings struct {
	// Lead is how long before a cap begins jobs are slowed: a checkpoint takes time.
	Lead sdk.Span `json:"lead"`
	// Margin is the part of a cap that stays free before parked jobs go on.
	Margin float64 `json:"margin"`
	// Idle and Busy are the watts of a GPU that does nothing, and of a GPU at work that has no
	// limit of its own.
	Idle float64 `json:"idle"`
	Busy float64 `json:"busy"`
}

func checkSettings(s settings) error {
	if s.Margin < 0 || s.Margin >= 1 || s.Idle < 0 || s.Busy < s.Idle {
		return fmt.Errorf("settings: margin %g is from 0 to 1, and busy %g at least idle %g", s.Margin, s.Busy, s.Idle)
	}
	return nil
}

func newPower() *sdk.Stateless[settings] {
	return &sdk.Stateless[settings]{
		About:    sdk.Description{Name: "power", Version: version, Summary: "keeps within power caps, slowing basic jobs first"},
		Settings: settings{Lead: sdk.Span(2 * time.Minute), Margin: 0.05, Idle: 60, Busy: 400},
		Check:    checkSettings,
		Answer:   decideOn,
	}
}

func main() { sdk.Serve(newPower()) }
