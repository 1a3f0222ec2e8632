// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"maps"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// ModuleState is a module, or the module that a library has loaded into a context. Its functions are the functions with
// a handle: a launch gives them a handle that the program has never asked for.
type ModuleState struct {
	Handle    dispatch.Module              `json:"handle"`
	Context   dispatch.Context             `json:"context"`
	Library   dispatch.Library             `json:"library,omitempty"`
	Variables backend.Range                `json:"variables"`
	Functions map[string]dispatch.Function `json:"functions,omitempty"`
}

func (s *Calls) Tables() map[replay.Class]handles.AnyTable {
	return map[replay.Class]handles.AnyTable{
		"module": &s.modules, "function": &s.functions, "library": &s.libraries, "kernel": &s.kernels, "linkstate": &s.linkers,
	}
}

// SavedModules lists the modules.
func (p *Calls) SavedModules() []ModuleState {
	return handles.Each(&p.modules, func(h dispatch.Module, m *module) ModuleState {
		st := ModuleState{Handle: h, Context: m.context.Handle, Variables: m.b.Variables()}
		if m.library != nil {
			st.Library = m.library.handle
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		st.Functions = maps.Clone(m.functions)
		return st
	})
}

// LibraryOf is the library with the code that a call may load into a context.
func (p *Calls) LibraryOf(refs []replay.Ref) dispatch.Library {
	for _, ref := range refs {
		switch ref.Class {
		case "library":
			return dispatch.Library(ref.Value)
		case "kernel":
			if k, ok := p.kernels.Get(dispatch.Kernel(ref.Value)); ok {
				return k.library.handle
			}
		}
	}
	return 0
}

// LoadLibraries loads the modules that libraries had loaded, where no call has done so, and names functions that no
// call has named. before is called with each library before that is loaded.
func (p *Calls) LoadLibraries(all []ModuleState, before func(dispatch.Library)) error {
	for i := range all {
		st := &all[i]
		if l, ok := p.libraries.Get(st.Library); ok && !p.modules.Has(uint64(st.Handle)) {
			before(st.Library)
			if _, result := p.moduleIn(&dispatch.Call{Context: st.Context}, l); result != 0 {
				return fmt.Errorf("library %#x in context %#x: %d: %w", st.Library, st.Context, result, driver.ErrRestore)
			}
		}
		m, ok := p.modules.Get(st.Handle)
		if !ok {
			continue // the check after the restore reports this
		}
		for name, h := range st.Functions {
			if p.functions.Has(uint64(h)) {
				continue
			}
			p.functions.Force(uint64(h))
			if _, result := p.functionOf(m, name); result != 0 {
				return fmt.Errorf("function %s of module %#x: %d: %w", name, st.Handle, result, driver.ErrRestore)
			}
		}
	}
	return nil
}
