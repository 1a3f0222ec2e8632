// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"sync/atomic"
	"unsafe"
)

// updateBytes replaces the n bytes at p, which are aligned, by f of them, atomically with
// regard to all other cores. updateBytes returns the old value.
func updateBytes(p unsafe.Pointer, n uint32, f func(old uint64) uint64) uint64 {
	switch n {
	case 8:
		q := (*uint64)(p)
		for {
			old := atomic.LoadUint64(q)
			if atomic.CompareAndSwapUint64(q, old, f(old)) {
				return old
			}
		}
	case 4:
		q := (*uint32)(p)
		for {
			old := atomic.LoadUint32(q)
			if atomic.CompareAndSwapUint32(q, old, uint32(f(uint64(old)))) {
				return uint64(old)
			}
		}
	default:
		// Within the aligned word; the hosts are little-endian.
		shift := uintptr(p) & 2 * 8
		q := (*uint32)(unsafe.Add(p, -int(uintptr(p)&2)))
		for {
			word := atomic.LoadUint32(q)
			old := uint64(word >> shift & 0xffff)
			if atomic.CompareAndSwapUint32(q, word, word&^(0xffff<<shift)|uint32(f(old)&0xffff)<<shift) {
				return old
			}
		}
	}
}
