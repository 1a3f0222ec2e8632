// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Atomic operations on elements of 32 bits. They are executed lane by lane in ascending order, as the interpreter does:
// several lanes may mean the same element. Only the block's own core sees shared memory; in global memory, an element is
// exchanged by a locked instruction, and again if another core was quicker.

// Rows of State.Save in which an atomic operation keeps its lanes' operands and results. They are the rows of temporary
// vector registers, which an exit does not save.
const (
	rowIndex  = 2 * iota // numbers of elements
	rowFirst             // the operand
	rowSecond            // of cas: the new value
	rowOld               // results
	rowBase              // the address of the memory
)

// atomic is an atomic operation. update computes the new value in R12, which has the old value before.
type atomic struct {
	where  space
	result bool
	update func(a *amd64.Assembler, first, second amd64.Mem)
}

func saveRow(n int32) amd64.Mem { return amd64.At(regState, atSave+n*partBytes) }

// laneOf is the element of the lane in RCX, of 32 elements from row n on.
func laneOf(n int32) amd64.Mem {
	return amd64.Mem{Base: regState, Index: amd64.RCX, Scale: 4, Disp: atSave + n*partBytes}
}

func (e *emitter) emitAtomic(in *Inst, x atomic) {
	a := e.a
	if e.merges {
		e.runningLanes(amd64.RAX, in.Guard)
		a.MaskFrom(maskGuard, amd64.RAX)
	}
	class, parts := Long, 4
	if x.where != global {
		class, parts = Word, 2
	}
	var from []amd64.Source
	for q := range parts {
		from = append(from, e.partSource(operandPart{class, in.A, q}))
	}
	bail, exit := e.newBail()
	if x.where == global {
		e.indexGlobal(in, 2, from, bail)
	} else {
		e.indexWindow(in, x.where, 2, from, bail)
	}
	a.Store64(saveRow(rowBase), amd64.RAX)
	a.Store(amd64.VMOVDQU32Store, saveRow(rowIndex), 0, amd64.Options{})
	a.Store(amd64.VMOVDQU32Store, saveRow(rowIndex+1), 2, amd64.Options{})
	for i, r := range append([]Ref{in.C}, in.List...) {
		for p := range 2 {
			a.Store(amd64.VMOVDQU32Store, saveRow(int32(rowFirst+2*i+p)), e.wordIn(r, p, 4), amd64.Options{})
		}
	}
	e.emitLanesInTurn(in, x)
	if x.result {
		if e.guarded {
			// As commitResult expects it: the lanes that keep their old result.
			e.runningLanes(amd64.RAX, in.Guard)
			a.Not32(amd64.RAX)
			a.MaskFrom(maskGuard, amd64.RAX)
		}
		for p := range 2 {
			v := e.newResult()
			e.emitOp2(amd64.VMOVDQU32, v, amd64.Memory(saveRow(int32(rowOld+p))))
			e.commitResult(operandPart{Word, in.D, p}, v)
		}
	}
	e.resumeAfter(exit)
}

// emitLanesInTurn executes an atomic operation for the lanes that take part, the lowest first.
func (e *emitter) emitLanesInTurn(in *Inst, x atomic) {
	a, next, end := e.a, e.a.NewLabel(), e.a.NewLabel()
	e.runningLanes(amd64.RDX, in.Guard)
	a.Test32(amd64.RDX, amd64.RDX)
	a.JumpIf(amd64.Equal, end)
	a.StoreConst8(amd64.At(regState, atSpinning), 1)
	a.Bind(next)
	a.TrailingZeros32(amd64.RCX, amd64.RDX)
	a.Load32(amd64.R12, laneOf(rowIndex))
	a.Load64(amd64.R15, saveRow(rowBase))
	a.Address(amd64.R15, amd64.Mem{Base: amd64.R15, Index: amd64.R12, Scale: 4})
	a.Load32(amd64.RAX, amd64.At(amd64.R15, 0))
	again := a.NewLabel()
	a.Bind(again)
	a.Move32(amd64.R12, amd64.RAX)
	x.update(a, laneOf(rowFirst), laneOf(rowSecond))
	if x.where == global {
		a.CompareExchange32(amd64.At(amd64.R15, 0), amd64.R12)
		a.JumpIf(amd64.NotEqual, again)
	} else {
		a.Store32(amd64.At(amd64.R15, 0), amd64.R12)
	}
	if x.result {
		a.Store32(laneOf(rowOld), amd64.RAX)
	}
	a.DropLowest32(amd64.RDX, amd64.RDX)
	a.Test32(amd64.RDX, amd64.RDX)
	a.JumpIf(amd64.NotEqual, next)
	a.Bind(end)
}

func init() {
	type update = func(a *amd64.Assembler, first, second amd64.Mem)
	withOperand := func(op func(a *amd64.Assembler, d amd64.Reg, m amd64.Mem)) update {
		return func(a *amd64.Assembler, first, _ amd64.Mem) { op(a, amd64.R12, first) }
	}
	// replaceIf stores the operand where the element compares with the operand as c says.
	replaceIf := func(c amd64.Cond) update {
		return func(a *amd64.Assembler, first, _ amd64.Mem) {
			a.CompareRegMemory32(amd64.R12, first)
			a.MoveMemoryIf32(c, amd64.R12, first)
		}
	}
	updates := map[string]update{
		"add":     withOperand((*amd64.Assembler).AddFromMemory32),
		"and":     withOperand((*amd64.Assembler).AndMemory32),
		"or":      withOperand((*amd64.Assembler).OrMemory32),
		"xor":     withOperand((*amd64.Assembler).XorMemory32),
		"exch":    withOperand((*amd64.Assembler).Load32),
		"min.u32": replaceIf(amd64.AboveOrEqual),
		"max.u32": replaceIf(amd64.Below),
		"min.s32": replaceIf(amd64.GreaterOrEqual),
		"max.s32": replaceIf(amd64.Less),
		"cas": func(a *amd64.Assembler, first, second amd64.Mem) {
			a.CompareRegMemory32(amd64.R12, first)
			a.MoveMemoryIf32(amd64.Equal, amd64.R12, second)
		},
	}
	for space, where := range map[string]space{"global": global, "shared": shared} {
		for name, f := range updates {
			for kind, result := range map[string]bool{"atom": true, "red": false} {
				x := atomic{where, result, f}
				operations[kind+"."+space+"."+name] = operation{
					ownMask: true, fits: accessFits, emit: func(e *emitter, in *Inst) { e.emitAtomic(in, x) },
				}
			}
		}
	}
}
