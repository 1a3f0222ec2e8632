// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// block is a block of threads that runs, or a block that has run and is used again.
type block struct {
	run      *launch
	shape    Dim3
	params   []byte // of the kernel, for this launch
	threads  int
	stack    uint32 // local memory of a thread
	grid     Dim3   // of the launch, or the last launch
	native   bool   // likewise
	index    uint64
	pos      Dim3
	warps    []*warp
	bars     [clusterBarrier + 1]barrier
	shared   []byte
	live     int  // threads that have not exited
	exited   bool // since barriers were last looked at
	spun     bool // a warp of the block seemed to wait for other warps
	straight bool // all warps have run the last block straight, of this launch or of one that canFollow allows
	// together: a barrier has let all threads go that live, and each warp of them is whole.
	together bool
	gone     uint64
	// barsUsed bounds the bars that a warp has come to: the bars from this number on are unused.
	barsUsed int
	sites    []*memory.Range // last range that each access site has used, in any warp
	hints    []rangeHint     // of the sites, for the next launch
	texture  descriptorCache
	// lastErrors has the last error of each thread that was told one.
	lastErrors map[int]uint32
	// touched has the ranges that the block's threads have accessed, if the launch collects them; true: written.
	touched map[*memory.Range]bool
}

// getBlock returns room for a block of a launch: the room of an earlier launch of the kernel if its
// shape is the same.
func getBlock(r *launch) *block {
	stack := r.kernel.stackSize(r.cfg.StackSize)
	b, _ := r.kernel.blocks.Get().(*block)
	if b == nil || b.shape != r.cfg.Block || len(b.shared) != r.allShared() || b.stack != stack {
		return newBlock(r)
	}
	b.followLaunch(r)
	return b
}

// followLaunch gives a recycled block to a launch.
func (b *block) followLaunch(r *launch) {
	if !b.canFollow(r) {
		b.straight = false
		for _, w := range b.warps {
			w.straight, w.machineKnows = false, false
		}
	}
	b.setRun(r)
	b.findHintedRanges()
}

// setRun gives the block to a launch.
func (b *block) setRun(r *launch) {
	b.run, b.grid, b.native = r, r.cfg.Grid, r.native
	clear(b.params[copy(b.params, r.cfg.Params):])
}

// canFollow tells whether, for the block's warps, a launch of the same kernel and shape differs from the launch before in
// no more than parameters and memory: they go on as from one block to the next of a launch.
func (b *block) canFollow(r *launch) bool { return r.native && b.native && b.grid == r.cfg.Grid }

// rangeHint is where the range began that an access site used last.
type rangeHint struct {
	base     uint64 // 0: the site was not used
	readOnly bool
}

// findHintedRanges gives the sites the ranges that now begin where those of the launch before began: most launches use the
// same memory as the launch before. It does not if the launch notes its accesses, since not each of these may be used.
func (b *block) findHintedRanges() {
	m := b.run.memory
	if b.run.cfg.Touched != nil {
		return
	}
	b.gone = m.Unmapped()
	last := &memory.Nowhere
	for s, h := range b.hints {
		if h.base == 0 {
			continue
		}
		if last.Base != h.base {
			if last = m.FindRange(h.base, 1); last == nil || last.Base != h.base {
				last = &memory.Nowhere
				continue
			}
		}
		// A site that has used a range that is read only does not store.
		if !last.ReadOnly || h.readOnly {
			b.sites[s] = last
		}
	}
}

// recycleBlock keeps the room for a later launch, without a reference to this launch's memory.
func (b *block) recycleBlock() {
	k := b.run.kernel
	for s, r := range b.sites {
		b.hints[s] = rangeHint{r.Base, r.ReadOnly}
	}
	b.forgetRanges()
	for _, w := range b.warps {
		w.lanesRun, w.issued = 0, 0
	}
	b.run = nil
	k.blocks.Put(b)
}

// forgetRanges makes all accesses look for their range again.
func (b *block) forgetRanges() {
	for s := range b.sites {
		b.sites[s] = &memory.Nowhere
	}
}

// newBlock makes room for a block of a launch.
func newBlock(r *launch) *block {
	threads := int(r.cfg.Block.Count())
	b := &block{shape: r.cfg.Block, threads: threads, stack: r.kernel.stackSize(r.cfg.StackSize), warps: make([]*warp, (threads+warpSize-1)/warpSize)}
	b.params = make([]byte, (r.kernel.ParamSize+31)&^15) // their end is aligned for the widest access
	b.setRun(r)
	b.sites, b.hints = make([]*memory.Range, r.kernel.sites), make([]rangeHint, r.kernel.sites)
	b.forgetRanges()
	for i := range b.warps {
		w := &warp{sites: b.sites}
		w.local.Init(r.kernel.stackSize(r.cfg.StackSize))
		for k := range warpSize {
			at := r.cfg.Block.positionAt(uint64(i*warpSize + k))
			w.tid[0][k], w.tid[1][k], w.tid[2][k] = at.X, at.Y, at.Z
		}
		b.warps[i] = w
	}
	for i := range b.bars {
		b.bars[i].arrived = make([]uint32, len(b.warps))
	}
	// Its ends are aligned for the widest access.
	b.shared = make([]byte, (r.allShared()+31)&^15)[:r.allShared()]
	return b
}

// startBlock makes the block ready to run as the block with the given index.
func (b *block) startBlock(index uint64) {
	b.clearBlock(index)
	for i, w := range b.warps {
		w.local.Clear()
		w.startWarp(b, i, b.maskOf(i))
	}
	for i := range b.bars[:b.barsUsed] {
		clear(b.bars[i].arrived)
		b.bars[i].lanes, b.bars[i].waiting = 0, 0
	}
	b.barsUsed, b.together = 0, false
}

// clearBlock gives the block its place in the grid, and clears what its threads share.
func (b *block) clearBlock(index uint64) {
	b.index, b.pos = index, b.run.cfg.Grid.positionAt(index)
	clear(b.shared)
	clear(b.lastErrors)
	b.live = b.threads
}

// maskOf is the lanes of a warp that have a thread.
func (b *block) maskOf(i int) uint32 {
	if left := b.threads - i*warpSize; left < warpSize {
		return 1<<left - 1
	}
	return fullMask
}

// forgetUnmapped makes all accesses look for their range again if memory was unmapped: a kernel may free its allocations,
// and get the address again.
func (b *block) forgetUnmapped() {
	if gone := b.run.memory.Unmapped(); gone != b.gone {
		b.gone = gone
		b.forgetRanges()
	}
}

// noteStraight notes whether all warps of a block that is done have run straight.
func (b *block) noteStraight() {
	b.straight = true
	for _, w := range b.warps {
		b.straight = b.straight && w.straight
	}
}

// runStraight runs the block with the given index, behind a block of the same launch of which all warps have run
// straight, until one of the warps does not run straight. runStraight reports whether there was none: then the block is
// done. If there was one, this warp and those behind it go on by runTurn. Most kernels are machine code from their
// beginning to their end, and the blocks of a launch are alike: runStraight sets only what a straight warp may have changed.
func (b *block) runStraight(index uint64) bool {
	b.clearBlock(index)
	b.forgetUnmapped()
	k := b.run.kernel
	code, zeros, pos := k.main.native, k.readsUnwritten(), b.pos
	for i, w := range b.warps {
		if w.local.Used {
			w.local.Clear()
		}
		if zeros {
			clear(w.file32)
			clear(w.file64)
		}
		clear(w.preds)
		s := &w.machine
		s.Uniform[uniformBlock], s.Uniform[uniformBlock+1], s.Uniform[uniformBlock+2] = pos.X, pos.Y, pos.Z
		at := code.RunAgain(s, nativeTurn)
		if k.endsStraight(s, at, b.maskOf(i)) {
			w.issued += s.Issued + 1
			w.local.Used = s.LocalUsed
			continue
		}
		b.leaveStraight(i, at)
		return false
	}
	b.live = 0
	return true
}

// leaveStraight makes the warps from warp i on go on by runTurn: warp i from where machine code has left off, those behind
// it from their beginning.
func (b *block) leaveStraight(i int, at native.Exit) {
	w := b.warps[i]
	w.live, w.fresh, w.ticks, w.budget = b.maskOf(i), false, 0, turn
	countNative(w, &w.budget, nativeTurn)
	w.makeFragment(at)
	w.begun = true
	for k := range b.warps[i+1:] {
		b.restartWarp(i + 1 + k)
	}
	b.live -= i * warpSize
	b.straight = false
}

// restartWarp makes a warp ready to run a further block of the launch, of which it has run a block straight. Its lists
// are empty, and its frame is the kernel's own.
func (b *block) restartWarp(i int) {
	w := b.warps[i]
	if w.local.Used {
		w.local.Clear()
	}
	w.live, w.fresh, w.spinning, w.ticks = b.maskOf(i), true, false, 0
	w.startNative()
	if b.run.kernel.readsUnwritten() {
		clear(w.file32)
		clear(w.file64)
	}
	clear(w.preds)
}

// runTurn gives each warp a turn. runTurn reports whether the block is done and whether any warp has moved on.
func (b *block) runTurn() (done, moved bool) {
	b.forgetUnmapped()
	first := 0
	if b.together {
		if first = b.runPastBarrier(); first == len(b.warps) {
			return false, true
		}
		moved = true
	}
	done = true
	for _, w := range b.warps[:first] {
		done = done && w.live == 0
	}
	for _, w := range b.warps[first:] {
		if w.live == 0 {
			continue
		}
		if !w.isReady() {
			done = false
			continue
		}
		moved = true
		switch w.runUntilBlocked() {
		case statusDone:
		default:
			done = false
		}
		if b.exited {
			b.exited = false
			for i := range b.bars[:b.barsUsed] {
				if b.isComplete(&b.bars[i]) {
					b.openBarrier(i)
				}
			}
		}
	}
	if done {
		return true, moved
	}
	if !moved {
		// All wait. Other lanes may wait for the lanes at a join.
		for _, w := range b.warps {
			if w.live != 0 && w.releaseJoins() {
				moved = true
			}
		}
	}
	return false, moved
}

// isReady reports whether a fragment of the warp can run.
func (w *warp) isReady() bool {
	if w.fresh {
		return true
	}
	for _, f := range w.frags {
		if f.state == fragReady {
			return true
		}
	}
	return false
}

// reportStuck reports where a block stands that cannot go on. reportStuck does not return.
func (b *block) reportStuck() {
	for _, w := range b.warps {
		for _, f := range w.frags {
			w.cur = f
			lane := 0
			for f.mask>>lane&1 == 0 {
				lane++
			}
			w.raiseFault(BarrierDeadlock, &f.frame.code.insts[f.pc], lane, 0, "")
		}
	}
	panic("ptx: a block without live threads is stuck")
}

// recordAccess notes an access. A site's later accesses to the same range are not noted, and need not be: a site
// either loads or stores.
func (b *block) recordAccess(r *memory.Range, store bool) {
	if b.run.cfg.Touched == nil {
		return
	}
	if written, known := b.touched[r]; !known || store && !written {
		if b.touched == nil {
			b.touched = map[*memory.Range]bool{}
		}
		b.touched[r] = store || written
	}
}

// addCount adds the executed instructions of the block's warps to the launch's counts.
func (b *block) addCount() {
	var lanes, issued uint64
	for _, w := range b.warps {
		lanes += w.lanesRun
		issued += w.issued
	}
	if b.run.cfg.Count != nil {
		*b.run.cfg.Count += lanes
	}
	if b.run.cfg.Issued != nil {
		b.run.cfg.Issued.Add(issued)
	}
	b.addTouched()
}

// addTouched adds the memory that the block's threads have accessed to the launch's.
func (b *block) addTouched() {
	t := b.run.cfg.Touched
	if t == nil {
		return
	}
	t.Add(b.touched)
	clear(b.touched)
}
