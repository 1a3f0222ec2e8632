// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/core"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// mark is a point in a stream's work, or the end of another event that is waited for.
type mark struct {
	reached atomic.Bool
	mu      sync.Mutex
	waiters chan struct{} // closed when the mark is reached; nil: nothing has waited for it yet
}

func newMark() *mark { return &mark{} }

// reachMark is called once.
func (m *mark) reachMark() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached.Store(true)
	if m.waiters != nil {
		close(m.waiters)
	}
}

func (m *mark) isReached() bool { return m.reached.Load() }

// waitChannel returns a channel that is closed when the mark is reached.
func (m *mark) waitChannel() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiters == nil {
		m.waiters = make(chan struct{})
		if m.reached.Load() {
			close(m.waiters)
		}
	}
	return m.waiters
}

// waitReached returns nil when the mark is reached, or ctx's error.
func (m *mark) waitReached(ctx context.Context) error {
	if m.isReached() {
		return nil
	}
	select {
	case <-m.waitChannel():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitReached returns when the mark is reached.
func (m *mark) awaitReached() {
	if !m.isReached() {
		<-m.waitChannel()
	}
}

// unreachedMarks leaves out marks that are reached, and nils.
func unreachedMarks(marks []*mark) []*mark {
	out := marks[:0]
	for _, m := range marks {
		if m != nil && !m.isReached() {
			out = append(out, m)
		}
	}
	return out
}

// operation is a piece of work in a stream's queue.
type operation struct {
	deps         []*mark
	run          func(*operation) error // nil: no work to do
	launch       *queuedLaunch          // for runQueued, or nil
	always       bool                   // run even if the context has a fault
	entersItself bool                   // each of its steps enters the gate itself: between them they wait for others
	uses         []*space               // with memory that the operation touches while running
	where        core.AddressUse        // at which addresses
	usesSeen     bool                   // see task.usesSeen
	drop         func()                 // called instead when the space was closed, or nil
	// foreign is work of other code, which was given bytes and may keep them for long.
	foreign bool
	wrote   writes // where the operation may have written when it ends: everywhere, unless it says
	mark    *mark
	own     mark    // that mark is, unless the operation has come with another mark
	stream  *stream // nil for a node of a graph
	// begun and partial are of the stream's mu: see backend.Progress.
	begun   bool
	partial backend.PartialKernel
}

// usesAtBegin lists the spaces that the operation uses, on behalf of a space, as it begins.
func (op *operation) usesAtBegin(s *space) []*space {
	if !op.usesSeen {
		return op.uses
	}
	return op.usesWithSight(s)
}

// usesWithSight lists the spaces that the operation uses, and those that a space sees now.
func (op *operation) usesWithSight(s *space) []*space {
	seen := s.spacesInSight()
	if slices.Equal(seen, op.uses) {
		return seen
	}
	return withoutDuplicates(append(seen, op.uses...))
}

// endUses ends the operation in the spaces that it uses.
func (op *operation) endUses() {
	for _, u := range op.uses {
		u.reclaimer.endOperation(op)
	}
}

// reclaimer keeps bytes that are no longer mapped until the work that runs now and can reach them has ended: a kernel
// may still be using them.
type reclaimer struct {
	mu      sync.Mutex
	away    bool // the bytes are elsewhere: no work may begin
	running []*operation
	begun   uint64 // operations, in all
	pending []*pendingFree
	blocked chan struct{} // other operations wait to begin until it is closed; nil: none has to wait

	contents splice.Contents // the known contents of the bytes; see splice_contents.go
	remapped uint64          // how often memory has come or gone
	hooks    *spliceHooks    // of tests; nil: none
}

// pendingFree is a free that waits for operations to end.
type pendingFree struct {
	waits map[*operation]bool
	free  func()
}

// beginOperation enters an operation, unless the bytes are elsewhere. beginOperation waits while blockOthers holds
// operations up.
func (r *reclaimer) beginOperation(op *operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for blocked := r.blocked; blocked != nil; blocked = r.blocked {
		r.mu.Unlock()
		<-blocked
		r.mu.Lock()
	}
	if r.away {
		return false
	}
	if !slices.Contains(r.running, op) {
		r.running = append(r.running, op)
	}
	r.begun++
	return true
}

// isOnly tells whether op runs, and no other operation. The caller holds mu.
func (r *reclaimer) isOnly(op *operation) bool { return len(r.running) == 1 && r.running[0] == op }

// isAlone tells whether no operation but op uses the bytes, and returns the moment. If the moment is the same later, no
// other operation has used the bytes meanwhile.
func (r *reclaimer) isAlone(op *operation) (at memoryVersion, alone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return memoryVersion{r.begun, r.remapped}, r.isOnly(op)
}

// blockOthers lets no other operation begin, and returns true, if op is alone and no other operation has begun since
// the moment that isAlone returned. The caller calls unblockOthers soon, and waits for no operation before.
func (r *reclaimer) blockOthers(op *operation, at memoryVersion) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun != at.begun || !r.isOnly(op) {
		return false
	}
	r.blocked = make(chan struct{})
	return true
}

// unblockOthers undoes blockOthers.
func (r *reclaimer) unblockOthers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.blocked)
	r.blocked = nil
}

// shutIfIdle lets no work begin, and returns true, unless work is under way that is not foreign.
func (r *reclaimer) shutIfIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range r.running {
		if !op.foreign {
			return false
		}
	}
	r.away = true
	return true
}

func (r *reclaimer) isShut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// reopenSpace undoes shutIfIdle.
func (r *reclaimer) reopenSpace() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
}

// withoutOperation takes an operation out of a list, the order of which has no meaning.
func withoutOperation(list []*operation, op *operation) []*operation {
	at, last := slices.Index(list, op), len(list)-1
	if at < 0 {
		return list
	}
	list[at], list[last] = list[last], nil
	return list[:last]
}

func (r *reclaimer) endOperation(op *operation) {
	var free []func()
	r.mu.Lock()
	r.forgetLocked(op.wrote)
	r.running = withoutOperation(r.running, op)
	left := r.pending[:0]
	for _, g := range r.pending {
		delete(g.waits, op)
		if len(g.waits) == 0 {
			free = append(free, g.free)
		} else {
			left = append(left, g)
		}
	}
	clear(r.pending[len(left):])
	r.pending = left
	r.mu.Unlock()
	for _, f := range free {
		f()
	}
}

// freeWhenUnused calls free once no work uses the memory that was unmapped before this call. foreign tells whether to
// wait for foreign work as well, see operation.foreign.
func (r *reclaimer) freeWhenUnused(free func(), foreign bool) {
	r.mu.Lock()
	g := &pendingFree{waits: make(map[*operation]bool, len(r.running)), free: free}
	for _, op := range r.running {
		if foreign || !op.foreign {
			g.waits[op] = true
		}
	}
	wait := len(g.waits) > 0
	if wait {
		r.pending = append(r.pending, g)
	}
	r.mu.Unlock()
	if !wait {
		free()
	}
}
