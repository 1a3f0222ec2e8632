// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// text is executable memory with the code of a function. It is written before it becomes executable, and never both.
type text struct{ bytes []byte }

func newText(code []byte) (*text, error) {
	size := (len(code) + unix.Getpagesize() - 1) &^ (unix.Getpagesize() - 1)
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory for machine code: %w", err)
	}
	copy(b, code)
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		_ = unix.Munmap(b)
		return nil, fmt.Errorf("memory for machine code cannot be made executable: %w", err)
	}
	t := &text{bytes: b}
	runtime.AddCleanup(t, func(b []byte) { _ = unix.Munmap(b) }, b)
	return t, nil
}

// codeAddress is the address of the code at an offset.
func (t *text) codeAddress(offset int) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(t.bytes))) + uintptr(offset)
}

// fileBytes is the bytes of a place of a register, within the frame's registers.
func (s *State) fileBytes(p operandPart) *[partBytes]byte {
	base := s.File32
	if p.class == Long {
		base = s.File64
	}
	if p.ref.IsConst() {
		base = s.Const32
		if p.class == Long {
			base = s.Const64
		}
	}
	return (*[partBytes]byte)(unsafe.Add(base, uintptr(p.ref&^1)+uintptr(p.part)*partBytes))
}
