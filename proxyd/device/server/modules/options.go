// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// The options of the just-in-time compiler that have an effect, as the driver numbers them.
const (
	jitMaxRegisters = 0
	jitLogVerbose   = 12
)

// The options that the shim adds: the address of the memory for variables that are declared managed, 0 if that memory is still to
// be made, and whether the variables are there from an earlier load. A shim of an older release adds neither.
const (
	shimManagedAt   = 1 << 20
	shimManagedKept = 1<<20 + 1
)

// loadConfig reads options. Options of machine code have no effect where no machine code is made.
func loadConfig(names []int32, values []uint64) backend.LoadConfig {
	var cfg backend.LoadConfig
	for i, name := range names {
		switch name {
		case jitMaxRegisters:
			cfg.MaxRegisters = uint32(values[i])
		case jitLogVerbose:
			cfg.Verbose = uint32(values[i]) != 0
		case shimManagedAt:
			cfg.Managed.Offered, cfg.Managed.At = true, backend.Addr(values[i])
		case shimManagedKept:
			cfg.Managed.Kept = true
		}
	}
	return cfg
}

// ManagedSize is how much managed memory the variables of an image need, 0 if it has no such variables, or if the device
// has no managed memory.
func (p *Calls) ManagedSize(c *dispatch.Call, image []uint8, _ uint64) (size uint64, r dispatch.Result) {
	measure := func(x backend.Context) dispatch.Result {
		m, _, err := x.Load(image, backend.LoadConfig{Managed: backend.ManagedVariables{Offered: true}})
		if need := new(backend.ManagedError); errors.As(err, &need) {
			size = need.Size
			return 0
		}
		if err == nil {
			err = m.Unload()
		}
		return p.Result(err)
	}
	if x, ok := p.Contexts.Get(c.Context); ok {
		r = measure(x.Backend)
	} else {
		r = p.withContext(measure)
	}
	return size, r
}
