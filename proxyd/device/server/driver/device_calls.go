// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// DeviceCalls implements dispatch.DeviceCalls, but for the calls about pools, which are in package memory.
type DeviceCalls struct{ *Process }

// DriverGetVersion implements dispatch.Backend, as all below.
func (p *DeviceCalls) DriverGetVersion(*dispatch.Call) (int32, dispatch.Result) {
	return DriverVersion, 0
}

func (p *DeviceCalls) Attach(_ *dispatch.Call, flags uint32) (devices, version int32, r dispatch.Result) {
	switch {
	case flags != 0:
		return 0, 0, dispatch.ResultInvalidValue
	case len(p.View) == 0:
		return 0, 0, dispatch.ResultNoDevice
	}
	return int32(len(p.View)), DriverVersion, 0
}

func (p *DeviceCalls) DeviceAttributes(_ *dispatch.Call, dev int32, n uint32) ([]int32, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return nil, r
	}
	return info.Attributes[:min(int(n), len(info.Attributes))], 0
}

func (p *DeviceCalls) DeviceGet(_ *dispatch.Call, ordinal int32) (int32, dispatch.Result) {
	_, r := p.Info(ordinal)
	return ordinal, r
}

func (p *DeviceCalls) DeviceGetCount(*dispatch.Call) (int32, dispatch.Result) {
	return int32(len(p.View)), 0
}

func (p *DeviceCalls) DeviceGetName(_ *dispatch.Call, size, dev int32) (string, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return "", r
	}
	if size <= 0 {
		return "", dispatch.ResultInvalidValue
	}
	return info.Name, 0
}

func (p *DeviceCalls) DeviceGetUuid(_ *dispatch.Call, dev int32) (dispatch.Uuid, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return dispatch.Uuid{}, r
	}
	return dispatch.Uuid{Bytes: info.UUID}, 0
}

func (p *DeviceCalls) DeviceGetUuidV2(c *dispatch.Call, dev int32) (dispatch.Uuid, dispatch.Result) {
	return p.DeviceGetUuid(c, dev)
}

func (p *DeviceCalls) DeviceTotalMemV2(_ *dispatch.Call, dev int32) (uint64, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return 0, r
	}
	return info.Memory, 0
}

func (p *DeviceCalls) DeviceGetProperties(_ *dispatch.Call, dev int32) (dispatch.Devprop, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return dispatch.Devprop{}, r
	}
	at := &info.Attributes
	return dispatch.Devprop{
		MaxThreadsPerBlock: at[backend.MaxThreadsPerBlock],
		MaxThreadsDim:      [3]int32{at[backend.MaxBlockX], at[backend.MaxBlockY], at[backend.MaxBlockZ]},
		MaxGridSize:        [3]int32{at[backend.MaxGridX], at[backend.MaxGridY], at[backend.MaxGridZ]},
		SharedMemPerBlock:  at[backend.MaxSharedPerBlock], TotalConstantMemory: at[backend.TotalConstantMemory],
		SimdWidth: at[backend.WarpSize], MemPitch: at[backend.MaxPitch], RegsPerBlock: at[backend.MaxRegistersPerBlock],
		ClockRate: at[backend.ClockRate], TextureAlign: at[backend.TextureAlignment],
	}, 0
}

func (p *DeviceCalls) DeviceComputeCapability(_ *dispatch.Call, dev int32) (major, minor int32, r dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return 0, 0, r
	}
	return info.Attributes[backend.ComputeMajor], info.Attributes[backend.ComputeMinor], 0
}

// BusID is the text of a device's place.
func BusID(p backend.PCI) string { return fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device) }

// ParseBusID reads a place: [DOMAIN:]BUS:DEVICE[.FUNCTION], all hexadecimal.
func ParseBusID(id string) (backend.PCI, bool) {
	id, function, with := strings.Cut(id, ".")
	if with {
		if f, err := strconv.ParseUint(function, 16, 8); err != nil || f != 0 {
			return backend.PCI{}, false
		}
	}
	parts := strings.Split(id, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return backend.PCI{}, false
	}
	var n [3]uint32
	for i, s := range parts {
		v, err := strconv.ParseUint(s, 16, 32)
		if err != nil {
			return backend.PCI{}, false
		}
		n[i] = uint32(v)
	}
	return backend.PCI{Domain: n[0], Bus: n[1], Device: n[2]}, true
}

// DeviceAt is the number of the device at a place, or -1.
func DeviceAt(all []*Device, id string) int {
	at, ok := ParseBusID(id)
	if !ok {
		return -1
	}
	return slices.IndexFunc(all, func(d *Device) bool { return d.Info().PCI == at })
}

func (p *DeviceCalls) DeviceGetByPCIBusId(_ *dispatch.Call, id string) (int32, dispatch.Result) {
	dev := slices.Index(p.View, DeviceAt(p.JobDevices, id))
	if dev < 0 {
		return 0, dispatch.ResultInvalidDevice
	}
	return int32(dev), 0
}

func (p *DeviceCalls) DeviceGetPCIBusId(_ *dispatch.Call, size, dev int32) (string, dispatch.Result) {
	info, r := p.Info(dev)
	if r != 0 {
		return "", r
	}
	id := BusID(info.PCI)
	if int(size) <= len(id) {
		return "", dispatch.ResultInvalidValue
	}
	return id, 0
}

func (p *DeviceCalls) DeviceGetP2PAttribute(_ *dispatch.Call, attribute, src, dst int32) (int32, dispatch.Result) {
	const rank, access, atomics, arrays = 1, 2, 3, 4
	_, r1 := p.Info(src)
	_, r2 := p.Info(dst)
	if r1 != 0 || r2 != 0 || src == dst {
		return 0, dispatch.ResultInvalidDevice
	}
	switch attribute {
	case access, atomics:
		return 1, 0
	case rank, arrays:
		return 0, 0
	}
	return 0, dispatch.ResultInvalidValue
}

func (p *DeviceCalls) DeviceCanAccessPeer(_ *dispatch.Call, dev, peer int32) (int32, dispatch.Result) {
	_, r1 := p.Info(dev)
	_, r2 := p.Info(peer)
	switch {
	case r1 != 0 || r2 != 0:
		return 0, dispatch.ResultInvalidDevice
	case dev == peer:
		return 0, 0
	}
	return 1, 0
}

// DeviceGetExecAffinitySupport asks about MPS, which is not used.
func (p *DeviceCalls) DeviceGetExecAffinitySupport(_ *dispatch.Call, _, dev int32) (int32, dispatch.Result) {
	_, r := p.Info(dev)
	return 0, r
}

func (p *DeviceCalls) DeviceGetHostAtomicCapabilities(_ *dispatch.Call, operations []int32, _ uint32, dev int32) ([]uint32, dispatch.Result) {
	_, r := p.Info(dev)
	return make([]uint32, len(operations)), r
}

func (p *DeviceCalls) DeviceGetP2PAtomicCapabilities(c *dispatch.Call, operations []int32, _ uint32, src, dst int32) ([]uint32, dispatch.Result) {
	_, r := p.DeviceGetP2PAttribute(c, 3, src, dst)
	return make([]uint32, len(operations)), r
}

func (p *DeviceCalls) DevicePrimaryCtxRetain(_ *dispatch.Call, ctx dispatch.Context, dev int32) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	p.mu.Lock()
	d := &p.devices[dev]
	flags := d.flags
	if x := d.primary; x != nil {
		defer p.mu.Unlock()
		if x.Handle != ctx {
			return dispatch.ResultInvalidValue // the shim knows its handle
		}
		d.retained++
		return 0
	}
	p.mu.Unlock()
	x, r := p.newContext(ctx, flags, dev)
	if r != 0 {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.primary, d.retained = x, 1
	return 0
}

func (p *DeviceCalls) DevicePrimaryCtxReleaseV2(c *dispatch.Call, dev int32) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	p.mu.Lock()
	d := &p.devices[dev]
	x := d.primary
	switch {
	case x == nil:
		p.mu.Unlock()
		return dispatch.ResultInvalidContext
	case d.retained > 1:
		d.retained--
		p.mu.Unlock()
		return 0
	}
	d.primary, d.retained = nil, 0
	p.mu.Unlock()
	return p.destroyContext(c, x)
}

func (p *DeviceCalls) DevicePrimaryCtxResetV2(c *dispatch.Call, dev int32) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	p.mu.Lock()
	d := &p.devices[dev]
	x := d.primary
	d.primary, d.retained = nil, 0
	p.mu.Unlock()
	if x == nil {
		return 0
	}
	return p.destroyContext(c, x)
}

func (p *DeviceCalls) DevicePrimaryCtxSetFlagsV2(_ *dispatch.Call, dev int32, flags uint32) dispatch.Result {
	if _, r := p.Info(dev); r != 0 {
		return r
	}
	if r := checkFlags(flags); r != 0 {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[dev]
	d.flags = flags
	if x := d.primary; x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.flags = flags
	}
	return 0
}

func (p *DeviceCalls) DevicePrimaryCtxGetState(_ *dispatch.Call, dev int32) (flags uint32, active int32, r dispatch.Result) {
	if _, r := p.Info(dev); r != 0 {
		return 0, 0, r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.devices[dev]
	if d.primary != nil {
		active = 1
	}
	return d.flags, active, 0
}

// ProcessorGroups returns how the multiprocessors of a device are grouped: n pairs of them, in two orders.
func (p *DeviceCalls) ProcessorGroups(_ *dispatch.Call, n uint32, dev int32) (groups, order []uint8, r dispatch.Result) {
	if _, r := p.Info(dev); r != 0 {
		return nil, nil, r
	}
	d, ok := p.deviceAt(dev).Place().Device.(backend.ProcessorGrouper)
	if !ok {
		return nil, nil, dispatch.ResultNotSupported
	}
	groups, order, err := d.ProcessorGroups()
	if err == nil && (uint64(n) != uint64(len(groups)) || len(groups) != len(order)) {
		return nil, nil, dispatch.ResultInvalidValue
	}
	return groups, order, p.Result(err)
}
