// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// wmma's fragments have no documented layout; ours: element i of a matrix, A by rows and B
// by columns, lies in lane i/(registers · elements), and where the fragment is larger than
// the matrix, the fragment holds the matrix twice.

// fragmentRegs is the number of registers of an A or B fragment.
func fragmentRegs(elements, per int, t types.Type, _ int) int {
	n := elements / (warpSize * per)
	if t == types.F16 {
		// Each element is held by two lanes.
		return max(8, n)
	}
	return max(n, 1)
}

// gatherMatrix gathers a matrix of n elements.
func (w *warp) gatherMatrix(out []uint64, refs []ref, t types.Type, per, n int) []uint64 {
	out = sizedBuffer(out, n)
	width := 32 / per
	for i := range n {
		lane := i / (len(refs) * per)
		r, e := i/per%len(refs), i%per
		if t == types.F64 {
			out[i] = w.u64(refs[r])[lane]
		} else {
			out[i] = uint64(w.u32(refs[r])[lane]) >> (width * e) & sizeMaskBits(width)
		}
	}
	return out
}

// fetchMatrix gathers a matrix from the warp's registers; for B, rows are columns.
func (w *warp) fetchMatrix(out []uint64, refs []ref, t types.Type, rows, cols, per int) []uint64 {
	out = sizedBuffer(out, rows*cols)
	width := 32 / per
	for r, rf := range refs {
		for lane := range warpSize {
			group, tig := lane/4, lane%4
			row, block := group, r
			if rows == 16 {
				row, block = group+8*(r&1), r>>1
			}
			if t == types.F64 {
				out[row*cols+4*block+tig] = w.u64(rf)[lane]
				continue
			}
			v := uint64(w.u32(rf)[lane])
			at := out[row*cols+4*per*block+tig*per:][:per]
			for e := range at {
				at[e] = v >> (width * e) & sizeMaskBits(width)
			}
		}
	}
	return out
}

// fetchC gathers the accumulator.
func (w *warp) fetchC(c []uint64, refs []ref, p *mmaPlan) []uint64 {
	c = sizedBuffer(c, p.m*p.n)
	for r, rf := range refs {
		for lane := range warpSize {
			at := p.placeOf(r, lane)
			switch p.ct {
			case types.F16:
				v := w.u32(rf)[lane]
				c[at], c[at+1] = uint64(v&0xffff), uint64(v>>16)
			case types.F64:
				c[at] = w.u64(rf)[lane]
			default:
				c[at] = uint64(w.u32(rf)[lane])
			}
		}
	}
	return c
}

// setFragment spreads a matrix over the lanes m.
func (w *warp) setFragment(refs []ref, t types.Type, per int, d []uint64, m uint32) {
	width := 32 / per
	for r, rf := range refs {
		for left := m; left != 0; left &= left - 1 {
			lane := lowestLane(left)
			at := (lane*len(refs) + r) * per & (len(d) - 1) // len(d) is a power of two
			switch {
			case t == types.F64:
				w.u64(rf)[lane] = d[at]
			case per == 1:
				w.u32(rf)[lane] = uint32(d[at])
			case per == 2:
				w.u32(rf)[lane] = uint32(d[at]&0xffff | d[at+1]<<16)
			default:
				var v uint64
				for e := range per {
					v |= d[at+e] & sizeMaskBits(width) << (width * e)
				}
				w.u32(rf)[lane] = uint32(v)
			}
		}
	}
}

// wmmaSite is a load or store of a fragment.
type wmmaSite struct {
	rows, cols int // in memory order of the fragment: rows of A, columns of B
	byColumn   bool
	t          types.Type
	store      bool
}

func lowerWmma(l *lowerer) {
	ts, sub := matrixTypes(l)
	if sub != 0 {
		l.refuseInstruction("wmma of 4-bit and 1-bit elements is not supported")
	}
	m, n, k := shapeOf(l)
	switch {
	case l.hasModifier("mma"):
		l.checkArgs(4)
		p := &mmaPlan{m: m, n: n, k: k, wmma: true, sat: l.hasModifier("satfinite")}
		switch len(ts) {
		case 2: // .dtype.ctype: f16 operands
			p.at, p.bt, p.ct = types.F16, types.F16, ts[0]
			if ts[0] != ts[1] {
				l.refuseInstruction("accumulators of two types are not supported")
			}
		case 4:
			p.at, p.bt, p.ct = ts[1], ts[2], ts[0]
		default:
			l.failSyntax("the types are missing")
		}
		if l.hasModifier("row") != l.hasModifier("col") && !l.hasModifier("row") && !l.hasModifier("col") {
			l.failSyntax("the layouts are missing")
		}
		p.signedA, p.signedB = p.at.IsSigned(), p.bt.IsSigned()
		emitMma(l, p)
	case l.hasModifier("load"), l.hasModifier("store"):
		lowerWmmaMove(l, ts, m, n, k)
	default:
		l.failSyntax("no such form")
	}
}

// lowerWmmaMove is for wmma.load and wmma.store.
func lowerWmmaMove(l *lowerer, ts []types.Type, m, n, k int) {
	store := l.hasModifier("store")
	t := ts[len(ts)-1]
	s := &wmmaSite{t: t, store: store}
	elements, vec, addr := 0, 0, 1
	col := l.hasModifier("col")
	switch {
	case l.hasModifier("a"):
		s.rows, s.cols, s.byColumn = m, k, col
	case l.hasModifier("b"):
		s.rows, s.cols, s.byColumn = n, k, !col
	default:
		s.rows, s.cols, s.byColumn = m, n, col
	}
	elements = s.rows * s.cols
	if store {
		vec, addr = 1, 0
	}
	per := (&mmaPlan{}).perRegister(t, 0)
	regs := elements / (warpSize * per)
	if l.hasModifier("a") || l.hasModifier("b") {
		regs = fragmentRegs(elements, per, t, m)
	}
	rt := types.B32
	if t == types.F64 {
		rt = types.B64
	}
	refs, os, _ := l.listElements(vec, rt, regs, !store)
	l.loose = true
	a := l.readAddress(addr, l.namedSpace())
	stride := l.constantRef(types.Class32, uint64(s.cols))
	if s.byColumn {
		stride = l.constantRef(types.Class32, uint64(s.rows))
	}
	if len(l.in.Args) == 3 {
		stride = l.sourceRef(2, types.U32)
	}
	mic := l.numberSite(l.emitMicro(opWmmaMove, shape{a: a.addressOperand(), c: use32}, 0, 0, a.base, ref(a.space), stride))
	mic.imm, mic.ext = a.off, &ext{refs: refs, opnds: os, wmma: s}
}

func opWmmaMove(w *warp, in *inst, m uint32) {
	s, x := in.ext.wmma, &w.mma
	per := (&mmaPlan{}).perRegister(s.t, 0)
	if s.store {
		x.a = w.gatherMatrix(x.a, in.ext.refs, s.t, per, s.rows*s.cols)
		s.moveElements(w, in, lowestLane(m), x.a)
		return
	}
	x.a = sizedBuffer(x.a, s.rows*s.cols)
	s.moveElements(w, in, lowestLane(m), x.a)
	w.setFragment(in.ext.refs, s.t, per, x.a, m)
}

// moveElements copies a matrix, row by row, to memory or from there.
func (s *wmmaSite) moveElements(w *warp, in *inst, lane int, elements []uint64) {
	size := s.t.Size()
	stride := int(w.u32(in.c)[lane])
	lines, length := s.rows, s.cols // the elements of a line are neighbours in memory
	if s.byColumn {
		lines, length = s.cols, s.rows
	}
	one := *in
	for line := range lines {
		for at := 0; at < length; {
			one.imm = in.imm + uint64(line*stride+at)*uint64(size)
			run := s.alignedRun(w, &one, lane, length-at)
			b := w.bytesAt(w.resolveOperand(&one, size*run, lane, s.store), size*run)
			for ; len(b) > 0; b = b[size:] {
				i := line*s.cols + at
				if s.byColumn {
					i = at*s.cols + line
				}
				if s.store {
					writeBytes(b[:size], elements[i])
				} else {
					elements[i] = readBytes(b[:size])
				}
				at++
			}
		}
	}
}

// alignedRun returns how many of n elements of a matrix's row, from where in is, are moved at once: as many as are in 16
// bytes, if these are aligned, or one.
func (s *wmmaSite) alignedRun(w *warp, in *inst, lane, n int) uint32 {
	address := in.imm
	switch types.Space(in.b) {
	case types.SharedSpace, types.LocalSpace, types.ParamSpace:
		address += uint64(w.u32(in.a)[lane])
	default:
		address += w.u64(in.a)[lane]
	}
	if run := 16 / s.t.Size(); address%16 == 0 && int(run) <= n {
		return run
	}
	return 1
}

// lowerLdmatrix loads 8×8 matrices of 16-bit elements, lane by lane an address of a row.
func lowerLdmatrix(l *lowerer) {
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

// countMatrices checks the form of ldmatrix or stmatrix, and returns how many matrices are moved.
func countMatrices(l *lowerer) int {
	l.checkArgs(2)
	if !l.hasModifier("m8n8") || !l.hasModifier("b16") {
		l.refuseInstruction("only 8×8 matrices of 16-bit elements are supported")
	}
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
