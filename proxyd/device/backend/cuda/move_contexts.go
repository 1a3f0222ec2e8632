// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// rehearseMove finds out whether the driver makes the contexts on the new device, with all variables where they are. Until
// endRehearsal they keep the room that the contexts will need there. The caller holds the backend's rehearsing.
func (m *move) rehearseMove() error {
	b := m.device.backend
	if len(m.variables) > 0 {
		if !driver.OwnsPlace(m.cfg.Owner) {
			return fmt.Errorf("variables of the space may come to lie elsewhere: %w", backend.NotSupported)
		}
		if err := b.checkRepeating(m.from, m.to); err != nil {
			return err
		}
	}
	driver.RestartPlace(driver.Rehearsal)
	all, err := m.makeAllObjects(m.to, driver.Rehearsal)
	if err != nil {
		return err
	}
	m.rehearsal = all
	return m.checkVariables(all)
}

// endRehearsal ends the contexts that rehearseMove has made.
func (m *move) endRehearsal() error {
	all := m.rehearsal
	m.rehearsal = nil
	return endAllObjects(all)
}

// checkRepeating returns an error unless the driver puts a variable of a new context where it was in a context that has
// ended: on two devices, and back. The caller holds rehearsing.
func (b *Backend) checkRepeating(from, to *device) error {
	pair := [2]*device{from, to}
	if b.repeating[pair] {
		return nil
	}
	var places [3]backend.Addr
	for i, d := range []*device{from, to, from} {
		driver.RestartPlace(driver.Rehearsal)
		ctx, err := b.drv.NewContext(d.dev, driver.Rehearsal)
		if err != nil {
			return err
		}
		m, err := b.loadFirst(ctx, driver.Rehearsal)
		if err == nil {
			places[i], _, err = b.drv.Global(ctx, m, firstVariable)
		}
		if err := errors.Join(err, b.drv.DestroyContext(ctx)); err != nil {
			return err
		}
	}
	if places[0] != places[1] || places[0] != places[2] {
		return fmt.Errorf("the driver puts the variable of a module at %#x, and later at %#x and %#x: %w",
			uint64(places[0]), uint64(places[1]), uint64(places[2]), backend.NotSupported)
	}
	b.repeating[pair] = true
	return nil
}

// copyVariable copies a variable's bytes by a driver stream of its context, or back.
func copyVariable(l *driverStream, at backend.Addr, b []byte, out bool) error {
	if out {
		return l.copyOut(at, uint64(len(b)), func(part []byte) error {
			b = b[copy(b, part):]
			return nil
		})
	}
	return l.copyIn(at, uint64(len(b)), func(part []byte) error {
		b = b[copy(part, b):]
		return nil
	})
}

// saveVariables copies the bytes of all variables.
func (m *move) saveVariables() error {
	for _, v := range m.variables {
		own := *v.module.context.own
		own.alive = func(f func() error) error { return f() }
		b := make([]byte, v.Size)
		if err := copyVariable(&own, v.Addr, b, true); err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, err)
		}
		m.saved[savedVariable{v.module, v.Name}] = b
	}
	return nil
}

// replaceContexts makes the contexts on the new device. If that fails, they are made on the old device again.
func (m *move) replaceContexts() error {
	for _, c := range m.contexts {
		_ = m.device.backend.drv.DestroyContext(c.ctx) // the context is gone in any case
	}
	all, err := m.makeObjects(m.to)
	if err != nil {
		var e error
		if all, e = m.makeObjects(m.from); e != nil {
			for _, c := range m.contexts {
				c.ended = true
				c.SetFault(errors.Join(err, e))
			}
			return errors.Join(err, e)
		}
	}
	for _, p := range all {
		p.context.adoptObjects(p)
	}
	return err
}

// makeObjects makes the objects of all contexts on a device, with their variables. The contexts before have ended.
func (m *move) makeObjects(d *device) ([]*contextObjects, error) {
	if driver.OwnsPlace(m.cfg.Owner) {
		driver.RestartPlace(m.cfg.Owner)
	}
	all, err := m.makeAllObjects(d, m.cfg.Owner)
	if err != nil {
		return nil, err
	}
	err = m.checkVariables(all)
	for _, p := range all {
		for _, x := range p.modules {
			for _, v := range x.variables {
				if err == nil {
					err = copyVariable(p.own, v.at, m.saved[savedVariable{v.module, v.Name}], false)
				}
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, endAllObjects(all))
	}
	return all, nil
}
