// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Lanes that part at a branch stay in the code if they meet again at a Join. The code follows the interpreter's order
// of fragments: the lanes that do not jump go on, and those that jump wait in a Split until the others have come to the
// Join; then they run until they come there. With the last of them all lanes go on. Each arrival counts as an
// instruction.
//
// State.Splits is a stack. At an exit the caller makes fragments and joins of its entries. Each Split holds lanes that
// wait at its branch or at its Join, and no lane is in two, so that there are never more Splits than lanes.

// Split is a part of the lanes that have parted.
type Split struct {
	code    uintptr // where the lanes that wait go on
	Union   uint32  // lanes that ran before the branch
	Pending uint32  // lanes that wait at the branch; 0: these run, and the rest of Union waits at the Join
	PC      int32   // where they go on
	Join    int32   // where all lanes of Union meet
	outer   int32   // State.Meet before
	Same    bool    // the Split below has the same Join
	Moved   bool    // the lanes that run have taken the place of lanes that waited above this Split
}

// MaxSplits is the number of Splits that State has room for. The first is no Split: only its Moved is used.
const MaxSplits = 33

// splitAt is a field of the Split with the offset that is in RCX, or of one below.
func splitAt(field, below int32) amd64.Mem {
	return amd64.Mem{Base: regState, Index: amd64.RCX, Scale: 1, Disp: atSplits + field - below*splitBytes}
}

// emitBranch emits a branch. Where the warp's turn ends, the branch is left to the interpreter.
func (e *emitter) emitBranch(in *Inst) {
	a, leave, stays := e.a, e.leaveLater(), e.a.NewLabel()
	if in.Guard != 0 {
		e.flagTo(amd64.RAX, in.Guard)
		if e.masked {
			a.AndMemory32(amd64.RAX, amd64.At(regState, atMask))
		}
		a.Test32(amd64.RAX, amd64.RAX)
		a.JumpIf(amd64.Equal, stays)
	}
	if in.Target <= e.pos {
		a.CompareMemory64(amd64.At(regState, atBudget), 1)
		a.JumpIf(amd64.LessOrEqual, leave)
		a.CompareMemory8(amd64.At(regState, atSpinning), 0)
		a.JumpIf(amd64.NotEqual, leave)
	}
	if in.Guard != 0 {
		if e.masked {
			a.CompareRegMemory32(amd64.RAX, amd64.At(regState, atMask))
		} else {
			a.Compare32(amd64.RAX, -1)
		}
		a.JumpIf(amd64.NotEqual, e.splitLater(in, leave))
	}
	e.countBranch()
	a.Jump(e.startOf(in.Target, e.masked))
	a.Bind(stays)
	if in.Guard != 0 {
		e.countBranch()
	}
}

func (e *emitter) countBranch() {
	e.a.AddMemory64(amd64.At(regState, atBudget), -1)
	e.countInsts(e.pos-e.start+1, 1)
}

// emitSideExit emits a forward branch of a full warp. If no lane jumps, the code goes on with its slots.
func (e *emitter) emitSideExit(in *Inst) {
	a, jumps, counted, slots := e.a, e.a.NewLabel(), e.pos-e.start+1, e.slots
	e.flagTo(amd64.RAX, in.Guard)
	a.Test32(amd64.RAX, amd64.RAX)
	a.JumpIf(amd64.NotEqual, jumps)
	e.countBranch()
	var dirty []int
	for i := range slots {
		if s := &slots[i]; s.full && s.dirty && !e.isDead(s.at, e.pos) {
			dirty = append(dirty, i)
		}
	}
	e.slots = [len(slots)]slot{} // where lanes jump, all slots are in memory
	split := e.splitLater(in, e.leaveLater())
	e.slots = slots
	e.cold = append(e.cold, func() {
		a.Bind(jumps)
		for _, i := range dirty {
			a.Store(amd64.VMOVDQU32Store, e.memoryOf(slots[i].at), slotVec(i), amd64.Options{})
		}
		a.Compare32(amd64.RAX, -1)
		a.JumpIf(amd64.NotEqual, split)
		a.AddMemory64(amd64.At(regState, atBudget), -1)
		e.countInsts(counted, 1)
		a.Jump(e.startOf(in.Target, false))
	})
}

// splitLater returns a label at which the lanes in RAX part from the others at the present branch.
func (e *emitter) splitLater(in *Inst, leave amd64.Label) amd64.Label {
	if in.Meet < 0 {
		return leave
	}
	l, pos, counted := e.a.NewLabel(), e.pos, e.pos-e.start+1
	e.cold = append(e.cold, func() {
		a := e.a
		put := func(field int32, from amd64.Reg) { a.Store32(splitAt(field, 0), from) }
		a.Bind(l)
		a.Load32(amd64.RCX, amd64.At(regState, atDepth))
		a.Load32(amd64.R12, amd64.At(regState, atMeet))
		a.Const32(amd64.RDX, 0)
		a.CompareMemory32(amd64.At(regState, atMeet), uint32(in.Meet))
		known := a.NewLabel()
		a.JumpIf(amd64.NotEqual, known)
		// The caller knows the join of the lowest Split, and this one would have the same.
		a.Test32(amd64.RCX, amd64.RCX)
		a.JumpIf(amd64.Equal, leave)
		a.Const32(amd64.RDX, 1)
		a.Bind(known)
		a.Const32(amd64.R15, uint32(splitBytes))
		a.Add64(amd64.RCX, amd64.R15)
		a.Store32(amd64.At(regState, atDepth), amd64.RCX)
		put(atOuter, amd64.R12)
		put(atSame, amd64.RDX) // and Moved
		put(atPending, amd64.RAX)
		a.Load32(amd64.RDX, amd64.At(regState, atMask))
		put(atUnion, amd64.RDX)
		a.StoreConst32(splitAt(atSplitPC, 0), uint32(in.Target))
		a.StoreConst32(splitAt(atSplitJoin, 0), uint32(in.Meet))
		a.AddressOf(amd64.R12, e.startOf(in.Target, true))
		a.Store64(splitAt(atSplitCode, 0), amd64.R12)
		a.StoreConst32(amd64.At(regState, atMeet), uint32(in.Meet))
		a.Xor32(amd64.RAX, amd64.RDX)
		a.Store32(amd64.At(regState, atMask), amd64.RAX)
		e.setIdleMasks()
		a.AddMemory64(amd64.At(regState, atBudget), -1)
		e.countInsts(counted, 1)
		a.Jump(e.startOf(pos+1, true))
	})
	return l
}

// emitJoin emits a meeting point.
func (e *emitter) emitJoin() {
	leave, arrives := e.leaveLater(), e.a.NewLabel()
	e.a.CompareMemory32(amd64.At(regState, atMeet), uint32(e.pos))
	e.a.JumpIf(amd64.Equal, arrives)
	e.countInsts(e.pos-e.start+1, 1)
	full, masked := e.startOf(e.pos, false), e.startOf(e.pos, true)
	e.cold = append(e.cold, func() {
		e.a.Bind(arrives)
		e.a.Load32(amd64.RCX, amd64.At(regState, atDepth))
		e.a.Test32(amd64.RCX, amd64.RCX)
		e.a.JumpIf(amd64.Equal, leave)
		e.a.AddressOf(amd64.R12, full)
		e.a.AddressOf(amd64.R15, masked)
		e.a.Jump(e.arrive)
	})
}

// emitArrival emits the code for when the lanes that run have come to the Join of the highest Split, of which RCX has
// the offset. R12 is where the code goes on if all lanes of the warp run then, R15 if fewer.
func (e *emitter) emitArrival() {
	a, merge, first := e.a, e.a.NewLabel(), e.a.NewLabel()
	e.arrive = a.NewLabel()
	a.Bind(e.arrive)
	e.countInsts(1, 1)
	a.Load32(amd64.RAX, splitAt(atPending, 0))
	a.Test32(amd64.RAX, amd64.RAX)
	a.JumpIf(amd64.Equal, merge)
	// The lanes that wait are next.
	a.StoreConst8(splitAt(atMoved, 1), 1)
	a.Load64(amd64.R15, splitAt(atSplitCode, 0))
	a.StoreConst32(splitAt(atPending, 0), 0)
	a.Store32(amd64.At(regState, atMask), amd64.RAX)
	e.setIdleMasks()
	a.CompareMemory8(splitAt(atSame, 0), 0)
	a.JumpIf(amd64.Equal, first)
	a.Const32(amd64.RDX, uint32(splitBytes))
	a.Sub64(amd64.RCX, amd64.RDX)
	a.Store32(amd64.At(regState, atDepth), amd64.RCX)
	a.Bind(first)
	a.JumpTo(amd64.R15)
	// All lanes are here.
	a.Bind(merge)
	a.Load32(amd64.RDX, splitAt(atOuter, 0))
	a.Store32(amd64.At(regState, atMeet), amd64.RDX)
	a.Load32(amd64.RAX, splitAt(atUnion, 0))
	a.Store32(amd64.At(regState, atMask), amd64.RAX)
	a.Const32(amd64.RDX, uint32(splitBytes))
	a.Sub64(amd64.RCX, amd64.RDX)
	a.Store32(amd64.At(regState, atDepth), amd64.RCX)
	a.Compare32(amd64.RAX, -1)
	some := a.NewLabel()
	a.JumpIf(amd64.NotEqual, some)
	a.JumpTo(amd64.R12)
	a.Bind(some)
	e.setIdleMasks()
	a.JumpTo(amd64.R15)
	a.Align(16)
}
