// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// fragState is the state of a fragment: ready, or waiting for other threads.
type fragState uint8

const (
	fragReady   fragState = iota
	fragBarrier           // at a barrier of the block
	fragSync              // for other lanes of its warp
)

// frag is lanes of a warp with the same program counter.
type frag struct {
	mask  uint32
	pc    int32
	state fragState
	bar   uint8 // the barrier, of fragBarrier
	frame *frame
	join  *join
}

// join is a meeting point of lanes that a branch parted.
type join struct {
	pc       int32
	frame    *frame
	expected uint32 // lanes that have not exited
	arrived  uint32 // lanes that stand here and are in no fragment
	parent   *join
}

// warp is 32 threads. file32, file64 and preds hold the registers of all its frames.
type warp struct {
	bank32, bank64 bank
	basePred       int
	block          *block
	cur            *frag
	sites          []*memory.Range // the block's
	local          memory.Local
	live           uint32 // lanes that have not exited
	fresh          bool   // the warp has not run, and begins in machine code; it has no fragment yet
	straight       bool   // the warp has run its last block by runStart alone, and lists and frames are as that found them
	spinning       bool   // memory that other threads may change was read since the last backward branch
	waitingLoops   int    // times in this turn that a loop has read such memory: the warp seems to wait for a thread
	counting       bool
	lanesRun       uint64 // lane-instructions, when counting
	issued         uint64 // instructions, each counted once for all lanes
	ticks          uint64 // see warpTime

	id     int
	tid    [4][warpSize]uint32 // by axis; the last is 0
	file32 []uint32
	file64 []uint64
	preds  []uint32
	frags  []*frag // all but the fragments with lanes that stand at a join
	joins  []*join // with arrived lanes
	syncs  []*syncGroup
	spare  []*frag
	gather gather
	mma    mmaBuffers

	machine native.State
	// A turn that runPastBarrier has begun: where machine code has left the current fragment, if the fragment goes on
	// there, and the rest of the turn's branches.
	begun  bool
	budget int
	bailed native.Exit

	machineKnows bool   // the launch, as far as canFollow compares launches
	entered      *frame // refs mean its registers
	top          *frame // of the kernel itself, for all blocks
}

// startWarp makes the warp ready to run its block's kernel in the lanes of mask.
func (w *warp) startWarp(b *block, id int, mask uint32) {
	if w.straight && w.machineKnows {
		b.restartWarp(id)
		return
	}
	k := b.run.kernel
	w.block, w.id, w.live = b, id, mask
	w.frags, w.joins, w.syncs = w.frags[:0], w.joins[:0], w.syncs[:0]
	w.spinning, w.waitingLoops, w.ticks, w.counting = false, 0, 0, b.run.counting
	w.setConstants(k.const32, k.const64)
	if b.run.native {
		w.startNative()
	}
	if w.top == nil {
		w.top = &frame{code: k.main}
	}
	w.enterFrame(w.top, k.main)
	// A register that a program reads before writing it must not hold a value of an earlier block.
	if !b.run.native || k.readsUnwritten() {
		clear(w.file32)
		clear(w.file64)
	}
	clear(w.preds)
	w.straight = false
	if w.fresh = b.run.native && k.main.native != nil && k.main.native.HasEntry(0, mask); w.fresh {
		w.cur = nil
		return
	}
	w.cur = w.newFrag(frag{mask: mask, frame: w.top})
	w.frags = append(w.frags, w.cur)
}

func (w *warp) newFrag(f frag) *frag {
	if n := len(w.spare); n > 0 {
		p := w.spare[n-1]
		w.spare = w.spare[:n-1]
		*p = f
		return p
	}
	p := new(frag)
	*p = f
	return p
}

// dropFragment takes a fragment out of the warp.
func (w *warp) dropFragment(f *frag) {
	for i, g := range w.frags {
		if g == f {
			w.frags = append(w.frags[:i], w.frags[i+1:]...)
			break
		}
	}
	if w.cur == f {
		w.cur = nil
	}
	w.spare = append(w.spare, f)
}

// pickFragment makes a fragment that can run the current fragment: the youngest, so that the lanes that parted last
// meet first. pickFragment reports false when no fragment can run.
func (w *warp) pickFragment() bool {
	for i := len(w.frags) - 1; i >= 0; i-- {
		if w.frags[i].state == fragReady {
			w.cur = w.frags[i]
			w.enterFrame(w.cur.frame, w.cur.frame.code)
			return true
		}
	}
	w.cur = nil
	return false
}

// exitLanes ends the lanes m of the current fragment. A fragment without lanes is dropped.
func (w *warp) exitLanes(m uint32) {
	f := w.cur
	w.live &^= m
	w.block.live -= bits.OnesCount32(m)
	w.block.exited = true
	for j := f.join; j != nil; j = j.parent {
		j.expected &^= m
		if j.arrived != 0 && j.arrived == j.expected {
			w.forgetJoin(j)
			w.frags = append(w.frags, w.newFrag(frag{mask: j.arrived, pc: j.pc, frame: j.frame, join: j.parent}))
			j.arrived = 0
		}
	}
	f.mask &^= m
	if f.mask == 0 {
		w.dropFragment(f)
	}
	w.checkSyncs()
}

// splitFragment parts the current fragment: taken goes to target, the rest is left to the caller.
func (w *warp) splitFragment(in *inst, taken uint32, target int32) {
	f := w.cur
	j := f.join
	if in.join >= 0 && (j == nil || j.pc != in.join || j.frame != f.frame) {
		j = &join{pc: in.join, frame: f.frame, expected: f.mask, parent: f.join}
	}
	f.join = j
	f.mask &^= taken
	w.frags = append(w.frags, w.newFrag(frag{mask: taken, pc: target, frame: f.frame, join: j}))
}

// status is why run returned.
type status uint8

const (
	statusDone    status = iota // all lanes have exited
	statusBlocked               // no fragment can run before other warps have moved on
	statusYielded               // its turn is over
)

// turn is the number of branches after which a warp lets the other warps of its block run. Fewer
// suffice when the warp seems to wait for another thread's store.
const (
	turn     = 1 << 14
	spinTurn = 32
)

// runUntilBlocked executes until the warp has exited, is blocked, or its turn is over.
func (w *warp) runUntilBlocked() status {
	budget := turn
	if w.begun {
		budget, w.begun = w.budget, false
	}
	w.waitingLoops = 0
	w.block.together = false
	if w.fresh && w.runStart(&budget) {
		return statusDone
	}
	for {
		if w.cur == nil || w.cur.state != fragReady {
			if !w.pickFragment() {
				if len(w.frags) == 0 && len(w.joins) == 0 {
					return statusDone
				}
				// Lanes may wait here for lanes that stand at a join; a barrier of the block may
				// yet open by itself.
				if len(w.syncs) > 0 && w.releaseJoins() {
					continue
				}
				return statusBlocked
			}
		} else {
			w.enterFrame(w.cur.frame, w.cur.frame.code)
		}
		if w.runFragment(&budget) {
			w.rotateFragments()
			return statusYielded
		}
		if len(w.frags) == 1 && w.cur != nil && w.cur.state == fragBarrier {
			return statusBlocked
		}
	}
}

// rotateFragments gives the other fragments of a warp their turn.
func (w *warp) rotateFragments() {
	if w.waitingLoops > spinTurn {
		w.block.spun = true
		w.releaseJoins()
	}
	if w.cur == nil || len(w.frags) < 2 {
		return
	}
	for i, f := range w.frags {
		if f == w.cur {
			copy(w.frags[1:i+1], w.frags[:i])
			w.frags[0] = f
			break
		}
	}
	w.cur = nil
}

// runFragment runs the current fragment until that is no longer the current fragment, or must be entered
// anew. runFragment reports whether the warp's turn is over.
func (w *warp) runFragment(budget *int) bool {
	f := w.cur
	code := f.frame.code.insts
	from := f.pc // instructions before from were counted already
	var machine *native.Code
	if w.block.run.native {
		machine = f.frame.code.native
	}
	after := w.bailed
	w.bailed = native.Exit{}
	left := after.Resumes() // the present instruction is the interpreter's
	for {
		if left {
			left = false
		} else if machine != nil && (after.Resumes() || machine.HasEntry(f.pc, f.mask)) {
			w.issued += uint64(f.pc - from)
			after = w.runNative(machine, after, budget)
			from = f.pc
		}
		in := &code[f.pc]
		m := f.mask
		if in.guard != 0 {
			m &= w.pred(in.guard)
		}
		if w.counting {
			w.lanesRun += uint64(bits.OnesCount32(m))
		}
		if in.flow == flowNone {
			if m != 0 {
				in.fn(w, in, m)
			}
			f.pc++
			continue
		}
		w.ticks += 16
		w.issued += uint64(f.pc-from) + 1 // meeting points too, which are no instructions
		var next flowStep
		if in.flow == flowBranch {
			next = w.runBranch(in, m, budget)
		} else {
			next = w.runFlow(in, m, budget)
		}
		switch next {
		case enterAnew:
			return false
		case endTurn:
			return true
		}
		from = f.pc
	}
}
