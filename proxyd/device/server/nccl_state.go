// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// cutObserver is told what a cut of the job must know of communicators' members. cutKeeper has the methods' contracts.
type cutObserver interface {
	Arrive(m *member)
	IsMade(m *member, err error)
	GiveUp(p *ncclCalls, h dispatch.Comm, broken bool) (*member, bool)
}

// ncclCalls implements dispatch.NcclCalls. It has a process's communicators and what belongs to them.
type ncclCalls struct {
	*core
	collectives *collectives
	cuts        cutObserver
	restoring   map[dispatch.Comm]*memberState // of a process that is being restored, else nil

	members table[dispatch.Comm, *member]
	buffers table[dispatch.Commreg, *member]

	handled atomic.Uint64 // counted messages
	open    atomic.Int64  // parts of them that are not complete, of all members
}

func (s *ncclCalls) tables() map[replay.Class]handles {
	return map[replay.Class]handles{"comm": &s.members, "commreg": &s.buffers}
}

// ncclWaits are the calls that may wait.
var ncclWaits = []string{"comm_state"}

// contextEnded drops what belongs to a context that is being destroyed. It does not wait: work of its streams that waits for
// other ranks would hold up the end.
func (s *ncclCalls) contextEnded(x *cudaContext) {
	for _, m := range s.members.values() {
		if m.context == x {
			m.depart()
		}
	}
}

func newNCCLCalls(p *core, c *collectives, cuts cutObserver) *ncclCalls {
	s := &ncclCalls{core: p, collectives: c, cuts: cuts}
	s.buffers.class = bufferClass
	return s
}

// endMembers drops everything, and returns how many members there were. No call is under way, and the spaces are closed.
func (s *ncclCalls) endMembers(killed bool) int {
	handles, members := sorted(&s.members)
	for i, m := range members {
		m.depart()
		s.cuts.GiveUp(s, handles[i], killed)
	}
	return len(members)
}

// countHandled counts a counted message that was handled.
func (s *ncclCalls) countHandled() { s.handled.Add(1) }
