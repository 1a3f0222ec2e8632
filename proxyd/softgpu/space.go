// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/workgate"
)

// space is a rank's device.
type space struct {
	*ledger.Calls[*arena] // that concern the ledger alone
	hostMemory

	device    *device                // that the space was made on: its backend, and the properties that kernels read
	at        atomic.Pointer[device] // that the space is on; lockDeviceOf reads it
	number    uint64                 // of the backend's spaces, in the order in which they were made
	cfg       backend.SpaceConfig
	size      uint64 // of addresses
	table     table
	gate      *workgate.Gate
	isPaused  func() bool // of the gate
	active    *workgate.Activity
	reclaimer reclaimer
	output    sync.Mutex      // held while Output runs
	ctx       context.Context // ends kernels when the space is closed
	cancel    context.CancelFunc

	mu          sync.Mutex
	closed      bool
	restoring   bool // from a state, until mapped
	ledger      spaceLedger
	contexts    map[backend.ContextID]*cudaContext
	nextContext backend.ContextID
	peers       []*space                 // spaces with memory that our kernels see; replaced, never changed
	sight       atomic.Pointer[[]*space] // the space itself and its peers; replaced with mu held, never changed
	kernelHeap  *kernelHeap

	onDevice uint64 // bytes in the device's memory; the device's lock guards it
}

// NewSpace implements backend.Device.
func (d *device) NewSpace(cfg backend.SpaceConfig) (backend.Space, error) {
	if err := cfg.CheckAddresses(d.Info()); err != nil {
		return nil, err
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	s := &space{
		device: d, cfg: cfg, size: cfg.Size, gate: workgate.New(cfg.Changed), active: workgate.NewActivity(cfg.Changed), contexts: map[backend.ContextID]*cudaContext{},
	}
	s.at.Store(d)
	setPeers(s, nil)
	s.isPaused = s.gate.IsPaused
	s.ctx, s.cancel = context.WithCancel(d.backend.ctx)
	s.table.engine, s.table.reclaimer = d.backend.engine.newAddresses(), &s.reclaimer
	s.ledger.Ledger = ledger.New(cfg.Base, cfg.Size, cfg.Memory, func(_ backend.Addr, n uint64) (*arena, error) { return makeArena(n) })
	s.ledger.SharedBytes = func(m backend.SharedMemory, n uint64, own bool) (*arena, error) {
		return d.backend.restoreShared(s, m, n, own)
	}
	s.Calls = ledger.NewCalls(&s.mu, s.ledger.Ledger, s.checkOpen)
	if cfg.State != nil {
		if err := s.restoreState(cfg.State); err != nil {
			s.releaseAll()
			return nil, err
		}
		s.cfg.State, s.restoring = nil, true
	}
	d.backend.mu.Lock()
	d.backend.made++
	s.number = d.backend.made
	d.backend.spaces[s] = true
	d.backend.mu.Unlock()
	return s, nil
}

// Map implements backend.Space.
func (s *space) Map() error {
	d := lockDeviceOf(s)
	defer d.mu.Unlock()
	switch {
	case s.isClosed():
		return errClosed
	case d.mapped != nil && d.mapped != s:
		return fmt.Errorf("map: another space is on the device: %w", backend.AlreadyMapped)
	}
	endRestoring(s)
	if d.mapped != s {
		d.holdings.swap.CountTurn()
	}
	d.admitSpace(s) // before the space counts as mapped: see joinEqual
	d.mapped = s
	s.gate.Set()
	return nil
}

// lockDeviceOf locks the device that the space is on, and returns the device. The space does not move to another device
// until the caller unlocks it.
func lockDeviceOf(s *space) *device {
	for {
		d := s.at.Load()
		d.mu.Lock()
		if s.at.Load() == d {
			return d
		}
		d.mu.Unlock()
	}
}

// Move implements backend.Mover. The bytes stay where they are in the host's memory, of which the memory of all devices
// is a part: only the device that they count for changes, when the space is mapped. Bytes that the space has in common
// with spaces of its old device count on both devices.
func (s *space) Move(to backend.Device) error {
	d, ok := to.(*device)
	if !ok || d.backend != s.device.backend {
		return fmt.Errorf("move: %w", backend.InvalidValue)
	}
	was := lockDeviceOf(s)
	defer was.mu.Unlock()
	if was.mapped == s {
		return fmt.Errorf("move: the space is mapped: %w", backend.AlreadyMapped)
	}
	was.holdings.spaces = withoutSpace(was.holdings.spaces, s)
	s.onDevice = 0
	s.reclaimer.forgetWrites(writes{}) // devices hash with keys of their own
	s.at.Store(d)
	return nil
}

// endRestoring marks a space that was made of a state as restored.
func endRestoring(s *space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restoring = false
}

// isRestoring tells whether the space is made of a state and was never mapped.
func (s *space) isRestoring() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restoring
}

// Hold implements backend.Space.
func (s *space) Hold() { s.gate.Hold() }

// Unlimit implements backend.Space.
func (s *space) Unlimit(on bool) { s.gate.Unlimit(on) }

// Pause implements backend.Space.
func (s *space) Pause() { s.gate.Pause() }

// Freeing implements backend.Space.
func (s *space) Freeing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.waitsFor(0, 0)
	return len(s.ledger.freeing) > 0
}

// Work implements backend.Space.
func (s *space) Work() backend.WorkState { return s.active.State() }

// waitWithinOperation waits for other work within an operation: meanwhile the space may be unmapped, and is not runnable.
// waitWithinOperation returns false if the space will never be mapped again.
func (s *space) waitWithinOperation(wait func()) bool {
	return s.gate.Outside(func() { s.active.Wait(wait) })
}

// awaitMarksBefore waits for marks before an operation; meanwhile the operation does not make the space runnable.
// awaitMarksBefore returns false if the space was closed.
func (s *space) awaitMarksBefore(marks []*mark) (live bool) {
	if marks = unreachedMarks(marks); len(marks) == 0 {
		return true
	}
	s.active.Wait(func() { live = s.awaitMarks(marks) == nil })
	return live
}

// Unmap implements backend.Space.
func (s *space) Unmap() error {
	d := lockDeviceOf(s)
	defer d.mu.Unlock()
	if d.mapped != s {
		return fmt.Errorf("unmap: the space is not mapped: %w", backend.NotMapped)
	}
	if err := s.gate.Clear(nil); err != nil {
		return fmt.Errorf("unmap: work is under way: %w", err)
	}
	d.mapped = nil
	return nil
}

var errClosed = core.ErrClosed

func (s *space) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// checkOpen is an error if the space is closed. The caller holds mu.
func (s *space) checkOpen() error {
	if s.closed {
		return errClosed
	}
	return nil
}

// Drain implements backend.Space.
func (s *space) Drain(ctx context.Context) error {
	for {
		marks := s.lastWork()
		if len(marks) == 0 {
			return nil
		}
		for _, m := range marks {
			if err := m.waitReached(ctx); err != nil {
				return err
			}
		}
	}
}

// lastWork lists the marks that are all reached when all work given so far is done.
func (s *space) lastWork() []*mark {
	marks := s.contextsWork()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.waitsFor(0, 0)
	for _, f := range s.ledger.freeing {
		marks = append(marks, f.over)
	}
	return marks
}

// contextsWork is the last work of each stream of each context.
func (s *space) contextsWork() []*mark { return collectWork(s, (*stream).lastMark) }

// contextsUse is the last work of each stream of each context that may use memory in a range.
func contextsUse(s *space, a backend.Addr, n uint64) []*mark {
	return collectWork(s, func(st *stream) *mark { return st.lastUse(a, n) })
}

// collectWork lists the marks of work that last finds in the streams of each context.
func collectWork(s *space, last func(*stream) *mark) []*mark {
	s.mu.Lock()
	var all []*cudaContext
	for _, c := range s.contexts {
		all = append(all, c)
	}
	s.mu.Unlock()
	var marks []*mark
	for _, c := range all {
		marks = append(marks, c.collectWork(last)...)
	}
	return marks
}

// Close implements backend.Space.
func (s *space) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.closed = true
	var all []*cudaContext
	for _, c := range s.contexts {
		all = append(all, c)
	}
	peers := s.peers
	s.mu.Unlock()
	for _, c := range all {
		c.SetFault(errClosed)
	}
	s.cancel()
	s.gate.Close()
	d := lockDeviceOf(s)
	if d.mapped == s {
		d.mapped = nil
	}
	d.holdings.spaces = withoutSpace(d.holdings.spaces, s)
	d.mu.Unlock()
	for _, p := range peers {
		_ = p.table.hideFrom(&s.table)
	}
	s.table.closeTable()
	b := s.device.backend
	b.mu.Lock()
	delete(b.spaces, s)
	b.mu.Unlock()
	// From here on no work finds memory any more. Kernels that run end soon; collectives, which are foreign, may take
	// longer.
	quiet := newMark()
	s.reclaimer.freeWhenUnused(quiet.reachMark, false)
	s.reclaimer.freeWhenUnused(s.releaseAll, true)
	quiet.awaitReached()
	return nil
}

// releaseAll frees all arenas.
func (s *space) releaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Arenas(func(h *holder) {
		if s.ledger.Forget(h) {
			dropArena(s, h.Bytes)
		}
	})
}

// NewContext implements backend.Space.
func (s *space) NewContext(id backend.ContextID) (backend.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if id == 0 {
		id = s.nextContext + 1
	}
	if s.contexts[id] != nil {
		return nil, fmt.Errorf("context %d is there already: %w", id, backend.InvalidValue)
	}
	s.nextContext = max(s.nextContext, id)
	c := newContext(s, id)
	s.contexts[id] = c
	return c, nil
}

// AllowPeer implements backend.Memory.
func (s *space) AllowPeer(peer backend.Space) error {
	p, ok := peer.(*space)
	if !ok || p == s || p.device.backend != s.device.backend || p.cfg.Base < s.cfg.Base+backend.Addr(s.size) && s.cfg.Base < p.cfg.Base+backend.Addr(p.size) {
		return fmt.Errorf("peer: %w", backend.InvalidValue)
	}
	if err := p.table.showTo(&s.table); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	setPeers(s, append(slices.Clone(s.peers), p))
	return nil
}

// DenyPeer implements backend.Memory.
func (s *space) DenyPeer(peer backend.Space) error {
	p, ok := peer.(*space)
	if !ok {
		return fmt.Errorf("peer: %w", backend.InvalidValue)
	}
	if err := p.table.hideFrom(&s.table); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.peers, p); i >= 0 {
		setPeers(s, slices.Delete(slices.Clone(s.peers), i, i+1))
	}
	return nil
}
