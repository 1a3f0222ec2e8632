// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"testing"
	"time"
)

// TestFares: jobs weigh by the GPUs that they asked for in the window; a job that can make up for its loss is not
// below its promise.
func TestFares(t *testing.T) {
	job := func(tier Tier, gpus int, counted time.Duration, fraction, promised float64) Job {
		return Job{Tier: tier, Request: gpus, Counted: counted, Fraction: fraction, Promised: promised}
	}
	s := &Snapshot{Rules: Rules{Window: 10 * time.Hour}, Jobs: []Job{
		job(Premium, 1, time.Hour, 0.75, 0.95), // lost a quarter of an hour, of half an hour that it may lose
		job(Premium, 3, 10*time.Hour, 0.5, 0.95),
		job(Standard, 2, 20*time.Hour, 0.8, 0.7), // only the window counts
		job(Standard, 2, 10*time.Hour, 0.6, 0.7),
		job(Standard, 2, 0, 1, 0.7),
	}}
	want := [Tiers]TierStats{
		Premium:  {Delivered: (0.75 + 30*0.5) / 31, Counted: true, Below: 1},
		Standard: {Delivered: 0.7, Counted: true, Below: 1},
		Basic:    {Delivered: 1},
	}
	for tier, got := range s.StatsByTier() {
		if d := got.Delivered - want[tier].Delivered; d > 1e-9 || d < -1e-9 || got.Counted != want[tier].Counted || got.Below != want[tier].Below {
			t.Errorf("StatsByTier of %s = %+v, want %+v", Tier(tier), got, want[tier])
		}
	}
}
