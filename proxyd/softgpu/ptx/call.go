// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "math/bits"

// frame is an activation of a function. A frame does not change, so that all fragments which came
// from its caller together can share it.
type frame struct {
	parent   *frame
	code     *code
	site     *inst // the call, in the parent
	retPC    int32
	depth    int32
	base32   int // first register of each file
	base64   int
	basePred int
	local    uint32 // first byte of local memory
}

// maxDepth bounds recursion; local memory usually ends recursion before.
const maxDepth = 1 << 14

// runCall executes a call, direct or not. Lanes with different callees part, and meet
// behind the call.
func (w *warp) runCall(in *inst) {
	f, site := w.cur, in.ext.call
	if site.builtin != nil {
		site.builtin(w, in, f.mask)
		f.pc++
		return
	}
	target := site.code
	if target == nil {
		addrs := w.u64(in.a)
		first := bits.TrailingZeros32(f.mask)
		same := uint32(0)
		for m := f.mask; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; addrs[i] == addrs[first] {
				same |= 1 << i
			}
		}
		if same != f.mask {
			// The other lanes come back to this call.
			w.splitFragment(in, f.mask&^same, f.pc)
		}
		target = w.block.run.kernel.byAddress[addrs[first]]
		if target == nil {
			w.raiseFault(IllegalInstruction, in, first, addrs[first], "indirect call to an address that is no function")
		}
		if len(site.args) != len(target.formals) || len(site.rets) > len(target.rets) {
			w.raiseFault(IllegalInstruction, in, first, addrs[first], "indirect call of "+target.fn.Name+" with the wrong number of parameters")
		}
	}
	old := f.frame
	c := old.code
	top := &frame{
		parent: old, code: target, site: in, retPC: f.pc + 1, depth: old.depth + 1,
		base32: old.base32 + c.n32, base64: old.base64 + c.n64, basePred: old.basePred + c.np,
		local: (max(old.local+c.local, w.local.HighestEnd(f.mask)) + 15) &^ 15,
	}
	if top.depth > maxDepth || uint64(top.local)+uint64(target.local) > uint64(w.local.Size) {
		w.raiseFault(StackOverflow, in, bits.TrailingZeros32(f.mask), 0, "call of "+target.fn.Name)
	}
	for i, a := range site.args {
		w.copyParameter(f.mask, old, a, top, target.formals[i], true)
	}
	f.frame, f.pc = top, 0
	w.enterFrame(top, target)
	w.preds[w.basePred] &^= f.mask
}

// runReturn ends a function: the lanes go on behind the call.
func (w *warp) runReturn() {
	f := w.cur
	top := f.frame
	site := top.site.ext.call
	w.local.RestoreTop(f.mask, top.local)
	w.enterFrame(top.parent, top.parent.code)
	for i, a := range site.rets {
		w.copyParameter(f.mask, top.parent, a, top, top.code.rets[i], false)
	}
	f.frame, f.pc = top.parent, top.retPC
}

// copyParameter copies a parameter between caller and callee: in says in which direction.
func (w *warp) copyParameter(m uint32, caller *frame, actual argument, callee *frame, formal argument, in bool) {
	from, to, ff, tf := actual, formal, caller, callee
	if !in {
		from, to, ff, tf = formal, actual, callee, caller
	}
	size := min(actual.size, formal.size)
	var values [warpSize]uint64
	w.enterFrame(ff, ff.code)
	for left := m; left != 0; left &= left - 1 {
		switch i := lowestLane(left); {
		case from.inMemory && to.inMemory:
			copy(w.local.LaneBytes(i, tf.local+to.offset, size), w.local.LaneBytes(i, ff.local+from.offset, size))
		case from.inMemory:
			values[i] = readBytes(w.local.LaneBytes(i, ff.local+from.offset, min(size, 8)))
		default:
			values[i] = w.readLane(useOperand(from.class), from.ref, i)
		}
	}
	w.enterFrame(tf, tf.code)
	for left := m; left != 0; left &= left - 1 {
		switch i := lowestLane(left); {
		case from.inMemory && to.inMemory:
		case to.inMemory:
			writeBytes(w.local.LaneBytes(i, tf.local+to.offset, min(size, 8)), values[i])
		default:
			w.setLane(defOperand(to.class), to.ref, i, values[i])
		}
	}
	w.enterFrame(caller, caller.code)
}

func readBytes(b []byte) (v uint64) {
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func writeBytes(b []byte, v uint64) {
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

// runIndexedBranch executes brx.idx: lanes with the same index stay together.
func (w *warp) runIndexedBranch(in *inst) {
	f := w.cur
	idx := w.u32(in.a)
	for left := f.mask; left != 0; {
		i := bits.TrailingZeros32(left)
		if int64(idx[i]) >= int64(len(in.ext.targets)) {
			w.raiseFault(IllegalInstruction, in, i, 0, "brx.idx: index beyond the list of labels")
		}
		same := uint32(0)
		for m := left; m != 0; m &= m - 1 {
			k := bits.TrailingZeros32(m) & 31
			if idx[k] == idx[i] {
				same |= 1 << k
			}
		}
		left &^= same
		target := in.ext.targets[idx[i]]
		if left == 0 {
			f.pc = target
			return
		}
		w.splitFragment(in, same, target)
	}
}

// flowStep is how the warp goes on after an instruction that decides which instruction is next, and in which lanes.
type flowStep int

const (
	goOn      flowStep = iota // the current fragment goes on
	enterAnew                 // the current fragment is another now, or must be entered anew
	endTurn                   // the warp's turn is over
)

// runFlow executes an instruction, other than a branch, that decides which instruction of the current fragment is next, in the
// lanes of m.
func (w *warp) runFlow(in *inst, m uint32, budget *int) flowStep {
	f := w.cur
	switch in.flow {
	case flowIndex:
		*budget--
		w.runIndexedBranch(in)
		return stepAfterJump(budget)
	case flowJoin:
		if f.join == nil || f.join.pc != f.pc || f.join.frame != f.frame {
			f.pc++
		} else if !w.parkAtJoin() {
			return enterAnew
		}
	case flowCall:
		*budget--
		w.runCall(in)
		return stepAfterJump(budget)
	case flowReturn:
		w.runReturn()
		return enterAnew
	case flowExit:
		f.pc++
		if m != 0 {
			w.exitLanes(m)
			if w.cur == nil {
				return enterAnew
			}
		}
	case flowBarrier:
		// A warp that opens a barrier lets the other warps go first: in ascending order again.
		if w.runBarrier(in) {
			return endTurn
		}
		return enterAnew
	case flowSync:
		if !w.runSync(in) {
			return enterAnew
		}
	case flowYield:
		f.pc++
		w.waitingLoops = spinTurn + 1
		return endTurn
	}
	return goOn
}

// stepAfterJump returns the step after an instruction that requires to enter the current fragment anew.
func stepAfterJump(budget *int) flowStep {
	if *budget <= 0 {
		return endTurn
	}
	return enterAnew
}

// runBranch executes a flowBranch in the lanes of m. The warp's turn ends where it goes back and has used up its budget, or
// waits for other warps.
func (w *warp) runBranch(in *inst, m uint32, budget *int) flowStep {
	f := w.cur
	*budget--
	back := in.target <= f.pc
	switch m {
	case 0:
		f.pc++
	case f.mask:
		f.pc = in.target
	default:
		w.splitFragment(in, m, in.target)
		f.pc++
	}
	if !back || m == 0 {
		return goOn
	}
	if w.spinning {
		w.spinning = false
		w.waitingLoops++
	}
	if *budget <= 0 || w.waitingLoops > spinTurn {
		return endTurn
	}
	return goOn
}
