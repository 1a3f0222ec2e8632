// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// vmmWaits are the calls of this file that may wait: addresses that were freed may still be in use.
var vmmWaits = []string{"cuMemSetAccess"}

// physicalMemory is memory without an address. Several handles may be of the same one.
type physicalMemory struct {
	space *space
	id    backend.MemoryID
	size  uint64
	prop  dispatch.Allocprop
}

// The numbers of CUmemAllocationProp and CUmemLocation.
const (
	typePinned     = 1
	locationDevice = 1
	accessNone     = 0
	accessRead     = 1
	accessAll      = 3
)

// MemAddressReserve implements dispatch.Backend, as all below. The addresses are those of the space in which the hint lies, else of
// the current device: memory of another device cannot be mapped there.
func (p *memoryCalls) MemAddressReserve(c *dispatch.Call, n, alignment uint64, at dispatch.Range, flags uint64) (dispatch.Range, dispatch.Result) {
	if flags != 0 {
		return 0, dispatch.ResultInvalidValue
	}
	s := p.spaceAt(backend.Addr(at))
	if s == nil {
		var r dispatch.Result
		if s, r = p.currentSpace(c); r != 0 {
			return 0, r
		}
	}
	a, err := s.Reserve(n, alignment, backend.Addr(at))
	return dispatch.Range(a), p.result(err)
}

// currentSpace is the current context's, or that of the first device: calls about addresses need no context.
func (p *memoryCalls) currentSpace(c *dispatch.Call) (*space, dispatch.Result) {
	if x, r := p.current(c); r == 0 {
		return x.space, 0
	}
	return p.space(0)
}

// reserved is the space in which addresses are: INVALID_VALUE if there is none.
func (p *memoryCalls) reserved(a dispatch.Range) (*space, dispatch.Result) {
	s := p.spaceAt(backend.Addr(a))
	if s == nil {
		return nil, dispatch.ResultInvalidValue
	}
	return s, 0
}

func (p *memoryCalls) MemAddressFree(_ *dispatch.Call, ptr dispatch.Range, n uint64) dispatch.Result {
	s, r := p.reserved(ptr)
	if r != 0 {
		return r
	}
	return p.result(s.Unreserve(backend.Addr(ptr), n))
}

// checkProp is what the properties of memory must be: of a device, pinned, and for nobody else. It returns the device's space.
func (p *memoryCalls) checkProp(prop *dispatch.Allocprop) (*space, dispatch.Result) {
	switch {
	case prop.Type != typePinned:
		return nil, dispatch.ResultInvalidValue
	case prop.Location.Type != locationDevice:
		return nil, dispatch.ResultNotSupported // memory of the host
	case prop.RequestedHandleTypes != 0 || prop.Win32HandleMetaData != 0:
		return nil, dispatch.ResultNotSupported // for others
	case prop.CompressionType > 1 || prop.GpuDirectRDMACapable > 1:
		return nil, dispatch.ResultInvalidValue
	}
	return p.space(prop.Location.Id)
}

func (p *memoryCalls) MemCreate(_ *dispatch.Call, n uint64, prop dispatch.Allocprop, flags uint64) (dispatch.Alloc, dispatch.Result) {
	if flags != 0 {
		return 0, dispatch.ResultInvalidValue
	}
	s, r := p.checkProp(&prop)
	if r != 0 {
		return 0, r
	}
	id, err := s.NewMemory(n)
	if err != nil {
		return 0, p.result(err)
	}
	// What is asked for and not there is told so by the properties that it has.
	prop.CompressionType, prop.GpuDirectRDMACapable, prop.Usage, prop.Reserved = 0, 0, 0, [4]uint8{}
	return p.nameMemory(&physicalMemory{space: s, id: id, size: n, prop: prop})
}

// nameMemory gives memory a handle. The handle has the reference that the caller got.
func (p *memoryCalls) nameMemory(m *physicalMemory) (dispatch.Alloc, dispatch.Result) {
	h, r := p.memories.make(m)
	if r != 0 {
		_ = m.space.ReleaseMemory(m.id) // it is there
	}
	return h, r
}

func (p *memoryCalls) MemRelease(_ *dispatch.Call, handle dispatch.Alloc) dispatch.Result {
	m, ok := p.memories.drop(handle)
	if !ok {
		return dispatch.ResultInvalidValue
	}
	return p.result(m.space.ReleaseMemory(m.id))
}

func (p *memoryCalls) MemMap(_ *dispatch.Call, ptr dispatch.Range, n, offset uint64, handle dispatch.Alloc, flags uint64) dispatch.Result {
	m, ok := p.memories.get(handle)
	s, r := p.reserved(ptr)
	switch {
	case !ok || flags != 0:
		return dispatch.ResultInvalidValue
	case r != 0:
		return r
	case s != m.space:
		return dispatch.ResultNotSupported // see MemAddressReserve
	}
	return p.result(s.MapMemory(backend.Addr(ptr), n, offset, m.id))
}

func (p *memoryCalls) MemUnmap(_ *dispatch.Call, ptr dispatch.Range, n uint64) dispatch.Result {
	s, r := p.reserved(ptr)
	if r != 0 {
		return r
	}
	return p.result(s.UnmapMemory(backend.Addr(ptr), n))
}

// MemSetAccess says which devices may use memory. What another device may read it may write as well.
func (p *memoryCalls) MemSetAccess(_ *dispatch.Call, ptr dispatch.Range, n uint64, desc []dispatch.Access, count uint64) dispatch.Result {
	s, r := p.reserved(ptr)
	if r != 0 || count == 0 {
		return dispatch.ResultInvalidValue
	}
	for i := range desc {
		if r := p.checkAccess(&desc[i]); r != 0 {
			return r
		}
	}
	for _, d := range desc {
		if d.Location.Id == s.ordinal {
			if err := s.SetAccess(backend.Addr(ptr), n, d.Flags != accessNone); err != nil {
				return p.result(err)
			}
		} else if r := p.letReach(d.Location.Id, s, d.Flags != accessNone); r != 0 {
			return r
		}
	}
	return 0
}

// checkAccess checks a description of access.
func (p *memoryCalls) checkAccess(d *dispatch.Access) dispatch.Result {
	switch {
	case d.Location.Type != locationDevice:
		return dispatch.ResultNotSupported
	case d.Flags != accessNone && d.Flags != accessRead && d.Flags != accessAll:
		return dispatch.ResultInvalidValue
	}
	_, r := p.info(d.Location.Id)
	return r
}

// letReach lets another device of the process follow pointers into a space. It is never taken back: others of its memory may
// have been given to the same device.
func (p *memoryCalls) letReach(dev int32, s *space, allow bool) dispatch.Result {
	if !allow {
		return 0
	}
	from, r := p.space(dev)
	if r != 0 {
		return r
	}
	return p.result(from.reach(s))
}

func (p *memoryCalls) MemGetAccess(_ *dispatch.Call, where dispatch.Location, ptr dispatch.Devptr) (uint64, dispatch.Result) {
	if where.Type != locationDevice {
		return 0, dispatch.ResultNotSupported
	}
	if _, r := p.info(where.Id); r != 0 {
		return 0, r
	}
	s := p.spaceAt(backend.Addr(ptr))
	if s == nil {
		return 0, dispatch.ResultInvalidValue
	}
	a, ok := s.Lookup(backend.Addr(ptr))
	switch {
	case !ok || a.Kind != backend.Mapped:
		return 0, dispatch.ResultInvalidValue
	case a.Access && (where.Id == s.ordinal || p.reaches(where.Id, s)):
		return accessAll, 0
	}
	return accessNone, 0
}

// reaches tells whether a device's kernels may follow pointers into a space of another one.
func (p *memoryCalls) reaches(dev int32, s *space) bool {
	from := p.ifSpace(dev)
	return from != nil && from.sees(s)
}

func (p *memoryCalls) MemGetAllocationGranularity(_ *dispatch.Call, prop dispatch.Allocprop, option int32) (uint64, dispatch.Result) {
	if option < 0 || option > 1 {
		return 0, dispatch.ResultInvalidValue
	}
	if _, r := p.checkProp(&prop); r != 0 {
		return 0, r
	}
	return backend.Granule, 0
}

func (p *memoryCalls) MemGetAllocationPropertiesFromHandle(_ *dispatch.Call, handle dispatch.Alloc) (dispatch.Allocprop, dispatch.Result) {
	m, ok := p.memories.get(handle)
	if !ok {
		return dispatch.Allocprop{}, dispatch.ResultInvalidValue
	}
	return m.prop, 0
}

func (p *memoryCalls) MemRetainAllocationHandle(_ *dispatch.Call, address uint64) (dispatch.Alloc, dispatch.Result) {
	s := p.spaceAt(backend.Addr(address))
	if s == nil {
		return 0, dispatch.ResultInvalidValue
	}
	id, err := s.RetainMemory(backend.Addr(address))
	if err != nil {
		return 0, p.result(err)
	}
	a, _ := s.Lookup(backend.Addr(address))
	m := &physicalMemory{space: s, id: id, size: a.Size}
	m.prop = dispatch.Allocprop{Type: typePinned, Location: dispatch.Location{Type: locationDevice, Id: s.ordinal}}
	return p.nameMemory(m)
}
