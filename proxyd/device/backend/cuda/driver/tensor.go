// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package driver

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// tensorMap is a map in memory that is aligned as the driver wants it.
type tensorMap struct {
	room unsafe.Pointer
	at   *backend.TensorMap
}

func newTensorMap() tensorMap {
	const align = 64
	room := C.calloc(1, C.size_t(unsafe.Sizeof(backend.TensorMap{})+align))
	return tensorMap{room, (*backend.TensorMap)(unsafe.Add(room, -uintptr(room)&(align-1)))}
}

func (m tensorMap) releaseMemory() { C.free(m.room) }

// TensorMaps makes tensor maps. No context is needed.
type TensorMaps struct{ *Driver }

// Make makes a tensor map.
func (d TensorMaps) Make(s *backend.TensorShape) (backend.TensorMap, error) {
	m := newTensorMap()
	defer m.releaseMemory()
	shape := *s // the driver reads the lists from C's memory or from this copy, and keeps no pointer to them
	dim, strides, box, steps := unsafe.Pointer(&shape.Dim), unsafe.Pointer(&shape.Strides), unsafe.Pointer(&shape.Box), unsafe.Pointer(&shape.Steps)
	typ, rank, at := C.int(s.Type), C.uint(s.Rank), C.CUdeviceptr(s.Address)
	interleave, swizzle, promotion, fill := C.int(s.Interleave), C.int(s.Swizzle), C.int(s.Promotion), C.int(s.Fill)
	channels, pixels := C.uint(s.Channels), C.uint(s.Pixels)
	var none C.CUcontext
	switch s.Kind {
	case backend.TensorTiled:
		r := C.sing_cuTensorMapEncodeTiled(d.table, none, unsafe.Pointer(m.at), typ, rank, at, dim, strides, box, steps, interleave, swizzle, promotion, fill)
		return *m.at, checkResult("cuTensorMapEncodeTiled", r)
	case backend.TensorIm2col:
		r := C.sing_cuTensorMapEncodeIm2col(d.table, none, unsafe.Pointer(m.at), typ, rank, at, dim, strides, unsafe.Pointer(&shape.Lower), unsafe.Pointer(&shape.Upper), channels, pixels, steps, interleave, swizzle, promotion, fill)
		return *m.at, checkResult("cuTensorMapEncodeIm2col", r)
	case backend.TensorIm2colWide:
		r := C.sing_cuTensorMapEncodeIm2colWide(d.table, none, unsafe.Pointer(m.at), typ, rank, at, dim, strides, C.int(s.Lower[0]), C.int(s.Upper[0]), channels, pixels, steps, interleave, C.int(s.Mode), swizzle, promotion, fill)
		return *m.at, checkResult("cuTensorMapEncodeIm2colWide", r)
	}
	return backend.TensorMap{}, fmt.Errorf("tensor map of kind %d: %w", s.Kind, backend.InvalidValue)
}

// Move returns a map like another, for the same tensor at another address.
func (d TensorMaps) Move(of backend.TensorMap, to backend.Addr) (backend.TensorMap, error) {
	m := newTensorMap()
	defer m.releaseMemory()
	*m.at = of
	var none C.CUcontext
	r := C.sing_cuTensorMapReplaceAddress(d.table, none, unsafe.Pointer(m.at), C.CUdeviceptr(to))
	return *m.at, checkResult("cuTensorMapReplaceAddress", r)
}
