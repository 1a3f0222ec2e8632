// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// contextObjects are the driver's objects of a context of the program. They are made when the context is, and again
// when its space moves to another device.
type contextObjects struct {
	context *cudaContext
	owner   uint64
	ctx     driver.Context
	own     *driverStream
	first   *referenceEvent
	streams map[*stream]*driverStream
	modules map[*module]*moduleObjects
}

// moduleObjects are the driver's objects of a module.
type moduleObjects struct {
	m         driver.Module
	functions map[*function]driver.Function // that were looked up
	variables []placedVariable
}

// placedVariable is a variable with its address in the objects.
type placedVariable struct {
	variable
	at backend.Addr
}

// makeObjects makes the driver's context and streams, without modules. The context's streams do not change meanwhile.
func (c *cudaContext) makeObjects(d *device, owner uint64) (*contextObjects, error) {
	b := d.backend
	p := &contextObjects{context: c, owner: owner, streams: map[*stream]*driverStream{}, modules: map[*module]*moduleObjects{}}
	var err error
	if p.ctx, err = b.drv.NewContext(d.dev, owner); err != nil {
		return nil, err
	}
	if p.own, err = p.newDriverStream(0); err == nil {
		if p.first, err = b.firstReference(p.own); err == nil {
			p.streams[c.legacy], err = p.newDriverStream(0)
		}
	}
	if err == nil {
		_, err = b.loadFirst(p.ctx, owner)
	}
	for st := range c.streams {
		if err == nil && st != c.legacy {
			p.streams[st], err = p.newDriverStream(st.cfg.Priority)
		}
	}
	for _, x := range c.limits {
		if err == nil {
			err = b.drv.SetLimit(p.ctx, x.limit, x.value)
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.endObjects())
	}
	return p, nil
}

// loadFirst loads firstModule, which ends with the context.
func (b *Backend) loadFirst(ctx driver.Context, owner uint64) (driver.Module, error) {
	m, _, err := b.drv.Load(ctx, append([]byte(firstModule), 0), backend.LoadConfig{}, owner)
	return m, err
}

// newDriverStream makes a driver stream of the objects.
func (p *contextObjects) newDriverStream(priority int) (*driverStream, error) {
	return p.context.space.device.backend.newDriverStream(p.ctx, priority, func(f func() error) error { return f() })
}

// endObjects ends all of the objects.
func (p *contextObjects) endObjects() error {
	return p.context.space.device.backend.drv.DestroyContext(p.ctx)
}

// adoptObjects has the context consist of the objects. No call uses the driver's context meanwhile.
func (c *cudaContext) adoptObjects(p *contextObjects) {
	adopt := func(old **driverStream, l *driverStream) {
		if *old == nil {
			*old = l
			l.alive = c.whileAlive
			return
		}
		(*old).replaceDriverStream(l)
	}
	c.ctx = p.ctx
	c.marks.replaceContext(p.ctx)
	c.clock.restartClock(p.first)
	adopt(&c.own, p.own)
	for st, l := range p.streams {
		adopt(&st.driverStream, l)
	}
	for m, x := range p.modules {
		m.m = x.m
		for f, h := range x.functions {
			f.f = h
		}
	}
}

// loadModule makes a module's objects again.
func (p *contextObjects) loadModule(m *module) error {
	drv := p.context.space.device.backend.drv
	x := &moduleObjects{functions: map[*function]driver.Function{}}
	var err error
	if x.m, _, err = drv.Load(p.ctx, m.image, m.cfg, p.owner); err != nil {
		return err
	}
	for _, f := range m.functions {
		if !f.found.Load() {
			continue // found in the objects that are made now, when the program asks for the function
		}
		h, err := drv.Function(p.ctx, x.m, f.facts.name)
		if err != nil {
			return err
		}
		for _, a := range f.changed {
			if err := drv.SetFunctionAttribute(p.ctx, h, a.attribute, a.value); err != nil {
				return err
			}
		}
		x.functions[f] = h
	}
	for _, v := range p.context.space.variables {
		if v.module != m {
			continue
		}
		at, n, err := drv.Global(p.ctx, x.m, v.Name)
		if err != nil {
			return err
		}
		if n != v.Size {
			return fmt.Errorf("variable %s has %d bytes, not %d: %w", v.Name, n, v.Size, backend.NotSupported)
		}
		x.variables = append(x.variables, placedVariable{v, at})
	}
	p.modules[m] = x
	return nil
}

// makeAllObjects makes the objects of all contexts anew, in the order in which the program has made contexts and modules,
// because the driver places variables in that order. The caller holds the space's mu and its contexts' mu.
func (s *space) makeAllObjects(d *device, owner uint64) ([]*contextObjects, error) {
	type object struct {
		number  uint64
		context *cudaContext
		module  *module // or nil
	}
	var objects []object
	for _, c := range s.contexts {
		objects = append(objects, object{c.number, c, nil})
		for m := range c.modules {
			objects = append(objects, object{m.number, c, m})
		}
	}
	slices.SortFunc(objects, func(a, b object) int { return cmp.Compare(a.number, b.number) })
	made := map[*cudaContext]*contextObjects{}
	var all []*contextObjects
	for _, o := range objects {
		var err error
		if o.module != nil {
			err = made[o.context].loadModule(o.module)
		} else if made[o.context], err = o.context.makeObjects(d, owner); err == nil {
			all = append(all, made[o.context])
		}
		if err != nil {
			return nil, errors.Join(err, endAllObjects(all))
		}
	}
	return all, nil
}

// endAllObjects ends all objects.
func endAllObjects(all []*contextObjects) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.endObjects())
	}
	return errors.Join(errs...)
}

// checkVariables returns an error if a variable of the objects is not where it was: a program may know where. Of a
// rehearsal, addresses are compared within the place of the owner.
func (s *space) checkVariables(all []*contextObjects) error {
	for _, p := range all {
		for _, x := range p.modules {
			for _, v := range x.variables {
				if v.at-driver.PlaceOf(p.owner) != v.Addr-driver.PlaceOf(s.cfg.Owner) {
					return fmt.Errorf("the driver puts variable %s elsewhere on the other device, and the program may know where it is: %w", v.Name, backend.NotSupported)
				}
			}
		}
	}
	return nil
}
