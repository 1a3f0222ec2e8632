// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"maps"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// library is code that belongs to no context: an image that is loaded into each context that asks for it.
type library struct {
	image  []byte
	cfg    backend.LoadConfig
	handle dispatch.Library
	all    []*kernel // in the order of the code
	byName map[string]*kernel

	mu      sync.Mutex // held during the load
	gone    bool
	modules map[*driver.Context]*module
}

// kernel is a kernel of a library.
type kernel struct {
	library *library
	name    string

	mu     sync.Mutex
	facts  *kernelFacts                                  // nil until they are asked for
	handle dispatch.Kernel                               // 0 until first asked for
	set    map[int32]map[backend.FunctionAttribute]int32 // by device
}

// kernelFacts are the facts of a kernel that are the same in all contexts, whatever attributes its functions were
// given.
type kernelFacts struct {
	attributes [backend.FunctionAttributes]int32
	params     []backend.Param
}

// forgetContext takes a context out that is being destroyed.
func (l *library) forgetContext(x *driver.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.modules, x)
}

// listKernels enters the kernels that the library's module has in some context.
func (l *library) listKernels(m backend.Module) {
	l.byName = map[string]*kernel{}
	for _, b := range m.Functions() {
		k := &kernel{library: l, name: b.Name(), set: map[int32]map[backend.FunctionAttribute]int32{}}
		l.all = append(l.all, k)
		l.byName[k.name] = k
	}
}

// factsOf compiles a kernel, once, and returns the facts known then.
func (p *Calls) factsOf(k *kernel) (*kernelFacts, dispatch.Result) {
	k.mu.Lock()
	facts := k.facts
	k.mu.Unlock()
	if facts != nil {
		return facts, 0
	}
	r := p.withAnyModule(k.library, func(m backend.Module) (r dispatch.Result) {
		facts, r = p.readFacts(m, k.name)
		return r
	})
	if r != 0 {
		return nil, r
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.facts = facts
	return facts, 0
}

// withAnyModule calls f with the library's module in some context.
func (p *Calls) withAnyModule(l *library, f func(backend.Module) dispatch.Result) dispatch.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.modules {
		return f(m.b)
	}
	return p.withContext(func(x backend.Context) dispatch.Result {
		m, _, err := x.Load(l.image, l.cfg)
		if err != nil {
			return p.Result(err)
		}
		return f(m)
	})
}

// readFacts reads the facts of a kernel of a module. A kernel that cannot run has facts too.
func (p *Calls) readFacts(m backend.Module, name string) (*kernelFacts, dispatch.Result) {
	for _, b := range m.Functions() {
		if b.Name() != name {
			continue
		}
		facts := &kernelFacts{params: b.Params()}
		for a := range facts.attributes {
			v, err := b.Attribute(backend.FunctionAttribute(a))
			if err != nil {
				return nil, p.Result(err)
			}
			facts.attributes[a] = v
		}
		return facts, 0
	}
	return nil, dispatch.ResultNotFound
}

// withContext calls f with a temporary context on the first device: for calls that need a context where the program has
// no context.
func (p *Calls) withContext(f func(backend.Context) dispatch.Result) dispatch.Result {
	s, r := p.Space(0)
	if r != 0 {
		return r
	}
	x, err := s.NewContext(0)
	if err != nil {
		return p.Result(err)
	}
	defer func() { _ = x.Destroy() }() // no kernel was launched in x
	return f(x)
}

// LibraryLoad implements dispatch.Backend, as all below.
func (p *Calls) LibraryLoad(c *dispatch.Call, image []uint8, _ uint64, names []int32, values []uint64, _ uint32, _ []int32, _ []uint64, _, _, _ uint32) (
	h dispatch.Library, info, problems string, milliseconds float32, r dispatch.Result,
) {
	begin := time.Now()
	l := &library{image: image, cfg: loadConfig(names, values), modules: map[*driver.Context]*module{}}
	var log backend.Log
	load := func(x backend.Context) (backend.Module, dispatch.Result) {
		b, what, err := x.Load(l.image, l.cfg)
		if log = what; err != nil {
			p.logNotLoaded(l.image, err)
			return nil, p.Result(err)
		}
		l.cfg.Managed.Kept = true // in all contexts the variables are the same
		l.listKernels(b)
		return b, 0
	}
	x, _ := p.Contexts.Get(c.Context)
	var b backend.Module
	if x != nil {
		b, r = load(x.Backend)
	} else {
		r = p.withContext(func(x backend.Context) dispatch.Result { _, r := load(x); return r })
	}
	if r == 0 {
		// The handle is not known yet.
		l.mu.Lock()
		defer l.mu.Unlock()
		h, r = p.libraries.Make(l)
		l.handle = h
	}
	if r == 0 && x != nil {
		l.modules[x], r = p.newModule(x, b, l)
		if r != 0 {
			p.libraries.Drop(h)
		}
	}
	if r != 0 {
		h = 0
	}
	return h, log.Info, log.Error, millisecondsSince(begin), r
}

// findLibrary finds a library: INVALID_HANDLE if there is none.
func (p *Calls) findLibrary(h dispatch.Library) (*library, dispatch.Result) {
	l, ok := p.libraries.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return l, 0
}

// findKernel finds a kernel: INVALID_HANDLE if there is none.
func (p *Calls) findKernel(h dispatch.Kernel) (*kernel, dispatch.Result) {
	k, ok := p.kernels.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	return k, 0
}

// moduleIn is the library's module in the current context, loaded now if missing.
func (p *Calls) moduleIn(c *dispatch.Call, l *library) (*module, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return nil, r
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, dispatch.ResultInvalidHandle
	}
	if m := l.modules[x]; m != nil {
		return m, 0
	}
	b, _, err := x.Backend.Load(l.image, l.cfg)
	if err != nil {
		return nil, p.Result(err)
	}
	m, r := p.newModule(x, b, l)
	if r != 0 {
		return nil, r
	}
	for _, k := range l.all {
		k.mu.Lock()
		set := maps.Clone(k.set[x.Space.Ordinal])
		k.mu.Unlock()
		for a, v := range set {
			if f, err := b.Function(k.name); err == nil {
				_ = f.SetAttribute(a, v) // the value was good when set
			}
		}
	}
	l.modules[x] = m
	if x.Gone.Load() { // meanwhile
		delete(l.modules, x)
		return nil, dispatch.ResultContextIsDestroyed
	}
	return m, 0
}

func (p *Calls) LibraryUnload(_ *dispatch.Call, h dispatch.Library) dispatch.Result {
	l, ok := p.libraries.Drop(h)
	if !ok {
		return dispatch.ResultInvalidHandle
	}
	p.kernels.DropIf(func(k *kernel) bool { return k.library == l })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	var r dispatch.Result
	for _, m := range l.modules {
		if q := p.unloadModule(m); r == 0 {
			r = q
		}
	}
	l.modules = nil
	return r
}

// handleOf gives a kernel its handle, the same each time.
func (p *Calls) handleOf(k *kernel) (dispatch.Kernel, dispatch.Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle != 0 {
		return k.handle, 0
	}
	h, r := p.kernels.Make(k)
	k.handle = h
	return h, r
}

func (p *Calls) LibraryGetKernel(_ *dispatch.Call, h dispatch.Library, name string) (dispatch.Kernel, dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return 0, r
	}
	k := l.byName[name]
	if k == nil {
		return 0, dispatch.ResultNotFound
	}
	return p.handleOf(k)
}

func (p *Calls) LibraryGetKernelCount(_ *dispatch.Call, h dispatch.Library) (uint32, dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return 0, r
	}
	return uint32(len(l.all)), 0
}

func (p *Calls) LibraryEnumerateKernels(_ *dispatch.Call, n uint32, h dispatch.Library) ([]dispatch.Kernel, dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return nil, r
	}
	var out []dispatch.Kernel
	for _, k := range l.all[:min(uint64(n), uint64(len(l.all)))] {
		h, r := p.handleOf(k)
		if r != 0 {
			return nil, r
		}
		out = append(out, h)
	}
	return out, 0
}

func (p *Calls) LibraryGetModule(c *dispatch.Call, h dispatch.Library) (dispatch.Module, dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return 0, r
	}
	m, r := p.moduleIn(c, l)
	if r != 0 {
		return 0, r
	}
	return m.handle, 0
}

func (p *Calls) LibraryGetGlobal(c *dispatch.Call, _, _ bool, h dispatch.Library, name string) (dispatch.Devptr, uint64, dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return 0, 0, r
	}
	m, r := p.moduleIn(c, l)
	if r != 0 {
		return 0, 0, r
	}
	return p.findGlobal(m, name)
}

// LibraryGetManaged finds a variable that is declared managed: it is the same in all contexts.
func (p *Calls) LibraryGetManaged(_ *dispatch.Call, _, _ bool, h dispatch.Library, name string) (at dispatch.Devptr, n uint64, r dispatch.Result) {
	l, r := p.findLibrary(h)
	if r != 0 {
		return 0, 0, r
	}
	r = p.withAnyModule(l, func(m backend.Module) dispatch.Result {
		g, err := m.Global(name)
		switch {
		case err != nil:
			return p.Result(err)
		case !g.Managed:
			return dispatch.ResultNotFound
		case g.Absent:
			p.logAbsent(name)
			return dispatch.ResultNotSupported
		}
		at, n = dispatch.Devptr(g.Addr), g.Size
		return 0
	})
	return at, n, r
}
