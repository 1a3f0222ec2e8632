// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestAutoInterval(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cost  time.Duration
		nodes int
		want  time.Duration // rounded to minutes
	}{
		{"not known yet", 0, 1, 10 * time.Minute},
		{"a small job", 200 * time.Millisecond, 1, 38 * time.Minute},
		{"one node", time.Second, 1, 85 * time.Minute},
		{"one node, much memory", 30 * time.Second, 1, 4 * time.Hour},
		{"64 nodes", 10 * time.Second, 64, 34 * time.Minute},
		{"64 nodes, slow", 60 * time.Second, 64, 100 * time.Minute}, // 82 by Young, and 1.2 % of the time
		{"1000 nodes", 20 * time.Second, 1000, 33 * time.Minute},    // 12 by Young
		{"more than a night's worth", 10 * time.Minute, 1, 1000 * time.Minute},
	} {
		got := autoInterval(tt.cost, 150*day, tt.nodes)
		if got.Round(time.Minute) != tt.want {
			t.Errorf("%s: every %s, want %s", tt.name, got, tt.want)
		}
		if share := float64(tt.cost) / float64(got); share > maxCheckpointShare {
			t.Errorf("%s: costs %.2f %% of the time", tt.name, 100*share)
		}
	}
}

// TestPeriodicNext: a configured interval is kept to; an automatic interval grows while no
// checkpoint can be made, and is short again after a checkpoint.
func TestPeriodicNext(t *testing.T) {
	fixed := &periodicCheckpoints{every: time.Minute, nodeMTBF: 150 * day, nodes: 64}
	fixed.countFailures(errors.New("a terminal"))
	if got := fixed.nextInterval(time.Hour); got != time.Minute {
		t.Errorf("configured: %s", got)
	}
	auto := &periodicCheckpoints{every: IntervalAuto, nodeMTBF: 150 * day, nodes: 64}
	base := autoInterval(10*time.Second, 150*day, 64)
	for failures, times := range []time.Duration{1, 2, 4, 7, 7} { // 4 h are 7.07 of them
		got := auto.nextInterval(10 * time.Second)
		if got < times*base || got > min(8*base, longestAutoInterval)*11/10 {
			t.Errorf("after %d failures: %s", failures, got)
		}
		auto.countFailures(errors.New("a terminal"))
	}
	auto.countFailures(nil)
	if got := auto.nextInterval(10 * time.Second); got < base || got > base*11/10 {
		t.Errorf("after a checkpoint: %s", got)
	}
}
