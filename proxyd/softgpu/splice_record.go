// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// siteOf is the site of a launch: all of the launch but the parameters that are no addresses.
func siteOf(f *function, spec *launch, spans []splice.Span) (out splice.Site) {
	h := sha256.New()
	h.Write(f.module.code[:])
	addWord(h, uint64(len(f.name)))
	h.Write([]byte(f.name))
	for _, n := range []uint64{
		uint64(f.module.variables.Base), uint64(spec.grid.X), uint64(spec.grid.Y), uint64(spec.grid.Z), uint64(spec.block.X), uint64(spec.block.Y),
		uint64(spec.block.Z), uint64(spec.shared), spec.stack, uint64(spec.sms), uint64(len(spans)),
	} {
		addWord(h, n)
	}
	for _, x := range spans {
		addWord(h, x.Base)
		addWord(h, x.Size)
	}
	for words := spec.params; len(words) >= 8; words = words[8:] { // kernels use different parts of the same spans
		at := binary.LittleEndian.Uint64(words)
		if slices.ContainsFunc(spans, func(x splice.Span) bool { return at-x.Base < x.Size }) {
			addWord(h, at)
		}
	}
	h.Sum(out[:0])
	return out
}

func addWord(h hash.Hash, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	h.Write(b[:])
}

func sizeOf(spans []splice.Span) (n uint64) {
	for _, x := range spans {
		n += x.Size
	}
	return n
}

// withoutRepeats returns each span of list once.
func withoutRepeats(list []splice.Span) (out []splice.Span) {
	seen := map[splice.Span]bool{}
	for _, x := range list {
		if !seen[x] {
			out = append(out, x)
		}
		seen[x] = true
	}
	return out
}

// pointedSpans are the pieces of memory that parameters point to: each that has the address in an aligned word of the
// parameters. A number that looks like an address does no harm, but makes a record larger. ok is false if a piece does not
// belong to the space alone.
func (t *table) pointedSpans(params []byte) (out []splice.Span, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for ; len(params) >= 8; params = params[8:] {
		at := backend.Addr(binary.LittleEndian.Uint64(params))
		i, found := t.findEntry(at)
		if !found {
			i--
		}
		if i < 0 || i >= len(t.entries) || at >= t.entries[i].endAddr() {
			continue
		}
		if t.entries[i].host {
			return nil, false
		}
		out = append(out, splice.Span{Base: uint64(t.entries[i].base), Size: uint64(len(t.entries[i].bytes))})
	}
	return withoutRepeats(out), true
}

// isOwnSpan tells whether memory lies in a single allocation, is there, and is the space's alone.
func isOwnSpan(s *space, x splice.Span) bool {
	_, shared, ok := findSpan(s, x)
	return ok && !shared
}

// presentBytes is the bytes of memory that was the space's alone before, and that other spaces may have by now.
func presentBytes(s *space, x splice.Span) ([]byte, bool) {
	b, _, ok := findSpan(s, x)
	return b, ok
}

// findSpan is the bytes of memory that lies in a single allocation of the space, if it is there, and whether other spaces
// may have the memory. The program may have freed the allocation behind the work that runs, and have allocated other memory at its
// address: the bytes are those that work finds.
func findSpan(s *space, x splice.Span) (b []byte, shared, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	e, from, ok := s.table.findPiece(backend.Addr(x.Base))
	if !ok || x.Size > uint64(len(e.bytes))-from {
		return nil, false, false
	}
	return e.bytes[from:][:x.Size:x.Size], e.arena.share != nil, true
}

// partsOf is into how many parts a span is cut at most, for a launch of such a cost. A launch that goes to and fro
// between parts takes longer by each time.
func partsOf(cost uint64) uint64 {
	switch {
	case cost < 1<<16:
		return 4096
	case cost < 1<<22:
		return 256
	}
	return 32
}

// leastPart is the least size of a part: PyTorch's allocator rounds sizes up to it.
const leastPart = 512

// cutSpans cuts spans into parts, so that a launch of such a cost tells which of these it accesses.
func cutSpans(spans []splice.Span, cost uint64) (out []splice.Span) {
	for _, x := range spans {
		unit := max(leastPart, (x.Size/partsOf(cost)+leastPart-1)/leastPart*leastPart)
		for at := uint64(0); at < x.Size; at += unit {
			out = append(out, splice.Span{Base: x.Base + at, Size: min(unit, x.Size-at)})
		}
	}
	slices.SortFunc(out, func(a, b splice.Span) int { return cmp.Compare(a.Base, b.Base) })
	return out
}

// joinParts joins the parts that a launch has accessed, where they are neighbours in one of the spans and both or neither
// were written. some tells whether any of the spans has a part that was not accessed.
func joinParts(seen *accesses, spans []splice.Span) (out []splice.Span, some bool) {
	parts := withoutRepeats(seen.reads)
	slices.SortFunc(parts, func(a, b splice.Span) int { return cmp.Compare(a.Base, b.Base) })
	written := map[splice.Span]bool{}
	for _, x := range seen.writes {
		written[x] = true
	}
	last := splice.Span{}
	for _, x := range parts {
		end := len(out) - 1
		startsSpan := slices.ContainsFunc(spans, func(s splice.Span) bool { return s.Base == x.Base })
		if end >= 0 && !startsSpan && out[end].Base+out[end].Size == x.Base && written[last] == written[x] {
			out[end].Size += x.Size
		} else {
			out = append(out, x)
		}
		last = x
	}
	for _, x := range spans {
		some = some || !slices.Contains(out, x)
	}
	return out, some
}

// hashRecord makes the record of the launch's parameters and of the memory that it reads. It returns false if memory is
// gone meanwhile: a program may free memory on another stream, which does not wait for the launch.
func (a *spliceLaunch) hashRecord(spec *launch) bool {
	h := sha256.New()
	h.Write(a.site[:])
	if !a.hooks.isOmitted(paramsCheck) {
		addWord(h, uint64(len(spec.params)))
		h.Write(spec.params)
	}
	for _, x := range a.spans {
		addWord(h, x.Base)
		addWord(h, x.Size)
		if !a.hooks.isOmitted(bytesCheck) {
			sum, ok := a.sumSpan(x)
			if !ok {
				return false
			}
			h.Write(sum[:])
		}
	}
	h.Sum(a.record[:0])
	return true
}
