// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// Exportable finds the allocation that holds an address, if other spaces may import the allocation.
func (l *Ledger[B]) Exportable(a backend.Addr) (Piece[B], error) {
	x, ok := l.Lookup(a)
	if !ok || !mayBeShared(x) {
		return Piece[B]{}, fmt.Errorf("share the memory at %#x: %w", uint64(a), backend.InvalidValue)
	}
	return l.pieceOf(x, l.granules[granuleOf(x.Base)]), nil
}

// mayBeShared tells whether other spaces may import an allocation.
func mayBeShared(a backend.Allocation) bool {
	return a.Kind == backend.Plain || a.Kind == backend.Pooled
}

// granuleOf is the first granule of an allocation.
func granuleOf(a backend.Addr) backend.Addr { return a &^ (backend.Granule - 1) }

// NameShare gives an allocation its name among spaces.
func (l *Ledger[B]) NameShare(a backend.Addr, s backend.Share) {
	if i, found := l.searchAllocation(a); found {
		l.allocs[i].Share = s
	}
}

// Exported finds the allocation with a name.
func (l *Ledger[B]) Exported(s backend.Share) (backend.Allocation, bool) {
	i := slices.IndexFunc(l.allocs, func(a backend.Allocation) bool { return mayBeShared(a) && a.Share == s })
	if i < 0 || s.Number == 0 {
		return backend.Allocation{}, false
	}
	return l.allocs[i], true
}

// ArenaOf returns the arena in which an allocation lies, or nil for memory of the host and of VMM.
func (l *Ledger[B]) ArenaOf(a backend.Allocation) *Arena[B] {
	if a.Kind == backend.Imported {
		return l.imports[granuleOf(a.Base)]
	}
	return l.granules[granuleOf(a.Base)]
}

// importSize is the size of the granules in which an allocation lies that was imported.
func importSize(a backend.Allocation) uint64 {
	return RoundUp(uint64(a.Base-granuleOf(a.Base))+a.Size, backend.Granule)
}

// Import enters an allocation of another space, which is at offset in granules with the bytes b, at new addresses.
func (l *Ledger[B]) Import(a backend.Allocation, offset uint64, b B) (backend.Allocation, error) {
	a.Kind, a.Access, a.Base = backend.Imported, true, backend.Addr(offset)
	base, ok := l.heap.placeGranules(importSize(a), backend.Granule, 0)
	if !ok {
		return a, fmt.Errorf("import %d bytes: no addresses are left: %w", a.Size, backend.OutOfMemory)
	}
	a.Base += base
	l.imports[base] = addArena(l, base, importSize(a), b)
	l.Insert(a)
	return a, nil
}

// CloseImport takes imported memory out, and returns the bytes of which a reference is to be dropped when no work uses
// them any more.
func (l *Ledger[B]) CloseImport(a backend.Addr) (backend.Allocation, *Arena[B], error) {
	x, ok := l.At(a)
	if !ok || x.Kind != backend.Imported {
		return x, nil, fmt.Errorf("close an import at %#x: there is none: %w", uint64(a), backend.InvalidValue)
	}
	base := granuleOf(a)
	ar := l.imports[base]
	l.Remove(a)
	delete(l.imports, base)
	l.heap.dropGranules(base)
	return x, ar, nil
}

// expectShared notes which granules of a state other spaces may see.
func expectShared[B any](l *Ledger[B], st *backend.State) error {
	if len(st.Shared) > 0 && l.SharedBytes == nil {
		return errors.New("its processes share memory, which the devices here cannot")
	}
	l.shared = map[backend.Addr]backend.SharedMemory{}
	for _, m := range st.Shared {
		if _, twice := l.shared[m.Base]; twice || m.Base == 0 {
			return fmt.Errorf("shared memory at %#x", uint64(m.Base))
		}
		l.shared[m.Base] = m
	}
	return nil
}

// restoreImport enters imported memory at its former place.
func restoreImport[B any](l *Ledger[B], a backend.Allocation) error {
	base := granuleOf(a.Base)
	switch {
	case l.SharedBytes == nil:
		return errors.New("it is shared by processes, which the devices here cannot")
	case a.Size == 0 || a.Size > 1<<47 || !a.Access || a.Share.Number == 0 || uint64(a.Base)%Quantum != 0 ||
		a.Base != base && !sharesGranule(a.Size) || sharesGranule(a.Size) && importSize(a) != backend.Granule:
		return errors.New("no such import")
	case !l.heap.takeGranulesAt(base, importSize(a)):
		return errors.New("no room there")
	}
	b, err := l.SharedBytes(backend.SharedMemory{ID: a.Share.Memory}, importSize(a), false)
	if err != nil {
		return err
	}
	l.imports[base] = addArena(l, base, importSize(a), b)
	l.Insert(a)
	return nil
}
