// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// A block has 16 barriers, and the barrier of its cluster, which has no other block.
const (
	barriers       = 16
	clusterBarrier = barriers
)

// barrierSite is a bar or barrier instruction. a is its number, b the count of threads
// when counted, c the predicate and d the result of a reduction.
type barrierSite struct {
	arrive  bool // does not wait
	cluster bool // of the cluster's barrier, at which threads arrive and wait by instructions of their own
	counted bool
	red     string // "popc", "and", "or"
}

// barrier is a barrier of a block.
type barrier struct {
	arrived []uint32 // lanes, for each warp
	lanes   int      // number of them
	need    int      // threads, 0: all that live
	waiting int      // fragments
	count   int      // of reductions: how many had the predicate set
	and     bool
}

// runBarrier executes a barrier instruction of the current fragment. The result tells whether that has
// opened the barrier.
func (w *warp) runBarrier(in *inst) bool {
	f, site, blk := w.cur, in.ext.bar, w.block
	first := bits.TrailingZeros32(f.mask) & 31
	id := w.u32(in.a)[first]
	switch {
	case site.cluster:
		if id = clusterBarrier; !site.arrive {
			awaitCluster(w)
			return false
		}
	case id >= barriers:
		w.raiseFault(IllegalInstruction, in, first, 0, "barrier number beyond 15")
	}
	b := &blk.bars[id]
	blk.barsUsed = max(blk.barsUsed, int(id)+1)
	if b.lanes == 0 {
		b.need, b.count, b.and = 0, 0, true
	}
	if site.counted {
		n := w.u32(in.b)[first]
		if n == 0 || n%warpSize != 0 {
			w.raiseFault(IllegalInstruction, in, first, 0, "barrier's count of threads is no multiple of 32")
		}
		b.need = int(n)
	}
	if site.red != "" {
		p := w.pred(in.c) & f.mask
		b.count += bits.OnesCount32(p)
		b.and = b.and && p == f.mask
	}
	b.lanes += bits.OnesCount32(f.mask &^ b.arrived[w.id])
	b.arrived[w.id] |= f.mask
	if site.arrive {
		f.pc++
	} else {
		b.waiting++
		f.state, f.bar = fragBarrier, uint8(id)
	}
	if !blk.isComplete(b) {
		return false
	}
	blk.openBarrier(int(id))
	return true
}

// awaitCluster has the current fragment wait until all threads have arrived at the cluster's barrier. A barrier forgets
// its arrivals when it opens: the fragment waits if its own arrival is still noted.
func awaitCluster(w *warp) {
	f, b := w.cur, &w.block.bars[clusterBarrier]
	if b.arrived[w.id]&f.mask == 0 {
		f.pc++
		return
	}
	b.waiting++
	f.state, f.bar = fragBarrier, clusterBarrier
}

// lowerClusterBarrier is barrier.cluster.arrive and barrier.cluster.wait.
func lowerClusterBarrier(l *lowerer) {
	l.checkArgs(0)
	s := &barrierSite{cluster: true, arrive: l.hasModifier("arrive")}
	if s.arrive == l.hasModifier("wait") {
		l.failSyntax("neither arrive nor wait, or both")
	}
	m := l.emitFlow(flowBarrier)
	m.a, m.shape, m.ext = l.wordConstant(0), shape{a: use32}, &ext{bar: s}
}

// isComplete reports whether a barrier that threads have reached can open.
func (b *block) isComplete(bar *barrier) bool {
	if bar.lanes == 0 {
		return false
	}
	if bar.need == 0 {
		if bar.lanes < b.live {
			return false
		}
		here := 0
		for i, w := range b.warps {
			here += bits.OnesCount32(bar.arrived[i] & w.live)
		}
		return here == b.live
	}
	// Counts are in whole warps: a warp counts fully once all its remaining threads are here.
	threads := 0
	for i, w := range b.warps {
		if a := bar.arrived[i]; a != 0 && w.live&^a == 0 {
			threads += warpSize
		} else {
			threads += bits.OnesCount32(a)
		}
	}
	return threads >= bar.need
}

// openBarrier lets all threads go on that wait at a barrier, and makes the barrier ready for its next use.
func (b *block) openBarrier(id int) {
	bar := &b.bars[id]
	b.together = b.run.native && b.live > 0
	for _, w := range b.warps {
		b.together = b.together && w.isWholeAtBarrier(id)
	}
	for _, w := range b.warps {
		if bar.waiting == 0 {
			break
		}
		for _, f := range w.frags {
			if f.state != fragBarrier || int(f.bar) != id {
				continue
			}
			if in := &f.frame.code.insts[f.pc]; in.ext.bar.red != "" {
				w.enterFrame(f.frame, f.frame.code)
				bar.writeReduction(w, in, f.mask)
			}
			f.state = fragReady
			f.pc++
			bar.waiting--
		}
		if w.cur != nil {
			w.enterFrame(w.cur.frame, w.cur.frame.code)
		}
	}
	clear(bar.arrived)
	bar.lanes, bar.waiting = 0, 0
}

// writeReduction writes the result of a reduction.
func (bar *barrier) writeReduction(w *warp, in *inst, m uint32) {
	v := uint32(0)
	switch in.ext.bar.red {
	case "popc":
		d := w.u32(in.d)
		for ; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&31] = uint32(bar.count)
		}
		return
	case "and":
		if bar.and {
			v = fullMask
		}
	case "or":
		if bar.count > 0 {
			v = fullMask
		}
	default:
		return
	}
	w.setBits(in.d, m, v)
}

// isWholeAtBarrier reports whether all live threads of the warp stand together at a barrier. A warp without live
// threads counts as standing there.
func (w *warp) isWholeAtBarrier(id int) bool {
	if w.live == 0 {
		return true
	}
	if len(w.frags) != 1 || len(w.joins) != 0 || len(w.syncs) != 0 {
		return false
	}
	f := w.frags[0]
	return f.mask == w.live && f.state == fragBarrier && int(f.bar) == id
}

// runPastBarrier runs the warps of a block that a barrier has let go, each as machine code to its next barrier. If all
// warps come to the same barrier, each with all its lanes, that barrier is open again, and no arrivals are noted.
// runPastBarrier returns the number of the first warp that does not: this warp and those behind it go on from where
// they are. If there is no such warp, it returns the number of warps.
func (b *block) runPastBarrier() int {
	b.together = false
	id := uint32(barriers)
	for i, w := range b.warps {
		if w.live == 0 {
			continue
		}
		w.cur, w.waitingLoops = w.frags[0], 0
		w.enterFrame(w.cur.frame, w.cur.frame.code)
		if !w.runToBarrier(&id) {
			b.arriveBefore(i)
			return i
		}
	}
	b.barsUsed = max(b.barsUsed, int(id)+1)
	for _, w := range b.warps {
		if w.live != 0 {
			w.cur.pc++
		}
	}
	b.together = true
	return len(b.warps)
}

// arriveBefore notes that the warps before warp n have come to the barriers at which they stand.
func (b *block) arriveBefore(n int) {
	for _, w := range b.warps[:n] {
		if w.live != 0 {
			w.runBarrier(&w.cur.frame.code.insts[w.cur.pc])
		}
	}
}

// runToBarrier runs the current fragment, which has all lanes of the warp, as machine code. It reports whether the
// whole warp has come to barrier id, at an instruction that only waits. If id is beyond all barriers, any barrier will
// do, and id is set to it.
func (w *warp) runToBarrier(id *uint32) bool {
	f := w.cur
	code, budget := f.frame.code, turn
	if code.native == nil || !code.native.HasEntry(f.pc, f.mask) {
		return false
	}
	w.bailed = w.runNative(code.native, native.Exit{}, &budget)
	w.begun, w.budget = true, budget
	in := &code.insts[f.pc]
	if in.flow != flowBarrier || in.guard != 0 || len(w.frags) != 1 || f.mask != w.live || f.join != nil {
		return false
	}
	site := in.ext.bar
	at := w.u32(in.a)[lowestLane(f.mask)]
	if site.cluster || site.arrive || site.counted || site.red != "" || at >= barriers || *id < barriers && at != *id || w.block.bars[at].lanes != 0 {
		return false
	}
	*id = at
	w.bailed, w.begun = native.Exit{}, false
	w.ticks += 16
	w.issued++
	return true
}

// mbarrier is the decoded 64 bits of an mbarrier object in shared memory. A phase ends when no arrival and no byte is
// pending; the next phase waits for as many arrivals as are expected.
type mbarrier struct {
	pending, expected uint32 // arrivals: 20 bits each
	bytes             int32  // of copies, 22 bits. Copies may be reported before they are expected: then less than 0
	phase             uint32 // modulo 4
}

const (
	mbarrierSize = 8 // bytes
	mbarrierMost = 1<<20 - 1
)

func decodeMbarrier(v uint64) mbarrier {
	return mbarrier{
		pending: uint32(v & mbarrierMost), expected: uint32(v >> 20 & mbarrierMost), bytes: int32(v>>30) >> 10, phase: uint32(v >> 62),
	}
}

func encodeMbarrier(b mbarrier) uint64 {
	return uint64(b.pending) | uint64(b.expected)<<20 | uint64(b.bytes)&(1<<22-1)<<40 | uint64(b.phase)<<62
}

// updateMbarrier changes an mbarrier, given its bytes, ends its phase if no arrival and no byte is pending, and returns
// the old bits.
func updateMbarrier(w *warp, in *inst, bits []byte, lane int, change func(*mbarrier)) uint64 {
	old := binary.LittleEndian.Uint64(bits)
	b := decodeMbarrier(old)
	change(&b)
	switch {
	case b.pending > mbarrierMost || b.expected > mbarrierMost:
		w.raiseFault(IllegalInstruction, in, lane, 0, "more threads arrive at an mbarrier than it waits for, or it is not initialised")
	case b.bytes > mbarrierMost || b.bytes < -mbarrierMost:
		w.raiseFault(IllegalInstruction, in, lane, 0, "an mbarrier waits for more than 1048575 bytes")
	case b.pending == 0 && b.bytes == 0:
		b.pending, b.phase = b.expected, (b.phase+1)%4
	}
	binary.LittleEndian.PutUint64(bits, encodeMbarrier(b))
	return old
}
