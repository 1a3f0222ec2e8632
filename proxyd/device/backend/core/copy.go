// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// maxCopy bounds a copy, so that no product of its numbers overflows.
const maxCopy = 1 << 47

// maxHostPiece bounds the bytes that CopyHost has in memory at a time.
const maxHostPiece = 1 << 20

// CopySide is a side of a copy: where its rows are.
type CopySide struct {
	First       uint64 // address of the first row
	Pitch, Rows uint64
	Length      uint64 // from the beginning of the first row to the end of the last row
}

// CheckCopySide computes a side of a copy of d slices of h rows of w bytes, each at least 1. CheckCopySide refuses a side
// if its rows overlap or its addresses overflow. Whether memory is there is for the caller to check.
func CheckCopySide(p backend.CopySide, w, h, d uint64) (CopySide, error) {
	s := CopySide{Pitch: p.Pitch, Rows: p.Rows}
	if s.Pitch == 0 {
		s.Pitch = w
	}
	if s.Rows == 0 {
		s.Rows = h
	}
	bad := fmt.Errorf("copy of %d x %d x %d bytes, pitch %d, %d rows at %#x: %w", w, h, d, s.Pitch, s.Rows, p.Addr, backend.InvalidValue)
	if h > 1 && s.Pitch < w || d > 1 && s.Rows < h || p.X > maxCopy || p.Y > maxCopy || p.Z > maxCopy {
		return CopySide{}, bad
	}
	slice := copyProduct(s.Pitch, s.Rows)
	start := p.X + copyProduct(s.Pitch, p.Y) + copyProduct(slice, p.Z)
	s.Length = copyProduct(slice, d-1) + copyProduct(s.Pitch, h-1) + w
	if start > maxCopy || s.Length > maxCopy || p.Addr+start < p.Addr || p.Addr+start+s.Length < p.Addr+start {
		return CopySide{}, bad
	}
	s.First = p.Addr + start
	return s, nil
}

// RowAt returns the address of a row of a slice.
func (s CopySide) RowAt(row, slice uint64) uint64 { return s.First + s.Pitch*(row+s.Rows*slice) }

// JoinRows returns the shape of a copy of d slices of h rows of w bytes: a single long row, if the rows lie without gaps
// on both sides.
func JoinRows(src, dst CopySide, w, h, d uint64) (width, height, depth uint64) {
	if src.Pitch == w && dst.Pitch == w && (d == 1 || src.Rows == h && dst.Rows == h) {
		return w * h * d, 1, 1
	}
	return w, h, d
}

// CopyHost copies n bytes of host memory.
func CopyHost(dst backend.HostMemory, to uint64, src backend.HostMemory, from, n uint64) error {
	b := make([]byte, min(n, maxHostPiece))
	for ; n > 0; n -= uint64(len(b)) {
		b = b[:min(n, uint64(len(b)))]
		if err := src.Read(from, b); err != nil {
			return err
		}
		if err := dst.Write(to, b); err != nil {
			return err
		}
		from, to = from+uint64(len(b)), to+uint64(len(b))
	}
	return nil
}

// CheckFill returns the bytes of a row of a memset, and of all rows with the gaps between them. Both are 0 for a memset of no
// bytes. Whether memory is there is for the caller to check.
func CheckFill(f backend.Fill) (row, length uint64, err error) {
	e, h := uint64(f.Element), max(f.Height, 1)
	row = copyProduct(f.Width, e)
	bad := e != 1 && e != 2 && e != 4 || uint64(f.Addr)%max(e, 1) != 0 || row > maxCopy ||
		h > 1 && (f.Pitch < row || f.Pitch%e != 0) || copyProduct(f.Pitch, h-1) > maxCopy
	if bad {
		return 0, 0, fmt.Errorf("fill %d x %d elements of %d bytes at %#x, pitch %d: %w", f.Width, h, e, uint64(f.Addr), f.Pitch, backend.InvalidValue)
	}
	if row == 0 {
		return 0, 0, nil
	}
	return row, f.Pitch*(h-1) + row, nil
}

// copyProduct returns a product, or more than maxCopy for any product beyond maxCopy.
func copyProduct(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 && lo <= maxCopy {
		return lo
	}
	return maxCopy + 1
}
