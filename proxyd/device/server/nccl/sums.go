// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import "github.com/singularity-slurm/singularity-slurm/proxyd/collective"

// Sums is how much a member has added up with the other members of its communicator, by all-reduces and reduce-scatters.
type Sums struct {
	Times uint64 `json:"times,omitempty"`
	Bytes uint64 `json:"bytes,omitempty"` // that the member gave
}

// SumsOn are the sums of a member, with its communicator and device.
type SumsOn struct {
	Comm    string // as in Member
	Ordinal int32  // of the member's device in its process
	Sums
}

// countSums counts operations that the member has issued. The caller holds mu.
func (m *Member) countSums(ops []collective.Op) {
	for i := range ops {
		if kind := ops[i].Kind; kind == collective.AllReduce || kind == collective.ReduceScatter {
			send, _ := ops[i].Needs(m.rank, m.size)
			m.sums.Times++
			if n := m.sums.Times; n&(n-1) == 0 {
				m.Calls.collectives.signalSums()
			}
			m.sums.Bytes += uint64(max(send, 0))
		}
	}
}

// signalSums puts an item into SumsNews when a member has added up twice as often as before. The caller may hold any
// lock.
func (f *Collectives) signalSums() {
	select {
	case f.SumsNews <- struct{}{}:
	default:
	}
}

// AllSums returns the sums of each member that has a communicator and has added up.
func (p *Calls) AllSums() (all []SumsOn) {
	for _, m := range p.Members.Values() {
		m.mu.Lock()
		on := SumsOn{m.name, m.context.Space.Ordinal, m.sums}
		if m.comm != nil {
			on.Comm = m.comm.ID()
		}
		m.mu.Unlock()
		if on.Comm != "" && on.Times > 0 {
			all = append(all, on)
		}
	}
	return all
}
