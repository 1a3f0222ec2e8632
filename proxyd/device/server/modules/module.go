// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// module is code that is loaded into a context.
type module struct {
	b       backend.Module
	context *driver.Context
	library *library // the library of the module, or nil

	mu        sync.Mutex
	handle    dispatch.Module
	gone      bool
	functions map[string]dispatch.Function // that were asked for
}

// function is a kernel of a module.
type function struct {
	b      backend.Function
	module *module
	handle dispatch.Function
}

// newModule gives loaded code its handle.
func (p *Calls) newModule(x *driver.Context, b backend.Module, l *library) (*module, dispatch.Result) {
	m := &module{b: b, context: x, library: l, functions: map[string]dispatch.Function{}}
	h, r := p.modules.Make(m)
	if r != 0 {
		_ = b.Unload() // b is unused
		return nil, r
	}
	m.mu.Lock()
	m.handle = h
	m.mu.Unlock()
	if x.Gone.Load() { // the context ended meanwhile, and takes no module out
		p.modules.Drop(h)
		return nil, dispatch.ResultContextIsDestroyed
	}
	return m, 0
}

// findModule finds a module: INVALID_HANDLE if there is none.
func (p *Calls) findModule(h dispatch.Module) (*module, dispatch.Result) {
	m, ok := p.modules.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return m, 0
}

// functionOf gives a kernel of the module its handle, the same each time.
func (p *Calls) functionOf(m *module, name string) (dispatch.Function, dispatch.Result) {
	b, err := m.b.Function(name)
	if err != nil {
		p.logNotRun("a kernel cannot run", err)
		return 0, p.Result(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return 0, dispatch.ResultInvalidHandle
	}
	if h, ok := m.functions[name]; ok {
		return h, 0
	}
	f := &function{b: b, module: m}
	h, r := p.functions.Make(f)
	if r != 0 {
		return 0, r
	}
	f.handle = h
	m.functions[name] = h
	if m.context.Gone.Load() {
		p.functions.Drop(h)
	}
	return h, 0
}

// unloadModule ends a module and its functions.
func (p *Calls) unloadModule(m *module) dispatch.Result {
	m.mu.Lock()
	m.gone = true
	all := m.functions
	m.functions = nil
	m.mu.Unlock()
	for _, h := range all {
		p.functions.Drop(h)
	}
	p.modules.Drop(m.handle)
	return p.Result(m.b.Unload())
}

// ModuleLoad implements dispatch.Backend, as all below.
func (p *Calls) ModuleLoad(c *dispatch.Call, image []uint8, _ uint64, names []int32, values []uint64, _, _, _ uint32) (
	h dispatch.Module, info, problems string, milliseconds float32, r dispatch.Result,
) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, "", "", 0, r
	}
	begin := time.Now()
	b, log, err := x.Backend.Load(image, loadConfig(names, values))
	if err != nil {
		p.logNotLoaded(image, err)
		return 0, log.Info, log.Error, millisecondsSince(begin), p.Result(err)
	}
	m, r := p.newModule(x, b, nil)
	if r != 0 {
		return 0, log.Info, log.Error, millisecondsSince(begin), r
	}
	return m.handle, log.Info, log.Error, millisecondsSince(begin), 0
}

func (p *Calls) ModuleUnload(_ *dispatch.Call, h dispatch.Module) dispatch.Result {
	m, r := p.findModule(h)
	switch {
	case r != 0:
		return r
	case m.library != nil:
		return dispatch.ResultNotPermitted // a library's module goes with the library
	}
	if _, ok := p.modules.Drop(h); !ok {
		return dispatch.ResultInvalidHandle
	}
	return p.unloadModule(m)
}

func (p *Calls) ModuleGetFunction(_ *dispatch.Call, h dispatch.Module, name string) (dispatch.Function, dispatch.Result) {
	m, r := p.findModule(h)
	if r != 0 {
		return 0, r
	}
	return p.functionOf(m, name)
}

// runnableKernels returns the first n kernels that can run: other kernels have no handle. Kernels behind these are not
// compiled.
func (m *module) runnableKernels(n uint32) []string {
	var out []string
	for _, b := range m.b.Functions() {
		if uint64(len(out)) >= uint64(n) {
			break
		}
		if _, err := m.b.Function(b.Name()); err == nil {
			out = append(out, b.Name())
		}
	}
	return out
}

func (p *Calls) ModuleGetFunctionCount(_ *dispatch.Call, h dispatch.Module) (uint32, dispatch.Result) {
	m, r := p.findModule(h)
	if r != 0 {
		return 0, r
	}
	return uint32(len(m.runnableKernels(math.MaxUint32))), 0
}

func (p *Calls) ModuleEnumerateFunctions(_ *dispatch.Call, n uint32, h dispatch.Module) ([]dispatch.Function, dispatch.Result) {
	m, r := p.findModule(h)
	if r != 0 {
		return nil, r
	}
	var out []dispatch.Function
	for _, name := range m.runnableKernels(n) {
		f, r := p.functionOf(m, name)
		if r != 0 {
			return nil, r
		}
		out = append(out, f)
	}
	return out, 0
}

func (p *Calls) ModuleGetGlobalV2(_ *dispatch.Call, _, _ bool, h dispatch.Module, name string) (dispatch.Devptr, uint64, dispatch.Result) {
	m, r := p.findModule(h)
	if r != 0 {
		return 0, 0, r
	}
	at, n, r := p.findGlobal(m, name)
	if r == dispatch.ResultNotFound && slices.ContainsFunc(m.b.Functions(), func(f backend.Function) bool { return f.Name() == name }) {
		r = dispatch.ResultInvalidValue // drivers tell the name of a kernel from an unknown name
	}
	return at, n, r
}

func (p *Calls) findGlobal(m *module, name string) (dispatch.Devptr, uint64, dispatch.Result) {
	g, err := m.b.Global(name)
	if err != nil {
		return 0, 0, p.Result(err)
	}
	if g.Absent {
		// CUDA's runtime asks for each variable, used or not, and fails for the whole program if a variable is refused.
		p.logAbsent(name)
	}
	return dispatch.Devptr(g.Addr), g.Size, 0
}

// logAbsent logs that a program has been told of a variable that is declared managed, and that it cannot use by its address.
func (p *Calls) logAbsent(name string) {
	p.logNotRun("a variable cannot be used", fmt.Errorf("variable %s is declared __managed__, so the host would use it by its address: %w", name, backend.NotSupported))
}
