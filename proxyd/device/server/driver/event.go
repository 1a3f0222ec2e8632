// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// Event is an event.
type Event struct {
	Backend backend.Event
	Context *Context

	process      *Process
	interprocess bool     // other processes may open the event
	opened       bool     // the event is another process's
	share        RandomID // the event's name among the processes that share it, or zero; guarded by the mu of Sharing
}

// Interprocess tells whether other processes may have the event.
func (e *Event) Interprocess() bool { return e.interprocess }

// Event finds an event: INVALID_HANDLE if there is none.
func (p *Process) Event(h dispatch.Event) (*Event, dispatch.Result) {
	e, ok := p.events.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return e, 0
}
