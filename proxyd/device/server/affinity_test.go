// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// TestMeetings: where four devices of a job share two of the machine, a pair shares that seldom meets in communicators with
// large sums. A pair with memory in common comes first.
func TestMeetings(t *testing.T) {
	sums := func(comm string, times, bytes uint64, devices ...int) (all []deviceSums) {
		for _, d := range devices {
			all = append(all, deviceSums{comm, d, nccl.Sums{Times: times, Bytes: bytes}})
		}
		return all
	}
	tensors := slices.Concat(sums("t0", 400, 4000, 0, 1), sums("t1", 400, 4000, 2, 3))
	replicas := slices.Concat(sums("d0", 10, 1000, 0, 2), sums("d1", 10, 1000, 1, 3))
	pairs := affinity{common: [][]int{{0, 0, 0, 5}, {0, 0, 5, 0}, {0, 5, 0, 0}, {5, 0, 0, 0}}}
	for _, c := range []struct {
		name string
		all  []deviceSums
		like affinity
		want []int
	}{
		{"no communicators", nil, affinity{}, []int{0, 0, 1, 1}},
		{"all in one", sums("w", 10, 1000, 0, 1, 2, 3), affinity{}, []int{0, 0, 1, 1}},
		{"replicas of tensor-parallel ranks", slices.Concat(tensors, replicas), affinity{}, []int{0, 1, 0, 1}},
		{"and all in one, beside", slices.Concat(tensors, replicas, sums("w", 1, 1000, 0, 1, 2, 3)), affinity{}, []int{0, 1, 0, 1}},
		{"a number is added up once", slices.Concat(tensors, replicas, sums("x", 1, 8, 0, 3), sums("y", 1, 8, 1, 2)), affinity{}, []int{0, 1, 0, 1}},
		{"memory in common comes first", slices.Concat(tensors, replicas), pairs, []int{0, 1, 1, 0}},
		{"several members on a device", slices.Concat(tensors, replicas, tensors), affinity{}, []int{0, 1, 0, 1}},
		{"devices that are not there", slices.Concat(replicas, sums("z", 1, 9000, -1, 4, 2)), affinity{}, []int{0, 1, 0, 1}},
	} {
		c.like.rareness = computeMeetingRarity(4, c.all)
		if got := c.like.groupDevices(Spread(4, 2)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v, by %v", c.name, got, c.want, c.like.rareness)
		}
	}
}

// TestArrangedByCommunicators: a job of two replicas of two tensor-parallel ranks, without memory in common, has two devices
// of the machine. The two replicas of a rank come to share a device: while the job runs, before a save, and when the job is
// restored.
func TestArrangedByCommunicators(t *testing.T) {
	const memory, tensor, replicas = 64 << 20, commB, 0x40003
	s := serverOf(t, "test", nil, memory, memory, memory, memory)
	s.collectives.Open = nccl.OverTCP("127.0.0.1")
	all := makeRanks(t, s, s, s, s)
	for i, r := range all {
		a := r.alloc(2 * backend.Granule)
		r.must("cuMemsetD8_v2", a, uint8(1+i), uint64(2*backend.Granule))
	}
	splitBy(all, commA, tensor, 0, 0, 1, 1)
	splitBy(all, commA, replicas, 0, 1, 0, 1)
	for _, r := range all {
		r.waitForState(tensor)
		r.waitForState(replicas)
	}
	if err := s.Arrange(t.Context(), []int{0, 0, 2, 2}); err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, s, []int{0, 0, 2, 2}) // no sums were added up
	for range 3 {
		for range 4 {
			checkSums(t, all[:2], tensor, 3)
			checkSums(t, all[2:], tensor, 3)
		}
		checkSums(t, []rank{all[0], all[2]}, replicas, 3)
		checkSums(t, []rank{all[1], all[3]}, replicas, 3)
	}
	if err := s.Arrange(t.Context(), []int{0, 0, 2, 2}); err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, s, []int{0, 2, 0, 2})

	next := serverOf(t, "test", nil, memory, memory)
	next.collectives.Open = nccl.OverTCP("127.0.0.1")
	movedJob(t, []*Server{s}, []*Server{next})
	checkPlaced(t, next, []int{0, 1, 0, 1})
	checkSums(t, all[:2], tensor, 3)
	if got, want := sumsIn(currentSums(next.allProcesses())), uint64(13); got != want {
		t.Errorf("a rank has added up %d times in its tensor's communicator, want %d", got, want)
	}
}

// sumsIn is how often a device has added up most.
func sumsIn(all []deviceSums) (times uint64) {
	for _, d := range all {
		times = max(times, d.Times)
	}
	return times
}
