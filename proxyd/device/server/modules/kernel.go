// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// inContext is the kernel's function in the current context.
func (p *Calls) inContext(c *dispatch.Call, k *kernel) (dispatch.Function, dispatch.Result) {
	m, r := p.moduleIn(c, k.library)
	if r != 0 {
		return 0, r
	}
	return p.functionOf(m, k.name)
}

// KernelGetFunction implements dispatch.Backend, as all below.
func (p *Calls) KernelGetFunction(c *dispatch.Call, h dispatch.Kernel) (dispatch.Function, dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return 0, r
	}
	return p.inContext(c, k)
}

func (p *Calls) KernelGetLibrary(_ *dispatch.Call, h dispatch.Kernel) (dispatch.Library, dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return 0, r
	}
	return k.library.handle, 0
}

func (p *Calls) KernelName(_ *dispatch.Call, _ uint32, h dispatch.Kernel) (string, dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return "", r
	}
	return k.name, 0
}

func (p *Calls) KernelGetParamInfo(_ *dispatch.Call, h dispatch.Kernel, index uint64, _ bool) (offset, size uint64, r dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return 0, 0, r
	}
	facts, r := p.factsOf(k)
	if r != 0 {
		return 0, 0, r
	}
	return paramAt(facts.params, index)
}

func (p *Calls) KernelGetParamCount(_ *dispatch.Call, h dispatch.Kernel) (uint64, dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return 0, r
	}
	facts, r := p.factsOf(k)
	if r != 0 {
		return 0, r
	}
	return uint64(len(facts.params)), 0
}

// kernelOn finds a kernel, and checks a device.
func (p *Calls) kernelOn(h dispatch.Kernel, dev int32) (*kernel, *backend.Info, dispatch.Result) {
	k, r := p.findKernel(h)
	if r != 0 {
		return nil, nil, r
	}
	info, r := p.Info(dev)
	return k, info, r
}

func (p *Calls) KernelGetAttribute(_ *dispatch.Call, attribute int32, h dispatch.Kernel, dev int32) (int32, dispatch.Result) {
	k, _, r := p.kernelOn(h, dev)
	switch {
	case r != 0:
		return 0, r
	case attribute < 0 || attribute >= int32(backend.FunctionAttributes):
		return 0, dispatch.ResultInvalidValue
	}
	facts, r := p.factsOf(k)
	if r != 0 {
		return 0, r
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.set[dev][backend.FunctionAttribute(attribute)]; ok {
		return v, 0
	}
	return facts.attributes[attribute], 0
}

// KernelSetAttribute holds for the functions of the kernel on a device, present and future.
func (p *Calls) KernelSetAttribute(_ *dispatch.Call, attribute, value int32, h dispatch.Kernel, dev int32) dispatch.Result {
	k, info, r := p.kernelOn(h, dev)
	if r != 0 {
		return r
	}
	facts, r := p.factsOf(k)
	if r != 0 {
		return r
	}
	a := backend.FunctionAttribute(attribute)
	switch {
	case a == backend.FuncMaxDynamicShared && value >= 0 &&
		value <= info.Attributes[backend.MaxSharedPerBlockOptin]-facts.attributes[backend.FuncSharedSize]:
	case a == backend.FuncSharedCarveout && value >= -1 && value <= 100:
	case a == backend.FuncNonPortableCluster:
	default:
		return dispatch.ResultInvalidValue
	}
	l := k.library
	l.mu.Lock()
	defer l.mu.Unlock()
	for x, m := range l.modules {
		if x.Space.Ordinal != dev {
			continue
		}
		f, err := m.b.Function(k.name)
		if err == nil {
			err = f.SetAttribute(a, value)
		}
		if err != nil {
			return p.Result(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set[dev] == nil {
		k.set[dev] = map[backend.FunctionAttribute]int32{}
	}
	k.set[dev][a] = value
	return 0
}

// KernelSetCacheConfig takes a preference, which has no effect.
func (p *Calls) KernelSetCacheConfig(_ *dispatch.Call, h dispatch.Kernel, config, dev int32) dispatch.Result {
	if _, _, r := p.kernelOn(h, dev); r != 0 {
		return r
	}
	if config < 0 || config > maxCacheConfig {
		return dispatch.ResultInvalidValue
	}
	return 0
}
