// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

func (s *graphState) tables() map[replay.Class]handles {
	s.lock()
	defer s.unlock()
	return map[replay.Class]handles{"graph": &s.graphs, "node": &s.nodes, "graphexec": &s.execs}
}

// memoryOfNode is memory of a graph. Its bytes are saved with all others. Who has it, the calls say that are made again.
type memoryOfNode struct {
	Node    dispatch.Node `json:"node"`
	Address backend.Addr  `json:"address"`
	Size    uint64        `json:"size"`
	Live    bool          `json:"live,omitempty"`
}

// savedMemory lists the memory of graphs.
func (s *graphState) savedMemory() []memoryOfNode {
	s.lock()
	defer s.unlock()
	var out []memoryOfNode
	for _, m := range s.memory {
		out = append(out, memoryOfNode{m.node, m.addr, m.size, m.live})
	}
	slices.SortFunc(out, func(a, b memoryOfNode) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// restoreMemory sets what the program has of the memory of graphs, which must be there.
func (s *graphState) restoreMemory(all []memoryOfNode) error {
	s.lock()
	defer s.unlock()
	for _, st := range all {
		m := s.memory[st.Address]
		if m == nil || m.node != st.Node {
			return fmt.Errorf("the memory of node %#x, at %#x, was not made again: %w", st.Node, uint64(st.Address), ErrRestore)
		}
		m.live = st.Live
	}
	return nil
}
