// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package gemm

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// Launch is a launch of a kernel of Text, with blocks of Threads threads.
type Launch struct {
	Kernel  string
	Grid    [3]uint32
	Params  []byte
	Memory  *memory.Memory
	Workers int // cores at most, 0: GOMAXPROCS
	// First is the number of blocks that ran before, in ascending order, which are left out.
	First uint64
	// Paused, if not nil, is asked before each block begins: no more blocks begin when Paused returns true.
	Paused func() bool
	// Issued, if not nil, is increased by 1 for 256 multiply-adds, which take about as long as an instruction of a warp
	// that is compiled: the choice of launches to splice depends on that. The PTX issues many more.
	Issued *atomic.Uint64
	// Touched, if not nil, collects the memory that the launch accesses.
	Touched *memory.TouchedRanges
}

// Run runs the launch's blocks and returns how many are done, in ascending order: with those that ran before. It
// reports false, before it has written a byte, if the launch is left to the PTX. The error is ctx's.
func Run(ctx context.Context, l Launch) (done uint64, ok bool, err error) {
	if !Available() {
		return l.First, false, nil
	}
	return runBy(ctx, l, newestMultiplier())
}

// batchMember is the memory of a product of a batch.
type batchMember struct{ a, b, c, d, bias []byte }

// findMembers finds the memory of all products, and notes the accessed ranges.
func findMembers(x *product, l *Launch) ([]batchMember, bool) {
	seen := map[*memory.Range]bool{}
	out := make([]batchMember, l.Grid[2])
	for z := range out {
		w := &out[z]
		for _, o := range x.listOperands() {
			r, b := o.findRange(l.Memory, uint64(z))
			if r == nil || o == &x.d && r.ReadOnly {
				return nil, false
			}
			seen[r] = seen[r] || o == &x.d
			switch o {
			case &x.a:
				w.a = b
			case &x.b:
				w.b = b
			case &x.c:
				w.c = b
			case &x.d:
				w.d = b
			default:
				w.bias = b
			}
		}
	}
	if l.Touched != nil {
		l.Touched.Add(seen)
	}
	return out, true
}

func runBy(ctx context.Context, l Launch, by *multiplier) (uint64, bool, error) {
	x, ok := parseParams(l.Kernel, l.Params)
	if !ok || l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[2] == 0 {
		return l.First, false, nil
	}
	members, ok := findMembers(&x, &l)
	if !ok {
		return l.First, false, nil
	}
	w := &work{x: &x, l: &l, members: members, by: by, blocks: uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])}
	w.next.Store(l.First)
	err := w.spreadBlocks(ctx)
	return min(w.next.Load(), w.blocks), true, err
}

// work is a launch that runs.
type work struct {
	x       *product
	l       *Launch
	members []batchMember
	by      *multiplier
	blocks  uint64
	next    atomic.Uint64
}

// spreadBlocks runs the blocks on all cores, each the next in ascending order.
func (w *work) spreadBlocks(ctx context.Context) error {
	workers := w.l.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = int(min(uint64(workers), max(w.blocks-min(w.l.First, w.blocks), 1)))
	var group sync.WaitGroup
	makeTile := makeTiles(w)
	for range workers - 1 {
		group.Go(func() { w.runBlocks(ctx, makeTile()) })
	}
	w.runBlocks(ctx, makeTile())
	group.Wait()
	return ctx.Err()
}

// runBlocks runs blocks until all have begun, or no more are to begin.
func (w *work) runBlocks(ctx context.Context, t runner) {
	for ctx.Err() == nil && (w.l.Paused == nil || !w.l.Paused()) {
		i := w.next.Add(1) - 1
		if i >= w.blocks {
			return
		}
		x, y := uint64(w.l.Grid[0]), uint64(w.l.Grid[1])
		at := tilePosition{row: i % x * tileRows, column: i / x % y * tileColumns, member: i / x / y}
		if at.row >= w.x.m || at.column >= w.x.n {
			continue
		}
		t.multiplyTile(at)
		if w.l.Issued != nil {
			w.l.Issued.Add(min(tileRows, w.x.m-at.row) * min(tileColumns, w.x.n-at.column) * w.x.k / 256)
		}
	}
}

// tilePosition is the position of a tile.
type tilePosition struct{ row, column, member uint64 }
