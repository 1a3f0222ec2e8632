// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// State implements backend.Space.
func (s *space) State() *backend.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.ledger.State()
	st.NextContext = s.nextContext
	st.KernelHeap = s.kernelHeap.describeHeap()
	describeShared(s, st)
	return st
}

// restoreState makes a new space like the described space.
func (s *space) restoreState(st *backend.State) error {
	bad := func(err error) error { return fmt.Errorf("restore a space: %w: %w", err, backend.InvalidValue) }
	s.nextContext = st.NextContext
	if err := s.ledger.Restore(st); err != nil {
		return bad(err)
	}
	for _, p := range s.ledger.Pieces() {
		if err := s.table.mapPiece(p); err != nil {
			return bad(err)
		}
	}
	for _, a := range s.ledger.Allocations() {
		var err error
		switch {
		case a.Kind == backend.Mapped && a.Access:
			err = s.table.mapBytes(a.Base, s.ledger.Memory(a.Memory).Arena.Bytes.bytes)
		case a.Kind == backend.Imported:
			err = s.table.mapBytes(a.Base, bytesOfImport(s, a))
		}
		if err != nil {
			return bad(err)
		}
	}
	if h := st.KernelHeap; h != nil {
		made, err := restoreKernelHeap(&s.ledger, &s.table, s.cfg.Memory, h)
		if err != nil {
			return bad(fmt.Errorf("kernels' heap: %w", err))
		}
		s.kernelHeap = made
	}
	return nil
}

// claimVariables checks that a restored module's variables are there.
func (s *space) claimVariables(a backend.Addr, n uint64, id backend.ContextID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Claim(a, n, id)
}

// findBlock finds the arena of a block, and the block's bytes.
func (s *space) findBlock(id backend.BlockID) (*arena, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, at, err := findBlock(s, id)
	if err != nil {
		return nil, nil, err
	}
	return a, a.blockAt(at), nil
}

// findBlock finds the arena of a block, and the block's offset in it. The caller holds the space's mu.
func findBlock(s *space, id backend.BlockID) (*arena, uint64, error) {
	if s.closed {
		return nil, 0, errClosed
	}
	if h := s.kernelHeap; h != nil && id.Memory == 0 && id.Offset == 0 && id.Base%backend.Granule == 0 &&
		id.Base >= h.base && id.Base-h.base < backend.Addr(len(h.arena.bytes)) {
		return h.arena, uint64(id.Base - h.base), nil
	}
	ar, at, err := s.ledger.Block(id)
	if err != nil {
		return nil, 0, err
	}
	return ar.Bytes, at, nil
}

// ReadBlock implements backend.Space.
func (s *space) ReadBlock(id backend.BlockID, p []byte) (bool, error) {
	a, b, err := s.findBlock(id)
	if err != nil || len(p) != len(b) {
		return false, fmt.Errorf("read block %+v into %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	some := false
	if !guardReading(s, func() {
		if some = a.isTouched(addressOf(b) - addressOf(a.bytes)); some {
			copy(p, b)
		}
	}) {
		return false, errClosed
	}
	return some, nil
}

// WriteBlock implements backend.Space.
func (s *space) WriteBlock(id backend.BlockID, p []byte) error {
	a, b, err := s.findBlock(id)
	if err == nil && p == nil {
		if !s.guardBytes(func() { a.wipeRange(b) }) {
			return errClosed
		}
		return nil
	}
	if err != nil || len(p) != len(b) {
		return fmt.Errorf("write block %+v of %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	if !s.guardBytes(func() { copy(b, p) }) {
		return errClosed
	}
	return nil
}
