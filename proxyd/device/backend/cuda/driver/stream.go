// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include "driver.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// NewStream makes a stream that waits for no other stream.
func (d *Driver) NewStream(c Context, priority int) (Stream, error) {
	const nonBlocking = 1
	var s Stream
	r := C.sing_cuStreamCreateWithPriority(d.table, c.p, &s.p, nonBlocking, C.int(priority))
	return s, checkResult("cuStreamCreateWithPriority", r)
}

// DestroyStream ends a stream; its work is still done.
func (d *Driver) DestroyStream(c Context, s Stream) error {
	return checkResult("cuStreamDestroy_v2", C.sing_cuStreamDestroy_v2(d.table, c.p, s.p))
}

// Query is nil if no work is left in a stream, else NotReady.
func (d *Driver) Query(c Context, s Stream) error {
	return checkResult("cuStreamQuery", C.sing_cuStreamQuery(d.table, c.p, s.p))
}

// WaitEvent holds later work of a stream back until an event.
func (d *Driver) WaitEvent(c Context, s Stream, e Event) error {
	return checkResult("cuStreamWaitEvent", C.sing_cuStreamWaitEvent(d.table, c.p, s.p, e.p, 0))
}

// WriteValue writes 4 or 8 bytes in a stream's order.
func (d *Driver) WriteValue(c Context, s Stream, a backend.Addr, size int, v uint64) error {
	if size == 4 {
		return checkResult("cuStreamWriteValue32_v2", C.sing_cuStreamWriteValue32_v2(d.table, c.p, s.p, C.CUdeviceptr(a), C.uint(v), 0))
	}
	return checkResult("cuStreamWriteValue64_v2", C.sing_cuStreamWriteValue64_v2(d.table, c.p, s.p, C.CUdeviceptr(a), C.ulonglong(v), 0))
}

// NewEvent makes an event.
func (d *Driver) NewEvent(c Context, timing bool) (Event, error) {
	const disableTiming = 2
	flags := C.uint(disableTiming)
	if timing {
		flags = 0
	}
	var e Event
	r := C.sing_cuEventCreate(d.table, c.p, &e.p, flags)
	return e, checkResult("cuEventCreate", r)
}

// DestroyEvent ends an event.
func (d *Driver) DestroyEvent(c Context, e Event) error {
	return checkResult("cuEventDestroy_v2", C.sing_cuEventDestroy_v2(d.table, c.p, e.p))
}

// Record has an event stand for the work that is in a stream now.
func (d *Driver) Record(c Context, e Event, s Stream) error {
	return checkResult("cuEventRecord", C.sing_cuEventRecord(d.table, c.p, e.p, s.p))
}

// EventQuery is nil if the recorded work is done, else NotReady.
func (d *Driver) EventQuery(c Context, e Event) error {
	return checkResult("cuEventQuery", C.sing_cuEventQuery(d.table, c.p, e.p))
}

// Elapsed returns the time between two events that are done.
func (d *Driver) Elapsed(c Context, from, to Event) (time.Duration, error) {
	var ms C.float
	call, r := "cuEventElapsedTime", C.sing_cuEventElapsedTime(d.table, c.p, &ms, from.p, to.p)
	if r == C.SING_ABSENT {
		call, r = "cuEventElapsedTime_v2", C.sing_cuEventElapsedTime_v2(d.table, c.p, &ms, from.p, to.p)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), checkResult(call, r)
}

// CopyDevice copies within and between devices.
func (d *Driver) CopyDevice(c Context, s Stream, to, from backend.Addr, n uint64) error {
	return checkResult("cuMemcpyDtoDAsync_v2", C.sing_cuMemcpyDtoDAsync_v2(d.table, c.p, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(n), s.p))
}

// CopyIn copies pinned memory to a device. The memory must stay until the copy is done.
func (d *Driver) CopyIn(c Context, s Stream, to backend.Addr, from []byte) error {
	p := unsafe.Pointer(unsafe.SliceData(from))
	return checkResult("cuMemcpyHtoDAsync_v2", C.sing_cuMemcpyHtoDAsync_v2(d.table, c.p, C.CUdeviceptr(to), p, C.size_t(len(from)), s.p))
}

// CopyOut copies from a device to pinned memory. The memory must stay until the copy is done.
func (d *Driver) CopyOut(c Context, s Stream, to []byte, from backend.Addr) error {
	p := unsafe.Pointer(unsafe.SliceData(to))
	return checkResult("cuMemcpyDtoHAsync_v2", C.sing_cuMemcpyDtoHAsync_v2(d.table, c.p, p, C.CUdeviceptr(from), C.size_t(len(to)), s.p))
}

// Box is a copy of up to three dimensions between addresses: a row begins at its side's address + pitch*(y + rows*z).
type Box struct {
	To, From             backend.Addr
	ToPitch, FromPitch   uint64
	ToRows, FromRows     uint64
	Width, Height, Depth uint64
}

func (b *Box) cStruct() C.CUDA_MEMCPY3D {
	const unified = 4 // the driver knows the kind of every address
	return C.CUDA_MEMCPY3D{
		srcType: unified, srcDevice: C.CUdeviceptr(b.From), srcPitch: C.size_t(b.FromPitch), srcHeight: C.size_t(b.FromRows),
		dstType: unified, dstDevice: C.CUdeviceptr(b.To), dstPitch: C.size_t(b.ToPitch), dstHeight: C.size_t(b.ToRows),
		width: C.size_t(b.Width), height: C.size_t(b.Height), depth: C.size_t(b.Depth),
	}
}

// CopyBox copies a box.
func (d *Driver) CopyBox(c Context, s Stream, b *Box) error {
	p := b.cStruct()
	return checkResult("cuMemcpy3DAsync_v2", C.sing_cuMemcpy3DAsync_v2(d.table, c.p, &p, s.p))
}

// Fill sets memory.
func (d *Driver) Fill(c Context, s Stream, f *backend.Fill) error {
	at, pitch, w, h := C.CUdeviceptr(f.Addr), C.size_t(f.Pitch), C.size_t(f.Width), C.size_t(max(f.Height, 1))
	switch {
	case f.Element == 1 && h == 1:
		return checkResult("cuMemsetD8Async", C.sing_cuMemsetD8Async(d.table, c.p, at, C.uchar(f.Value), w, s.p))
	case f.Element == 2 && h == 1:
		return checkResult("cuMemsetD16Async", C.sing_cuMemsetD16Async(d.table, c.p, at, C.ushort(f.Value), w, s.p))
	case h == 1:
		return checkResult("cuMemsetD32Async", C.sing_cuMemsetD32Async(d.table, c.p, at, C.uint(f.Value), w, s.p))
	case f.Element == 1:
		return checkResult("cuMemsetD2D8Async", C.sing_cuMemsetD2D8Async(d.table, c.p, at, pitch, C.uchar(f.Value), w, h, s.p))
	case f.Element == 2:
		return checkResult("cuMemsetD2D16Async", C.sing_cuMemsetD2D16Async(d.table, c.p, at, pitch, C.ushort(f.Value), w, h, s.p))
	}
	return checkResult("cuMemsetD2D32Async", C.sing_cuMemsetD2D32Async(d.table, c.p, at, pitch, C.uint(f.Value), w, h, s.p))
}
