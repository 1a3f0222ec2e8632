// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// siteOf is the site of a launch: all of it but the parameters that are no addresses.
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

// withoutRepeats leaves out what is there twice.
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

// pointedSpans are the pieces of memory that parameters point to: those that hold the address in an aligned word. A number
// that looks like an address does no harm; it makes a record larger. ok is false if one is not the space's alone.
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

// spanBytes is the bytes of a piece of memory, if it is there, and the space's alone.
func spanBytes(s *space, x splice.Span) ([]byte, bool) {
	s.mu.Lock()
	alloc, found := s.ledger.At(backend.Addr(x.Base))
	own := found && (alloc.Kind == backend.Plain || alloc.Kind == backend.Pooled || alloc.Kind == backend.Globals)
	s.mu.Unlock()
	if !own {
		return nil, false
	}
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	i, found := s.table.findEntry(backend.Addr(x.Base))
	if !found || s.table.entries[i].host || uint64(len(s.table.entries[i].bytes)) != x.Size {
		return nil, false
	}
	return s.table.entries[i].bytes, true
}
