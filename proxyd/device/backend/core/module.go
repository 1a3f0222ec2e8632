// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// ModuleState says whether a module is loaded, and has its variables. A backend embeds ModuleState in its own type, calls
// Init, and has Global of backend.Module with that. The methods can be called concurrently, and with any lock held.
type ModuleState struct {
	// Neither is changed once the program has the module.
	Globals map[string]backend.Global
	Absent  []string // variables that are declared managed, and that the program cannot use by their addresses

	context *ContextState
	gone    atomic.Bool
}

// Init is called once, before any other method, for a module of a context.
func (m *ModuleState) Init(c *ContextState) {
	m.context, m.Globals = c, map[string]backend.Global{}
}

// CheckLoaded returns an error if the module was unloaded, or the error of its context.
func (m *ModuleState) CheckLoaded() error {
	if err := m.context.CheckUsable(); err != nil {
		return err
	}
	if m.IsUnloaded() {
		return errModuleGone
	}
	return nil
}

var errModuleGone = fmt.Errorf("module: %w", backend.InvalidHandle)

// IsUnloaded tells whether the program has unloaded the module.
func (m *ModuleState) IsUnloaded() bool { return m.gone.Load() }

// MarkUnloaded is CheckLoaded, and notes that the module is unloaded. MarkUnloaded returns nil only once.
func (m *ModuleState) MarkUnloaded() error {
	if err := m.CheckLoaded(); err != nil {
		return err
	}
	if !m.gone.CompareAndSwap(false, true) {
		return errModuleGone
	}
	return nil
}

// Global implements backend.Module.
func (m *ModuleState) Global(name string) (backend.Global, error) {
	if err := m.CheckLoaded(); err != nil {
		return backend.Global{}, err
	}
	g, ok := m.Globals[name]
	if !ok {
		return backend.Global{}, fmt.Errorf("variable %q: %w", name, backend.NotFound)
	}
	if slices.Contains(m.Absent, name) {
		g.Managed, g.Absent = true, true
	}
	return g, nil
}

// FindFunction finds a function of a loaded module by its name among the module's functions.
func FindFunction[F backend.Function](m *ModuleState, functions []F, name string) (found F, err error) {
	if err := m.CheckLoaded(); err != nil {
		return found, err
	}
	for _, f := range functions {
		if f.Name() == name {
			return f, nil
		}
	}
	return found, fmt.Errorf("function %q: %w", name, backend.NotFound)
}

// ListFunctions is Functions of backend.Module.
func ListFunctions[F backend.Function](functions []F) []backend.Function {
	out := make([]backend.Function, len(functions))
	for i, f := range functions {
		out[i] = f
	}
	return out
}
