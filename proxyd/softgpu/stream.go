// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
)

// stream is a queue of operations. A goroutine carries them out while there are any.
type stream struct {
	core.StreamQueue[operation]
	context *cudaContext
	cfg     backend.StreamConfig
	last    *mark // guarded by Mu
}

// task is the work of an operation, checked and ready: of a stream or of a node of a graph.
type task struct {
	run  func(*operation) error
	uses []*space
	// wrote is the write set of a task that knows it before it runs. See operation.wrote.
	wrote    writes
	usesSeen bool // kernels, restored graph nodes: the operation also uses the spaces seen as it begins
	where    core.AddressUse
}

// Config implements backend.Stream.
func (st *stream) Config() backend.StreamConfig { return st.cfg }

// plainStream makes a stream without work.
func (c *cudaContext) plainStream(cfg backend.StreamConfig) *stream {
	st := &stream{context: c, cfg: cfg}
	st.Init(&c.ContextState)
	return st
}

// waitReady waits while the queue is full. Each call that queues an operation begins with it.
func (st *stream) waitReady() error {
	return st.WaitReady(st.context.space.gate, st.context.space.ctx.Done())
}

func (st *stream) lastMark() *mark {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	return st.last
}

// lastUse is the mark of the last operation that may use memory in a range, or nil.
func (st *stream) lastUse(a backend.Addr, n uint64) *mark {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	for _, op := range slices.Backward(st.Queue) {
		if op.where.MayUse(a, n) {
			return op.mark
		}
	}
	if op := st.Current; op != nil && op.where.MayUse(a, n) {
		return op.mark
	}
	return nil
}

// submitOperation queues an operation behind its dependencies.
func (st *stream) submitOperation(op *operation) {
	if op.mark == nil {
		op.mark = &op.own
	}
	c := st.context
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case st == c.legacy:
		op.deps = append(op.deps, c.orphans...)
		for o := range c.streams {
			if o != st && !o.cfg.NonBlocking {
				op.deps = append(op.deps, o.lastMark())
			}
		}
	case !st.cfg.NonBlocking:
		if m := c.legacy.lastMark(); m != nil && !m.isReached() {
			op.deps = append(op.deps, m)
		}
	}
	op.deps = unreachedMarks(op.deps)
	st.Mu.Lock()
	defer st.Mu.Unlock()
	op.stream = st
	st.CountGiven()
	st.last = op.mark
	if st.AddWork(op) {
		go st.runQueuedWork()
	}
}

// runQueuedWork carries out the queued operations until the queue is empty.
func (st *stream) runQueuedWork() {
	active := st.context.space.active
	active.Begin()
	defer active.End()
	for op := st.TakeNext(); op != nil; op = st.TakeNext() {
		st.runOperation(op)
	}
}

// Progress implements backend.Stream.
func (st *stream) Progress() backend.Progress {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	p := backend.Progress{Given: st.Given(), Done: st.Done}
	if op := st.Current; op != nil {
		p.Begun, p.Partial = op.begun, op.partial
	}
	return p
}

// setProgress notes that a stream's operation has begun, or could begin again, after the work done so far.
func (op *operation) setProgress(begun bool, done backend.PartialKernel) {
	if op.stream == nil {
		return
	}
	op.stream.Mu.Lock()
	defer op.stream.Mu.Unlock()
	op.begun, op.partial = begun, done
}

// pausePartial has an operation that has done a part of its work wait while the space is paused, or unmapped.
// Meanwhile the operation does not keep its memory from being freed. pausePartial returns false if the space was
// closed.
func (op *operation) pausePartial(done backend.PartialKernel) bool {
	op.setProgress(false, done)
	for _, u := range op.uses {
		u.reclaimer.endOperation(op)
	}
	if !op.stream.context.space.gate.Rest() {
		return false
	}
	for _, u := range op.uses {
		u.beginOperation(op)
	}
	op.setProgress(true, backend.PartialKernel{})
	return true
}

// finishOperation notes that the stream's operation is done. The operation is kept as long as its mark is, and the work
// before it, which it has waited for, is not.
func (st *stream) finishOperation(op *operation) {
	st.Mu.Lock()
	st.Current = nil
	st.Done++
	st.Mu.Unlock()
	if op.launch != nil {
		*op.launch = queuedLaunch{}
	}
	op.run, op.launch, op.drop, op.deps, op.uses, op.wrote = nil, nil, nil, nil, nil, writes{}
	op.mark.reachMark()
}

// runOperation carries out an operation when its time has come.
func (st *stream) runOperation(op *operation) {
	defer st.finishOperation(op)
	c := st.context
	s := c.space
	if !s.awaitMarksBefore(op.deps) || !s.gate.Enter() {
		if op.drop != nil {
			op.drop()
		}
		return
	}
	op.setProgress(true, backend.PartialKernel{})
	if op.entersItself {
		s.gate.Leave()
		s.active.End()
		defer s.active.Begin()
	} else {
		defer s.gate.Leave()
	}
	if op.run == nil || !op.always && c.Err() != nil {
		return
	}
	op.uses = op.usesAtBegin(s)
	for _, u := range op.uses {
		u.beginOperation(op)
	}
	defer op.endUses()
	if err := op.run(op); err != nil {
		c.SetFault(err)
	}
}

// enqueueTask checks the stream and its input, and submits the task.
func (st *stream) enqueueTask(prepare func(*cudaContext) (task, error)) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	t, err := prepare(st.context)
	if err != nil {
		return err
	}
	st.submitOperation(&operation{run: t.run, uses: t.uses, wrote: t.wrote, usesSeen: t.usesSeen, where: t.where})
	return nil
}

// Copy implements backend.Stream.
func (st *stream) Copy(x backend.Copy) error {
	return st.enqueueTask(func(c *cudaContext) (task, error) { return c.copyTask(x) })
}

// Fill implements backend.Stream.
func (st *stream) Fill(x backend.Fill) error {
	return st.enqueueTask(func(c *cudaContext) (task, error) { return c.fillTask(x) })
}

// Launch implements backend.Stream.
func (st *stream) Launch(x backend.Launch) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	c := st.context
	l := c.newLaunch()
	if err := c.checkLaunch(&l.queued, &x, nil); err != nil {
		return err
	}
	l.run, l.launch, l.uses, l.usesSeen = runQueued, &l.queued, c.space.spacesInSight(), true
	st.submitOperation(&l.operation)
	return nil
}

// Exchange implements backend.Stream.
func (st *stream) Exchange(b []backend.Buffer, begin func([][]byte, func(error))) error {
	return st.enqueueTask(func(c *cudaContext) (task, error) { return c.exchangeTask(b, begin) })
}

// Host implements backend.Stream.
func (st *stream) Host(f func()) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	st.submitOperation(&operation{always: true, where: core.UsesOnly(), run: func(*operation) error {
		if !st.context.space.waitWithinOperation(f) {
			return errClosed
		}
		return nil
	}})
	return nil
}

// AllocAsync implements backend.Stream.
func (st *stream) AllocAsync(id backend.PoolID, n uint64) (backend.Addr, error) {
	if err := st.waitReady(); err != nil {
		return 0, err
	}
	s := st.context.space
	s.mu.Lock()
	p, err := s.ledger.PlacePooled(id, n)
	if err != nil {
		s.mu.Unlock()
		return 0, err
	}
	waits := s.ledger.waitsFor(p.Alloc.Base, p.Size())
	s.mu.Unlock()
	s.at.Load().makeRoomFor(s)
	st.submitOperation(&operation{deps: waits, always: true, run: func(*operation) error { return s.attachPiece(p) }})
	return p.Alloc.Base, nil
}

// FreeAsync implements backend.Stream.
func (st *stream) FreeAsync(a backend.Addr) error {
	if err := st.waitReady(); err != nil {
		return err
	}
	s := st.context.space.holderOf(a)
	var uses []*space
	if s != st.context.space {
		uses = st.context.space.spacesInSight()
	}
	// The addresses are not given away before the operation is queued, or the operation could come to wait for
	// their next owner.
	s.mu.Lock()
	defer s.mu.Unlock()
	p, over, err := s.takeFromLedger(a, backend.Plain, backend.Pooled)
	if err != nil {
		return err
	}
	st.submitOperation(&operation{mark: over, always: true, run: func(*operation) error { s.unmapPiece(p); return nil }, uses: uses})
	return nil
}

// holderOf is the peer that has memory at an address, or else the space itself.
func (s *space) holderOf(a backend.Addr) *space {
	s.mu.Lock()
	_, own := s.ledger.Lookup(a)
	peers := s.peers
	s.mu.Unlock()
	if own {
		return s
	}
	for _, p := range peers {
		p.mu.Lock()
		_, there := p.ledger.Lookup(a)
		p.mu.Unlock()
		if there {
			return p
		}
	}
	return s
}

// Query implements backend.Stream.
func (st *stream) Query() error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	if m := st.lastMark(); m != nil && !m.isReached() {
		return fmt.Errorf("stream: %w", backend.NotReady)
	}
	return st.context.CheckUsable()
}

// Synchronize implements backend.Stream.
func (st *stream) Synchronize(ctx context.Context) error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	marks := []*mark{st.lastMark()}
	if st == st.context.legacy {
		marks = st.context.blockingTails()
	}
	for _, m := range unreachedMarks(marks) {
		if err := m.waitReached(ctx); err != nil {
			return err
		}
	}
	return st.context.CheckUsable()
}

// blockingTails is the last work of each stream for which the legacy stream waits.
func (c *cudaContext) blockingTails() []*mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	marks := slices.Clone(c.orphans)
	for s := range c.streams {
		if !s.cfg.NonBlocking {
			marks = append(marks, s.lastMark())
		}
	}
	return marks
}

// Destroy implements backend.Stream.
func (st *stream) Destroy() error {
	if err := st.CheckUsable(); err != nil {
		return err
	}
	c := st.context
	if st == c.legacy {
		return fmt.Errorf("the legacy stream: %w", backend.InvalidHandle)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := st.MarkDestroyed(); err != nil {
		return err
	}
	delete(c.streams, st)
	c.orphans = unreachedMarks(append(c.orphans, st.lastMark()))
	return nil
}
