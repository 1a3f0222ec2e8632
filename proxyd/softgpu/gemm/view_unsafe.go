// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import "unsafe"

func sizeOf[T element]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// bytesOf shows elements as bytes.
func bytesOf[T element](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*sizeOf[T]())
}

// offset is the element i behind p.
func offset[T element](p *T, i int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), i*sizeOf[T]())) }

// alignedSlice makes a slice that begins at a line of the cache.
func alignedSlice[T element](n int) []T {
	const line = 64
	s := make([]T, n+line/sizeOf[T]())
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(s))) % line)
	return s[(line-past)%line/sizeOf[T]():][:n:n]
}
