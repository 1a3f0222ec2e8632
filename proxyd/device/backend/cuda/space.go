// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/ledger"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/workgate"
)

type (
	arena = ledger.Arena[*arenaBytes]
	piece = ledger.Piece[*arenaBytes]
)

// space is a rank's device.
type space struct {
	*ledger.Calls[*arenaBytes] // that concern the ledger alone

	device   *device                // that the space was made on: its backend, and the limits that calls are checked against
	at       atomic.Pointer[device] // that the space is on
	steady   sync.RWMutex           // held for reading by calls that make or end objects of the driver, for writing by Move
	objects  atomic.Uint64          // contexts and modules that were made, in all
	cfg      backend.SpaceConfig
	size     uint64 // of addresses
	reserved *addresses
	gate     *workgate.Gate
	active   *workgate.Activity
	watching atomic.Bool // a goroutine waits for the end of the device's work, to tell of it
	view     view
	shown    atomic.Bool     // its memory may be mapped, and stays
	turn     atomic.Uint64   // time of the last mapping, by the backend's count
	ctx      context.Context // ends all waits when the space is closed
	cancel   context.CancelFunc
	over     chan struct{} // closed when Close ends

	mu          sync.Mutex
	closed      bool
	ledger      *ledger.Ledger[*arenaBytes]
	freed       freedRanges
	ranges      mappedRanges
	contexts    map[backend.ContextID]*cudaContext
	nextContext backend.ContextID
	peers       []*space // spaces with memory that our kernels see
	variables   []variable
	claims      []backend.Variable // of the state, until a module takes them
}

// freedRange is a range of addresses that calls may no longer name and that work may still use: until over is closed, or
// mark is passed.
type freedRange struct {
	base   backend.Addr
	size   uint64
	over   chan struct{} // nil: mark
	mark   *mark
	stream *stream // the mark's
}

var errClosed = core.ErrClosed

// NewSpace implements backend.Device.
func (d *device) NewSpace(cfg backend.SpaceConfig) (backend.Space, error) {
	if err := cfg.CheckAddresses(&d.info); err != nil {
		return nil, err
	}
	if err := d.serviceContext(); err != nil {
		return nil, err
	}
	b := d.backend
	r, err := b.claimAddresses(cfg.Base, cfg.Size)
	if err != nil {
		return nil, fmt.Errorf("space of %d bytes at %#x: %w", cfg.Memory, uint64(cfg.Base), err)
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	s := &space{
		device: d, cfg: cfg, size: cfg.Size, reserved: r, gate: workgate.New(cfg.Changed), active: workgate.NewActivity(cfg.Changed), contexts: map[backend.ContextID]*cudaContext{},
		over: make(chan struct{}),
	}
	s.at.Store(d)
	s.ranges = mappedRanges{space: s, leaving: map[*mappedRange]bool{}}
	s.freed.space, s.view.space = s, s
	s.view.places = map[backend.Addr]*memory{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ledger = ledger.New(cfg.Base, cfg.Size, cfg.Memory, s.ranges.makeBacking)
	s.Calls = ledger.NewCalls(&s.mu, s.ledger, s.checkOpen)
	if cfg.State != nil {
		if err := s.restoreState(cfg.State); err != nil {
			return nil, errors.Join(err, s.releaseAll())
		}
		s.cfg.State = nil
	}
	if err := b.enterSpace(s); err != nil {
		return nil, errors.Join(err, s.releaseAll())
	}
	return s, nil
}

// Map implements backend.Space.
func (s *space) Map() error {
	b := s.device.backend
	if !s.steady.TryRLock() {
		return fmt.Errorf("map: the space moves to another device: %w", backend.NotReady)
	}
	defer s.steady.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.isClosed() {
		return errClosed
	}
	for o := range b.mapped {
		if o != s && (o.currentDevice() == s.currentDevice() || s.overlapsSpace(o)) {
			return fmt.Errorf("map: another space is on the device, or has these addresses: %w", backend.AlreadyMapped)
		}
	}
	if !b.mapped[s] {
		b.turns++
		s.turn.Store(b.turns)
		s.currentDevice().countTurn()
		s.shown.Store(true)
		if err := s.showMemory(); err != nil {
			s.shown.Store(false)
			return fmt.Errorf("map: %w", err)
		}
		b.mapped[s] = true
	}
	s.gate.Set()
	return nil
}

// showMemory maps all memory. Memory that a pool keeps goes if it is not on the device, or if there is no room.
func (s *space) showMemory() error {
	s.mu.Lock()
	s.ranges.dropKept(^uint64(0), isAway, s.ranges.dropNow)
	s.mu.Unlock()
	err := s.view.mapView()
	if backend.ResultOf(err) != backend.OutOfMemory {
		return err
	}
	s.mu.Lock()
	n := s.ranges.dropKept(^uint64(0), anyRange, s.ranges.dropNow)
	s.mu.Unlock()
	if n == 0 {
		return err
	}
	return s.view.mapView()
}

// overlapsSpace tells whether two spaces have addresses in common.
func (s *space) overlapsSpace(o *space) bool {
	return o.cfg.Base < s.cfg.Base+backend.Addr(s.size) && s.cfg.Base < o.cfg.Base+backend.Addr(o.size)
}

// Hold implements backend.Space.
func (s *space) Hold() { s.gate.Hold() }

// Unlimit implements backend.Space.
func (s *space) Unlimit(on bool) { s.gate.Unlimit(on) }

// Pause implements backend.Space. Work that the driver was given ends; a kernel that runs is not interrupted.
func (s *space) Pause() { s.gate.Pause() }

// Freeing implements backend.Space.
func (s *space) Freeing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	over, marks := s.freed.waitsForRange(0, ^uint64(0))
	return len(over)+len(marks) > 0
}

// Work implements backend.Space. The driver does not tell when work is done: while there is some, a goroutine asks.
func (s *space) Work() backend.WorkState {
	if state := s.active.State(); state == backend.Runnable || !s.shown.Load() || !anyBusy(s.allStreams()) {
		return state
	}
	if !s.watching.Swap(true) {
		go func() {
			for p := (patience{}); anyBusy(s.allStreams()) && p.pauseBeforeRetry(s.ctx) == nil; {
			}
			s.watching.Store(false)
			s.cfg.Changed()
		}()
	}
	return backend.Runnable
}

// waitUnmappable waits for other work within a task: meanwhile the space may be unmapped, and is not runnable.
// waitUnmappable returns false if the space will never be mapped again.
func (s *space) waitUnmappable(wait func()) bool {
	return s.gate.Outside(func() { s.active.Wait(wait) })
}

// Unmap implements backend.Space.
func (s *space) Unmap() error {
	b := s.device.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mapped[s] {
		return fmt.Errorf("unmap: the space is not mapped: %w", backend.NotMapped)
	}
	all := s.allStreams()
	if err := s.gate.Clear(func() bool { return anyBusy(all) }); err != nil {
		return fmt.Errorf("unmap: work is under way: %w", err)
	}
	if anyBusy(s.allStreams()) { // of a stream that is new
		s.gate.Set()
		return fmt.Errorf("unmap: work is under way: %w", backend.NotReady)
	}
	if err := s.view.unmapView(); err != nil {
		return fmt.Errorf("unmap: %w", err)
	}
	s.shown.Store(false)
	delete(b.mapped, s)
	return nil
}

// anyBusy tells whether the device has work of these streams.
func anyBusy(streams []*stream) bool {
	for _, st := range streams {
		if !st.driverStream.isIdle() {
			return true
		}
	}
	return false
}

func (s *space) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// checkOpen returns an error if the space is closed. The caller holds mu.
func (s *space) checkOpen() error {
	if s.closed {
		return errClosed
	}
	return nil
}

// Drain implements backend.Space.
func (s *space) Drain(ctx context.Context) error {
	for {
		work := s.pendingWork()
		s.mu.Lock()
		over, _ := s.freed.waitsForRange(0, ^uint64(0)) // marks are among work
		s.mu.Unlock()
		if len(work) == 0 && len(over) == 0 {
			return nil
		}
		for _, m := range work {
			if err := m.waitFor(ctx); err != nil {
				return err
			}
		}
		if err := awaitAll(ctx, over); err != nil {
			return err
		}
	}
}

func (s *space) allContexts() []*cudaContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*cudaContext
	for _, c := range s.contexts {
		all = append(all, c)
	}
	return all
}

func (s *space) allStreams() []*stream {
	var all []*stream
	for _, c := range s.allContexts() {
		all = append(all, c.listStreams()...)
	}
	return all
}

// pendingWork returns a mark at the end of each stream that has work.
func (s *space) pendingWork() []*mark {
	var marks []*mark
	for _, st := range s.allStreams() {
		if !st.isEmpty() {
			marks = append(marks, st.fenceMark())
		}
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
	peers := s.peers
	s.mu.Unlock()
	all := s.allContexts()
	for _, c := range all {
		c.SetFault(errClosed)
	}
	s.cancel()
	s.gate.Close()
	for _, p := range peers {
		_ = p.view.denyDevice(s.currentDevice()) // p may be closed
	}
	// The end of a context ends its kernels: no work runs in the space from here on.
	var errs []error
	for _, c := range all {
		errs = append(errs, c.endContext())
	}
	if errors.Join(errs...) == nil {
		driver.LeavePlace(s.cfg.Owner)
	}
	b := s.device.backend
	b.mu.Lock()
	if b.mapped[s] {
		errs = append(errs, s.view.unmapView())
		delete(b.mapped, s)
	}
	b.mu.Unlock()
	s.view.shutView()
	b.releaseHosts(s)
	errs = append(errs, s.releaseAll())
	b.mu.Lock()
	delete(b.spaces, s)
	b.mu.Unlock()
	close(s.over)
	return errors.Join(errs...)
}

// releaseAll gives back all memory and addresses.
func (s *space) releaseAll() error {
	defer s.device.backend.unclaimAddresses(s.reserved)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	s.ledger.Arenas(func(a *arena) {
		if s.ledger.Forget(a) && a.Base == 0 {
			errs = append(errs, a.Bytes.memory.endMemory())
		}
	})
	for _, x := range slices.Concat(s.ranges.list, slices.Collect(maps.Keys(s.ranges.leaving))) {
		errs = append(errs, x.memory.endMemory())
	}
	s.ranges.list, s.ranges.leaving = nil, nil
	return errors.Join(errs...)
}

// NewContext implements backend.Space.
func (s *space) NewContext(id backend.ContextID) (backend.Context, error) {
	s.steady.RLock()
	defer s.steady.RUnlock()
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
	c, err := newContext(s, id)
	if err != nil {
		return nil, err
	}
	s.nextContext = max(s.nextContext, id)
	s.contexts[id] = c
	return c, nil
}
