// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
)

// module is loaded code.
type module struct {
	core.ModuleState
	context   *cudaContext
	number    uint64 // as the context's
	image     []byte // in the driver's form; nil where there is a single device
	cfg       backend.LoadConfig
	m         driver.Module
	facts     facts
	functions []*function
	kept      backend.Range // where variables' bytes are in the space's memory, for State
	hidden    []string      // variables at addresses that the driver does not tell
}

// compileImage returns an image in the driver's form, with a NUL at its end.
func (c *cudaContext) compileImage(data []byte, cfg backend.LoadConfig) ([]byte, backend.Log, error) {
	parts, err := image.Parts(data)
	if err != nil {
		return nil, backend.Log{Error: err.Error() + "\n"}, fmt.Errorf("%w: %w", backend.InvalidImage, err)
	}
	if len(parts) == 1 {
		return append(bytes.Clone(parts[0]), 0), backend.Log{}, nil
	}
	out, log, err := c.linkImages(parts, cfg)
	return append(out, 0), log, err
}

// linkImages has the driver's linker make a single image of several.
func (c *cudaContext) linkImages(parts [][]byte, cfg backend.LoadConfig) ([]byte, backend.Log, error) {
	var list []driver.Part
	for _, p := range parts {
		kind := driver.PTX
		if len(p) >= 4 {
			switch binary.LittleEndian.Uint32(p) {
			case 0x464C457F:
				kind = driver.Cubin
			case 0xBA55ED50:
				kind = driver.Fatbin
			}
		}
		list = append(list, driver.Part{Kind: kind, Data: append(bytes.Clone(p), 0)})
	}
	var out []byte
	var log backend.Log
	err := c.whileAlive(func() (err error) {
		out, log, err = c.space.device.backend.drv.Link(c.ctx, list, cfg)
		return err
	})
	return out, log, c.recordFault(err)
}

// Link implements backend.Context.
func (c *cudaContext) Link(parts [][]byte, cfg backend.LoadConfig) ([]byte, backend.Log, error) {
	if err := c.CheckUsable(); err != nil {
		return nil, backend.Log{}, err
	}
	var flat [][]byte
	for _, p := range parts {
		more, err := image.Parts(p)
		if err != nil {
			return nil, backend.Log{}, fmt.Errorf("link: %w: %w", backend.InvalidImage, err)
		}
		flat = append(flat, more...)
	}
	if len(flat) == 0 {
		return nil, backend.Log{}, fmt.Errorf("link nothing: %w", backend.InvalidImage)
	}
	out, log, err := c.linkImages(flat, cfg)
	if err != nil {
		return nil, log, fmt.Errorf("link: %w", err)
	}
	return out, log, nil
}

// Load implements backend.Context.
func (c *cudaContext) Load(data []byte, cfg backend.LoadConfig) (backend.Module, backend.Log, error) {
	c.space.steady.RLock()
	defer c.space.steady.RUnlock()
	if err := c.CheckUsable(); err != nil {
		return nil, backend.Log{}, err
	}
	img, log, err := c.compileImage(data, cfg)
	if err != nil {
		return nil, log, fmt.Errorf("load: %w", c.recordFault(err))
	}
	m := &module{context: c, number: c.space.countObject(), cfg: cfg}
	m.Init(&c.ContextState)
	if len(c.space.device.backend.list) > 1 {
		m.image = img
	}
	err = c.whileAlive(func() error {
		var more backend.Log
		var err error
		m.m, more, err = c.space.device.backend.drv.Load(c.ctx, img, cfg, c.space.cfg.Owner)
		log.Info, log.Error = log.Info+more.Info, log.Error+more.Error
		return err
	})
	if err != nil {
		return nil, log, fmt.Errorf("load: %w", c.recordFault(err))
	}
	m.facts.readImage(img[:len(img)-1])
	// The driver moves their pages between the host and devices without a call.
	m.Absent = m.facts.managed
	m.hidden = append(m.hidden, m.facts.managed...)
	if err := m.facts.unread; err != nil {
		m.hidden = append(m.hidden, fmt.Sprintf("of code that was not understood: %v", err))
	}
	if err := m.findSymbols(cfg.Globals); err != nil {
		return nil, log, fmt.Errorf("load: %w", errors.Join(err, m.unloadModule()))
	}
	for _, name := range m.hidden {
		log.Info += "variable " + name + " cannot be captured: programs that have it are not saved\n"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modules[m] = true
	return m, log, nil
}

// findSymbols finds a module's kernels and variables.
func (m *module) findSymbols(kept backend.Addr) error {
	c := m.context
	drv := c.space.device.backend.drv
	err := c.whileAlive(func() error {
		if err := m.findKernels(); err != nil {
			return err
		}
		for _, v := range m.facts.variables {
			at, n, err := drv.Global(c.ctx, m.m, v.name)
			switch {
			case backend.ResultOf(err) == backend.NotFound:
				if !v.constant && !isCompilerText(v.name) {
					m.hidden = append(m.hidden, v.name)
				}
			case err != nil:
				return err
			default:
				m.Globals[v.name] = backend.Global{Name: v.name, Addr: at, Size: n}
			}
		}
		// These are not the module's to keep: the driver has them in memory that is the host's and the devices' at once.
		for _, name := range m.facts.managed {
			at, n, err := drv.Global(c.ctx, m.m, name)
			switch {
			case backend.ResultOf(err) == backend.NotFound:
			case err != nil:
				return err
			default:
				m.Globals[name] = backend.Global{Name: name, Addr: at, Size: n}
			}
		}
		return nil
	})
	if err != nil {
		return c.recordFault(err)
	}
	return m.enterVariables(kept)
}

// findKernels finds a module's kernels. A driver that loads a kernel when it is looked up gives the kernel's code some of the
// addresses from which variables get theirs. So all kernels are looked up now, in the order of the code: variables of later
// modules lie where they were in a restored or moved space, too, whichever kernels the program asks for and when. With
// a driver that has loaded the kernels with the module (also a software GPU, which compiles a kernel that is looked up),
// a kernel that is surely there is looked up when the program asks for the kernel. The context is alive meanwhile.
func (m *module) findKernels() error {
	whole, err := m.isLoadedWhole()
	if err != nil {
		return err
	}
	for _, k := range m.facts.kernels {
		f := &function{module: m, facts: k}
		if !whole || !k.everywhere {
			err := f.lookUpAlive()
			if backend.ResultOf(err) == backend.NotFound {
				continue // of code that the driver has not chosen
			}
			if err != nil {
				return err
			}
		}
		m.functions = append(m.functions, f)
	}
	return nil
}

// isLoadedWhole tells whether the driver has loaded the module's kernels with the module: all of them are loaded if the first
// is. A driver without the calls that tell this may load each kernel when it is looked up. The context is alive meanwhile.
func (m *module) isLoadedWhole() (bool, error) {
	if len(m.facts.kernels) == 0 {
		return true, nil
	}
	c := m.context
	drv := c.space.device.backend.drv
	var absent *driver.AbsentError
	loaded := false
	first, err := drv.FirstFunction(c.ctx, m.m)
	if err == nil && first != (driver.Function{}) {
		loaded, err = drv.IsLoaded(c.ctx, first)
	}
	if errors.As(err, &absent) {
		return false, nil
	}
	return loaded, err
}

// isCompilerText tells whether a variable is a text that a compiler has named: no kernel writes it.
func isCompilerText(name string) bool {
	return strings.HasPrefix(name, "$str") || strings.HasPrefix(name, "__unnamed_") || strings.HasPrefix(name, "_$_str")
}

// unloadModule ends the driver's module.
func (m *module) unloadModule() error {
	c := m.context
	return c.whileAlive(func() error { return c.space.device.backend.drv.Unload(c.ctx, m.m) })
}

// Function implements backend.Module.
func (m *module) Function(name string) (backend.Function, error) {
	f, err := core.FindFunction(&m.ModuleState, m.functions, name)
	if err != nil {
		return nil, err
	}
	return f, f.lookUp()
}

// Functions implements backend.Module.
func (m *module) Functions() []backend.Function { return core.ListFunctions(m.functions) }

// Variables implements backend.Module.
func (m *module) Variables() backend.Range { return m.kept }

// Unload implements backend.Module.
func (m *module) Unload() error {
	if err := m.MarkUnloaded(); err != nil {
		return err
	}
	c := m.context
	s := c.space
	work := s.pendingWork()
	s.mu.Lock()
	s.dropVariables(func(v variable) bool { return v.module == m })
	over := s.freed.addFreeing(0, 1) // a drain waits for this, no address does
	s.mu.Unlock()
	if m.kept.Size > 0 {
		if err := s.freeMemory(m.kept.Base, backend.Globals); err != nil {
			close(over)
			return err
		}
	}
	// Launches that were queued before still run.
	s.afterWork(over, work, func() {
		s.steady.RLock()
		defer s.steady.RUnlock()
		c.mu.Lock()
		delete(c.modules, m)
		c.mu.Unlock()
		_ = c.recordFault(m.unloadModule())
	})
	return nil
}
