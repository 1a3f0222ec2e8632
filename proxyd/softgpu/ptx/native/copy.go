// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Rows of State.Save in which a copy keeps the places that it writes, and the address from which it reads.
const (
	rowTarget = 2 * iota // numbers of elements
	rowSource
	rowFrom // numbers of elements
)

// emitCopy emits a copy of n words for each lane from global to shared memory, as cp.async makes it. List has the address in
// shared memory, to which C is added.
func (e *emitter) emitCopy(in *Inst, n uint8) {
	a := e.a
	load := accessRoutine{size: 4, count: n}
	store := accessRoutine{where: shared, size: 4, count: n, store: true}
	shift := logTwo(4 * int(n))
	if e.merges {
		e.runningLanes(amd64.RAX, in.Guard)
		a.MaskFrom(maskGuard, amd64.RAX)
	}
	var from, to []amd64.Source
	for q := range 4 {
		from = append(from, e.partSource(operandPart{Long, in.A, q}))
	}
	for p := range 2 {
		to = append(to, e.partSource(operandPart{Word, in.List[0], p}))
	}
	bail, exit := e.newBail()
	target := *in
	target.Imm = uint64(in.C)
	e.indexWindow(&target, shared, shift, to, bail)
	a.Store(amd64.VMOVDQU32Store, saveRow(rowTarget), 0, amd64.Options{})
	a.Store(amd64.VMOVDQU32Store, saveRow(rowTarget+1), 2, amd64.Options{})
	e.indexGlobal(in, shift, from, bail)
	a.Store64(saveRow(rowSource), amd64.RAX)
	if e.merges {
		copyLanes(e, in, n, shift)
		e.resumeAfter(exit)
		return
	}
	for half := range 2 {
		if half == 1 {
			e.emitOp2(amd64.VMOVDQU32, 0, amd64.Register(2))
			a.Load64(amd64.RAX, saveRow(rowSource))
		}
		a.Call(e.helperLabel(load))
		e.emitOp2(amd64.VMOVDQU32, 0, amd64.Memory(saveRow(int32(rowTarget+half))))
		a.Load64(amd64.RAX, amd64.At(regState, atShared))
		a.Call(e.helperLabel(store))
	}
	e.resumeAfter(exit)
}

// copyLanes copies lane by lane, in ascending order: the lanes that take part are often few, and a scatter takes longer.
// V0 and V2 are the numbers of the elements that are read.
func copyLanes(e *emitter, in *Inst, n, shift uint8) {
	a, next, end := e.a, e.a.NewLabel(), e.a.NewLabel()
	a.Store(amd64.VMOVDQU32Store, saveRow(rowFrom), 0, amd64.Options{})
	a.Store(amd64.VMOVDQU32Store, saveRow(rowFrom+1), 2, amd64.Options{})
	e.runningLanes(amd64.RDX, in.Guard)
	a.Test32(amd64.RDX, amd64.RDX)
	a.JumpIf(amd64.Equal, end)
	a.Bind(next)
	a.TrailingZeros32(amd64.RCX, amd64.RDX)
	a.Load32(amd64.R12, laneOf(rowFrom))
	a.ShiftLeft64(amd64.R12, shift)
	a.Load64(amd64.R15, saveRow(rowSource))
	a.Add64(amd64.R15, amd64.R12)
	a.Load32(amd64.R12, laneOf(rowTarget))
	a.ShiftLeft64(amd64.R12, shift)
	a.Load64(amd64.RAX, amd64.At(regState, atShared))
	a.Add64(amd64.R12, amd64.RAX)
	if n == 1 {
		a.Load32(amd64.RAX, amd64.At(amd64.R15, 0))
		a.Store32(amd64.At(amd64.R12, 0), amd64.RAX)
	}
	for at := int32(0); at < int32(n/2)*8; at += 8 {
		a.Load64(amd64.RAX, amd64.At(amd64.R15, at))
		a.Store64(amd64.At(amd64.R12, at), amd64.RAX)
	}
	a.DropLowest32(amd64.RDX, amd64.RDX)
	a.Test32(amd64.RDX, amd64.RDX)
	a.JumpIf(amd64.NotEqual, next)
	a.Bind(end)
}

func init() {
	for _, n := range []uint8{1, 2, 4} {
		operations["cp.async."+string('0'+rune(n))] = operation{
			ownMask: true, fits: accessFits, emit: func(e *emitter, in *Inst) { e.emitCopy(in, n) },
		}
	}
}
