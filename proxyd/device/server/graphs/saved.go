// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Tables are the tables of handles, by the names that their classes have in the table of calls.
func (s *Graphs) Tables() map[replay.Class]handles.AnyTable {
	s.lockGraphs()
	defer s.unlockGraphs()
	return map[replay.Class]handles.AnyTable{"graph": &s.graphs, "node": &s.nodes, "graphexec": &s.execs, "condition": &s.conditions}
}

// MemoryOfNode is memory of a graph. Its bytes are saved with all other memory. The calls that are made again tell its
// users.
type MemoryOfNode struct {
	Node    dispatch.Node `json:"node"`
	Address backend.Addr  `json:"address"`
	Size    uint64        `json:"size"`
	Live    bool          `json:"live,omitempty"`
}

// SavedMemory lists the memory of graphs.
func (s *Graphs) SavedMemory() []MemoryOfNode {
	s.lockGraphs()
	defer s.unlockGraphs()
	var out []MemoryOfNode
	for _, m := range s.memory {
		out = append(out, MemoryOfNode{m.node, m.addr, m.size, m.live})
	}
	slices.SortFunc(out, func(a, b MemoryOfNode) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// RestoreMemory sets the program's view of the memory of graphs. The memory must exist.
func (s *Graphs) RestoreMemory(all []MemoryOfNode) error {
	s.lockGraphs()
	defer s.unlockGraphs()
	for _, st := range all {
		m := s.memory[st.Address]
		if m == nil || m.node != st.Node {
			return fmt.Errorf("the memory of node %#x, at %#x, was not made again: %w", st.Node, uint64(st.Address), driver.ErrRestore)
		}
		m.live = st.Live
	}
	return nil
}
