// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "unsafe"

// number is a Go type with which the elements of a device's memory are read.
type number interface {
	int8 | uint8 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// block is how many elements of unaligned memory are copied at a time.
const block = 512

// typedCombiner makes a combiner of a loop over elements. Device addresses of a program may be
// odd; not all machines can load from there, so such memory is copied through aligned blocks.
func typedCombiner[T number](loop func(dst, a, b []T)) combiner {
	return func(dst, a, b []byte) {
		if isAligned[T](dst) && isAligned[T](a) && isAligned[T](b) {
			loop(viewAs[T](dst), viewAs[T](a), viewAs[T](b))
			return
		}
		var blocks [3][block]T
		for len(dst) > 0 {
			n := min(len(dst), block*sizeOf[T]())
			d, x, y := blocks[0][:n/sizeOf[T]()], blocks[1][:n/sizeOf[T]()], blocks[2][:n/sizeOf[T]()]
			copy(bytesOf(x), a)
			copy(bytesOf(y), b)
			loop(d, x, y)
			copy(dst, bytesOf(d))
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

func sizeOf[T number]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

func isAligned[T number](b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(sizeOf[T]()) == 0
}

// viewAs returns b as a slice of elements; b must be aligned.
func viewAs[T number](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/sizeOf[T]())
}

func bytesOf[T number](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*sizeOf[T]())
}

// rangesOverlap tells whether a and b share memory.
func rangesOverlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
