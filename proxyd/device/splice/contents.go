// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// Content is bytes that pieces of memory hold, of a single rank or of several. A Content never changes; what changes is which
// memory holds it. So its hash is made once. Ranks share it: the caller holds a lock of the device when the hash is asked
// for or noted.
type Content struct {
	sum   Sum
	known bool
}

// Sum is a hash of bytes. Equal Sums of pieces of the same size mean equal bytes.
type Sum [32]byte

// KnownSum returns the hash, if it was made.
func (c *Content) KnownSum() (sum Sum, ok bool) { return c.sum, c.known }

// SetSum notes the hash. The caller knows that nothing has written to the memory while it was read.
func (c *Content) SetSum(sum Sum) { c.sum, c.known = sum, true }

// Contents is what is known of a rank's memory: which pieces hold which Content. The caller tells whatever may have written
// to the memory.
type Contents struct{ held []heldContent }

// heldContent is a piece of memory, and what it holds.
type heldContent struct {
	at Span
	is *Content
}

// mostContents is of how many pieces the Content is known.
const mostContents = 1024

// FindContent returns what a piece holds, or nil. Of a part of a piece, or of two pieces together, nothing is known.
func (c *Contents) FindContent(at Span) *Content {
	for _, x := range c.held {
		if x.at == at {
			return x.is
		}
	}
	return nil
}

// NoteContent notes what a piece holds.
func (c *Contents) NoteContent(at Span, is *Content) {
	for i, x := range c.held {
		if x.at == at {
			c.held[i].is = is
			return
		}
	}
	if len(c.held) == mostContents {
		c.held = nil // a program with so many pieces has most of them read again
	}
	c.held = append(c.held, heldContent{at, is})
}

// ForgetWritten forgets all pieces of which a byte may have been written.
func (c *Contents) ForgetWritten(where []Span) {
	c.held = slices.DeleteFunc(c.held, func(x heldContent) bool { return slices.ContainsFunc(where, x.at.sharesByte) })
}

// ForgetAll forgets all pieces.
func (c *Contents) ForgetAll() { c.held = nil }

// IsEmpty tells whether nothing is known.
func (c *Contents) IsEmpty() bool { return len(c.held) == 0 }

// sharesByte tells whether two pieces have a byte in common.
func (x Span) sharesByte(y Span) bool {
	if x.Base > y.Base {
		x, y = y, x
	}
	return y.Size > 0 && y.Base-x.Base < x.Size
}
