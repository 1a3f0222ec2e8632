// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"math"
	"testing"
)

// TestWorkLost: a job that gives up GPUs does less by the work of these GPUs, and by little more where all of the
// rest have as many ranks; else the ranks wait for the GPU that has the most.
func TestWorkLost(t *testing.T) {
	for _, c := range []struct {
		name           string
		ranks, has, to int
		want           float64 // GPUs
	}{
		{"as many ranks on each", 8, 8, 4, 4},
		{"2 ranks on 3 of the 5, and 1 on the rest", 8, 8, 5, 4},
		{"2 ranks on 1 of the 7", 8, 8, 7, 4},
		{"4 ranks on each, and 3 before", 24, 8, 6, 2},
		{"as slow as before", 8, 7, 4, 0},
		{"a job whose ranks are not known", 0, 8, 4, 4},
	} {
		j := &Job{Capsules: 1, GPUs: c.has, MaxGPUs: c.ranks}
		if got := j.WorkLost(c.to); math.Abs(got-c.want) > 0.1 || math.IsNaN(got) {
			t.Errorf("%s: %d ranks lose %.3f from %d to %d GPUs, want %.0f", c.name, c.ranks, got, c.has, c.to, c.want)
		}
	}
	swapped := &Job{Capsules: 1, GPUs: 4, MaxGPUs: 4, Fullest: []float64{3.2, 1.6, 1.6, 0.8}}
	if got := swapped.WorkLost(2); got < 3.5 {
		t.Errorf("a job that is swapped on 2 GPUs loses the work of %.2f of its 4", got)
	}
}

// TestSharing: Fullest, as a checkpoint gave it for each size, and how much state of the ranks is alike by that.
func TestSharing(t *testing.T) {
	for _, c := range []struct {
		name     string
		fullest  []float64
		capsules int
		gpus     int
		swaps    bool
		alike    float64
	}{
		{"no checkpoint", nil, 1, 1, false, 0},
		{"nothing is alike", []float64{1.6, 0.8, 0.8, 0.4}, 1, 1, true, 0},
		{"nothing is alike, and it fits", []float64{1.6, 0.8, 0.8, 0.4}, 1, 2, false, 0},
		{"all is alike", []float64{0.9, 0.9, 0.9, 0.9}, 1, 1, false, 1},
		{"half is alike", []float64{1, 0.6, 0.6, 0.4}, 1, 1, false, 0.5},
		{"no rank shares", []float64{1, 0.6, 0.6, 0.4}, 1, 4, false, 0},
		{"two capsules", []float64{1.1, 0.8}, 2, 2, true, 0.625},
		{"two capsules, a GPU each more", []float64{1.1, 0.8}, 2, 4, false, 0},
		{"two capsules on a GPU: what they hold alike is not known", []float64{0.6, 0.4}, 2, 1, true, 0},
		{"two capsules on a GPU, which fit in any case", []float64{0.5, 0.3}, 2, 1, false, 0},
		{"four nodes of a GPU, onto one", []float64{0.8}, 4, 1, true, 0},
		{"four nodes of a GPU, onto two", []float64{0.5}, 4, 2, false, 0},
		{"four nodes of a GPU, onto three: two of them share one", []float64{0.6}, 4, 3, true, 0},
		{"four nodes of a GPU", []float64{0.8}, 4, 4, false, 0},
	} {
		s := Sharing{Ranks: len(c.fullest) * c.capsules, Capsules: c.capsules, Fullest: c.fullest}
		if swaps, alike := s.Swaps(c.gpus), s.Alike(c.gpus); swaps != c.swaps || math.Abs(alike-c.alike) > 1e-9 {
			t.Errorf("%s, %d GPUs: swapped %v, alike %.3f; want %v, %.3f", c.name, c.gpus, swaps, alike, c.swaps, c.alike)
		}
	}
}

// TestCapsulesOnGPU: capsules that share a GPU need the sum of what each needs, at most, and cost as much time as ranks
// that have nothing alike.
func TestCapsulesOnGPU(t *testing.T) {
	nodes, one := Sharing{Ranks: 4, Capsules: 4, Fullest: []float64{0.8}}, Sharing{Ranks: 4, Capsules: 1, Fullest: []float64{3.2, 1.6, 1.6, 0.8}}
	for gpus, want := range map[int]float64{1: 3.2, 2: 1.6, 3: 1.6, 4: 0.8} {
		if got := nodes.FullestOn(gpus); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d GPUs: the fullest needs %.2f, want %.2f", gpus, got, want)
		}
		if got, want := nodes.Time(gpus), one.Time(gpus); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d GPUs: a mini-batch takes %.2f times, want the %.2f of ranks of a node", gpus, got, want)
		}
	}
}

// TestSizeWithoutSwapping: the wanted size or, if ranks would be swapped there, the next that is smaller, or else
// larger.
func TestSizeWithoutSwapping(t *testing.T) {
	tensors := []float64{1.8, 0.9, 1.3, 0.7, 0.7, 0.7, 0.7, 0.4} // two kinds of ranks: on 3 GPUs some of both share one
	for _, c := range []struct {
		fullest                          []float64
		nodes, wanted, least, each, want int
	}{
		{nil, 1, 3, 1, 8, 3},
		{tensors, 1, 4, 1, 8, 4},
		{tensors, 1, 3, 1, 8, 2},
		{tensors, 1, 3, 3, 8, 4},
		{tensors, 1, 1, 1, 8, 2},
		{tensors, 2, 1, 1, 8, 2},
		{[]float64{3, 2, 2}, 1, 1, 1, 3, 3},
	} {
		j := &Job{Capsules: c.nodes, MaxGPUs: len(c.fullest) * c.nodes, Fullest: c.fullest}
		if got := j.SizeWithoutSwapping(c.nodes, c.wanted, c.least, c.each); got != c.want {
			t.Errorf("%v: %d to %d of %d GPUs on %d nodes: %d, want %d", c.fullest, c.least, c.wanted, c.each, c.nodes, got, c.want)
		}
	}
}
