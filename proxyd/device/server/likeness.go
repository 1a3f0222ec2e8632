// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Which of a job's devices share a device of the machine is decided by what their memory had in common at the save:
// ranks with the same content go together, because a device can hold that content once for both. The blocks of a save
// have hashes under a single key, so that needs no bytes. So it is at a restore, and when a job that runs comes to other
// devices: see Arrange.

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

// spreadAlike is an order of devices over m, in which no device of m has two more than another. Devices with blocks
// that are alike are together, and where nothing is alike, neighbours are, as with Spread.
func spreadAlike(blocks []map[int]bool, m int) []int {
	return groupAlike(commonBlocks(blocks), Spread(len(blocks), m))
}

// groupAlike is an order with the same places, each as often, in which devices that have blocks in common are together.
// common is for each two devices how many; where nothing is alike, the order stays.
func groupAlike(common [][]int, order []int) []int {
	if len(common) != len(order) || !slices.ContainsFunc(common, func(row []int) bool { return slices.Max(row) > 0 }) {
		return order
	}
	out := slices.Repeat([]int{-1}, len(order))
	for _, at := range slices.Sorted(slices.Values(order)) {
		best, most := -1, -1
		for i := range order {
			if out[i] >= 0 {
				continue
			}
			sum := 0
			for j := range order {
				if out[j] == at {
					sum += common[i][j]
				}
			}
			if sum > most {
				best, most = i, sum
			}
		}
		out[best] = at
	}
	return out
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

// noteNeeds notes what the job's devices would need on fewer devices.
func (s *Server) noteNeeds(st *serverState, r *Report) {
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

// mostBytes is the most bytes on a device if the job's devices are on m devices. once: what devices hold alike is there
// once.
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
	s.makeDevices(spreadAlike(savedBlocks(st), s.deviceCount()))
}

// noteAlike notes how much of the memory on each device was alike at a save, and between each two of the job's devices. The
// caller holds state.mu.
func (s *Server) noteAlike(st *serverState) {
	var order []int
	for _, d := range s.devices {
		order = append(order, slices.Index(s.machine.turns, d.Place().TimeSlices))
	}
	blocks := savedBlocks(st)
	s.state.alike, s.state.common = alikeBytes(blocks, order, len(s.machine.turns)), commonBlocks(blocks)
}
