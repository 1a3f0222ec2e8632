// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Calls implements dispatch.ModuleCalls. Calls holds a process's modules, libraries, kernels and functions.
type Calls struct {
	*driver.Process
	modules   handles.Table[dispatch.Module, *module]
	functions handles.Table[dispatch.Function, *function]
	libraries handles.Table[dispatch.Library, *library]
	kernels   handles.Table[dispatch.Kernel, *kernel]
	linkers   handles.Table[dispatch.Linkstate, *linker]

	complaintsMu sync.Mutex
	complaints   map[string]bool // the complaints logged so far
}

// Waits are the calls that may wait: for a compiler.
var Waits = []string{
	"module_load", "library_load", "managed_size", "link_add", "link_complete", "cuLibraryGetModule", "cuLibraryGetGlobal", "cuLibraryGetManaged", "cuKernelGetFunction",
	"cuLibraryUnload", "cuKernelSetAttribute", "cuKernelGetAttribute", "cuKernelGetParamInfo", "cuKernelGetParamCount",
	"cuModuleGetFunction", "cuModuleGetFunctionCount", "cuModuleEnumerateFunctions",
}

// maxComplaints is how many different reasons are logged of a process.
const maxComplaints = 32

// logNotRun logs, once each, why code of the program is not run. Names that are not found are no reason: programs ask. Neither is
// code that needs managed memory: the shim loads the code again.
func (p *Calls) logNotRun(what string, err error) {
	if errors.Is(err, backend.NotFound) || errors.Is(err, backend.HostMemoryNotRegistered) || !p.addComplaint(err.Error()) {
		return
	}
	if backend.ResultOf(err) == backend.NotSupported {
		p.tellNotRun(what, err)
		return
	}
	p.Log.Warn(what, "error", err)
}

// tellNotRun tells the program why its code is not run; a log on the program's standard error need not repeat it.
func (p *Calls) tellNotRun(what string, err error) {
	p.Log.Info(what, "error", err)
	p.NoteMissed(what + ": " + err.Error())
}

// logNotLoaded logs why an image cannot be loaded. CUDA's runtime gives no reason where code that was compiled into a program
// does not fit, so the server tells the reason; if images have no code for the device, once for all of them.
func (p *Calls) logNotLoaded(data []byte, err error) {
	const what = "code cannot be loaded"
	r := backend.ResultOf(err)
	if !image.IsCompiled(data) || r != backend.NoBinaryForGPU && r != backend.InvalidPTX {
		p.logNotRun(what, err)
		return
	}
	reason := err.Error()
	if r == backend.NoBinaryForGPU {
		reason = r.Error()
	}
	if p.addComplaint(reason) {
		p.tellNotRun(what, err)
	}
}

// addComplaint tells whether a reason is to be logged: the reason is new, and there are not too many.
func (p *Calls) addComplaint(reason string) bool {
	p.complaintsMu.Lock()
	defer p.complaintsMu.Unlock()
	if p.complaints[reason] || len(p.complaints) >= maxComplaints {
		return false
	}
	p.complaints[reason] = true
	return true
}

// ComplaintCount is how many different reasons were logged.
func (p *Calls) ComplaintCount() int {
	p.complaintsMu.Lock()
	defer p.complaintsMu.Unlock()
	return len(p.complaints)
}

// New makes the Calls of a process that has no module yet.
func New(p *driver.Process) *Calls {
	s := &Calls{Process: p, complaints: map[string]bool{}}
	s.modules.Class, s.functions.Class = handles.ModuleClass, handles.FunctionClass
	s.libraries.Class, s.kernels.Class = handles.LibraryClass, handles.KernelClass
	s.linkers.Class = handles.LinkClass
	return s
}

// ContextEnded drops the modules and functions of a context that is being destroyed. ContextEnded does not wait.
func (s *Calls) ContextEnded(x *driver.Context) {
	s.modules.DropIf(func(m *module) bool { return m.context == x })
	s.functions.DropIf(func(f *function) bool { return f.module.context == x })
	s.linkers.DropIf(func(l *linker) bool { return l.context == x })
	for _, l := range s.libraries.Values() {
		l.forgetContext(x)
	}
}

// End clears all tables. No call is under way, and the spaces are closed.
func (s *Calls) End() {
	s.modules.Clear()
	s.functions.Clear()
	s.libraries.Clear()
	s.kernels.Clear()
	s.linkers.Clear()
}

// millisecondsSince is the time of the compiler, for a program that asks.
func millisecondsSince(t time.Time) float32 {
	return float32(time.Since(t)) / float32(time.Millisecond)
}
