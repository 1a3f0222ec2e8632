// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync/atomic"
	"time"
)

// A Gate holds back messages before they have a place in the order. A shut gate has an exact position in the order:
// when Shut returns, every message that passed is in the order, and no other passes until Open.
type Gate uint64

// The gates: for every message, and for messages that are counted.
const (
	Calls   Gate = callsShut
	Counted Gate = countedShut
)

// Shut shuts a gate. To shut a gate that is shut has no effect.
func (r *Ring) Shut(g Gate) error {
	return r.changeOrder(func(word *uint64) error {
		atomic.OrUint64(word, uint64(g))
		r.gates |= uint64(g)
		return nil
	})
}

// Open opens a gate and wakes the threads that wait there. When the gate for counted messages opens, unused grants
// become void.
func (r *Ring) Open(g Gate) error {
	return r.changeOrder(func(word *uint64) error {
		void := uint64(g)
		if g&Counted != 0 {
			void |= grantsMask
			r.credits = 0
		}
		atomic.AndUint64(word, ^void)
		r.gates &^= uint64(g)
		return nil
	})
}

// Grant lets n more counted messages pass the shut gate.
func (r *Ring) Grant(n int) error {
	return r.changeOrder(func(word *uint64) error {
		if n < 0 || uint64(n)+r.credits > grantsMask/grantOne {
			return fmt.Errorf("%d grants beside %d are too many", n, r.credits)
		}
		if r.gates&countedShut == 0 {
			return fmt.Errorf("%d grants for a gate that is open", n)
		}
		r.credits += uint64(n)
		atomic.AddUint64(word, uint64(n)*grantOne)
		return nil
	})
}

// Withdraw takes back the unused grants, and returns their number. No message can use a withdrawn grant, so the caller
// need not wait for one.
func (r *Ring) Withdraw() (int, error) {
	var unused uint64
	err := r.changeOrder(func(word *uint64) error {
		unused = atomic.AndUint64(word, ^uint64(grantsMask)) & grantsMask / grantOne
		if unused > r.credits {
			return hostileError("%d grants, of %d", unused, r.credits)
		}
		r.credits = 0
		return nil
	})
	return int(unused), err
}

// changeOrder changes order by do, and wakes the waiters for its upper half.
func (r *Ring) changeOrder(do func(word *uint64) error) error {
	if !r.enterMapping() {
		return ErrClosed
	}
	defer r.releaseMapping()
	r.mu.Lock()
	defer r.mu.Unlock()
	// The current value is compared before it is compared with the new value.
	if err := r.takeOrder(); err != nil {
		return err
	}
	err := do(&r.mem.viewRingHead().order)
	wakeWaiters(r.mem.halfOfOrder(gatesHalf), math.MaxInt32)
	return err
}

// Counts returns the number of issued messages for each key: of the messages that have a place in the order now,
// handled or not. While the gate for the counted is shut, the counts change by grants only.
func (r *Ring) Counts() (map[uint64]uint64, error) {
	if !r.enterMapping() {
		return nil, ErrClosed
	}
	defer r.releaseMapping()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.takeOrder(); err != nil {
		return nil, err
	}
	return maps.Clone(r.counts), nil
}

// A Tally is the counts of issued messages at a moment.
type Tally struct {
	Counts   map[uint64]uint64 // as Ring.Counts
	Messages uint64            // that are counted here
	Unused   int               // grants
}

// Tally is Counts with further values of the same moment. Of a ring that was closed it returns
// the last known values, with ErrClosed.
func (r *Ring) Tally() (Tally, error) {
	err := ErrClosed
	open := r.enterMapping()
	if open {
		defer r.releaseMapping()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if open {
		err = r.takeOrder()
	}
	return Tally{maps.Clone(r.counts), r.counted, int(r.credits)}, err
}

// OnCounted has f called whenever messages that are counted were taken from the order, by any
// goroutine that takes them, until OnCounted is called with nil. f must return at once and not
// use the ring.
func (r *Ring) OnCounted(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onCounted = f
}

// Forget drops a key from the counts: its communicator is no more.
func (r *Ring) Forget(key uint64) {
	r.mu.Lock()
	delete(r.counts, key)
	r.mu.Unlock()
}

// PendingWork is the work that keeps a ring from being at rest.
type PendingWork struct {
	Queued int   // messages that were not handled to the end
	Calls  int   // calls without an answer, handled or not
	Inside []int // lanes with a thread that is in a call, or has not taken its answer
}

// IsZero tells whether the ring is at rest. With the gate for calls shut, the ring then stays at rest.
func (b PendingWork) IsZero() bool { return b.Queued == 0 && b.Calls == 0 && len(b.Inside) == 0 }

// Busy looks at the ring.
func (r *Ring) Busy() (PendingWork, error) {
	if !r.enterMapping() {
		return PendingWork{}, ErrClosed
	}
	defer r.releaseMapping()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.takeOrder(); err != nil {
		return PendingWork{}, err
	}
	b := PendingWork{Queued: len(r.backlog) - r.next + r.handed}
	for i := range r.lanes {
		if r.lanes[i].open.Load() != 0 {
			b.Calls++
		}
		head := r.mem.laneAt(i)
		if atomic.LoadUint32(&head.inside) != 0 && atomic.LoadUint32(&head.state)&leftBit == 0 {
			b.Inside = append(b.Inside, i)
		}
	}
	return b, nil
}

// Rest waits until the ring is at rest; the caller has shut the gate for calls. When ctx is done, Rest returns the work
// that kept the ring from rest.
func (r *Ring) Rest(ctx context.Context) (PendingWork, error) {
	pause := 20 * time.Microsecond
	for {
		b, err := r.Busy()
		if err != nil || b.IsZero() {
			return b, err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return b, ctx.Err()
		case <-t.C:
		}
		pause = min(2*pause, 2*time.Millisecond)
	}
}
