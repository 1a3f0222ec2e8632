// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// pageSize is the grain of splitting: memory images are sequences of pages, and pages
// are inserted and removed as wholes.
const pageSize = 4096

var zeroPage [pageSize]byte

// isZero tells whether p, at most a page, is all zeros.
func isZero(p []byte) bool { return bytes.Equal(p, zeroPage[:len(p)]) }

// splitLevel is a rule for chunk lengths. A chunk ends after a page with a hash that ends in bits
// zeros, so that boundaries belong to contents and move with them.
type splitLevel struct {
	until    int64 // applies to chunks that begin before this offset among the data
	min, max int
	bits     int // on average, a chunk is min + 2^bits pages
}

// levels makes chunks short at the beginning of a stream and long far into it. A changed page
// costs its whole chunk, which matters for a shell of 2 MiB; a chunk costs round trips and names,
// which matters for a process of 8 GiB. A boundary of a higher level is a boundary of every lower
// level, so pages that move across a level's end are split at the same places again.
var levels = []splitLevel{
	{until: 4 << 20, min: 8 << 10, max: 64 << 10, bits: 2},     // ~24 KiB
	{until: 128 << 20, min: 32 << 10, max: 128 << 10, bits: 3}, // ~64 KiB
	{until: 1 << 30, min: 64 << 10, max: 512 << 10, bits: 5},   // ~192 KiB
	{until: 1<<63 - 1, min: 128 << 10, max: MaxChunk, bits: 6}, // ~384 KiB
}

// blockLevel is the rule for streams of blocks: the same for all of them, so that a block's chunks
// do not depend on the block's place.
var blockLevel = levels[2]

// levelAt returns the rule for a chunk that begins at offset.
func levelAt(offset int64) splitLevel {
	for _, l := range levels {
		if offset < l.until {
			return l
		}
	}
	return levels[len(levels)-1]
}

// levelMax returns the longest chunk of the lowest level that allows n bytes.
func levelMax(n int) int {
	for _, l := range levels {
		if n <= l.max {
			return l.max
		}
	}
	return max(n, MaxChunk)
}

// endsChunk tells whether a chunk of n bytes ends after page, its last.
func (l splitLevel) endsChunk(n int, page []byte) bool {
	if n < l.min {
		return false
	}
	return n+pageSize > l.max || bits.TrailingZeros64(pageHash(page)) >= l.bits
}

// pageHash mixes a page quickly. Only the choice of boundaries depends on pageHash. The four lanes
// keep a core's multiplier busy.
func pageHash(p []byte) uint64 {
	const k = 0x9e3779b97f4a7c15
	a, b, c, d := uint64(len(p)), uint64(1), uint64(2), uint64(3)
	for ; len(p) >= 32; p = p[32:] {
		a = (a ^ binary.LittleEndian.Uint64(p)) * k
		b = (b ^ binary.LittleEndian.Uint64(p[8:])) * k
		c = (c ^ binary.LittleEndian.Uint64(p[16:])) * k
		d = (d ^ binary.LittleEndian.Uint64(p[24:])) * k
		a, c = a^a>>29, c^c>>31
		b, d = b^b>>30, d^d>>32
	}
	for _, x := range p {
		a = (a ^ uint64(x)) * k
	}
	h := a ^ bits.RotateLeft64(b, 17) ^ bits.RotateLeft64(c, 31) ^ bits.RotateLeft64(d, 47)
	h = (h ^ h>>32) * k
	return h ^ h>>29
}
