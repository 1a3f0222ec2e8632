// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Reserve takes n addresses, at a place if that is free: the driver takes the place as a hint only.
func (d *Driver) Reserve(n uint64, at backend.Addr) (backend.Addr, error) {
	var got C.CUdeviceptr
	r := C.sing_cuMemAddressReserve(d.table, nil, &got, C.size_t(n), 0, C.CUdeviceptr(at), 0)
	return backend.Addr(got), checkResult("cuMemAddressReserve", r)
}

// Unreserve gives addresses back.
func (d *Driver) Unreserve(at backend.Addr, n uint64) error {
	return checkResult("cuMemAddressFree", C.sing_cuMemAddressFree(d.table, nil, C.CUdeviceptr(at), C.size_t(n)))
}

// Granularity returns the number of bytes of which all sizes of a device's physical memory are
// multiples.
func (d *Driver) Granularity(dev Device) (uint64, error) {
	const minimum = 0
	prop := C.sing_device_memory(C.CUdevice(dev), 0)
	var n C.size_t
	r := C.sing_cuMemGetAllocationGranularity(d.table, nil, &n, &prop, minimum)
	return uint64(n), checkResult("cuMemGetAllocationGranularity", r)
}

// NewMemory makes physical memory of a device.
func (d *Driver) NewMemory(dev Device, n uint64, rdma bool) (Memory, error) {
	flag := C.int(0)
	if rdma {
		flag = 1
	}
	prop := C.sing_device_memory(C.CUdevice(dev), flag)
	var h C.CUmemGenericAllocationHandle
	r := C.sing_cuMemCreate(d.table, nil, &h, C.size_t(n), &prop, 0)
	return Memory(h), checkResult("cuMemCreate", r)
}

// Release gives physical memory back that is mapped nowhere.
func (d *Driver) Release(m Memory) error {
	return checkResult("cuMemRelease", C.sing_cuMemRelease(d.table, nil, C.CUmemGenericAllocationHandle(m)))
}

// Map maps all of a memory, without access.
func (d *Driver) Map(at backend.Addr, n uint64, m Memory) error {
	return checkResult("cuMemMap", C.sing_cuMemMap(d.table, nil, C.CUdeviceptr(at), C.size_t(n), 0, C.CUmemGenericAllocationHandle(m), 0))
}

// Unmap undoes mappings.
func (d *Driver) Unmap(at backend.Addr, n uint64) error {
	return checkResult("cuMemUnmap", C.sing_cuMemUnmap(d.table, nil, C.CUdeviceptr(at), C.size_t(n)))
}

// Allow lets devices read and write mapped memory, or forbids it.
func (d *Driver) Allow(at backend.Addr, n uint64, yes bool, devices ...Device) error {
	const device, none, readWrite = 1, 0, 3
	list := make([]C.CUmemAccessDesc, len(devices))
	for i, dev := range devices {
		list[i].location._type, list[i].location.id, list[i].flags = device, C.int(dev), none
		if yes {
			list[i].flags = readWrite
		}
	}
	return checkResult("cuMemSetAccess", C.sing_cuMemSetAccess(d.table, nil, C.CUdeviceptr(at), C.size_t(n), &list[0], C.size_t(len(list))))
}

// Alias maps shared memory of this process at a free address; Unalias unmaps it.
func Alias(mem []byte, at backend.Addr) error {
	if C.sing_alias(unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem)), C.uint64_t(at)) != 0 {
		return fmt.Errorf("%d bytes of host memory cannot be at %#x, or are not shared: %w", len(mem), uint64(at), backend.InvalidValue)
	}
	return nil
}

// Unalias is Alias's reverse.
func Unalias(at backend.Addr, n uint64) { C.sing_unalias(C.uint64_t(at), C.size_t(n)) }

// registered: all contexts reach the memory, under its own address.
const portableMapped = 1 | 2

// Register lets devices reach host memory at its own address.
func (d *Driver) Register(c Context, at backend.Addr, n uint64) error {
	r := C.sing_cuMemHostRegister_v2(d.table, c.p, C.sing_at(C.uint64_t(at)), C.size_t(n), portableMapped)
	return checkResult("cuMemHostRegister_v2", r)
}

// Unregister is Register's reverse.
func (d *Driver) Unregister(c Context, at backend.Addr) error {
	return checkResult("cuMemHostUnregister", C.sing_cuMemHostUnregister(d.table, c.p, C.sing_at(C.uint64_t(at))))
}

// NewPinned allocates host memory that devices copy from and to at full speed.
func (d *Driver) NewPinned(c Context, n uint64) ([]byte, error) {
	var p unsafe.Pointer
	if err := checkResult("cuMemHostAlloc", C.sing_cuMemHostAlloc(d.table, c.p, &p, C.size_t(n), 1)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// FreePinned gives pinned memory back.
func (d *Driver) FreePinned(c Context, b []byte) error {
	return checkResult("cuMemFreeHost", C.sing_cuMemFreeHost(d.table, c.p, unsafe.Pointer(unsafe.SliceData(b))))
}

// AddressOf is the address at which devices find pinned memory.
func AddressOf(pinned []byte) backend.Addr {
	return backend.Addr(uintptr(unsafe.Pointer(unsafe.SliceData(pinned))))
}
