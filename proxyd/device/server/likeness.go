// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// Which of a job's devices share a device of the machine is decided by the memory that they had in common at the save:
// ranks with the same content go together, because a device can hold that content once for both. The blocks of a save
// have hashes under a single key, so no bytes are compared. So it is at a restore, and when a job that runs comes to
// other devices: see Arrange. Where no memory is alike, or there was no save, the job's communicators decide.

// savedBlocks are the different blocks that each of the job's devices held at a save, over all processes.
func savedBlocks(st *serverState) []map[int]bool {
	out := make([]map[int]bool, len(st.Devices))
	for i := range out {
		out[i] = map[int]bool{}
	}
	for i := range st.Processes {
		p := &st.Processes[i]
		for _, space := range p.Devices {
			if space.Ordinal < 0 || int(space.Ordinal) >= len(p.View) {
				continue // the restore refuses the state
			}
			device := p.View[space.Ordinal]
			if device < 0 || device >= len(out) {
				continue
			}
			for _, block := range space.Memory {
				out[device][block.Block] = true
			}
		}
	}
	return out
}

// countCommon is how many blocks two devices have in common.
func countCommon(a, b map[int]bool) int {
	n := 0
	for block := range a {
		if b[block] {
			n++
		}
	}
	return n
}

// commonBlocks is for each two devices how many blocks they have in common.
func commonBlocks(blocks []map[int]bool) [][]int {
	common := make([][]int, len(blocks))
	for i := range blocks {
		common[i] = make([]int, len(blocks))
		for j := range i {
			common[i][j] = countCommon(blocks[i], blocks[j])
			common[j][i] = common[i][j]
		}
	}
	return common
}

// affinity is the gain, for each two of the job's devices, if they share a device of the machine: more is better.
type affinity struct {
	common   [][]int // blocks that are alike; nil: not known
	rareness [][]int // of meetings in communicators, for devices that have as many blocks in common: see computeMeetingRarity
}

// sumAffinities sums up the gain if device i shares the machine's device at with the devices that an order has put
// there.
func (a affinity) sumAffinities(i int, order []int, at int) (common, rareness int) {
	for j := range order {
		if order[j] != at {
			continue
		}
		if a.common != nil {
			common += a.common[i][j]
		}
		if a.rareness != nil {
			rareness += a.rareness[i][j]
		}
	}
	return common, rareness
}

// groupDevices returns an order with the same places, each as often, in which devices are together that have most
// blocks in common, and else devices that meet seldom but add up much. Where no two devices gain by sharing, the order
// stays.
func (a affinity) groupDevices(order []int) []int {
	isSet := func(row []int) bool { return slices.Max(row) > 0 }
	if !slices.ContainsFunc(a.common, isSet) && !slices.ContainsFunc(a.rareness, isSet) {
		return order
	}
	out := slices.Repeat([]int{-1}, len(order))
	for _, at := range slices.Sorted(slices.Values(order)) {
		best, most, rareness := -1, -1, -1
		for i := range order {
			if out[i] >= 0 {
				continue
			}
			if c, m := a.sumAffinities(i, out, at); c > most || c == most && m > rareness {
				best, most, rareness = i, c, m
			}
		}
		out[best] = at
	}
	return out
}

// spreadAlike is an order of devices over m, in which no device of m has two more than another. Devices with blocks
// that are alike are together, and where no block is alike, neighbours are, as with Spread.
func spreadAlike(blocks []map[int]bool, m int) []int {
	return affinity{common: commonBlocks(blocks)}.groupDevices(Spread(len(blocks), m))
}

// deviceSums are the sums that a device of the job has added up in a communicator.
type deviceSums struct {
	comm   string
	device int
	nccl.Sums
}

// savedSums are the sums of all processes at a save.
func savedSums(st *serverState) (all []deviceSums) {
	for i := range st.Processes {
		p := &st.Processes[i]
		for _, m := range p.Members {
			if m.Comm != "" && m.Sums.Times > 0 && m.Ordinal >= 0 && int(m.Ordinal) < len(p.View) {
				all = append(all, deviceSums{m.Comm, p.View[m.Ordinal], m.Sums})
			}
		}
	}
	return all
}

// currentSums are the sums of processes now.
func currentSums(processes []*process) (all []deviceSums) {
	for _, p := range processes {
		for _, m := range p.AllSums() {
			if int(m.Ordinal) < len(p.View) {
				all = append(all, deviceSums{m.Comm, p.View[m.Ordinal], m.Sums})
			}
		}
	}
	return all
}

const (
	// leastSums is the part of the bytes of a device's largest communicator that another must have added up to count.
	leastSums = 0.1
	// rarenessUnit is a communicator's weight for two of its members that add up once.
	rarenessUnit = 1 << 30
)

// computeMeetingRarity is for each two of n devices how seldom they have to meet in the communicators by which they add up
// much: the more seldom, the larger. Ranks that share a device change places each time they meet. Data-parallel ranks add
// up their gradients, once in a mini-batch; ranks that have parts of the same tensors add up activations at each layer, and
// should have devices of their own.
func computeMeetingRarity(n int, all []deviceSums) [][]int {
	largest := make([]uint64, n)
	comms := map[string]map[int]nccl.Sums{}
	for _, d := range all {
		if d.device < 0 || d.device >= n {
			continue
		}
		largest[d.device] = max(largest[d.device], d.Bytes)
		if comms[d.comm] == nil {
			comms[d.comm] = map[int]nccl.Sums{}
		}
		if d.Times > comms[d.comm][d.device].Times { // several members on a device meet together
			comms[d.comm][d.device] = d.Sums
		}
	}
	rareness := make([][]int, n)
	for i := range rareness {
		rareness[i] = make([]int, n)
	}
	for _, members := range comms {
		maps.DeleteFunc(members, func(device int, d nccl.Sums) bool { return float64(d.Bytes) < leastSums*float64(largest[device]) })
		for i, a := range members {
			for j, b := range members {
				if i != j {
					rareness[i][j] += int(rarenessUnit / max(a.Times, b.Times))
				}
			}
		}
	}
	return rareness
}

// alikeBytes is for each of m devices how many bytes the job's devices on it hold that an earlier device on it holds,
// too.
func alikeBytes(blocks []map[int]bool, order []int, m int) []uint64 {
	out := make([]uint64, m)
	for at := range out {
		seen := map[int]bool{}
		for i, held := range blocks {
			if order[i] != at {
				continue
			}
			for block := range held {
				if seen[block] {
					out[at] += backend.Granule
				}
				seen[block] = true
			}
		}
	}
	return out
}

// estimateNeeds notes the memory that the job's devices would need on fewer devices.
func (s *Server) estimateNeeds(st *serverState, r *Report) {
	_, once := s.machine.backend.Devices()[0].(backend.BlockSharer)
	blocks := savedBlocks(st)
	for n := range blocks {
		r.Needs = append(r.Needs, mostBytes(blocks, n+1, once))
	}
	for _, d := range s.devices {
		if memory := d.Info().Memory; r.Memory == 0 || memory < r.Memory {
			r.Memory = memory
		}
	}
}

// mostBytes is the most bytes on a device if the job's devices are on m devices. once: blocks that devices hold alike
// are there once.
func mostBytes(blocks []map[int]bool, m int, once bool) (most uint64) {
	order := spreadAlike(blocks, m)
	alike := alikeBytes(blocks, order, m)
	for at := range m {
		bytes := uint64(0)
		for i, held := range blocks {
			if order[i] == at {
				bytes += uint64(len(held)) * backend.Granule
			}
		}
		if once {
			bytes -= alike[at]
		}
		most = max(most, bytes)
	}
	return most
}

// placeAlike has the devices of a saved job share the existing devices.
func (s *Server) placeAlike(st *serverState) {
	n := len(st.Devices)
	a := affinity{commonBlocks(savedBlocks(st)), computeMeetingRarity(n, savedSums(st))}
	s.makeDevices(a.groupDevices(Spread(n, s.deviceCount())))
}

// recordAlikeMemory notes how much of the memory on each device was alike at a save, and between each two of the
// job's devices. The caller holds state.mu.
func (s *Server) recordAlikeMemory(st *serverState) {
	blocks := savedBlocks(st)
	s.state.alike, s.state.common = alikeBytes(blocks, placesOf(s), len(s.machine.timeSlices)), commonBlocks(blocks)
}
