// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

const pageSize = pages.Size

// newArena returns zeroed memory outside of Go's heap. The memory takes no page of the host until the page is touched.
func newArena(n uint64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w: %w", n, backend.OutOfMemory, err)
	}
	// Kernels and dumps go through much memory in order; a granule is a huge page. On a host without huge pages the
	// arena works, but slower.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	return b, nil
}

// freeArena unmaps the memory that newArena returned. The memory must not be used any more.
func freeArena(b []byte) { _ = unix.Munmap(b) }

// wipeBytes makes bytes of an arena zero again. The pages that lie wholly in them go back to the kernel.
func wipeBytes(b []byte) {
	head := -addressOf(b) & (pageSize - 1)
	if uint64(len(b)) < head+16*pageSize {
		clear(b)
		return
	}
	clear(b[:head])
	b = b[head:]
	whole := len(b) &^ (pageSize - 1)
	if unix.Madvise(b[:whole], unix.MADV_DONTNEED) != nil {
		clear(b[:whole])
	}
	clear(b[whole:])
}

// addressOf is the address of a slice of an arena in this process.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// wasTouched tells whether any page of a page-aligned part of an arena was ever written or read: such a page is in
// memory or swapped out. If the kernel does not tell, wasTouched says yes. (mincore would not do: mincore calls pages
// that are swapped out absent.)
func wasTouched(b []byte) bool {
	f := pages.Map()
	if f == nil {
		return true
	}
	const present, swapped = 1 << 63, 1 << 62
	entries := make([]byte, 8*(len(b)/pageSize))
	if _, err := f.ReadAt(entries, int64(addressOf(b)/pageSize*8)); err != nil {
		return true
	}
	for ; len(entries) > 0; entries = entries[8:] {
		if binary.LittleEndian.Uint64(entries)&(present|swapped) != 0 {
			return true
		}
	}
	return false
}

// loadWord reads the 4 or 8 bytes of b, which are aligned, at once: the program and kernels write them meanwhile.
func loadWord(b []byte) uint64 {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) == 4 {
		return uint64(atomic.LoadUint32((*uint32)(p)))
	}
	return atomic.LoadUint64((*uint64)(p))
}

// storeWord writes the 4 or 8 bytes of b, which are aligned, at once.
func storeWord(b []byte, v uint64) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) == 4 {
		atomic.StoreUint32((*uint32)(p), uint32(v))
		return
	}
	atomic.StoreUint64((*uint64)(p), v)
}
