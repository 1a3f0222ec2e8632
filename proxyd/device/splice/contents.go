// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// Content stands for the bytes that pieces of memory hold, of one rank or of several. The bytes of a Content never
// change, so their hash is made once; a write changes only which memory holds the Content. Ranks share a Content: the
// caller holds a lock of the device when it asks for the hash or notes it.
type Content struct {
	sum   Sum
	known bool
}

// Sum is a hash of bytes. Equal Sums of pieces of the same size mean equal bytes.
type Sum [32]byte

// KnownSum returns the hash, if it was made.
func (c *Content) KnownSum() (sum Sum, ok bool) { return c.sum, c.known }

// SetSum notes the hash. The caller knows that no operation has written to the memory while it was read.
func (c *Content) SetSum(sum Sum) { c.sum, c.known = sum, true }

// Contents lists which pieces of a rank's memory hold which Content. The caller reports each operation that may have
// written to the memory.
type Contents struct{ pieces []contentPiece }

// contentPiece is a piece of memory with the Content that the piece holds.
type contentPiece struct {
	at Span
	is *Content
}

// mostContents limits the pieces of memory in a Contents.
const mostContents = 1024

// FindContent returns the Content that a piece holds, or nil if the Content is not known. Contents has whole pieces
// only: FindContent finds no Content for a part of a piece, or for two pieces together.
func (c *Contents) FindContent(at Span) *Content {
	for _, x := range c.pieces {
		if x.at == at {
			return x.is
		}
	}
	return nil
}

// NoteContent notes that a piece holds a Content.
func (c *Contents) NoteContent(at Span, is *Content) {
	for i, x := range c.pieces {
		if x.at == at {
			c.pieces[i].is = is
			return
		}
	}
	if len(c.pieces) == mostContents {
		c.pieces = nil // a program with so many pieces has most of them read again
	}
	c.pieces = append(c.pieces, contentPiece{at, is})
}

// ForgetWritten forgets all pieces of which a byte may have been written.
func (c *Contents) ForgetWritten(where []Span) {
	c.pieces = slices.DeleteFunc(c.pieces, func(x contentPiece) bool { return slices.ContainsFunc(where, x.at.sharesByte) })
}

// ForgetAll forgets all pieces.
func (c *Contents) ForgetAll() { c.pieces = nil }

// IsEmpty tells whether no piece of the memory has a known Content.
func (c *Contents) IsEmpty() bool { return len(c.pieces) == 0 }

// sharesByte tells whether two pieces have a byte in common.
func (x Span) sharesByte(y Span) bool {
	if x.Base > y.Base {
		x, y = y, x
	}
	return y.Size > 0 && y.Base-x.Base < x.Size
}
