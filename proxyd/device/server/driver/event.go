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
}

// Event finds an event: INVALID_HANDLE if there is none.
func (p *Process) Event(h dispatch.Event) (*Event, dispatch.Result) {
	e, ok := p.events.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return e, 0
}
