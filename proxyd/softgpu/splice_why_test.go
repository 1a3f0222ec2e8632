// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import "testing"

// TestRecentReasons: the most frequent reason is that of the last launches, not of all.
func TestRecentReasons(t *testing.T) {
	x := &splicer{why: makeReasons()}
	check := func(when, want string) {
		t.Helper()
		if got := x.why.mostFrequent(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	count := func(why string, n int) {
		for range n {
			x.countOwn(why)
		}
	}
	check("no launch", "")
	count(whyLearn, 10*recentLaunches)
	check("at the beginning", whyLearn)
	count(whyBytes, recentLaunches+recentLaunches/2)
	check("later", whyBytes)
	count(whyLearn, 1)
	x.why.uncountReason(whyLearn)
	check("a launch that ran for all spaces", whyBytes)
	count(whyDear, 2*recentLaunches)
	x.why.uncountReason(whyBytes) // which is forgotten
	check("at the end", whyDear)
	if own := x.counts.Own; own != 13*recentLaunches+recentLaunches/2+1 {
		t.Errorf("%d launches ran for their space", own)
	}
}
