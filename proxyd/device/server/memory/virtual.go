// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// VMMWaits are the calls of this file that may wait: addresses that were freed may still be in use.
var VMMWaits = []string{"cuMemSetAccess"}

// physicalMemory is memory without an address. Several handles may be of the same memory.
type physicalMemory struct {
	space *driver.Space
	id    backend.MemoryID
	size  uint64
	prop  dispatch.Allocprop
	// unused memory has not been mapped, so it has no contents and no other handle.
	unused bool
}

// The numbers of CUmemAllocationProp and CUmemLocation.
const (
	typePinned     = 1
	locationDevice = 1
	AccessNone     = 0
	accessRead     = 1
	AccessAll      = 3
)

// MemAddressReserve implements dispatch.Backend, as all below. The addresses are from the space in which the hint lies,
// else of the current device. For memory of other devices see moveUnused.
func (p *Calls) MemAddressReserve(c *dispatch.Call, n, alignment uint64, at dispatch.Range, flags uint64) (dispatch.Range, dispatch.Result) {
	if flags != 0 {
		return 0, dispatch.ResultInvalidValue
	}
	s := p.SpaceAt(backend.Addr(at))
	if s == nil {
		var r dispatch.Result
		if s, r = p.currentSpace(c); r != 0 {
			return 0, r
		}
	}
	a, err := s.Reserve(n, alignment, backend.Addr(at))
	return dispatch.Range(a), p.Result(err)
}

// currentSpace is the current context's, or that of the first device: calls about addresses need no context.
func (p *Calls) currentSpace(c *dispatch.Call) (*driver.Space, dispatch.Result) {
	if x, r := p.Current(c); r == 0 {
		return x.Space, 0
	}
	return p.Space(0)
}

// reservedSpace is the space in which addresses are: INVALID_VALUE if there is none.
func (p *Calls) reservedSpace(a dispatch.Range) (*driver.Space, dispatch.Result) {
	s := p.SpaceAt(backend.Addr(a))
	if s == nil {
		return nil, dispatch.ResultInvalidValue
	}
	return s, 0
}

func (p *Calls) MemAddressFree(_ *dispatch.Call, ptr dispatch.Range, n uint64) dispatch.Result {
	s, r := p.reservedSpace(ptr)
	if r != 0 {
		return r
	}
	return p.Result(s.Unreserve(backend.Addr(ptr), n))
}

// checkProp checks the properties of memory, which must be pinned memory of a device. checkProp returns the device's
// space.
func (p *Calls) checkProp(prop *dispatch.Allocprop) (*driver.Space, dispatch.Result) {
	switch {
	case prop.Type != typePinned:
		return nil, dispatch.ResultInvalidValue
	case prop.Location.Type != locationDevice:
		return nil, dispatch.ResultNotSupported // memory of the host
	case prop.RequestedHandleTypes&^fileDescriptor != 0 || prop.Win32HandleMetaData != 0:
		return nil, dispatch.ResultNotSupported // for other processes
	case prop.CompressionType > 1 || prop.GpuDirectRDMACapable > 1:
		return nil, dispatch.ResultInvalidValue
	}
	s, r := p.Space(prop.Location.Id)
	if r != 0 {
		return nil, r
	}
	// Devices that export pools by descriptors say so of all memory. The call that would export this memory is refused
	// by its name.
	if _, shares := s.Space.(backend.ShareHolder); !shares && prop.RequestedHandleTypes != 0 {
		return nil, dispatch.ResultNotSupported
	}
	return s, 0
}

func (p *Calls) MemCreate(_ *dispatch.Call, n uint64, prop dispatch.Allocprop, flags uint64) (dispatch.Alloc, dispatch.Result) {
	if flags != 0 {
		return 0, dispatch.ResultInvalidValue
	}
	s, r := p.checkProp(&prop)
	if r != 0 {
		return 0, r
	}
	id, err := s.NewMemory(n)
	if err != nil {
		return 0, p.Result(err)
	}
	// Requested features that the memory does not have are cleared in its properties.
	prop.CompressionType, prop.GpuDirectRDMACapable, prop.Usage, prop.Reserved = 0, 0, 0, [4]uint8{}
	return p.nameMemory(&physicalMemory{space: s, id: id, size: n, prop: prop, unused: true})
}

// nameMemory gives memory a handle. The handle has the reference that the caller got.
func (p *Calls) nameMemory(m *physicalMemory) (dispatch.Alloc, dispatch.Result) {
	h, r := p.memories.Make(m)
	if r != 0 {
		_ = m.space.ReleaseMemory(m.id) // the memory is there
	}
	return h, r
}

func (p *Calls) MemRelease(_ *dispatch.Call, handle dispatch.Alloc) dispatch.Result {
	m, ok := p.memories.Drop(handle)
	if !ok {
		return dispatch.ResultInvalidValue
	}
	return p.Result(m.space.ReleaseMemory(m.id))
}

func (p *Calls) MemMap(_ *dispatch.Call, ptr dispatch.Range, n, offset uint64, handle dispatch.Alloc, flags uint64) dispatch.Result {
	m, ok := p.memories.Get(handle)
	s, r := p.reservedSpace(ptr)
	switch {
	case !ok || flags != 0:
		return dispatch.ResultInvalidValue
	case r != 0:
		return r
	}
	if s != m.space {
		if r := p.moveUnused(m, s); r != 0 {
			return r
		}
	}
	err := s.MapMemory(backend.Addr(ptr), n, offset, m.id)
	if err == nil {
		m.unused = false
	}
	return p.Result(err)
}

// moveUnused makes memory in the space in which the memory is to be mapped, which is another device's: all addresses of a
// space are of memory in the space. The memory's properties stay. NOT_SUPPORTED: the memory has contents already, or it
// matters which device has the memory.
func (p *Calls) moveUnused(m *physicalMemory, to *driver.Space) dispatch.Result {
	if _, hosted := to.Space.(backend.HostedMemory); !hosted || !m.unused {
		return dispatch.ResultNotSupported
	}
	id, err := to.NewMemory(m.size)
	if err != nil {
		return p.Result(err)
	}
	err = m.space.ReleaseMemory(m.id)
	m.space, m.id = to, id
	return p.Result(err)
}

func (p *Calls) MemUnmap(_ *dispatch.Call, ptr dispatch.Range, n uint64) dispatch.Result {
	s, r := p.reservedSpace(ptr)
	if r != 0 {
		return r
	}
	return p.Result(s.UnmapMemory(backend.Addr(ptr), n))
}

// MemSetAccess sets the devices that may use memory. Memory that another device may read is also writable for that
// device, and the device of the addresses may use what another device may use.
func (p *Calls) MemSetAccess(_ *dispatch.Call, ptr dispatch.Range, n uint64, desc []dispatch.Access, count uint64) dispatch.Result {
	s, r := p.reservedSpace(ptr)
	if r != 0 || count == 0 {
		return dispatch.ResultInvalidValue
	}
	for i := range desc {
		if r := p.checkAccess(&desc[i]); r != 0 {
			return r
		}
	}
	for _, d := range desc {
		allow := d.Flags != AccessNone
		if d.Location.Id != s.Ordinal {
			if r := p.allowPeerAccess(d.Location.Id, s, allow); r != 0 {
				return r
			}
			if !allow {
				continue
			}
		}
		if err := s.SetAccess(backend.Addr(ptr), n, allow); err != nil {
			return p.Result(err)
		}
	}
	return 0
}

// checkAccess checks a description of access.
func (p *Calls) checkAccess(d *dispatch.Access) dispatch.Result {
	switch {
	case d.Location.Type != locationDevice:
		return dispatch.ResultNotSupported
	case d.Flags != AccessNone && d.Flags != accessRead && d.Flags != AccessAll:
		return dispatch.ResultInvalidValue
	}
	_, r := p.Info(d.Location.Id)
	return r
}

// allowPeerAccess lets another device of the process follow pointers into a space. The right is never taken back:
// other memory of the space may have been given to the same device.
func (p *Calls) allowPeerAccess(dev int32, s *driver.Space, allow bool) dispatch.Result {
	if !allow {
		return 0
	}
	from, r := p.Space(dev)
	if r != 0 {
		return r
	}
	return p.Result(from.Reach(s))
}

func (p *Calls) MemGetAccess(_ *dispatch.Call, where dispatch.Location, ptr dispatch.Devptr) (uint64, dispatch.Result) {
	if where.Type != locationDevice {
		return 0, dispatch.ResultNotSupported
	}
	if _, r := p.Info(where.Id); r != 0 {
		return 0, r
	}
	s := p.SpaceAt(backend.Addr(ptr))
	if s == nil {
		return 0, dispatch.ResultInvalidValue
	}
	a, ok := s.Lookup(backend.Addr(ptr))
	switch {
	case !ok || a.Kind != backend.Mapped:
		return 0, dispatch.ResultInvalidValue
	case a.Access && (where.Id == s.Ordinal || p.canReach(where.Id, s)):
		return AccessAll, 0
	}
	return AccessNone, 0
}

// canReach tells whether a device's kernels may follow pointers into a space of another device.
func (p *Calls) canReach(dev int32, s *driver.Space) bool {
	from := p.SpaceIfUsed(dev)
	return from != nil && from.CanReach(s)
}

func (p *Calls) MemGetAllocationGranularity(_ *dispatch.Call, prop dispatch.Allocprop, option int32) (uint64, dispatch.Result) {
	if option < 0 || option > 1 {
		return 0, dispatch.ResultInvalidValue
	}
	if _, r := p.checkProp(&prop); r != 0 {
		return 0, r
	}
	return backend.Granule, 0
}

func (p *Calls) MemGetAllocationPropertiesFromHandle(_ *dispatch.Call, handle dispatch.Alloc) (dispatch.Allocprop, dispatch.Result) {
	m, ok := p.memories.Get(handle)
	if !ok {
		return dispatch.Allocprop{}, dispatch.ResultInvalidValue
	}
	return m.prop, 0
}

func (p *Calls) MemRetainAllocationHandle(_ *dispatch.Call, address uint64) (dispatch.Alloc, dispatch.Result) {
	s := p.SpaceAt(backend.Addr(address))
	if s == nil {
		return 0, dispatch.ResultInvalidValue
	}
	id, err := s.RetainMemory(backend.Addr(address))
	if err != nil {
		return 0, p.Result(err)
	}
	a, _ := s.Lookup(backend.Addr(address))
	m := &physicalMemory{space: s, id: id, size: a.Size}
	m.prop = dispatch.Allocprop{Type: typePinned, Location: dispatch.Location{Type: locationDevice, Id: s.Ordinal}}
	_, others := handles.Sorted(&p.memories)
	for _, o := range others {
		if o.space == s && o.id == id {
			m.prop.Location = o.prop.Location // see moveUnused
		}
	}
	return p.nameMemory(m)
}
