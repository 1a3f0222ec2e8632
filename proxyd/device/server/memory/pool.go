// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// memoryPool is a pool of a space, or a pool that another process has exported.
type memoryPool struct {
	space    *driver.Space
	id       backend.PoolID
	props    dispatch.Poolprops
	share    driver.RandomID // the name among processes, zero: not exported. driver.Sharing lists the exported pools
	imported bool            // no allocation can be made from the pool
}

// fileDescriptor is the type of handle by which pools are exported, as CUmemAllocationHandleType has it.
const fileDescriptor = 1

// PoolCalls implements the calls about pools, of dispatch.VmmCalls and dispatch.DeviceCalls.
type PoolCalls struct{ *Calls }

// devicePools are the pools that a process has asked for of a device. memoryCalls.mu guards them.
type devicePools struct {
	defaults dispatch.Mempool // the handle of the default pool, 0 until first asked for
	pool     dispatch.Mempool // the current pool, 0: the default
}

// findPool finds a pool: INVALID_VALUE if there is none.
func (p *PoolCalls) findPool(h dispatch.Mempool) (*memoryPool, dispatch.Result) {
	m, ok := p.pools.Get(h)
	if !ok {
		return nil, dispatch.ResultInvalidValue
	}
	return m, 0
}

// findOwnPool finds a pool that the process has made: INVALID_VALUE if the process has imported the pool.
func (p *PoolCalls) findOwnPool(h dispatch.Mempool) (*memoryPool, dispatch.Result) {
	m, r := p.findPool(h)
	if r == 0 && m.imported {
		r = dispatch.ResultInvalidValue
	}
	return m, r
}

// defaultPool is the handle of a device's default pool.
func (p *PoolCalls) defaultPool(dev int32) (dispatch.Mempool, dispatch.Result) {
	s, r := p.Space(dev)
	if r != 0 {
		return 0, r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devicePools[dev]
	if d.defaults == 0 {
		d.defaults, r = p.pools.Make(&memoryPool{space: s, id: backend.DefaultPool})
	}
	return d.defaults, r
}

// MemPoolCreate implements dispatch.Backend, as all below.
func (p *PoolCalls) MemPoolCreate(_ *dispatch.Call, props dispatch.Poolprops) (dispatch.Mempool, dispatch.Result) {
	switch {
	case props.AllocType != typePinned:
		return 0, dispatch.ResultInvalidValue
	case props.Location.Type != locationDevice, props.HandleTypes&^fileDescriptor != 0, props.Win32SecurityAttributes != 0:
		return 0, dispatch.ResultNotSupported
	}
	s, r := p.Space(props.Location.Id)
	if r != 0 {
		return 0, r
	}
	if _, shares := s.Space.(backend.ShareHolder); !shares && props.HandleTypes != 0 {
		return 0, dispatch.ResultNotSupported
	}
	id, err := s.NewPool(props.MaxSize)
	if err != nil {
		return 0, p.Result(err)
	}
	h, r := p.pools.Make(&memoryPool{space: s, id: id, props: props})
	if r != 0 {
		_ = s.DestroyPool(id) // the pool is there
	}
	return h, r
}

func (p *PoolCalls) MemPoolDestroy(_ *dispatch.Call, pool dispatch.Mempool) dispatch.Result {
	m, r := p.findPool(pool)
	if r != 0 {
		return r
	}
	if m.imported {
		p.pools.Drop(pool) // memory imported from the pool stays
		return 0
	}
	if err := m.space.DestroyPool(m.id); err != nil {
		return p.Result(err) // a default pool
	}
	p.Sharing.ForgetPool(m.share)
	p.pools.Drop(pool)
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := &p.devicePools[m.space.Ordinal]; d.pool == pool {
		d.pool = 0 // the default pool is current again
	}
	return 0
}

func (p *PoolCalls) MemPoolTrimTo(_ *dispatch.Call, pool dispatch.Mempool, keep uint64) dispatch.Result {
	m, r := p.findOwnPool(pool)
	if r != 0 {
		return r
	}
	return p.Result(m.space.TrimPool(m.id, keep))
}

func (p *PoolCalls) PoolSet(_ *dispatch.Call, pool dispatch.Mempool, attribute int32, value uint64) dispatch.Result {
	m, r := p.findOwnPool(pool)
	if r != 0 {
		return r
	}
	return p.Result(m.space.SetPoolAttribute(m.id, backend.PoolAttribute(attribute), value))
}

// PoolGet knows the attributes of CUDA 13 too, which say how the pool was made.
func (p *PoolCalls) PoolGet(_ *dispatch.Call, pool dispatch.Mempool, attribute int32) (uint64, dispatch.Result) {
	const allocType, handleTypes, locationID, locationType, maxSize, decompress = 9, 10, 11, 12, 13, 14
	m, r := p.findPool(pool)
	if r != 0 {
		return 0, r
	}
	switch attribute {
	case allocType:
		return typePinned, 0
	case handleTypes:
		return uint64(m.props.HandleTypes), 0
	case decompress:
		return 0, 0
	case locationID:
		return uint64(m.space.Ordinal), 0
	case locationType:
		return locationDevice, 0
	case maxSize:
		return m.props.MaxSize, 0
	}
	if m.imported {
		return 0, dispatch.ResultInvalidValue // the exporter counts
	}
	v, err := m.space.PoolAttribute(m.id, backend.PoolAttribute(attribute))
	return v, p.Result(err)
}

func (p *PoolCalls) MemPoolSetAccess(_ *dispatch.Call, pool dispatch.Mempool, list []dispatch.Access, _ uint64) dispatch.Result {
	m, r := p.findPool(pool)
	if r != 0 {
		return r
	}
	for i := range list {
		if r := p.checkAccess(&list[i]); r != 0 {
			return r
		}
		if list[i].Location.Id == m.space.Ordinal && list[i].Flags != AccessAll {
			return dispatch.ResultInvalidValue // its own device cannot be shut out
		}
	}
	for _, d := range list {
		if d.Location.Id == m.space.Ordinal {
			continue
		}
		if r := p.allowPeerAccess(d.Location.Id, m.space, d.Flags != AccessNone); r != 0 {
			return r
		}
	}
	return 0
}

func (p *PoolCalls) MemPoolGetAccess(_ *dispatch.Call, pool dispatch.Mempool, where dispatch.Location) (int32, dispatch.Result) {
	m, r := p.findPool(pool)
	if r != 0 {
		return 0, r
	}
	if where.Type != locationDevice {
		return 0, dispatch.ResultNotSupported
	}
	if _, r := p.Info(where.Id); r != 0 {
		return 0, r
	}
	if where.Id == m.space.Ordinal || p.canReach(where.Id, m.space) {
		return AccessAll, 0
	}
	return AccessNone, 0
}

func (p *PoolCalls) DeviceSetMemPool(_ *dispatch.Call, dev int32, pool dispatch.Mempool) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	m, r := p.findOwnPool(pool)
	if r != 0 {
		return r
	}
	if m.space.Ordinal != dev {
		return dispatch.ResultInvalidValue
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devicePools[dev].pool = pool
	return 0
}

func (p *PoolCalls) DeviceGetMemPool(_ *dispatch.Call, dev int32) (dispatch.Mempool, dispatch.Result) {
	if _, r := p.Info(dev); r != 0 {
		return 0, r
	}
	p.mu.Lock()
	pool := p.devicePools[dev].pool
	p.mu.Unlock()
	if pool != 0 {
		return pool, 0
	}
	return p.defaultPool(dev)
}

func (p *PoolCalls) DeviceGetDefaultMemPool(_ *dispatch.Call, dev int32) (dispatch.Mempool, dispatch.Result) {
	return p.defaultPool(dev)
}

func (p *PoolCalls) MemAllocAsync(c *dispatch.Call, n uint64, stream dispatch.Stream) (dispatch.Devptr, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	pool, r := p.DeviceGetMemPool(c, st.Context.Space.Ordinal)
	if r != 0 {
		return 0, r
	}
	return p.MemAllocFromPoolAsync(c, n, pool, stream)
}

func (p *PoolCalls) MemAllocFromPoolAsync(c *dispatch.Call, n uint64, pool dispatch.Mempool, stream dispatch.Stream) (dispatch.Devptr, dispatch.Result) {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return 0, r
	}
	m, r := p.findOwnPool(pool)
	switch {
	case r != 0:
		return 0, r
	case m.space != st.Context.Space:
		return 0, dispatch.ResultNotSupported // the work of a device would wait for another device
	case n == 0:
		return 0, dispatch.ResultInvalidValue
	}
	a, err := st.Backend.AllocAsync(m.id, n)
	return dispatch.Devptr(a), p.Result(err)
}

func (p *PoolCalls) MemFreeAsync(c *dispatch.Call, ptr dispatch.Devptr, stream dispatch.Stream) dispatch.Result {
	st, r := p.Stream(c, stream)
	if r != 0 {
		return r
	}
	if ptr == 0 {
		return dispatch.ResultInvalidValue
	}
	if c.Into == nil {
		if r, done := p.closePooled(backend.Addr(ptr)); done {
			return r
		}
		if r, done := p.graphs.FreeGraphMemory(backend.Addr(ptr)); done {
			return r
		}
		p.Buffers.forgetFreed(backend.Addr(ptr))
	}
	return p.Result(st.Backend.FreeAsync(backend.Addr(ptr)))
}

// graphMemory returns zero for each attribute: graphs have no memory of their own here.
func (p *PoolCalls) graphMemory(dev, attribute int32) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	if attribute < 0 || attribute > 3 {
		return dispatch.ResultInvalidValue
	}
	return 0
}

func (p *PoolCalls) DeviceGraphMemTrim(_ *dispatch.Call, dev int32) dispatch.Result {
	return p.graphMemory(dev, 0)
}

func (p *PoolCalls) DeviceGetGraphMemAttribute(_ *dispatch.Call, dev, attribute int32) (uint64, dispatch.Result) {
	if r := p.graphMemory(dev, attribute); r != 0 {
		return 0, r
	}
	return p.graphs.GraphMemory(dev, attribute), 0
}

// DeviceSetGraphMemAttribute can reset the highest values, and set no other attribute.
func (p *PoolCalls) DeviceSetGraphMemAttribute(_ *dispatch.Call, dev, attribute int32, value []uint64) dispatch.Result {
	const usedHigh, reservedHigh = 1, 3
	if r := p.graphMemory(dev, attribute); r != 0 {
		return r
	}
	if attribute != usedHigh && attribute != reservedHigh || len(value) != 1 || value[0] != 0 {
		return dispatch.ResultInvalidValue
	}
	p.graphs.ResetGraphMemory(dev, attribute)
	return 0
}
