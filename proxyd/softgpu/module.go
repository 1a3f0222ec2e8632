// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
)

// newestPTX is the newest architecture from which PTX is taken where a program has no PTX for the device. A kernel that
// needs an instruction of such devices only is refused.
const newestPTX = 121

// withPTX is what the user can do about a program without PTX that fits.
const withPTX = "software GPUs run PTX: compile with it, as by nvcc -gencode arch=compute_80,code=compute_80"

// module is loaded code.
type module struct {
	core.ModuleState
	context   *cudaContext
	program   program
	functions []*function
	variables backend.Range
	managed   backend.Range     // the variables that are declared managed, in the program's memory
	code      [sha256.Size]byte // the hash of the image
	share     *codeShare
}

// function is a kernel of a module.
type function struct {
	module *module
	name   string

	compiled sync.Once // guards the three below: see compileKernel
	kernel   kernel
	facts    facts // zero for a kernel that is refused
	refused  error // why the kernel cannot run, or nil

	mu      sync.Mutex
	dynamic int32 // shared memory that a launch may ask for
	carve   int32
	larger  int32 // 1: clusters may be larger than on all devices; there is a single size here
	cache   int32
}

// translateError gives an image's error the driver's number.
func translateError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, image.ErrNoPTX):
		return fmt.Errorf("%w: %w; %s", backend.NoBinaryForGPU, err, withPTX)
	default:
		return fmt.Errorf("%w: %w", backend.InvalidImage, err)
	}
}

// compileProgram takes an image to a program, with its share of the memory for code.
func (c *cudaContext) compileProgram(data []byte, cfg backend.LoadConfig) (program, *codeShare, backend.Log, error) {
	d := c.space.device
	texts, err := image.Choose(data, uint32(d.backend.cfg.Capability))
	if errors.Is(err, image.ErrNoPTX) {
		texts, err = image.Choose(data, newestPTX)
	}
	if err != nil {
		return nil, nil, backend.Log{Error: err.Error() + "\n"}, translateError(err)
	}
	if isGemm(texts) {
		d.backend.products.Store(true)
	}
	share, err := d.backend.code.reserveShare(uint64(len(data)) + d.backend.engine.estimateMemory(texts, cfg))
	if err != nil {
		return nil, nil, backend.Log{Error: err.Error() + "\n"}, err
	}
	p, log, err := d.backend.engine.compileProgram(texts, d.backend.cfg.Capability, cfg)
	return p, share, log, err
}

// Load implements backend.Context.
func (c *cudaContext) Load(data []byte, cfg backend.LoadConfig) (backend.Module, backend.Log, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, backend.Log{}, err
	}
	p, share, log, err := c.compileProgram(data, cfg)
	if err != nil {
		return nil, log, fmt.Errorf("load: %w", err)
	}
	m := &module{context: c, program: p, share: share}
	m.Init(&c.ContextState)
	if c.space.device.splicer != nil {
		m.code = sha256.Sum256(data)
	}
	if err := m.placeManaged(p, cfg.Managed); err != nil {
		return nil, log, fmt.Errorf("load: %w", err)
	}
	if err := m.placeVariables(p, cfg.Globals); err != nil {
		return nil, log, fmt.Errorf("load: %w", err)
	}
	if err := m.fillManaged(p, cfg.Managed); err != nil {
		m.freeVariables()
		return nil, log, fmt.Errorf("load: %w", err)
	}
	if !p.isDeferred() {
		if err := compileKernels(p, share, &log); err != nil {
			m.freeVariables()
			return nil, log, fmt.Errorf("load: %w", err)
		}
	}
	for _, name := range p.kernelNames() {
		m.functions = append(m.functions, &function{module: m, name: name, carve: -1})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modules[m] = true
	return m, log, nil
}

// compileKernels compiles all kernels of a program, because the driver reports errors of kernels then. A kernel that is
// merely not supported does not fail the load.
func compileKernels(p program, share *codeShare, log *backend.Log) error {
	for _, name := range p.kernelNames() {
		_, more, err := share.findKernel(p, name)
		log.Info, log.Error = log.Info+more.Info, log.Error+more.Error
		if err != nil && backend.ResultOf(err) != backend.NotSupported {
			return err
		}
	}
	return nil
}

// deviceAttributes are the attributes of the function's device.
func (f *function) deviceAttributes() *backend.Attributes {
	return &f.module.context.space.device.info.Attributes
}

// compileKernel compiles a function's kernel, once, and returns why the kernel cannot run. Many goroutines may call compileKernel.
func (f *function) compileKernel() error {
	f.compiled.Do(func() {
		if f.kernel, _, f.refused = f.module.share.findKernel(f.module.program, f.name); f.refused == nil {
			f.facts = f.kernel.kernelFacts()
		}
		f.dynamic = max(f.deviceAttributes()[backend.MaxSharedPerBlock]-int32(f.facts.shared), 0)
	})
	return f.refused
}

// placeVariables gives a program's variables their memory: new, or that of a restored module.
func (m *module) placeVariables(p program, at backend.Addr) error {
	s := m.context.space
	size, align := p.variableSpace()
	if align > ledger.Quantum && (align > backend.Granule || size <= backend.Granule/2) {
		return fmt.Errorf("variables aligned to %d bytes: %w", align, backend.NotSupported)
	}
	base := at
	switch {
	case at != 0:
		if err := s.claimVariables(at, size, m.context.ID()); err != nil {
			return err
		}
	case size > 0:
		got, err := s.placeMemory(backend.Allocation{Size: size, Kind: backend.Globals, Context: m.context.ID()})
		if err != nil {
			return err
		}
		base = got.Alloc.Base
	default:
		base = s.cfg.Base // without variables, no byte lies there
	}
	m.variables = backend.Range{Base: base, Size: size}
	init, err := p.placeVariables(uint64(base))
	if err == nil && at == 0 && size > 0 {
		var b [][]byte
		if b, err = s.table.viewBytes(base, size); err == nil {
			s.guardBytes(func() { copy(b[0], init) })
		}
	}
	if err != nil {
		m.freeVariables()
		return err
	}
	if m.managed.Size == 0 {
		m.Absent = p.ManagedNames()
	}
	for _, g := range p.listGlobals() {
		if g.Managed {
			g.Addr += m.managed.Base
		} else {
			g.Addr += base
		}
		m.Globals[g.Name] = g
	}
	return nil
}

// placeManaged gives a program's variables that are declared managed their addresses in the memory that is offered for these.
func (m *module) placeManaged(p program, to backend.ManagedVariables) error {
	size, align := p.ManagedSpace()
	switch {
	case size == 0 || !to.Offered:
		return nil
	case to.At == 0:
		return &backend.ManagedError{Size: size}
	case uint64(to.At)%align != 0:
		return fmt.Errorf("managed variables aligned to %d bytes: %w", align, backend.NotSupported)
	}
	a, ok := m.context.space.Lookup(to.At)
	if !ok || a.Kind != backend.Host || size > a.Size-uint64(to.At-a.Base) {
		return fmt.Errorf("managed variables at %#x: %w", uint64(to.At), backend.InvalidValue)
	}
	m.managed = backend.Range{Base: to.At, Size: size}
	p.PlaceManaged(uint64(to.At))
	return nil
}

// fillManaged writes the initial bytes of the variables that are declared managed.
func (m *module) fillManaged(p program, to backend.ManagedVariables) error {
	if m.managed.Size == 0 || to.Kept {
		return nil
	}
	init, err := p.ManagedBytes()
	if err != nil {
		return err
	}
	m.context.space.guardBytes(func() {
		var pieces [][]byte
		if pieces, err = m.context.space.table.viewBytes(m.managed.Base, m.managed.Size); err == nil {
			copy(pieces[0], init)
		}
	})
	return err
}

// freeVariables frees the variables.
func (m *module) freeVariables() {
	if m.variables.Size > 0 {
		_ = m.context.space.freeMemory(m.variables.Base, backend.Globals)
	}
}

// Link implements backend.Context.
func (c *cudaContext) Link(parts [][]byte, cfg backend.LoadConfig) ([]byte, backend.Log, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, backend.Log{}, err
	}
	data, err := image.Bundle(parts)
	if err != nil {
		return nil, backend.Log{}, translateError(err)
	}
	p, share, log, err := c.compileProgram(data, cfg)
	if err == nil {
		p.PlaceManaged(uint64(backend.DefaultBase)) // wherever the code will be loaded
		_, err = p.placeVariables(uint64(backend.DefaultBase))
	}
	if err == nil {
		err = compileKernels(p, share, &log)
	}
	if err != nil {
		return nil, log, fmt.Errorf("link: %w", err)
	}
	return data, log, nil
}

// Function implements backend.Module.
func (m *module) Function(name string) (backend.Function, error) {
	f, err := core.FindFunction(&m.ModuleState, m.functions, name)
	if err == nil {
		err = f.compileFamily()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Functions implements backend.Module.
func (m *module) Functions() []backend.Function { return core.ListFunctions(m.functions) }

// Variables implements backend.Module.
func (m *module) Variables() backend.Range { return m.variables }

// Unload implements backend.Module.
func (m *module) Unload() error {
	if err := m.MarkUnloaded(); err != nil {
		return err
	}
	m.freeVariables()
	c := m.context
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.modules, m)
	return nil
}
