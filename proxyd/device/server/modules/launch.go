// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// LaunchCalls implements dispatch.LaunchCalls, with the functions of its process's modules.
type LaunchCalls struct{ *Calls }

// Preferences for caches, and sizes of shared memory's banks, are below these.
const (
	maxCacheConfig  = 3
	maxSharedConfig = 2
)

// findFunction finds a function: INVALID_HANDLE if there is none. A kernel may be handed in for its function in the
// context that is current.
func (p *LaunchCalls) findFunction(c *dispatch.Call, h dispatch.Function) (*function, dispatch.Result) {
	if f, ok := p.functions.Get(h); ok {
		return f, 0
	}
	k, ok := p.kernels.Get(dispatch.Kernel(h))
	if !ok {
		return nil, dispatch.ResultInvalidHandle
	}
	g, r := p.inContext(c, k)
	if r != 0 {
		return nil, r
	}
	f, ok := p.functions.Get(g)
	if !ok {
		return nil, dispatch.ResultInvalidHandle // unloaded meanwhile
	}
	return f, 0
}

// Launch implements dispatch.Backend, as all below.
func (p *LaunchCalls) Launch(c *dispatch.Call, h dispatch.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream dispatch.Stream, params []uint8, n uint32) dispatch.Result {
	return p.LaunchEx(c, h, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, params, n, nil, 0)
}

// LaunchEx launches with attributes. The shim has refused impossible attributes; attributes that Launch does not keep
// are hints.
func (p *LaunchCalls) LaunchEx(c *dispatch.Call, h dispatch.Function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream dispatch.Stream, params []uint8, _ uint32, attributes []dispatch.Launchattr, _ uint32) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	f, r := p.findFunction(c, h)
	if r != 0 {
		return r
	}
	l := backend.Launch{
		Function: f.b, Grid: backend.Dim{X: gridX, Y: gridY, Z: gridZ}, Block: backend.Dim{X: blockX, Y: blockY, Z: blockZ},
		Shared: shared, Params: params, Done: backend.PartialKernel(c.First),
	}
	for _, a := range attributes {
		driver.SetLaunchAttribute(&l, a.Id, a.Value)
	}
	return p.Result(st.Backend.Launch(l))
}

// FunctionFacts takes functions only: a replay must know which function a kernel is.
func (p *LaunchCalls) FunctionFacts(_ *dispatch.Call, h dispatch.Function, n uint32) (facts dispatch.Facts, offsets, sizes []uint32, count uint32, r dispatch.Result) {
	f, ok := p.functions.Get(h)
	if !ok {
		return facts, nil, nil, 0, dispatch.ResultInvalidHandle
	}
	threads, err := f.b.Attribute(backend.FuncMaxThreads)
	if err != nil {
		return facts, nil, nil, 0, p.Result(err)
	}
	dynamic, err := f.b.Attribute(backend.FuncMaxDynamicShared)
	if err != nil {
		return facts, nil, nil, 0, p.Result(err)
	}
	registers, err := f.b.Attribute(backend.FuncRegisters)
	if err != nil {
		return facts, nil, nil, 0, p.Result(err)
	}
	x := f.module.context
	at := &x.Space.Device.Info().Attributes
	facts = dispatch.Facts{
		Context: x.Handle, Threads: uint32(threads), Shared: uint32(max(dynamic, 0)),
		AnyThreads:      uint32(at[backend.MaxThreadsPerBlock]),
		Block:           [3]uint32{uint32(at[backend.MaxBlockX]), uint32(at[backend.MaxBlockY]), uint32(at[backend.MaxBlockZ])},
		Grid:            [3]uint32{uint32(at[backend.MaxGridX]), uint32(at[backend.MaxGridY]), uint32(at[backend.MaxGridZ])},
		Multiprocessors: uint32(at[backend.Multiprocessors]), PerMultiprocessor: uint32(at[backend.MaxThreadsPerMultiprocessor]),
		Warp: uint32(at[backend.WarpSize]), ByRegisters: backend.RegisterThreads(x.Space.Device.Info(), uint32(max(registers, 0))),
	}
	if q := f.b.Required(); q != (backend.Dim{}) {
		facts.Required = [3]uint32{q.X, q.Y, q.Z}
	}
	all := f.b.Params()
	for i, q := range all {
		facts.Bytes = max(facts.Bytes, q.Offset+q.Size)
		if uint64(i) < uint64(n) {
			offsets, sizes = append(offsets, q.Offset), append(sizes, q.Size)
		}
	}
	return facts, offsets, sizes, uint32(len(all)), 0
}

func (p *LaunchCalls) FuncGetAttribute(c *dispatch.Call, attribute int32, h dispatch.Function) (int32, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return 0, r
	}
	v, err := f.b.Attribute(backend.FunctionAttribute(attribute))
	return v, p.Result(err)
}

func (p *LaunchCalls) FuncSetAttribute(c *dispatch.Call, h dispatch.Function, attribute, value int32) dispatch.Result {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return r
	}
	// The facts of a kernel are its code's: they are read before an attribute of one of its functions is changed.
	if l := f.module.library; l != nil {
		if _, r := p.factsOf(l.byName[f.b.Name()]); r != 0 {
			return r
		}
	}
	return p.Result(f.b.SetAttribute(backend.FunctionAttribute(attribute), value))
}

// FuncSetCacheConfig takes a preference, which has no effect.
func (p *LaunchCalls) FuncSetCacheConfig(c *dispatch.Call, h dispatch.Function, config int32) dispatch.Result {
	if _, r := p.findFunction(c, h); r != 0 {
		return r
	}
	if config < 0 || config > maxCacheConfig {
		return dispatch.ResultInvalidValue
	}
	return 0
}

func (p *LaunchCalls) FuncSetSharedMemConfig(c *dispatch.Call, h dispatch.Function, config int32) dispatch.Result {
	if _, r := p.findFunction(c, h); r != 0 {
		return r
	}
	if config < 0 || config > maxSharedConfig {
		return dispatch.ResultInvalidValue
	}
	return 0
}

func (p *LaunchCalls) FuncGetModule(c *dispatch.Call, h dispatch.Function) (dispatch.Module, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return 0, r
	}
	return f.module.handle, 0
}

func (p *LaunchCalls) FunctionName(c *dispatch.Call, _ uint32, h dispatch.Function) (string, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return "", r
	}
	return f.b.Name(), 0
}

// paramAt is a parameter of a kernel: INVALID_VALUE behind the last.
func paramAt(all []backend.Param, index uint64) (offset, size uint64, r dispatch.Result) {
	if index >= uint64(len(all)) {
		return 0, 0, dispatch.ResultInvalidValue
	}
	return uint64(all[index].Offset), uint64(all[index].Size), 0
}

func (p *LaunchCalls) FuncGetParamInfo(c *dispatch.Call, h dispatch.Function, index uint64, _ bool) (offset, size uint64, r dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return 0, 0, r
	}
	return paramAt(f.b.Params(), index)
}

func (p *LaunchCalls) FuncGetParamCount(c *dispatch.Call, h dispatch.Function) (uint64, dispatch.Result) {
	f, r := p.findFunction(c, h)
	if r != 0 {
		return 0, r
	}
	return uint64(len(f.b.Params())), 0
}

// FuncIsLoaded is true: a module is loaded as a whole. The backend of real devices, where its driver is this one, looks up
// only the kernels that its programs ask for because of that (findKernels of backend/cuda).
func (p *LaunchCalls) FuncIsLoaded(c *dispatch.Call, h dispatch.Function) (int32, dispatch.Result) {
	const loaded = 1
	_, r := p.findFunction(c, h)
	return loaded, r
}

func (p *LaunchCalls) FuncLoad(c *dispatch.Call, h dispatch.Function) dispatch.Result {
	_, r := p.findFunction(c, h)
	return r
}
