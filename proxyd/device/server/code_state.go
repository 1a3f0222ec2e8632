// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// moduleCalls implements dispatch.ModuleCalls. It has a process's modules and what belongs to them.
type moduleCalls struct {
	*core
	modules   table[dispatch.Module, *module]
	functions table[dispatch.Function, *function]
	libraries table[dispatch.Library, *library]
	kernels   table[dispatch.Kernel, *kernel]
	linkers   table[dispatch.Linkstate, *linker]

	complaintsMu sync.Mutex
	complaints   map[string]bool // what was logged
}

// codeWaits are the calls that may wait: for a compiler.
var codeWaits = []string{
	"module_load", "library_load", "link_add", "link_complete", "cuLibraryGetModule", "cuLibraryGetGlobal", "cuKernelGetFunction",
	"cuLibraryUnload", "cuKernelSetAttribute",
}

// maxComplaints is how many different reasons are logged of a process.
const maxComplaints = 32

// complain logs, once each, why code of the program is not run. Names that are not found are no reason: programs ask.
func (p *moduleCalls) complain(what string, err error) {
	text := err.Error()
	if errors.Is(err, backend.NotFound) {
		return
	}
	p.complaintsMu.Lock()
	defer p.complaintsMu.Unlock()
	if p.complaints[text] || len(p.complaints) >= maxComplaints {
		return
	}
	p.complaints[text] = true
	p.log.Warn(what, "error", err)
}

func newModuleCalls(p *core) *moduleCalls {
	s := &moduleCalls{core: p, complaints: map[string]bool{}}
	s.modules.class, s.functions.class = moduleClass, functionClass
	s.libraries.class, s.kernels.class = libraryClass, kernelClass
	s.linkers.class = linkClass
	return s
}

// contextEnded drops what belongs to a context that is being destroyed. It does not wait.
func (s *moduleCalls) contextEnded(x *cudaContext) {
	s.modules.dropIf(func(m *module) bool { return m.context == x })
	s.functions.dropIf(func(f *function) bool { return f.module.context == x })
	s.linkers.dropIf(func(l *linker) bool { return l.context == x })
	for _, l := range s.libraries.values() {
		l.forget(x)
	}
}

// end drops everything. No call is under way, and the spaces are closed.
func (s *moduleCalls) end() {
	s.modules.clear()
	s.functions.clear()
	s.libraries.clear()
	s.kernels.clear()
	s.linkers.clear()
}

// The options of the just-in-time compiler that change something, as the driver numbers them.
const (
	jitMaxRegisters = 0
	jitLogVerbose   = 12
)

// loadConfig reads options. Those of machine code change nothing where none is made.
func loadConfig(names []int32, values []uint64) backend.LoadConfig {
	var cfg backend.LoadConfig
	for i, name := range names {
		switch name {
		case jitMaxRegisters:
			cfg.MaxRegisters = uint32(values[i])
		case jitLogVerbose:
			cfg.Verbose = uint32(values[i]) != 0
		}
	}
	return cfg
}

// since is for a program that asks how long the compiler took.
func since(t time.Time) float32 { return float32(time.Since(t)) / float32(time.Millisecond) }
