// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
)

// moduleState is a module, or what a library has loaded into a context. Its functions are those that have a handle: a launch gives
// them one that the program has never asked for.
type moduleState struct {
	Handle    dispatch.Module              `json:"handle"`
	Context   dispatch.Context             `json:"context"`
	Library   dispatch.Library             `json:"library,omitempty"`
	Variables backend.Range                `json:"variables"`
	Functions map[string]dispatch.Function `json:"functions,omitempty"`
}

func (s *moduleCalls) tables() map[replay.Class]handles {
	return map[replay.Class]handles{
		"module": &s.modules, "function": &s.functions, "library": &s.libraries, "kernel": &s.kernels, "linkstate": &s.linkers,
	}
}

// savedModules lists the modules.
func (p *moduleCalls) savedModules() []moduleState {
	return each(&p.modules, func(h dispatch.Module, m *module) moduleState {
		st := moduleState{Handle: h, Context: m.context.handle, Variables: m.b.Variables()}
		if m.library != nil {
			st.Library = m.library.handle
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		st.Functions = maps.Clone(m.functions)
		return st
	})
}

// libraryOf is the library whose code a call may load into a context.
func (p *moduleCalls) libraryOf(refs []replay.Ref) dispatch.Library {
	for _, ref := range refs {
		switch ref.Class {
		case "library":
			return dispatch.Library(ref.Value)
		case "kernel":
			if k, ok := p.kernels.get(dispatch.Kernel(ref.Value)); ok {
				return k.library.handle
			}
		}
	}
	return 0
}

// loadLibraries loads what libraries had loaded, where no call has done so, and names functions that no call has named.
func (p *moduleCalls) loadLibraries(r *rebuild) error {
	for i := range r.st.Modules {
		st := &r.st.Modules[i]
		if l, ok := p.libraries.get(st.Library); ok && !p.modules.has(uint64(st.Handle)) {
			r.refs, r.library = nil, st.Library
			if _, result := p.moduleIn(&dispatch.Call{Context: st.Context}, l); result != 0 {
				return fmt.Errorf("library %#x in context %#x: %d: %w", st.Library, st.Context, result, ErrRestore)
			}
		}
		m, ok := p.modules.get(st.Handle)
		if !ok {
			continue // check will say so
		}
		for name, h := range st.Functions {
			if p.functions.has(uint64(h)) {
				continue
			}
			p.functions.force(uint64(h))
			if _, result := p.functionOf(m, name); result != 0 {
				return fmt.Errorf("function %s of module %#x: %d: %w", name, st.Handle, result, ErrRestore)
			}
		}
	}
	return nil
}
