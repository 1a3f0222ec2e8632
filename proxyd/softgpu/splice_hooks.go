// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// spliceHooks lets tests omit a check of splicing, to see that their programs find the resulting errors, and watch
// steps of splicing. The product has no hooks: its spliceHooks are nil, and no check is omitted.
type spliceHooks struct {
	omitted   spliceCheck
	unnoticed []writer          // writers that are overlooked
	onHashing func()            // called when a block of common memory is about to be read for a record; may be nil
	onHashed  func(splice.Span) // called when memory was read for a record; may be nil
	onCopying func(*space)      // called when the bytes of a result are about to be copied; may be nil
}

// spliceCheck is a check without which a launch could take a wrong result.
type spliceCheck uint8

const (
	noCheck      spliceCheck = iota
	paramsCheck              // parameters that are no addresses are compared
	bytesCheck               // memory is compared
	readsCheck               // no result is kept if the kernel read more than was compared
	aloneCheck               // no other work of the space runs at the same time
	effectsCheck             // no result is kept if the kernel has made a request to the host
	beginCheck               // no other work of the space begins while a result is copied
	noteCheck                // no content is noted if other work has begun meanwhile
	lastCheck
)

// isOmitted reports whether a test has a check omitted.
func (h *spliceHooks) isOmitted(c spliceCheck) bool { return h != nil && h.omitted == c }

// isOverlooked reports whether a test has the writes of a writer overlooked.
func (h *spliceHooks) isOverlooked(w writer) bool { return h != nil && slices.Contains(h.unnoticed, w) }

// noteHashing tells a test that a block of common memory is about to be read for a record.
func (h *spliceHooks) noteHashing() {
	if h != nil && h.onHashing != nil {
		h.onHashing()
	}
}

// noteHashed tells a test that memory was read for a record.
func (h *spliceHooks) noteHashed(x splice.Span) {
	if h != nil && h.onHashed != nil {
		h.onHashed(x)
	}
}

// noteCopying tells a test that the bytes of a result are about to be copied to a space.
func (h *spliceHooks) noteCopying(s *space) {
	if h != nil && h.onCopying != nil {
		h.onCopying(s)
	}
}
