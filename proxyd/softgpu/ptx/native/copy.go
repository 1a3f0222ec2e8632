// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Rows of State.Save in which a copy keeps where it writes, and the address from which it reads.
const (
	rowTarget = 2 * iota // numbers of elements
	rowSource
)

// emitCopy emits a copy of n words for each lane from global to shared memory, as cp.async makes it. List has the address in
// shared memory, to which C is added.
func (e *emitter) emitCopy(in *Inst, n uint8) {
	a := e.a
	load := helper{size: 4, count: n, masked: e.merges}
	store := helper{where: shared, size: 4, count: n, masked: e.merges, store: true}
	shift := logTwo(4 * int(n))
	if e.merges {
		e.runningLanes(amd64.RAX, in.Guard)
		a.MaskFrom(maskGuard, amd64.RAX)
	}
	var from, to []amd64.Source
	for q := range 4 {
		from = append(from, e.partSource(place{Long, in.A, q}))
	}
	for p := range 2 {
		to = append(to, e.partSource(place{Word, in.List[0], p}))
	}
	bail, exit := e.newBail()
	target := *in
	target.Imm = uint64(in.C)
	e.indexWindow(&target, shared, shift, to, bail)
	a.Store(amd64.VMOVDQU32Store, saveRow(rowTarget), 0, amd64.Options{})
	a.Store(amd64.VMOVDQU32Store, saveRow(rowTarget+1), 2, amd64.Options{})
	e.indexGlobal(in, shift, from, bail)
	a.Store64(saveRow(rowSource), amd64.RAX)
	for half := range 2 {
		if half == 1 {
			e.emitOp2(amd64.VMOVDQU32, 0, amd64.Register(2))
			a.Load64(amd64.RAX, saveRow(rowSource))
		}
		if e.merges {
			a.MaskShift(maskTmp, maskGuard, uint8(16*half))
		}
		a.Call(e.helperLabel(load))
		e.emitOp2(amd64.VMOVDQU32, 0, amd64.Memory(saveRow(int32(rowTarget+half))))
		a.Load64(amd64.RAX, amd64.At(regState, atShared))
		a.Call(e.helperLabel(store))
	}
	e.resumeAfter(exit)
}

func init() {
	for _, n := range []uint8{1, 2, 4} {
		operations["cp.async."+string('0'+rune(n))] = operation{
			ownMask: true, fits: accessFits, emit: func(e *emitter, in *Inst) { e.emitCopy(in, n) },
		}
	}
}
