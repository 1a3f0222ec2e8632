// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"sync"
	"sync/atomic"
)

// spread is the state of spreadBlocks.
type spread struct {
	next   atomic.Uint64 // block
	lowest atomic.Uint64 // block with a fault; the number of blocks if there is none
	mu     sync.Mutex
	err    error // of the lowest block
	wait   sync.WaitGroup
}

// spreadBlocks runs the blocks on workers, each the next in ascending order. Of several faults
// the fault of the lowest block is returned: all blocks below it have run to their end.
func (r *launch) spreadBlocks(workers int) error {
	x := &r.spread
	x.lowest.Store(r.cfg.Grid.Count())
	x.next.Store(r.first)
	for range workers - 1 {
		x.wait.Go(r.takeBlocks)
	}
	r.takeBlocks()
	x.wait.Wait()
	r.noteBlocksDone(x.next.Load())
	return x.err
}

// takeBlocks is a worker of spreadBlocks.
func (r *launch) takeBlocks() {
	x, b := &r.spread, getBlock(r)
	for !r.isPausing() {
		i := x.next.Add(1) - 1
		err := r.ctx.Err()
		if err != nil {
			x.mu.Lock()
			if x.err == nil {
				x.err = err
			}
			x.mu.Unlock()
		}
		if err != nil || i >= x.lowest.Load() {
			break
		}
		if err := r.runBlock(b, i); err != nil {
			b.addCount()
			x.mu.Lock()
			if i < x.lowest.Load() {
				x.err = err
				x.lowest.Store(i)
			}
			x.mu.Unlock()
			return
		}
	}
	b.addCount()
	b.recycleBlock()
}
