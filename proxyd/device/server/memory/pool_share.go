// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// A process that exports a pool gives the pool a name. The handle has the name; the shim writes the handle into a file
// in memory: the program hands its descriptor to other processes. A process that imports the pool gets a pool of its
// own, which makes no allocations and only opens allocations of the original pool: they are imported like other shared
// memory (share.go). Pools are saved with their names, and allocations with theirs.

// sharePool lets other processes find a pool, if the pool has a name.
func (p *Calls) sharePool(m *memoryPool) {
	if m.share != (driver.RandomID{}) && !m.imported {
		p.Sharing.SharePool(m.share, driver.SharedPool{Process: p.Process, Device: p.View[m.space.Ordinal]})
	}
}

// PoolShare implements dispatch.Backend, as all below. A pool keeps the name that it got first.
func (p *PoolCalls) PoolShare(_ *dispatch.Call, pool dispatch.Mempool) (handle dispatch.Ipchandle, r dispatch.Result) {
	m, r := p.findOwnPool(pool)
	switch {
	case r != 0:
		return handle, r
	case m.props.HandleTypes&fileDescriptor == 0:
		return handle, dispatch.ResultInvalidValue
	}
	p.mu.Lock()
	if m.share == (driver.RandomID{}) {
		m.share = driver.NewRandomID()
	}
	p.mu.Unlock()
	p.sharePool(m)
	handle.Bytes = p.Sharing.EncodeHandle(driver.PoolHandle, m.share[:])
	return handle, 0
}

// PoolOpen imports a pool of another process. The devices of both are the same, whatever their numbers.
func (p *PoolCalls) PoolOpen(_ *dispatch.Call, handle dispatch.Ipchandle) (dispatch.Mempool, dispatch.Result) {
	content, r := p.Sharing.DecodeHandle(driver.PoolHandle, handle.Bytes, len(driver.RandomID{}))
	if r != 0 {
		return 0, r
	}
	share := driver.RandomID(content)
	theirs, found := p.Sharing.FindPool(share)
	if !found || theirs.Process == p.Process {
		return 0, dispatch.ResultInvalidValue
	}
	dev := slices.Index(p.View, theirs.Device)
	if dev < 0 {
		return 0, dispatch.ResultInvalidDevice // the process does not see the device
	}
	s, r := p.Space(int32(dev))
	if r != 0 {
		return 0, r
	}
	m := &memoryPool{space: s, share: share, imported: true}
	m.props.HandleTypes = fileDescriptor
	return p.pools.Make(m)
}

// PoolSharePointer names an allocation of a pool that may be exported. The handle has the pool's name, too: an allocation
// is imported by its own pool alone.
func (p *PoolCalls) PoolSharePointer(_ *dispatch.Call, ptr dispatch.Devptr) (handle dispatch.Ipchandle, r dispatch.Result) {
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil {
		return handle, dispatch.ResultInvalidValue
	}
	a, ok := s.Lookup(backend.Addr(ptr))
	if !ok || a.Kind != backend.Pooled {
		return handle, dispatch.ResultInvalidValue
	}
	m, r := p.findOwnPool(p.poolOf(s, a.Pool))
	x := p.anyContext(s)
	switch {
	case r != 0:
		return handle, r
	case m.share == (driver.RandomID{}) || x == nil:
		return handle, dispatch.ResultInvalidValue
	case x.Sharer() == nil:
		return handle, dispatch.ResultNotSupported
	}
	share, err := x.Sharer().Export(backend.Addr(ptr))
	if err != nil {
		return handle, p.Result(err)
	}
	content := binary.LittleEndian.AppendUint64(share.Memory[:], share.Number)
	handle.Bytes = p.Sharing.EncodeHandle(driver.PointerHandle, append(content, m.share[:]...))
	return handle, 0
}

// PoolOpenPointer opens an allocation of an imported pool.
func (p *PoolCalls) PoolOpenPointer(c *dispatch.Call, pool dispatch.Mempool, handle dispatch.Ipchandle) (dispatch.Devptr, dispatch.Result) {
	x, r := p.Current(c)
	if r != 0 {
		return 0, r
	}
	m, r := p.findPool(pool)
	if r != 0 {
		return 0, r
	}
	content, r := p.Sharing.DecodeHandle(driver.PointerHandle, handle.Bytes, shareLength+len(driver.RandomID{}))
	switch {
	case r != 0:
		return 0, r
	case !m.imported || driver.RandomID(content[shareLength:]) != m.share:
		return 0, dispatch.ResultInvalidValue
	}
	return p.openShare(c, x, parseShare(content), true)
}

// closePooled closes an allocation of an imported pool; done is false if no such allocation is at the address. The
// memory is released when all work is done that was given so far, also on other streams.
func (p *Calls) closePooled(at backend.Addr) (r dispatch.Result, done bool) {
	p.imports.mu.Lock()
	defer p.imports.mu.Unlock()
	m := p.imports.all[at]
	if m == nil || !m.pooled {
		return 0, false
	}
	return p.closeImport(at, m), true
}
