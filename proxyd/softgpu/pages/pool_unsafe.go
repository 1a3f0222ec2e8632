// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// mapAt maps a place of a file over a part of memory, copy on write.
func mapAt(part []byte, fd int, at uint64) error {
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	return mapFixed(part, flags, fd, at)
}

// mapAnonymous maps zeros over a part of memory.
func mapAnonymous(part []byte) error {
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE | unix.MAP_ANON
	if err := mapFixed(part, flags, -1, 0); err != nil {
		return err
	}
	_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // on a host without huge pages the memory works, but slower
	return nil
}

func mapFixed(part []byte, flags, fd int, at uint64) error {
	const access = unix.PROT_READ | unix.PROT_WRITE
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addressOf(part)), uintptr(len(part)), access, uintptr(flags), uintptr(fd), uintptr(at))
	if errno != 0 {
		return errno
	}
	return nil
}

// OwnPages counts the pages of a part that were written since the part shows a block. If the kernel does not tell, all
// pages count.
func OwnPages(part []byte) (n int) {
	const present, swapped, ofFile = 1 << 63, 1 << 62, 1 << 61
	f, entries := Map(), make([]byte, 8*(len(part)/Size))
	if f == nil {
		return len(part) / Size
	}
	if _, err := f.ReadAt(entries, int64(addressOf(part)/Size*8)); err != nil {
		return len(part) / Size
	}
	for ; len(entries) > 0; entries = entries[8:] {
		if e := binary.LittleEndian.Uint64(entries); e&(present|swapped) != 0 && e&ofFile == 0 {
			n++
		}
	}
	return n
}
