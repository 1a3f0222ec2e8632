// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// cudaEvent is an event.
type cudaEvent struct {
	b       backend.Event
	context *cudaContext
}

// event finds an event: INVALID_HANDLE if there is none.
func (p *core) event(h dispatch.Event) (*cudaEvent, dispatch.Result) {
	e, ok := p.events.get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return e, 0
}
