// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// cutObserver is told of the events of communicators' members that a cut of the job depends on. cutKeeper has the
// methods' contracts.
type cutObserver interface {
	AwaitCreation(m *Member)
	NoteMade(m *Member, err error)
	GiveUp(p *Calls, h dispatch.Comm, broken bool) (*Member, bool)
}

// Calls implements dispatch.NcclCalls. Calls holds a process's members of communicators.
type Calls struct {
	*driver.Process
	collectives *Collectives
	cuts        cutObserver
	restoring   map[dispatch.Comm]*MemberState // of a process that is being restored, else nil

	Members handles.Table[dispatch.Comm, *Member]
	buffers handles.Table[dispatch.Commreg, *Member]

	Handled atomic.Uint64 // counted messages
	pace    pace
}

func (s *Calls) Tables() map[replay.Class]handles.AnyTable {
	return map[replay.Class]handles.AnyTable{"comm": &s.Members, "commreg": &s.buffers}
}

// Waits are the calls that may wait.
var Waits = []string{"comm_state"}

// ContextEnded drops the members of a context that is being destroyed. ContextEnded does not wait: work of its streams
// that waits for other ranks would hold up the end.
func (s *Calls) ContextEnded(x *driver.Context) {
	for _, m := range s.Members.Values() {
		if m.context == x {
			m.departAfterProgram()
		}
	}
}

// New makes the Calls of a process that has no communicator yet.
func New(p *driver.Process, c *Collectives, cuts cutObserver) *Calls {
	s := &Calls{Process: p, collectives: c, cuts: cuts}
	s.buffers.Class = handles.BufferClass
	return s
}

// EndMembers drops all members, and returns their number. No call is under way, and the spaces are closed.
func (s *Calls) EndMembers(killed bool) int {
	handles, members := handles.Sorted(&s.Members)
	for i, m := range members {
		m.departAfterProgram()
		s.cuts.GiveUp(s, handles[i], killed)
	}
	return len(members)
}

// CountHandled counts a counted message that was handled.
func (s *Calls) CountHandled() { s.Handled.Add(1) }
