// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// Loops over tiles in shared memory load many words by the same address register and constant offsets: a row of a tile, or a
// single element for all lanes. Whether the lanes' addresses follow each other, or are the same, and whether all of these words
// are within the memory, is found out once, at the first of the loads, for each half of the warp: tiles are often 16 wide. The
// result is a window: addresses in the memory of this process, from which the loads are made.

// windows is the number of windows that are open at a time.
const windows = 8

// Fields of State.Windows: addresses for the two halves of the warp. The first of a pair is 0 if its loads are not of
// that kind.
const (
	windowFollowing = 0  // the words of lanes follow each other
	windowSame      = 16 // all lanes load the same word
	windowBytes     = 32
)

// window is loads of words of shared memory by a register, from instruction from to instruction to.
type window struct {
	base        Ref
	from, to    int32
	first, last int32 // the lowest and the highest of their offsets
}

// minLoads is the number of loads from which on a window pays.
const minLoads = 3

// windowOffset is the offset of a load that may be made by a window.
func windowOffset(in *Inst) (int32, bool) {
	off := int32(uint32(in.Imm))
	ok := in.Key == "ld.shared.4" && in.Guard == 0 && !in.A.IsConst() && off%4 == 0 && off > -1<<24 && off < 1<<24
	return off, ok && accessFits(in)
}

// openWindow returns the number of the window by which the present load is made, or -1. A window is opened if the
// window saves more than the opening costs.
func openWindow(e *emitter, in *Inst) int {
	if _, ok := windowOffset(in); !ok || e.merges {
		return -1
	}
	free := -1
	for i := range e.windows {
		switch w := &e.windows[i]; {
		case w.from <= e.pos && e.pos <= w.to && w.base == in.A:
			return i
		case e.pos > w.to:
			free = i
		}
	}
	if free < 0 {
		return -1
	}
	w := window{base: in.A, from: e.pos, first: math.MaxInt32, last: math.MinInt32}
	loads := 0
	for i := e.pos; i < e.blocks[e.block].to; i++ {
		in := &e.insts[i]
		if in.Flow != Next || !e.canCompile(in) {
			break // code may be entered behind that
		}
		if off, ok := windowOffset(in); ok && in.A == w.base {
			loads++
			w.to, w.first, w.last = i, min(w.first, off), max(w.last, off)
		}
		if writesWord(in, w.base) {
			break
		}
	}
	if loads < minLoads {
		return -1
	}
	e.windows[free] = w
	measureWindow(e, free)
	return free
}

func writesWord(in *Inst, r Ref) bool {
	for _, a := range in.Accesses {
		if a.Write && a.Class == Word && a.Ref == r {
			return true
		}
	}
	return false
}

// closeWindows forgets the windows before a block.
func closeWindows(e *emitter) {
	for i := range e.windows {
		e.windows[i] = window{to: -1}
	}
}

func windowAt(n int, field int32) amd64.Mem {
	return amd64.At(regState, atWindows+int32(n)*windowBytes+field)
}

// measureWindow emits the code that computes a window's addresses.
func measureWindow(e *emitter, n int) {
	a, w, scattered, done := e.a, e.windows[n], e.a.NewLabel(), e.a.NewLabel()
	from := [2]amd64.Source{e.wordPart(w.base, 0), e.wordPart(w.base, 1)}
	starts := [2]amd64.Reg{amd64.RCX, amd64.RDX}
	// V4 and V5 are each half's first address, V6 how lanes' addresses differ from the wanted ones.
	compare := func(want func(half int) amd64.Vec) {
		for half := range from {
			v := want(half)
			if half == 0 {
				a.Op3(amd64.VPXORD, 6, v, from[half], amd64.Options{})
				continue
			}
			a.Op3Imm(amd64.VPTERNLOGD, 6, v, from[half], 0xf6, amd64.Options{}) // V6 | v ^ from
		}
		a.TestLanes(amd64.VPTESTMD, maskTmp, 6, amd64.Register(6), amd64.Options{})
		a.TestMasks16(maskTmp, maskTmp)
	}
	store := func(field, length int32) {
		checkWindow(e, w, starts[:], length, done)
		for half, r := range starts {
			a.Add64(r, amd64.RAX)
			a.Store64(windowAt(n, field+8*int32(half)), r)
		}
	}
	a.Const32(amd64.RAX, 0)
	a.Store64(windowAt(n, windowFollowing), amd64.RAX)
	a.Store64(windowAt(n, windowSame), amd64.RAX)
	for half, r := range starts {
		a.Op2(amd64.VPBROADCASTD, amd64.Vec(4+half), from[half], amd64.Options{})
		a.MoveLow32(r, amd64.Vec(4+half))
	}
	compare(func(half int) amd64.Vec {
		a.Op3(amd64.VPADDD, 7, amd64.Vec(4+half), e.tableSource(tableWordSteps+2*int(logTwo(4))), amd64.Options{})
		return 7
	})
	a.JumpIf(amd64.NotEqual, scattered)
	store(windowFollowing, partBytes)
	a.Jump(done)
	a.Bind(scattered)
	compare(func(half int) amd64.Vec { return amd64.Vec(4 + half) })
	a.JumpIf(amd64.NotEqual, done)
	store(windowSame, 4)
	a.Bind(done)
}

// checkWindow goes to no unless all loads of a window are aligned and within the memory; RAX has the memory's address then. Each
// load is of length bytes from its offset on.
func checkWindow(e *emitter, w window, starts []amd64.Reg, length int32, no amd64.Label) {
	a := e.a
	a.Load64(amd64.RAX, amd64.At(regState, atShared))
	a.Load32(amd64.R15, amd64.At(regState, atSharedSize))
	for _, r := range starts {
		a.Const32(amd64.R12, 3)
		a.And32(amd64.R12, r)
		a.JumpIf(amd64.NotEqual, no)
		for _, off := range [2]int32{w.first, w.last + length} {
			a.Address(amd64.R12, amd64.At(r, off)) // if negative, above all sizes
			a.CompareRegs64(amd64.R15, amd64.R12)
			a.JumpIf(amd64.Below, no)
		}
	}
}

// loadByWindow emits a load that is made by a window. Where the window has no addresses, the load is made as if there was
// no window.
func loadByWindow(e *emitter, in *Inst, n int) {
	a := e.a
	off, _ := windowOffset(in)
	s := &fullWarpAccess{accessRoutine: accessRoutine{where: shared, size: 4, count: 1}, in: in, list: []operandPart{{Word, in.D, 0}, {Word, in.D, 1}}}
	for half := range 2 {
		s.from = append(s.from, e.presentSource(operandPart{Word, in.A, half}))
		s.regs = append(s.regs, e.newResult())
	}
	bail, x := e.newBail()
	s.bail = bail
	scattered, other, done := a.NewLabel(), a.NewLabel(), a.NewLabel()
	load := func(field int32, o amd64.Op) {
		a.Load64(amd64.RAX, windowAt(n, field))
		a.Load64(amd64.RCX, windowAt(n, field+8))
		a.Op2(o, s.regs[0], amd64.Memory(amd64.At(amd64.RAX, off)), amd64.Options{})
		a.Op2(o, s.regs[1], amd64.Memory(amd64.At(amd64.RCX, off)), amd64.Options{})
	}
	a.CompareMemory64(windowAt(n, windowFollowing), 0)
	a.JumpIf(amd64.Equal, scattered)
	load(windowFollowing, amd64.VMOVDQU32)
	a.Jump(done)
	a.Bind(scattered)
	a.CompareMemory64(windowAt(n, windowSame), 0)
	a.JumpIf(amd64.Equal, other)
	load(windowSame, amd64.VPBROADCASTD)
	a.Bind(done)
	e.cold = append(e.cold, func() {
		a.Bind(other)
		e.merges, e.guarded = false, false
		e.emitOther(s)
		a.Jump(done)
	})
	for i, p := range s.list {
		e.fillSlot(p, s.regs[i])
	}
	e.resumeAfter(x)
}

// presentSource is the present location of a place: its slot, or memory.
func (e *cache) presentSource(p operandPart) amd64.Source {
	if i := e.findSlot(p); i >= 0 {
		e.slots[i].pinned = true
		return amd64.Register(slotVec(i))
	}
	return amd64.Memory(e.memoryOf(p))
}
