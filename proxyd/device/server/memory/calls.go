// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// Waits are the calls of this file that may wait: memory that was freed may still be in use.
var Waits = []string{"cuMemAlloc_v2", "cuMemAllocPitch_v2", "ipc_open", "pool_open_pointer", "host_free", "host_unregister"}

// Calls implements dispatch.MemoryCalls and dispatch.VmmCalls, and the calls about pools.
type Calls struct {
	*driver.Process
	pools    handles.Table[dispatch.Mempool, *memoryPool]
	memories handles.Table[dispatch.Alloc, *physicalMemory]
	pinned   handles.Table[dispatch.Hostmem, *pinnedMemory]
	Buffers  bufferIDs
	Shares   PinnedShares
	graphs   graphMemories
	imports  imports
	// processes are all processes of the server, which may share memory.
	processes func() []*driver.Process

	mu          sync.Mutex
	devicePools []devicePools // by ordinal
}

// graphMemories is the memory of graphs, which a program may free like its own.
type graphMemories interface {
	// FreeGraphMemory frees memory that a graph has allocated at an address; done is false if no graph has memory
	// there.
	FreeGraphMemory(a backend.Addr) (r dispatch.Result, done bool)
	// GraphMemory is an attribute of a device's memory for graphs, 0 to 3; ResetGraphMemory resets an attribute that is
	// a highest value.
	GraphMemory(dev, attribute int32) uint64
	ResetGraphMemory(dev, attribute int32)
}

// New makes the Calls of a process that has no memory yet.
func New(p *driver.Process, graphs graphMemories, processes func() []*driver.Process) *Calls {
	m := &Calls{Process: p, graphs: graphs, processes: processes, devicePools: make([]devicePools, len(p.View))}
	m.pools.Class, m.memories.Class = handles.PoolClass, handles.MemoryClass
	return m
}

// NewPoolAndCopyCalls are the calls that work with the same memory.
func NewPoolAndCopyCalls(m *Calls) (*PoolCalls, *CopyCalls) {
	return &PoolCalls{m}, &CopyCalls{m.Process, &m.Shares, m}
}

// pinnedMemory is memory of the program that the program has pinned or registered.
type pinnedMemory struct {
	context    *driver.Context
	n          uint64
	flags      uint32
	registered bool
}

// anyContext is a context of a space, by which memory is freed: any context will do. Nil for a space without contexts.
func (p *Calls) anyContext(s *driver.Space) *driver.Context {
	for _, x := range p.Contexts.Values() {
		if x.Space == s {
			return x
		}
	}
	return nil
}

// MemGetInfoV2 implements dispatch.Backend, as all below.
func (p *Calls) MemGetInfoV2(c *dispatch.Call) (free, total uint64, r dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, 0, r
	}
	if err := x.Backend.Err(); err != nil {
		return 0, 0, p.Result(err)
	}
	free, total = x.Space.Info()
	return free, total, 0
}

func (p *Calls) MemAllocV2(c *dispatch.Call, n uint64) (dispatch.Devptr, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	a, err := x.Backend.Alloc(n)
	return dispatch.Devptr(a), p.Result(err)
}

func (p *Calls) MemAllocPitchV2(c *dispatch.Call, width, height uint64, element uint32) (dispatch.Devptr, uint64, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, 0, r
	}
	a, pitch, err := x.Backend.AllocPitch(width, height, element)
	return dispatch.Devptr(a), pitch, p.Result(err)
}

func (p *Calls) MemFreeV2(c *dispatch.Call, ptr dispatch.Devptr) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	if r, done := p.graphs.FreeGraphMemory(backend.Addr(ptr)); done {
		return r
	}
	if r, done := p.closePooled(backend.Addr(ptr)); done {
		return r
	}
	if s := p.SpaceAt(backend.Addr(ptr)); s != nil && s != x.Space {
		if x = p.anyContext(s); x == nil {
			return dispatch.ResultInvalidValue // its memory went with its contexts
		}
	}
	p.Buffers.forgetFreed(backend.Addr(ptr))
	return p.Result(x.Backend.Free(backend.Addr(ptr)))
}

func (p *Calls) MemGetAddressRangeV2(c *dispatch.Call, _, _ bool, ptr dispatch.Devptr) (dispatch.Devptr, uint64, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, 0, r
	}
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil {
		s = x.Space // pinned memory lies beside all spaces
	}
	a, ok := s.Lookup(backend.Addr(ptr))
	if !ok {
		return 0, 0, dispatch.ResultNotFound
	}
	return dispatch.Devptr(a.Base), a.Size, 0
}

// pinMemory notes memory of the program. Its bytes are reached by process_vm_readv and process_vm_writev.
func (p *Calls) pinMemory(c *dispatch.Call, h dispatch.Hostmem, n uint64, flags, allowed uint32, registered bool) dispatch.Result {
	x, r := p.Current(c)
	switch {
	case r != 0:
		return r
	case n == 0 || h == 0 || uint64(h)+n < uint64(h) || flags&^allowed != 0:
		return dispatch.ResultInvalidValue
	case p.SpaceAt(backend.Addr(h)) != nil:
		return dispatch.ResultInvalidValue
	}
	return p.pinned.PutAt(h, &pinnedMemory{context: x, n: n, flags: flags, registered: registered})
}

func (p *Calls) HostAlloc(c *dispatch.Call, h dispatch.Hostmem, n uint64, flags uint32) dispatch.Result {
	const portable, deviceMap, writeCombined = 1, 2, 4
	return p.pinMemory(c, h, n, flags, portable|deviceMap|writeCombined, false)
}

// ManagedAlloc is HostAlloc for the variables of code that are declared managed: memory of no context, like libraries.
func (p *Calls) ManagedAlloc(_ *dispatch.Call, h dispatch.Hostmem, n uint64) dispatch.Result {
	const portable, deviceMap = 1, 2
	if n == 0 || h == 0 || uint64(h)+n < uint64(h) || p.SpaceAt(backend.Addr(h)) != nil {
		return dispatch.ResultInvalidValue
	}
	return p.pinned.PutAt(h, &pinnedMemory{context: driver.NewDestroyedContext(0), n: n, flags: portable | deviceMap})
}

func (p *Calls) HostFree(c *dispatch.Call, h dispatch.Hostmem) dispatch.Result {
	r := p.unpinMemory(h, false)
	if r == 0 {
		p.BeginWait(c)
		p.unmapShare(backend.Addr(h))
	}
	return r
}

func (p *Calls) HostRegister(c *dispatch.Call, h dispatch.Hostmem, n uint64, flags uint32) dispatch.Result {
	const portable, deviceMap, io, readOnly = 1, 2, 4, 8
	if flags&io != 0 {
		return dispatch.ResultNotSupported
	}
	return p.pinMemory(c, h, n, flags, portable|deviceMap|readOnly, true)
}

func (p *Calls) HostUnregister(_ *dispatch.Call, h dispatch.Hostmem) dispatch.Result {
	return p.unpinMemory(h, true)
}

// unpinMemory forgets pinned memory.
func (p *Calls) unpinMemory(h dispatch.Hostmem, registered bool) dispatch.Result {
	m, ok := p.pinned.Get(h)
	switch {
	case !ok && registered:
		return dispatch.ResultHostMemoryNotRegistered
	case !ok || m.registered != registered:
		return dispatch.ResultInvalidValue
	}
	p.pinned.Drop(h)
	return 0
}

// isPinned tells whether the program has pinned or registered the memory at an address.
func (p *Calls) isPinned(a uint64) bool {
	handles, all := handles.Sorted(&p.pinned)
	i, found := slices.BinarySearch(handles, dispatch.Hostmem(a))
	if !found {
		i--
	}
	return i >= 0 && a-uint64(handles[i]) < all[i].n
}

// PointerSet knows the only attribute that can be set. Its effect is that no copy is asynchronous: this needs no work
// here, because copies that a program waits for are over when they return.
func (p *Calls) PointerSet(c *dispatch.Call, ptr dispatch.Devptr, attribute int32, value uint64) dispatch.Result {
	const syncMemops = 6
	if _, r := p.Current(c); r != 0 {
		return r
	}
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil || attribute != syncMemops || value > 1 {
		return dispatch.ResultInvalidValue
	}
	if _, ok := s.Lookup(backend.Addr(ptr)); !ok {
		return dispatch.ResultInvalidValue
	}
	return 0
}
