// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
	"math/bits"
	"regexp"
	"strconv"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/panel"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// mmaPlan is a matrix product D = A·B + C of a warp. Lane l is in group l/4 and the
// (l%4)-th of it. Register r of A holds elements of row group + 8·(r%2) (of m16; of m8 row
// group), columns 4e·(r/2) + e·(l%4) …, e to a register; of B likewise with its column for
// the row; C and D have two neighbouring columns to a row.
type mmaPlan struct {
	m, n, k    int
	at, bt, ct types.Type
	signedA    bool
	signedB    bool
	sub        int    // bits of an element, for 4-bit and 1-bit elements
	bitOp      string // "xor", "and" of 1-bit elements
	sat        bool
	da, db, dc int // registers
	wmma       bool
}

var mmaShape = regexp.MustCompile(`^m(\d+)n(\d+)k(\d+)$`)

// perRegister returns how many elements a register holds.
func (p *mmaPlan) perRegister(t types.Type, sub int) int {
	switch {
	case sub != 0:
		return 32 / sub
	case t == types.F16 || t == types.BF16:
		return 2
	case t.Size() == 1:
		return 4
	default:
		return 1
	}
}

func shapeOf(l *lowerer) (m, n, k int) {
	for _, mod := range l.in.Mods {
		if s := mmaShape.FindStringSubmatch(mod); s != nil {
			m, _ = strconv.Atoi(s[1])
			n, _ = strconv.Atoi(s[2])
			k, _ = strconv.Atoi(s[3])
		}
	}
	if m == 0 {
		l.failSyntax("the shape is missing")
	}
	return m, n, k
}

// subTypes are element types that are no types elsewhere.
var subTypes = map[string]int{"s4": 4, "u4": 4, "b1": 1}

// matrixTypes lists the types of an mma, types of less than a byte as U8 and S8.
func matrixTypes(l *lowerer) (ts []types.Type, sub int) {
	for _, m := range l.in.Mods {
		if n := subTypes[m]; n != 0 {
			sub = n
			ts = append(ts, map[string]types.Type{"s4": types.S8, "u4": types.U8, "b1": types.U8}[m])
			continue
		}
		if t := types.ByName[m]; t != types.NoType {
			ts = append(ts, t)
		}
	}
	return ts, sub
}

func lowerMma(l *lowerer) {
	if l.hasModifier("sp") || l.hasModifier("sp::ordered_metadata") {
		l.refuseInstruction("sparse matrices are not supported")
	}
	if l.hasModifier("block_scale") || l.hasModifier("kind::f8f6f4") {
		l.refuseInstruction("8-bit floating-point matrices are not supported")
	}
	l.checkArgs(4)
	ts, sub := matrixTypes(l)
	if len(ts) != 4 {
		l.refuseInstruction("the element types of this form are not supported")
	}
	m, n, k := shapeOf(l)
	p := &mmaPlan{m: m, n: n, k: k, at: ts[1], bt: ts[2], ct: ts[0], sub: sub, sat: l.hasModifier("satfinite")}
	p.signedA, p.signedB = ts[1].IsSigned(), ts[2].IsSigned()
	for _, op := range []string{"xor", "and"} {
		if l.hasModifier(op) {
			p.bitOp = op
		}
	}
	if m == 8 && k == 4 && p.at == types.F16 {
		l.refuseInstruction("m8n8k4 of f16 is for sm_70 only")
	}
	if p.at == types.E4M3x2 || p.at.Size() > 4 && (m != 8 || p.at != types.F64) || n != 8 || m != 8 && m != 16 || ts[3] != ts[0] {
		l.refuseInstruction("this shape is not supported")
	}
	emitMma(l, p)
}

// emitMma reads the four vectors of registers and emits the operation.
func emitMma(l *lowerer, p *mmaPlan) {
	e := p.perRegister(p.at, p.sub)
	p.da, p.db = p.m*p.k/(warpSize*e), p.n*p.k/(warpSize*e)
	p.dc = p.m * p.n / warpSize
	if p.wmma {
		p.da, p.db = fragmentRegs(p.m*p.k, e, p.at, p.m), fragmentRegs(p.n*p.k, e, p.bt, p.n)
	}
	if p.ct == types.F16 {
		p.dc /= 2
	}
	if p.da == 0 || p.db == 0 || p.dc == 0 {
		l.failSyntax("no such shape")
	}
	x := &ext{mma: p}
	rt := types.B32
	if p.at == types.F64 {
		rt = types.B64
	}
	ct := rt
	for i, part := range []struct {
		n     int
		t     types.Type
		write bool
	}{{p.dc, ct, true}, {p.da, rt, false}, {p.db, rt, false}, {p.dc, ct, false}} {
		if part.n == 1 && l.in.Args[i].Kind == syntax.ArgVector {
			l.in.Args[i] = l.in.Args[i].List[0]
		}
		refs, os, _ := l.listElements(i, part.t, part.n, part.write)
		x.refs, x.opnds = append(x.refs, refs...), append(x.opnds, os...)
	}
	l.emitMicro(opMma, shape{}, 0, 0, 0, 0, 0).ext = x
}

// mmaBuffers are a warp's, used again by each product.
type mmaBuffers struct {
	a, b, c, d []uint64
	fa, fb     []float32

	product panel.Product
}

// sizedBuffer returns a buffer of n elements, b if large enough.
func sizedBuffer[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

func sizeMaskBits(n int) uint64 { return 1<<n - 1 }

// opMma computes the product. Each element accumulates over ascending k.
func opMma(w *warp, in *inst, m uint32) {
	p, refs, x := in.ext.mma, in.ext.refs, &w.mma
	if p.fitsPanels() {
		p.multiplyPanels(w, x, refs, m)
		return
	}
	dr, ar, br, cr := refs[:p.dc], refs[p.dc:p.dc+p.da], refs[p.dc+p.da:p.dc+p.da+p.db], refs[p.dc+p.da+p.db:]
	per, perC := p.perRegister(p.at, p.sub), p.perRegister(p.ct, 0)
	if p.wmma {
		x.a, x.b = w.gatherMatrix(x.a, ar, p.at, per, p.m*p.k), w.gatherMatrix(x.b, br, p.bt, per, p.n*p.k)
		x.c = w.gatherMatrix(x.c, cr, p.ct, perC, p.m*p.n)
	} else {
		x.a, x.b = w.fetchMatrix(x.a, ar, p.at, p.m, p.k, per), w.fetchMatrix(x.b, br, p.bt, p.n, p.k, per)
		x.c = w.fetchC(x.c, cr, p)
	}
	x.d = sizedBuffer(x.d, len(x.c))
	if p.at.IsFloat() && p.at != types.F64 {
		p.multiplyFloats(x)
	} else {
		for i := range p.m {
			for j := range p.n {
				x.d[i*p.n+j] = p.dotProduct(x.a[i*p.k:][:p.k], x.b[j*p.k:][:p.k], x.c[i*p.n+j])
			}
		}
	}
	if p.wmma {
		w.setFragment(dr, p.ct, perC, x.d, m)
		return
	}
	for r, rf := range dr {
		for left := m; left != 0; left &= left - 1 {
			lane := lowestLane(left)
			at := p.placeOf(r, lane)
			switch p.ct {
			case types.F16:
				w.u32(rf)[lane] = uint32(x.d[at]) | uint32(x.d[at+1])<<16
			case types.F64:
				w.u64(rf)[lane] = x.d[at]
			default:
				w.u32(rf)[lane] = uint32(x.d[at])
			}
		}
	}
}

// placeOf is the index of the element, the first of two of F16, in register r of a lane of
// C and D.
func (p *mmaPlan) placeOf(r, lane int) int {
	if p.wmma { // see gatherMatrix; for elements of 32 bits
		return lane*p.dc + r
	}
	if p.ct == types.F16 {
		return (lane/4+8*r)*p.n + lane%4*2
	}
	return (lane/4+8*(r>>1))*p.n + lane%4*2 + r&1
}

// fitsPanels tells whether the product is computed from panels, by package simd: 32-bit sums of elements of at most 32
// bits.
func (p *mmaPlan) fitsPanels() bool {
	if p.m%panel.Width != 0 || p.n%panel.Width != 0 || !panel.Available {
		return false
	}
	switch p.at {
	case types.F16, types.BF16, types.TF32:
		return p.ct == types.F32
	case types.S8, types.U8:
		return p.bitOp == "" && p.ct == types.S32
	}
	return false
}

// multiplyPanels is opMma from panels.
func (p *mmaPlan) multiplyPanels(w *warp, x *mmaBuffers, refs []ref, m uint32) {
	dr, ar, br, cr := refs[:p.dc], refs[p.dc:p.dc+p.da], refs[p.dc+p.da:p.dc+p.da+p.db], refs[p.dc+p.da+p.db:]
	product := &x.product
	product.SetShape(p.m, p.n, p.k)
	p.fetchPanels(w, product.A, ar, p.m)
	p.fetchPanels(w, product.B, br, p.n)
	p.decodeWords(product.A, p.at, p.signedA)
	p.decodeWords(product.B, p.bt, p.signedB)
	for r, rf := range cr {
		for lane, v := range w.u32(rf) {
			product.Sums[p.placeOf(r, lane)] = v
		}
	}
	switch {
	case p.ct != types.S32:
		product.AddF32()
	case p.sat:
		product.AddSaturated()
	default:
		product.AddS32()
	}
	for r, rf := range dr {
		d := w.u32(rf)
		for left := m; left != 0; left &= left - 1 {
			lane := lowestLane(left)
			d[lane] = product.Sums[p.placeOf(r, lane)]
		}
	}
}

// fetchPanels gathers a matrix of so many rows, of B columns, from the warp's registers.
func (p *mmaPlan) fetchPanels(w *warp, out []uint32, refs []ref, rows int) {
	per := p.perRegister(p.at, p.sub)
	if p.wmma { // see gatherMatrix
		column := uint(bits.TrailingZeros(uint(p.k))) // k is a power of two
		for r, rf := range refs {
			for lane, v := range w.u32(rf)[:rows*p.k/(len(refs)*per)] {
				i := (lane*len(refs) + r) * per
				panel.SpreadWord(out[panel.IndexOf(i>>column, i&(p.k-1), p.k):], v, per)
			}
		}
		return
	}
	for r, rf := range refs { // see mmaPlan
		row, block := 0, r
		if rows == 16 {
			row, block = r&1*8, r>>1
		}
		for lane, v := range w.u32(rf) {
			panel.SpreadWord(out[panel.IndexOf(row+lane/4, (4*block+lane%4)*per, p.k):], v, per)
		}
	}
}

// decodeWords makes f32 or s32 of elements of type t.
func (p *mmaPlan) decodeWords(words []uint32, t types.Type, signed bool) {
	switch {
	case t == types.F16:
		panel.WidenF16(words)
	case t == types.BF16:
		panel.WidenBF16(words)
	case t == types.TF32:
		panel.TruncateTF32(words)
	case signed && p.sub != 0:
		panel.ExtendSign(words, p.sub)
	case signed:
		panel.ExtendSign(words, 8)
	}
}

// multiplyFloats is the product of f16, bf16 and tf32 elements.
func (p *mmaPlan) multiplyFloats(x *mmaBuffers) {
	x.fa, x.fb = p.decodeSingles(x.fa, x.a, p.at), p.decodeSingles(x.fb, x.b, p.bt)
	for i := range p.m {
		a := x.fa[i*p.k:][:p.k]
		for j := range p.n {
			b, c := x.fb[j*p.k:][:p.k], x.c[i*p.n+j]
			if p.ct == types.F16 {
				s := float.F16To32(uint16(c))
				for k := range a {
					v := float.AddOdd(float64(a[k])*float64(b[k]), float64(s))
					s = float32(float.Formats[types.F16].Round(v, float.RN))
				}
				x.d[i*p.n+j] = float.Encode(types.F16, float64(s))
				continue
			}
			s := float.From32(c)
			for k := range a {
				// As in opFmaF32.
				v := float64(a[k])*float64(b[k]) + float64(s)
				u := math.Float64bits(v)
				if u>>52&0x7ff-897 > 253 || u&(1<<29-1) == 1<<28 {
					s = float.FMA32(a[k], b[k], s)
				} else {
					s = float32(v)
				}
			}
			x.d[i*p.n+j] = float.Encode(types.F32, float64(s))
		}
	}
}

// decodeSingles decodes elements.
func (p *mmaPlan) decodeSingles(out []float32, in []uint64, t types.Type) []float32 {
	out = sizedBuffer(out, len(in))
	for i, v := range in {
		if t == types.TF32 {
			// The hardware does not look at the low bits.
			v &^= 0x1fff
		}
		out[i] = float32(float.Decode(t, v))
	}
	return out
}

// dotProduct is an element of the result, of whole numbers or f64.
func (p *mmaPlan) dotProduct(a, b []uint64, c uint64) uint64 {
	switch {
	case p.at == types.F64:
		s := float.From64(c)
		for k := range a {
			s = math.FMA(float.From64(a[k]), float.From64(b[k]), s)
		}
		return math.Float64bits(s)
	case p.bitOp != "":
		s := uint32(c)
		for k := range a {
			x := a[k] & b[k]
			if p.bitOp == "xor" {
				x = a[k] ^ b[k]
			}
			s += uint32(bits.OnesCount64(x))
		}
		return uint64(s)
	}
	width := 8
	if p.sub != 0 {
		width = p.sub
	}
	ext := func(v uint64, signed bool) int64 {
		if signed {
			return int64(v<<(64-width)) >> (64 - width)
		}
		return int64(v)
	}
	s := int64(int32(c))
	for k := range a {
		s += ext(a[k], p.signedA) * ext(b[k], p.signedB)
	}
	if p.sat {
		return uint64(uint32(clampS32(s)))
	}
	return uint64(uint32(s))
}
