// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// variable is a module's variable, at a place of the driver's choice. A module has an allocation in its space to which
// the bytes of its variables are copied when the space is saved, and from which they come back at a restore.
type variable struct {
	backend.Variable
	module *module
	offset uint64 // in the module's allocation
}

// variableAlign is the alignment of variables' offsets.
const variableAlign = 16

// enterVariables enters a module's variables. at is where their bytes are in a restored space, or 0.
func (m *module) enterVariables(at backend.Addr) error {
	s := m.context.space
	var list []variable
	size := uint64(0)
	for _, f := range m.facts.variables {
		g, ok := m.Globals[f.name]
		if !ok {
			continue
		}
		list = append(list, variable{backend.Variable{Name: g.Name, Addr: g.Addr, Size: g.Size}, m, size})
		size += (g.Size + variableAlign - 1) &^ (variableAlign - 1)
	}
	base := at
	switch {
	case at != 0:
		if err := s.claimVariables(at, size, list); err != nil {
			return err
		}
	case size > 0:
		p, err := s.placeMemory(backend.Allocation{Size: size, Kind: backend.Globals, Context: m.context.ID()})
		if err != nil {
			return err
		}
		base = p.Alloc.Base
	default:
		base = s.cfg.Base // a module without variables has no allocation
	}
	m.kept = backend.Range{Base: base, Size: size}
	for i := range list {
		list[i].Kept = base + backend.Addr(list[i].offset)
	}
	s.mu.Lock()
	s.variables = append(s.variables, list...)
	slices.SortFunc(s.variables, func(a, b variable) int { return int(int64(a.Addr) - int64(b.Addr)) })
	s.mu.Unlock()
	if at == 0 {
		return nil
	}
	return s.moveVariables(func(v variable) bool { return v.module == m }, false)
}

// claimVariables checks that a restored module has the variables of the state, at their former addresses.
func (s *space) claimVariables(at backend.Addr, size uint64, list []variable) error {
	if len(list) == 0 && size == 0 {
		return nil
	}
	m := list[0].module
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ledger.Claim(at, size, m.context.ID()); err != nil {
		return err
	}
	for _, v := range list {
		i := slices.IndexFunc(s.claims, func(c backend.Variable) bool { return c.Kept == at+backend.Addr(v.offset) })
		if i < 0 || s.claims[i].Name != v.Name || s.claims[i].Size != v.Size {
			return fmt.Errorf("variable %s of %d bytes is not in the state: %w", v.Name, v.Size, backend.InvalidValue)
		}
		if was := s.claims[i].Addr; was != v.Addr && !s.device.backend.cfg.VariablesMayMove {
			return fmt.Errorf("the driver has put variable %s at %#x, it was at %#x, and the program may know: %w", v.Name, uint64(v.Addr), uint64(was), backend.NotSupported)
		}
	}
	return nil
}

// findVariable finds the variable that holds n bytes at an address. The caller holds mu.
func (s *space) findVariable(a backend.Addr, n uint64) (variable, bool) {
	i, found := slices.BinarySearchFunc(s.variables, a, func(v variable, a backend.Addr) int { return int(int64(v.Addr) - int64(a)) })
	if !found {
		i--
	}
	if i < 0 || uint64(a-s.variables[i].Addr)+n > s.variables[i].Size {
		return variable{}, false
	}
	return s.variables[i], true
}

// dropVariables forgets some variables. The caller holds mu.
func (s *space) dropVariables(which func(variable) bool) {
	s.variables = slices.DeleteFunc(s.variables, which)
}

// moveVariables copies the bytes of some variables to the space's memory (out), or back.
func (s *space) moveVariables(which func(variable) bool, out bool) error {
	s.mu.Lock()
	var list []variable
	for _, v := range s.variables {
		if which(v) {
			list = append(list, v)
		}
	}
	s.mu.Unlock()
	for _, v := range list {
		c := v.module.context
		err := s.eachWindow(v.Kept, v.Size, func(m *memory, at, n uint64) error {
			// Where the device has no room, the bytes are read from the host's memory, or go there.
			if err := m.ensurePresent(); err != nil && backend.ResultOf(err) != backend.OutOfMemory {
				return err
			}
			c.moving.Lock()
			defer c.moving.Unlock()
			if !out {
				return c.own.copyIn(v.Addr, n, func(part []byte) error { return m.readOrClear(at, part) })
			}
			m.markBlocks(at, n, false)
			return c.own.copyOut(v.Addr, n, func(part []byte) error { return m.writeAt(at, part) })
		})
		if err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, c.recordFault(err))
		}
	}
	return nil
}

// checkSaved returns an error if a module has variables with unreadable bytes.
func (s *space) checkSaved() error {
	var errs []error
	for _, c := range s.allContexts() {
		c.mu.Lock()
		for m := range c.modules {
			if len(m.hidden) > 0 && !m.IsUnloaded() {
				errs = append(errs, fmt.Errorf("a module's variables cannot be read (%s): %w", strings.Join(m.hidden, ", "), backend.NotSupported))
			}
		}
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}
