// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nvml"
)

func TestView(t *testing.T) {
	s := newServer(t, 4)
	id := nvml.UUIDText(s.devices[2].Info().UUID)
	for _, c := range []struct {
		visible, names string
		want           []int
	}{
		{"0,1,2,3", "", []int{0, 1, 2, 3}},
		{"3,1", "", []int{3, 1}},
		{" 2 , 0", "", []int{2, 0}},
		{"", "", []int{}},
		{"-1", "", []int{}},
		{"0,-1,1", "", []int{0}},
		{"0,9,1", "", []int{0}},
		{"1,1", "", []int{}},
		{"no", "", []int{}},
		{id, "", []int{2}},
		{"0," + id[:len(id)-4], "", []int{0, 2}},
		{"GPU-", "", []int{}}, // all are called so
		{"6,4", "4,5,6,7", []int{2, 0}},
		{"0,1", "4,5,6,7", []int{0, 1}}, // Slurm counts the job's own
		{"1,2", "1,2,5,6", []int{0, 1}},
		{"4,0", "4,5,6,7", []int{}}, // neither way
		{"5," + id, "4,5,6,7", []int{1, 2}},
	} {
		if got := s.viewOf(visibility{&c.visible, c.names}); !slices.Equal(got, c.want) {
			t.Errorf("%q of %q: %v, want %v", c.visible, c.names, got, c.want)
		}
	}
	if got := s.viewOf(visibility{names: "4,5,6,7"}); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("without a list: %v", got)
	}
}
