// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// cp.async may copy at any time between its issue and the wait: here cp.async copies at once, and
// commit and wait have nothing to do.

func lowerCp(l *lowerer) {
	if !l.hasModifier("async") {
		l.failSyntax("no such form")
	}
	if l.hasModifier("bulk") {
		l.refuseInstruction("cp.async.bulk and tensor maps are not for targets up to sm_80")
	}
	if l.hasModifier("mbarrier") {
		l.refuseInstruction("mbarrier is not supported")
	}
	switch {
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
	to, from := l.readAddress(0, types.SharedSpace), l.readAddress(1, types.GlobalSpace)
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

// lowerLdmatrix loads 8×8 matrices of 16-bit elements, lane by lane an address of a row.
func lowerLdmatrix(l *lowerer) {
	l.checkArgs(2)
	if !l.hasModifier("m8n8") || !l.hasModifier("b16") {
		l.refuseInstruction("only 8×8 matrices of 16-bit elements are for targets up to sm_80")
	}
	n := countMatrices(l)
	refs, os, _ := l.listElements(0, types.B32, n, true)
	if n == 1 && l.in.Args[0].Kind == syntax.ArgVector {
		refs[0] = l.refForResult(l.in.Args[0].List[0], types.B32)
	}
	l.loose = true
	a := l.readAddress(1, matrixSpace(l))
	m := l.numberSite(l.emitMicro(opLdmatrix, shape{a: a.addressOperand()}, 0, 0, a.base, ref(a.space), 0))
	m.imm, m.ext = a.off, &ext{refs: refs, opnds: os}
	if l.hasModifier("trans") {
		m.c = 1
	}
}

func countMatrices(l *lowerer) int {
	for i, m := range []string{"x1", "x2", "x4"} {
		if l.hasModifier(m) {
			n := 1 << i
			if n == 1 && l.in.Args[0].Kind == syntax.ArgVector {
				l.in.Args[0] = l.in.Args[0].List[0]
			}
			if n == 1 && len(l.in.Args) > 1 && l.in.Args[1].Kind == syntax.ArgVector {
				l.in.Args[1] = l.in.Args[1].List[0]
			}
			return n
		}
	}
	l.failSyntax("the number of matrices is missing")
	return 0
}

func matrixSpace(l *lowerer) types.Space {
	if s := l.namedSpace(); s != types.Generic {
		return s
	}
	return types.Generic
}

func opLdmatrix(w *warp, in *inst, m uint32) {
	var out [4][warpSize]uint32
	for k := range in.ext.refs {
		var e [8][8]uint16
		for row := range 8 {
			lane := 8*k + row
			b := w.bytesAt(w.resolveOperand(in, 16, lane, false), 16)
			for c := range 8 {
				e[row][c] = uint16(b[2*c]) | uint16(b[2*c+1])<<8
			}
		}
		for lane := range warpSize {
			r, c := lane/4, lane%4*2
			if in.c == 1 {
				out[k][lane] = uint32(e[c][r]) | uint32(e[c+1][r])<<16
			} else {
				out[k][lane] = uint32(e[r][c]) | uint32(e[r][c+1])<<16
			}
		}
	}
	for k, r := range in.ext.refs {
		d := w.u32(r)
		for left := m; left != 0; left &= left - 1 {
			i := lowestLane(left)
			d[i] = out[k][i]
		}
	}
}

func lowerStmatrix(l *lowerer) {
	l.checkArgs(2)
	if !l.hasModifier("m8n8") || !l.hasModifier("b16") {
		l.refuseInstruction("only 8×8 matrices of 16-bit elements are supported")
	}
	n := countMatrices(l)
	refs, os, _ := l.listElements(1, types.B32, n, false)
	l.loose = true
	a := l.readAddress(0, matrixSpace(l))
	m := l.numberSite(l.emitMicro(opStmatrix, shape{a: a.addressOperand()}, 0, 0, a.base, ref(a.space), 0))
	m.imm, m.ext = a.off, &ext{refs: refs, opnds: os}
	if l.hasModifier("trans") {
		m.c = 1
	}
}

func opStmatrix(w *warp, in *inst, _ uint32) {
	for k, r := range in.ext.refs {
		s := w.u32(r)
		for row := range 8 {
			b := w.bytesAt(w.resolveOperand(in, 16, 8*k+row, true), 16)
			for c := range 8 {
				lane, half := row*4+c/2, c&1
				if in.c == 1 {
					lane, half = c*4+row/2, row&1
				}
				v := s[lane] >> (16 * half)
				b[2*c], b[2*c+1] = byte(v), byte(v>>8)
			}
		}
	}
}

// lowerMovmatrix transposes an 8×8 matrix that the warp holds.
func lowerMovmatrix(l *lowerer) {
	l.checkArgs(2)
	l.emitMicro(opMovmatrix, shape{d: def32, a: use32}, l.resultRef(types.B32), 0, l.sourceRef(1, types.B32), 0, 0)
}

func opMovmatrix(w *warp, in *inst, m uint32) {
	a := *w.u32(in.a)
	d := w.u32(in.d)
	at := func(r, c int) uint32 { return a[r*4+c/2] >> (16 * (c & 1)) & 0xffff }
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		r, c := i/4, i%4*2
		d[i] = at(c, r) | at(c+1, r)<<16
	}
}
