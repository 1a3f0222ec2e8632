// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasOnlyGrown tells whether a file begins with the content that is recorded of it, and has become longer. The result is
// false for a file that was mapped at the cut, or must have the size of the cut.
func (b *backer) hasOnlyGrown(p string, f, now *File) bool {
	if f.Type != Regular || now.Type != Regular || now.Size <= f.Size || f.Mapped || b.fixed[Name(p)] {
		return false
	}
	file, err := openFile(p, unix.O_RDONLY, now)
	if err != nil {
		return false
	}
	defer file.Close()
	buf := make([]byte, maxSegment)
	end := int64(0)
	for _, g := range f.Data {
		if !isHole(file, end, g.At, buf) {
			return false
		}
		if n, err := readFull(int(file.Fd()), buf[:g.Size], g.At); err != nil || int64(n) < g.Size || hashOf(buf[:n]) != g.Hash {
			return false
		}
		end = g.At + g.Size
	}
	return isHole(file, end, f.Size, buf)
}

// isHole tells whether a part of a file has nothing but zeros.
func isHole(file *os.File, from, to int64, buf []byte) bool {
	for from < to {
		n, err := readFull(int(file.Fd()), buf[:min(int64(len(buf)), to-from)], from)
		if err != nil || n == 0 || !isZero(buf[:n]) {
			return false
		}
		from += int64(n)
	}
	return true
}
