// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package drain is the policy that empties nodes without losing work: nodes that are drained, nodes that a
// maintenance reservation will close, and nodes under jobs that hold a sick GPU. A job moves to nodes with room,
// smaller if it must and can; without room the job runs on until its node's time is up, and is then stopped. So an
// upgrade can roll through a cluster: drain some nodes, wait until they are empty, upgrade, resume them, go on.
package drain

import (
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Settings are the settings that a site can change.
type Settings struct {
	// Most is how many jobs are moved at once.
	Most int `json:"most"`
	// Lead is how long before a maintenance its nodes begin to be emptied.
	Lead sdk.Span `json:"lead"`
	// Last is how long before a maintenance jobs that have nowhere to go are stopped.
	Last sdk.Span `json:"last"`
	// Wait is for how long jobs of a drained node wait for room elsewhere before they are stopped.
	Wait sdk.Span `json:"wait"`
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
		About: sdk.Description{Name: "drain", Summary: "empties nodes that are going, without losing work"},
		Settings: Settings{
			Most: 8, Lead: sdk.Span(2 * time.Hour), Last: sdk.Span(15 * time.Minute), Wait: sdk.Span(30 * time.Minute),
		},
		Check:  checkSettings,
		Answer: decideOn,
	}
}
