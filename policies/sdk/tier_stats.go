// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

// TierStats is how the jobs of a tier do, all together.
type TierStats struct {
	// Delivered is the GPU fraction that they got over the window, by their requests; 1 if no time was counted.
	Delivered float64
	Counted   bool // some time was counted
	Below     int  // jobs that got less than was promised, and cannot make up for it in this window
}

// StatsByTier says how each tier does.
func (s *Snapshot) StatsByTier() [Tiers]TierStats {
	var all [Tiers]TierStats
	var asked, got [Tiers]float64 // GPU-seconds over the window
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Budget(s.Rules) < 0 {
			all[j.Tier].Below++
		}
		n := min(j.Counted, s.Rules.Window).Seconds() * float64(j.Request)
		asked[j.Tier] += n
		got[j.Tier] += n * j.Fraction
	}
	for i := range all {
		all[i].Delivered = 1
		if all[i].Counted = asked[i] > 0; all[i].Counted {
			all[i].Delivered = got[i] / asked[i]
		}
	}
	return all
}
