// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
)

// State implements backend.Space.
func (s *space) State() *backend.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.ledger.State()
	st.NextContext = s.nextContext
	for _, v := range s.variables {
		st.Variables = append(st.Variables, v.Variable)
	}
	slices.SortFunc(st.Variables, func(a, b backend.Variable) int { return int(int64(a.Kept) - int64(b.Kept)) })
	return st
}

// restoreState makes a new space like the described space.
func (s *space) restoreState(st *backend.State) error {
	bad := func(err error) error { return fmt.Errorf("restore a space: %w: %w", err, backend.InvalidValue) }
	if st.KernelHeap != nil {
		return fmt.Errorf("restore a space: kernels have memory of malloc, which a real device's driver does not give back: %w", backend.NotSupported)
	}
	s.nextContext, s.claims = st.NextContext, slices.Clone(st.Variables)
	if err := s.ledger.Restore(st); err != nil {
		return bad(err)
	}
	for _, x := range s.ranges.list {
		if err := s.view.addMemory(x.base, x.memory); err != nil {
			return bad(err)
		}
	}
	for _, a := range s.ledger.Allocations() {
		if a.Kind == backend.Mapped && a.Access {
			if err := s.view.addMemory(a.Base, s.ledger.Memory(a.Memory).Arena.Bytes.memory); err != nil {
				return bad(err)
			}
		}
	}
	return nil
}

// findBlock finds a block's bytes.
func (s *space) findBlock(id backend.BlockID) (*memory, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, errClosed
	}
	ar, at, err := s.ledger.Block(id)
	if err != nil {
		return nil, 0, err
	}
	if ar.Bytes.memory != nil {
		return ar.Bytes.memory, at, nil
	}
	for _, x := range ar.Bytes.ranges {
		if a := ar.Base + backend.Addr(at); a >= x.base && a < x.endAddress() {
			return x.memory, uint64(a - x.base), nil
		}
	}
	return nil, 0, fmt.Errorf("block %+v: %w", id, backend.InvalidValue)
}

// Blocks implements backend.Space. Blocks are copied and hashed here, as many at once as can be.
func (s *space) Blocks(key *[32]byte, yield func(backend.BlockID, backend.Hash) bool) error {
	if err := s.checkSaved(); err != nil {
		return err
	}
	if err := s.moveVariables(func(variable) bool { return true }, true); err != nil {
		return err
	}
	var all []backend.BlockID
	for _, r := range s.State().Regions() {
		all = append(all, ledger.IDs(r)...)
	}
	var next atomic.Int64
	var stop atomic.Bool
	hands := min(maxDriverStreams, runtime.GOMAXPROCS(0))
	errs := make([]error, hands)
	var wg sync.WaitGroup
	for w := range hands {
		wg.Go(func() {
			h, err := blake3.NewKeyed(key[:])
			p := make([]byte, backend.Granule)
			for err == nil && !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				var sum backend.Hash
				if sum, err = s.hashBlock(h, all[i], p); err == nil && !yield(all[i], sum) {
					stop.Store(true)
				}
			}
			if err != nil {
				errs[w] = err
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// hashBlock is the hash of a block; p is room for the block.
func (s *space) hashBlock(h *blake3.Hasher, id backend.BlockID, p []byte) (sum backend.Hash, err error) {
	some, err := s.ReadBlock(id, p)
	if err != nil || !some || isZero(p) {
		return sum, err
	}
	h.Reset()
	_, _ = h.Write(p) // Write cannot fail
	_, err = h.Digest().Read(sum[:])
	return sum, err
}

// isZero tells whether all bytes of a block are zero.
func isZero(p []byte) bool { return bytes.Equal(p, zeros) }

var zeros = make([]byte, backend.Granule)

// ReadBlock implements backend.Space.
func (s *space) ReadBlock(id backend.BlockID, p []byte) (bool, error) {
	m, at, err := s.findBlock(id)
	if err != nil {
		return false, err
	}
	if len(p) != backend.Granule {
		return false, fmt.Errorf("read block %+v into %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	some, err := m.readAt(at, p)
	if some && id.Memory == 0 {
		s.ranges.hideDirty(id.Base, p)
	}
	return some, err
}

// WriteBlock implements backend.Space.
func (s *space) WriteBlock(id backend.BlockID, p []byte) error {
	m, at, err := s.findBlock(id)
	if err != nil {
		return err
	}
	if p != nil && len(p) != backend.Granule {
		return fmt.Errorf("write block %+v of %d bytes: %w", id, len(p), backend.InvalidValue)
	}
	if p == nil {
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		return m.zeroBlock(at, s.view.shown)
	}
	if err := m.writeAt(at, p); err != nil || id.Memory != 0 {
		return err
	}
	// Modules that are there already have their variables elsewhere.
	return s.moveVariables(func(v variable) bool { return v.Kept >= id.Base && v.Kept-id.Base < backend.Granule }, false)
}
