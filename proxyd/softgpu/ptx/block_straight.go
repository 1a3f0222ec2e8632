// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"

// Most kernels are machine code from their beginning to their end, and the blocks of a launch are alike. If the warps of
// a block have run straight, those of the next block probably do as well: runStraight starts and runs one warp after the
// other, and looks at nothing that a straight warp cannot have changed.

// noteStraight notes whether all warps of a block that is done have run straight.
func (b *block) noteStraight() {
	b.straight = true
	for _, w := range b.warps {
		b.straight = b.straight && w.straight
	}
}

// runStraight runs the block with the given index, behind a block of the same launch of which all warps have run
// straight, until one of the warps does not run straight. runStraight reports whether there was none: then the block is
// done. If there was one, this warp and those behind it go on by runTurn.
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
