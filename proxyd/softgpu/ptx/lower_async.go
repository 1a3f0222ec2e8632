// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// cp.async may copy at any time between its issue and the wait: here cp.async copies at once, so that commit and wait
// have no effect.

func lowerCp(l *lowerer) {
	if !l.hasModifier("async") {
		l.failSyntax("no such form")
	}
	switch {
	case l.hasModifier("mbarrier"):
		lowerCopyArrival(l)
		return
	case l.hasModifier("bulk"):
		lowerBulk(l)
		return
	case l.hasModifier("commit_group"), l.hasModifier("wait_all"):
		l.checkArgs(0)
		return
	case l.hasModifier("wait_group"):
		l.checkArgs(1)
		return
	}
	args := l.in.Args
	if len(args) > 3 && l.hasModifier("L2::cache_hint") {
		args = args[:len(args)-1]
	}
	if len(args) < 3 || len(args) > 5 || args[2].Kind != syntax.ArgInt {
		l.failSyntax("%d operands", len(l.in.Args))
	}
	size := args[2].Num
	if size != 4 && size != 8 && size != 16 {
		l.failSyntax("the size is none of 4, 8 and 16")
	}
	l.loose = true
	x := &ext{}
	all := l.wordConstant(uint32(size))
	n, ignore := all, alwaysFalse
	for _, o := range args[3:] {
		isPred := false
		if o.Kind == syntax.ArgName {
			if _, t, ok := l.namedRegister(o); ok && t == types.Pred {
				isPred = true
			}
		}
		if isPred {
			ignore = l.predicateRef(o)
		} else {
			n = l.operandRef(o, types.U32)
		}
	}
	to, from := addressIn(l, 0, types.SharedSpace), addressIn(l, 1, types.GlobalSpace)
	x.refs, x.opnds = []ref{to.base, n, ignore}, []opnd{use32, use32, usePred}
	m := l.numberSite(l.emitMicro(opCpAsync, shape{a: use64}, 0, ref(size), from.base, ref(types.GlobalSpace), ref(uint32(to.off))))
	m.imm, m.ext = from.off, x
	if n == all && ignore == alwaysFalse {
		m.key = fmt.Sprintf("cp.async.%d", size/4)
	}
}

func opCpAsync(w *warp, in *inst, m uint32) {
	to, n, ignore := w.u32(in.ext.refs[0]), w.u32(in.ext.refs[1]), w.pred(in.ext.refs[2])
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		dst := w.bytesAt(w.sharedAt(in, to[i]+uint32(in.c), uint32(in.e), i), uint32(in.e))
		size := min(n[i], uint32(in.e))
		if ignore>>i&1 != 0 {
			size = 0
		}
		if size == 0 {
			clear(dst)
			continue
		}
		addr := w.u64(in.a)[i] + in.imm
		if addr&uint64(in.e-1) != 0 {
			w.raiseFault(MisalignedAddress, in, i, addr, "")
		}
		r := w.sites[in.site]
		o := addr - r.Base
		if o >= accessLimit(r.Size, uint64(size)) {
			r = w.anyRange(in, addr, uint64(size), i)
			o = addr - r.Base
		}
		src := r.Bytes[o:][:size]
		clear(dst[copy(dst, src):])
	}
}

// addressIn reads an operand in brackets that can be in a single space only; constants count as global memory.
func addressIn(l *lowerer, i int, s types.Space) access {
	a := l.readAddress(i, s)
	if a.addressOperand() != (access{space: s}).addressOperand() {
		l.failSyntax("%s lies in %s memory", l.in.Args[i].Name, a.space)
	}
	return a
}

// bulkCopy is a cp.async.bulk: the source, and the mbarrier to which the copy is reported, if there is one.
type bulkCopy struct{ from, barrier access }

// lowerBulk is cp.async.bulk, which copies at once as well.
func lowerBulk(l *lowerer) {
	switch {
	case l.in.Op != "cp" || l.hasModifier("tensor"):
		l.refuseInstruction(noTensorMap)
	case l.hasModifier("multicast::cluster"):
		l.refuseInstruction(noCluster)
	case l.hasModifier("cp_mask"):
		l.refuseInstruction("copies of chosen bytes are not supported")
	case l.hasModifier("commit_group"), l.hasModifier("wait_group"), l.hasModifier("prefetch"):
		return
	}
	spaces := []types.Space{}
	for _, m := range l.in.Mods {
		if s, ok := types.SpacesByName[m]; ok {
			spaces = append(spaces, s)
		}
	}
	if len(spaces) != 2 {
		l.failSyntax("the spaces from which and to which to copy are missing")
	}
	n := 3
	completes := l.hasModifier("mbarrier::complete_tx::bytes")
	if completes {
		n++
	}
	if l.hasModifier("L2::cache_hint") {
		n++
	}
	l.checkArgs(n)
	to, c := addressIn(l, 0, spaces[0]), &bulkCopy{from: addressIn(l, 1, spaces[1])}
	x := &ext{
		refs: []ref{c.from.base, l.sourceRef(2, types.U32)}, opnds: []opnd{c.from.addressOperand(), use32}, bulk: c,
	}
	if completes {
		c.barrier = addressIn(l, 3, types.SharedSpace)
		x.refs, x.opnds = append(x.refs, c.barrier.base), append(x.opnds, use32)
	}
	m := l.emitMicro(opBulk, shape{a: to.addressOperand()}, 0, 0, to.base, ref(to.space), 0)
	m.imm, m.ext = to.off, x
}

func opBulk(w *warp, in *inst, m uint32) {
	c, refs := in.ext.bulk, in.ext.refs
	sizes := w.u32(refs[1])
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		n := sizes[i]
		if n%bulkUnit != 0 {
			w.raiseFault(IllegalInstruction, in, i, 0, "a bulk copy of bytes that are no multiple of 16")
		}
		copy(bulkBytes(w, in, types.Space(in.b), laneAddress(w, in.a, types.Space(in.b), in.imm, i), n, i, true),
			bulkBytes(w, in, c.from.space, laneAddress(w, refs[0], c.from.space, c.from.off, i), n, i, false))
		if len(refs) > 2 {
			barrier := w.bytesAt(w.sharedAt(in, w.u32(refs[2])[i]+uint32(c.barrier.off), mbarrierSize, i), mbarrierSize)
			updateMbarrier(w, in, barrier, i, func(b *mbarrier) { b.bytes -= int32(n) })
		}
	}
}

const bulkUnit = 16 // bytes: the alignment of addresses and sizes of bulk copies

// laneAddress is the address of a lane within a space: the value of register r, plus off.
func laneAddress(w *warp, r ref, s types.Space, off uint64, lane int) uint64 {
	if (access{space: s}).addressOperand() == use64 {
		return w.u64(r)[lane] + off
	}
	return uint64(w.u32(r)[lane] + uint32(off))
}

// bulkBytes returns the n bytes at an address of shared or global memory, or raises a fault.
func bulkBytes(w *warp, in *inst, s types.Space, addr uint64, n uint32, lane int, store bool) []byte {
	if addr%bulkUnit != 0 {
		w.raiseFault(MisalignedAddress, in, lane, addr, "")
	}
	if s == types.SharedSpace {
		if addr >= accessLimit(uint64(len(w.block.shared)), uint64(n)) && n > 0 {
			w.raiseFault(IllegalAddress, in, lane, addr, "shared memory")
		}
		return w.block.shared[min(addr, uint64(len(w.block.shared))):][:n]
	}
	if n == 0 {
		return nil
	}
	r := w.block.run.memory.FindRange(addr, uint64(n))
	if r == nil || store && r.ReadOnly {
		w.raiseFault(IllegalAddress, in, lane, addr, "")
	}
	w.block.recordAccess(r, store)
	return r.Bytes[addr-r.Base:][:n]
}

// mbarrierAt returns the bytes of a lane's mbarrier, or raises a fault.
func mbarrierAt(w *warp, in *inst, lane int) []byte {
	if s := types.Space(in.b); s != types.SharedSpace {
		if addr := laneAddress(w, in.a, s, in.imm, lane); addr>>32 != memory.SharedWindow>>32 {
			w.raiseFault(IllegalAddress, in, lane, addr, "an mbarrier outside of shared memory")
		}
	}
	return w.bytesAt(w.resolveOperand(in, mbarrierSize, lane, true), mbarrierSize)
}

// mbarrierOp returns an operation that changes the mbarriers of lanes by counts, in ascending order of lanes. Its
// result is the mbarrier's old bits.
func mbarrierOp(change func(b *mbarrier, count uint32)) opFunc {
	return func(w *warp, in *inst, m uint32) {
		counts := w.u32(in.c)
		for ; m != 0; m &= m - 1 {
			i := lowestLane(m)
			old := updateMbarrier(w, in, mbarrierAt(w, in, i), i, func(b *mbarrier) { change(b, counts[i]) })
			if in.ext.text != "" {
				w.u64(in.d)[i] = old
			}
		}
	}
}

// changeMbarrier has the operations of mbarrier that change the object, but init.
var changeMbarrier = map[string]opFunc{
	"arrive":      mbarrierOp(func(b *mbarrier, count uint32) { b.pending -= count }),
	"arrive_drop": mbarrierOp(func(b *mbarrier, count uint32) { b.pending, b.expected = b.pending-count, b.expected-count }),
	"expect_tx":   mbarrierOp(func(b *mbarrier, count uint32) { b.expectBytes(count) }),
	"complete_tx": mbarrierOp(func(b *mbarrier, count uint32) { b.bytes -= int32(min(count, 2*mbarrierMost)) }),

	"arrive.expect_tx": mbarrierOp(func(b *mbarrier, count uint32) { b.expectBytes(count); b.pending-- }),
	"arrive_drop.expect_tx": mbarrierOp(func(b *mbarrier, count uint32) {
		b.expectBytes(count)
		b.pending, b.expected = b.pending-1, b.expected-1
	}),
}

// expectBytes adds bytes to those that the phase waits for. A sum above mbarrierMost stays above it, so that
// updateMbarrier faults.
func (b *mbarrier) expectBytes(n uint32) { b.bytes += int32(min(n, 2*mbarrierMost)) }

// emitMbarrier emits an operation on the mbarrier at an address.
func emitMbarrier(l *lowerer, f opFunc, address int, d ref, dOperand opnd, c ref, cOperand opnd) *microOperation {
	a := l.readAddress(address, l.namedSpace())
	m := l.emitMicro(f, shape{d: dOperand, a: a.addressOperand(), c: cOperand}, d, 0, a.base, ref(a.space), c)
	m.imm, m.ext = a.off, &ext{}
	return m
}

// lowerMbarrier is mbarrier in all its forms.
func lowerMbarrier(l *lowerer) {
	l.loose = true
	switch {
	case l.hasModifier("init"):
		l.checkArgs(2)
		emitMbarrier(l, opMbarrierInit, 0, 0, 0, l.sourceRef(1, types.U32), use32)
	case l.hasModifier("inval"):
		l.checkArgs(1)
		emitMbarrier(l, opMbarrierInval, 0, 0, 0, 0, 0)
	case l.hasModifier("test_wait"), l.hasModifier("try_wait"):
		l.checkArgs(3, 4) // the fourth is a time limit for the wait: no thread waits here
		if l.hasModifier("parity") {
			emitMbarrier(l, opMbarrierParity, 1, l.resultRef(types.Pred), defPred, l.sourceRef(2, types.U32), use32)
			return
		}
		emitMbarrier(l, opMbarrierTest, 1, l.resultRef(types.Pred), defPred, l.sourceRef(2, types.B64), use64)
	case l.hasModifier("pending_count"):
		l.checkArgs(2)
		pending := func(a, _, _ uint64) uint64 { return uint64(decodeMbarrier(a).pending) }
		l.emitLanes(types.U32, l.resultRef(types.U32), pending, []types.Type{types.B64}, l.sourceRef(1, types.B64))
	case l.hasModifier("arrive"), l.hasModifier("arrive_drop"):
		lowerMbarrierArrive(l)
	default:
		l.checkArgs(2)
		for _, op := range []string{"expect_tx", "complete_tx"} {
			if l.hasModifier(op) {
				emitMbarrier(l, changeMbarrier[op], 0, 0, 0, l.sourceRef(1, types.U32), use32)
				return
			}
		}
		l.failSyntax("the operation is missing")
	}
}

// lowerMbarrierArrive is mbarrier.arrive and mbarrier.arrive_drop: with a state as the result, a count of arrivals, which is 1
// if it is left out, or of bytes.
func lowerMbarrierArrive(l *lowerer) {
	op := "arrive"
	if l.hasModifier("arrive_drop") {
		op = "arrive_drop"
	}
	if l.hasModifier("expect_tx") {
		op += ".expect_tx"
		l.checkArgs(3)
	}
	l.checkArgs(2, 3)
	count := l.wordConstant(1)
	if len(l.in.Args) == 3 {
		count = l.sourceRef(2, types.U32)
	}
	m := emitMbarrier(l, changeMbarrier[op], 1, l.resultRef(types.B64), def64, count, use32)
	m.ext.text = "state"
}

// lowerCopyArrival is cp.async.mbarrier.arrive: an arrival when the thread's copies are done, which they are. Without
// .noinc the mbarrier would wait for one arrival more and get it at once, so no operation is emitted.
func lowerCopyArrival(l *lowerer) {
	l.checkArgs(1)
	if !l.hasModifier("arrive") {
		l.failSyntax("no such form")
	}
	if l.hasModifier("noinc") {
		emitMbarrier(l, changeMbarrier["arrive"], 0, 0, 0, l.wordConstant(1), use32)
	}
}

func opMbarrierInit(w *warp, in *inst, m uint32) {
	counts := w.u32(in.c)
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		if counts[i] == 0 || counts[i] > mbarrierMost {
			w.raiseFault(IllegalInstruction, in, i, 0, "an mbarrier waits for 1 to 1048575 arrivals")
		}
		b := mbarrier{pending: counts[i], expected: counts[i]}
		binary.LittleEndian.PutUint64(mbarrierAt(w, in, i), encodeMbarrier(b))
	}
}

func opMbarrierInval(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		clear(mbarrierAt(w, in, lowestLane(m)))
	}
}

// readMbarrier reads a lane's mbarrier for a thread that waits.
func readMbarrier(w *warp, in *inst, lane int) mbarrier {
	w.spinning = true
	return decodeMbarrier(binary.LittleEndian.Uint64(mbarrierAt(w, in, lane)))
}

// opMbarrierTest tells whether the phase of a state has ended.
func opMbarrierTest(w *warp, in *inst, m uint32) {
	states, ended := w.u64(in.c), uint32(0)
	for left := m; left != 0; left &= left - 1 {
		if i := lowestLane(left); readMbarrier(w, in, i).phase != decodeMbarrier(states[i]).phase {
			ended |= 1 << i
		}
	}
	w.setBits(in.d, m, ended)
}

// opMbarrierParity tells whether the phase with an even number, or the phase with an odd number, has ended: it is the present
// phase or the one before.
func opMbarrierParity(w *warp, in *inst, m uint32) {
	parities, ended := w.u32(in.c), uint32(0)
	for left := m; left != 0; left &= left - 1 {
		if i := lowestLane(left); (readMbarrier(w, in, i).phase^parities[i])&1 != 0 {
			ended |= 1 << i
		}
	}
	w.setBits(in.d, m, ended)
}

// lowerMapa gives the address that memory of a block has for another block of its cluster: the block itself.
func lowerMapa(l *lowerer) {
	l.checkArgs(3)
	t := l.lastType()
	if t != types.U32 && t != types.U64 {
		l.failSyntax("not for type %s", t)
	}
	d, a, b := l.resultRef(t), l.sourceRef(1, t), l.sourceRef(2, types.U32)
	l.emitMicro(opOnlyBlock, shape{a: use32}, 0, 0, b, 0, 0)
	l.emitMove(t, d, a)
}

// opOnlyBlock raises a fault if the number of a cluster's block is not 0.
func opOnlyBlock(w *warp, in *inst, m uint32) {
	for a := w.u32(in.a); m != 0; m &= m - 1 {
		if i := lowestLane(m); a[i] != 0 {
			w.raiseFault(IllegalInstruction, in, i, 0, noCluster)
		}
	}
}

// lowerGetctarank gives the number of the block in its cluster that an address belongs to.
func lowerGetctarank(l *lowerer) {
	l.checkArgs(2)
	l.sourceRef(1, l.lastType())
	l.emitMove(types.U32, l.resultRef(types.U32), l.wordConstant(0))
}
