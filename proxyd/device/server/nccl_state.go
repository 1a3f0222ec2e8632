// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// ncclState is what a process has of communicators and what belongs to them.
type ncclState struct {
	members table[dispatch.Comm, *member]
	buffers table[dispatch.Commreg, *member]

	handled atomic.Uint64 // counted messages
	open    atomic.Int64  // parts of them that are not complete, of all members
}

func (s *ncclState) tables() map[replay.Class]handles {
	return map[replay.Class]handles{"comm": &s.members, "commreg": &s.buffers}
}

// ncclWaits are the calls that may wait.
var ncclWaits = []string{"comm_state"}

// contextEnded drops what belongs to a context that is being destroyed. It does not wait: work of its streams that waits for
// other ranks would hold up the end.
func (s *ncclState) contextEnded(x *cudaContext) {
	for _, m := range s.members.values() {
		if m.context == x {
			m.depart()
		}
	}
}

// end drops everything. No call is under way, and the spaces are closed.
func (s *ncclState) end(p *process) {
	handles, members := sorted(&s.members)
	for i, m := range members {
		m.depart()
		p.server.giveUp(p, handles[i], !p.exits)
	}
	p.server.ended(p, !p.exits && len(members) > 0)
}
