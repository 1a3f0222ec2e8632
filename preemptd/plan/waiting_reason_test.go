// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

// TestWhy: the text for people about the premium job 30, which waits for 4 GPUs.
func TestWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *sdk.Snapshot)
		want   string
	}{
		"somebody could": {func(*sdk.Snapshot) {},
			"no policy makes room for it; it would fit if these gave way: jobs 10, 20, 40, 41"},
		"there is room": {func(s *sdk.Snapshot) { s.Jobs = s.Jobs[1:] },
			"there is room for it: Slurm is to start it"},
		"nobody there": {func(s *sdk.Snapshot) { findJob(s, 30).GPUs = 8; findJob(s, 30).CPUs = 99; s.Jobs = s.Jobs[2:3] },
			"there is no room, and no job of a lower tier holds any; its promise cannot be kept: it asks for 4 GPUs on one node, beside 99 CPUs and 1 MiB " +
				"of memory, and the nodes that it may use do not have that together"},
		"a node that it must have is down": {func(s *sdk.Snapshot) {
			findJob(s, 30).Required = []int32{1}
			s.Nodes[1].State, s.Nodes[1].Reason = sdk.NodeDown, "Not responding"
		}, "it must have node b, which is down: Not responding; its promise cannot be kept: it asks for 4 GPUs, and it may use none of the nodes that are up"},
		"nodes that it must have start no jobs": {func(s *sdk.Snapshot) {
			findJob(s, 30).Required = []int32{0, 1}
			s.Nodes[0].State, s.Nodes[1].State = sdk.NodeDown, sdk.NodeDraining
		}, "it must have node a, which is down; it must have node b, which is draining; its promise cannot be kept: it asks for 4 GPUs, " +
			"and it may use none of the nodes that are up; not all promises can be kept: premium: 3.8 GPUs are promised, 0 are there"},
		"not enough": {func(s *sdk.Snapshot) { findJob(s, 30).CPUs, findJob(s, 20).Fraction = 9, 0.5 },
			"it would not fit even if these gave way: jobs 10, 40, 41; job 20: less than the promised 70 % would be left; its promise cannot be kept: " +
				"it asks for 4 GPUs on one node, beside 9 CPUs and 1 MiB of memory, and the nodes that it may use do not have that together"},
		"more is promised than there is": {func(s *sdk.Snapshot) {
			findJob(s, 30).Request, findJob(s, 30).Promised = 1000, 0.95
			findJob(s, 10).Request, findJob(s, 20).Request, findJob(s, 40).Request, findJob(s, 41).Request = 0, 0, 0, 0
		}, "no policy makes room for it; it would fit if these gave way: jobs 10, 20, 40, 41; its promise cannot be kept: " +
			"it needs 950 of its 1000 GPUs for the promised 95 %, and the nodes that it may use have room for 4 of them at most; " +
			"not all promises can be kept: premium: 950 GPUs are promised, 8 are there"},
		"each for its reason": {func(s *sdk.Snapshot) {
			findJob(s, 10).Preemptable, findJob(s, 10).Obstacle = false, "it runs without --singularity"
			findJob(s, 20).Action = "migrate"
			findJob(s, 40).Started = now.Add(-time.Second)
			findJob(s, 41).Acted = now.Add(-time.Second)
		}, "job 41: disturbed less than 5m0s ago; job 20: migrate is in progress; job 10: not to be checkpointed, it runs without --singularity; job 40: running for less than 1m0s"},
		"many": {func(s *sdk.Snapshot) {
			for i := range s.Jobs {
				s.Jobs[i].Action = "migrate"
			}
			for id := sdk.JobID(60); id < 64; id++ {
				j := s.Jobs[0]
				j.ID, j.Label = id, fmt.Sprint(id)
				s.Jobs = append(s.Jobs, j)
			}
		}, "jobs 10, 20, 40, 41, 60 and 3 more: migrate is in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			s := smallCluster()
			for i := range s.Jobs {
				s.Jobs[i].Label = fmt.Sprint(s.Jobs[i].ID)
			}
			c.change(s)
			if got := plan.Why(s, findJob(s, 30)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			later := *s
			later.Time = now.Add(500 * time.Millisecond)
			if got := plan.Why(&later, findJob(&later, 30)); got != c.want {
				t.Errorf("later %s\nwant  %s", got, c.want)
			}
		})
	}
}
