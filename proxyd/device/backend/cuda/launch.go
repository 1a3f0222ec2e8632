// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
)

// function is a kernel of a module.
type function struct {
	module *module
	facts  kernelFacts

	// The fields that lookUp sets. The driver's handle is another one when the space has moved.
	found    atomic.Bool
	lookedUp sync.Mutex
	f        driver.Function
	params   []backend.Param
	offsets  []uint32

	mu    sync.Mutex
	known [backend.FunctionAttributes]int32 // the driver's attributes of the kernel: launches are checked against them
	has   [backend.FunctionAttributes]bool

	changed []attributeValue // that the program has set, in this order; written under mu and the context's ending, read under either
}

// attributeValue is the value of an attribute of a function.
type attributeValue struct {
	attribute backend.FunctionAttribute
	value     int32
}

// lookUp has the driver find the kernel, once. Many goroutines may call lookUp, and a call after one that failed tries
// again.
func (f *function) lookUp() error {
	if f.found.Load() {
		return nil
	}
	c := f.module.context
	return c.recordFault(c.whileAlive(f.lookUpAlive))
}

// lookUpAlive is lookUp where the context is known to be alive.
func (f *function) lookUpAlive() error {
	f.lookedUp.Lock()
	defer f.lookedUp.Unlock()
	if f.found.Load() {
		return nil
	}
	c := f.module.context
	h, err := c.space.device.backend.drv.Function(c.ctx, f.module.m, f.facts.name)
	if err == nil {
		f.f = h
		err = f.readParams()
	}
	if err != nil {
		return fmt.Errorf("function %q: %w", f.facts.name, err)
	}
	f.found.Store(true)
	return nil
}

// readParams asks the driver for the places of the parameters. The context is alive meanwhile.
func (f *function) readParams() error {
	c := f.module.context
	drv := c.space.device.backend.drv
	f.params, f.offsets = f.facts.params, nil
	var absent *driver.AbsentError
	for i := 0; ; i++ {
		p, err := drv.Param(c.ctx, f.f, i)
		if errors.As(err, &absent) {
			break // the image's own list is used
		}
		if i == 0 {
			f.params = nil
		}
		if backend.ResultOf(err) == backend.InvalidValue {
			break // there are no more
		}
		if err != nil {
			return err
		}
		f.params = append(f.params, p)
	}
	for _, p := range f.params {
		f.offsets = append(f.offsets, p.Offset)
	}
	return nil
}

// Name implements backend.Function.
func (f *function) Name() string { return f.facts.name }

// Module implements backend.Function.
func (f *function) Module() backend.Module { return f.module }

// Params implements backend.Function.
func (f *function) Params() []backend.Param {
	if f.lookUp() != nil {
		return f.facts.params
	}
	return f.params
}

// Required implements backend.Function.
func (f *function) Required() backend.Dim { return f.facts.required }

// Attribute implements backend.Function. The value is remembered: only SetAttribute changes the value.
func (f *function) Attribute(a backend.FunctionAttribute) (int32, error) {
	if err := f.module.CheckLoaded(); err != nil {
		return 0, err
	}
	if a < 0 || a >= backend.FunctionAttributes {
		return 0, fmt.Errorf("attribute %d of a function: %w", a, backend.InvalidValue)
	}
	if err := f.lookUp(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has[a] {
		return f.known[a], nil
	}
	c := f.module.context
	err := c.whileAlive(func() (err error) {
		f.known[a], err = c.space.device.backend.drv.FunctionAttribute(c.ctx, f.f, a)
		return err
	})
	f.has[a] = err == nil
	return f.known[a], c.recordFault(err)
}

// SetAttribute implements backend.Function.
func (f *function) SetAttribute(a backend.FunctionAttribute, v int32) error {
	if err := f.module.CheckLoaded(); err != nil {
		return err
	}
	if a < 0 || a >= backend.FunctionAttributes {
		return fmt.Errorf("set attribute %d of a function: %w", a, backend.InvalidValue)
	}
	if err := f.lookUp(); err != nil {
		return err
	}
	c := f.module.context
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has = [backend.FunctionAttributes]bool{}
	return c.recordFault(c.whileAlive(func() error {
		if err := c.space.device.backend.drv.SetFunctionAttribute(c.ctx, f.f, a, v); err != nil {
			return err
		}
		f.changed = append(slices.DeleteFunc(f.changed, func(x attributeValue) bool { return x.attribute == a }), attributeValue{a, v})
		return nil
	}))
}

// maxLaunchAttributes is how many attributes a launch may have: more than KeepAttribute keeps.
const maxLaunchAttributes = 16

// checkLaunch checks a launch.
func (c *cudaContext) checkLaunch(l backend.Launch) (*launch, error) {
	f, ok := l.Function.(*function)
	if !ok || f.module.context != c {
		return nil, fmt.Errorf("launch a function of another context: %w", backend.InvalidHandle)
	}
	if err := f.module.CheckLoaded(); err != nil {
		return nil, err
	}
	if err := f.lookUp(); err != nil {
		return nil, err
	}
	if len(l.Attributes) > maxLaunchAttributes {
		return nil, fmt.Errorf("%d attributes of a launch: %w", len(l.Attributes), backend.InvalidValue)
	}
	if l.Done != (backend.PartialKernel{}) {
		return nil, fmt.Errorf("launch the rest of a kernel: %w", backend.NotSupported)
	}
	if err := backend.CheckLaunch(&c.space.device.info, &l); err != nil {
		return nil, err
	}
	return &launch{f, driver.Launch{
		Grid: l.Grid, Block: l.Block, Shared: l.Shared, Cooperative: l.Cooperative, Attributes: l.Attributes,
		Params: bytes.Clone(l.Params), Offsets: f.offsets,
	}}, nil
}

// launch is a launch that was checked. The driver's handle of the function is found when the launch is handed to the
// driver: the space may move meanwhile.
type launch struct {
	function *function
	args     driver.Launch
}

// forDriver is the launch as the driver takes it. The context is alive.
func (l *launch) forDriver() *driver.Launch {
	d := l.args
	d.Function = l.function.f
	return &d
}

// ActiveClusters implements backend.ClusterFunction.
func (f *function) ActiveClusters(l *backend.Launch) (int, error) {
	return f.queryClusters(l, driver.Clusters.Active)
}

// LargestCluster implements backend.ClusterFunction.
func (f *function) LargestCluster(l *backend.Launch) (int, error) {
	return f.queryClusters(l, driver.Clusters.Largest)
}

func (f *function) queryClusters(l *backend.Launch, ask func(driver.Clusters, driver.Context, *driver.Launch) (int, error)) (n int, err error) {
	if err := f.module.CheckLoaded(); err != nil {
		return 0, err
	}
	if len(l.Attributes) > maxLaunchAttributes {
		return 0, fmt.Errorf("%d attributes of a launch: %w", len(l.Attributes), backend.InvalidValue)
	}
	if err := f.lookUp(); err != nil {
		return 0, err
	}
	c := f.module.context
	err = c.whileAlive(func() error {
		d := &driver.Launch{Function: f.f, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Cooperative: l.Cooperative, Attributes: l.Attributes}
		n, err = ask(driver.Clusters{Driver: c.space.device.backend.drv}, c.ctx, d)
		return err
	})
	return n, c.recordFault(err)
}

// Launch implements backend.Stream.
func (st *stream) Launch(x backend.Launch) error {
	return st.prepareAndEnqueue(func() (*task, error) {
		l, err := st.context.checkLaunch(x)
		if err != nil {
			return nil, err
		}
		return &task{direct: true, run: func() error {
			return st.driverStream.drv.Launch(st.driverStream.ctx, st.driverStream.stream, l.forDriver())
		}}, nil
	})
}
