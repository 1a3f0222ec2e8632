// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"testing"
	"time"
)

// TestLeastSize: the smallest size at which the ranks on a GPU fit there, in whole GPUs of each
// node, or on fewer nodes.
func TestLeastSize(t *testing.T) {
	for _, c := range []struct{ least, wanted, nodes, from, want int }{
		{1, 8, 1, 1, 1}, {1, 8, 1, 3, 3}, {1, 8, 1, 9, 8}, {2, 8, 2, 4, 4}, {3, 8, 2, 2, 4}, {1, 8, 4, 1, 1}, {1, 8, 4, 3, 3}, {1, 8, 4, 5, 8}, {4, 4, 2, 18, 4},
	} {
		if got := LeastSize(c.least, c.wanted, c.nodes, func(gpus int) bool { return gpus >= c.from }); got != c.want {
			t.Errorf("%d to %d on %d nodes, from %d: %d, want %d", c.least, c.wanted, c.nodes, c.from, got, c.want)
		}
	}
}

// TestResizePause: a job stands still for a second where leases can change its size on its nodes: down to its own GPUs,
// and up to as many as its programs see. Else it stands still for a dump and a restore.
func TestResizePause(t *testing.T) {
	job := Job{
		State: Running, GPUs: 6, Leased: 2, MinGPUs: 1, MaxGPUs: 8, Shares: []Share{{GPUs: 63}},
		Checkpoint: Checkpoint{Dump: time.Hour, Restore: time.Minute}, PauseInPlace: time.Second,
	}
	inPlace, stored := time.Second, time.Hour+time.Minute
	for _, c := range []struct {
		name   string
		gpus   int
		change func(*Job)
		want   time.Duration
	}{
		{"more", 8, func(*Job) {}, inPlace},
		{"its own", 4, func(*Job) {}, inPlace},
		{"fewer than its own", 3, func(*Job) {}, stored},
		{"more than its programs see", 9, func(*Job) {}, stored},
		{"its GPUs cannot be lent", 8, func(j *Job) { j.PauseInPlace = 0 }, stored},
		{"it does not run", 8, func(j *Job) { j.Shares = nil }, stored},
	} {
		j := job
		c.change(&j)
		if got := j.ResizePause(c.gpus); got != c.want {
			t.Errorf("%s: %d GPUs: %v, want %v", c.name, c.gpus, got, c.want)
		}
	}
}
