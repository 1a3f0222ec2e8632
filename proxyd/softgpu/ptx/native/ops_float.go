// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"sort"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// unifyNaNs makes all NaNs of 16 f32 the same NaN.
func (e *writer) unifyNaNs(d amd64.Vec) {
	e.a.Compare(amd64.VCMPPS, maskTmp, d, amd64.Register(d), amd64.UnordQ, amd64.Options{})
	e.a.Op2(amd64.VMOVDQU32, d, amd64.Register(constNaN), amd64.Options{Mask: maskTmp})
}

// nanIgnorant are operations that give the same result whichever NaN an operand is.
var nanIgnorant = func() map[string]bool {
	m := map[string]bool{}
	for _, op := range []string{"add", "sub", "mul", "div", "fma"} {
		m[op+".f32"], m[op+".ftz.f32"] = true, true
		for round := range roundings {
			m[op+"."+round+".f32"], m[op+"."+round+".ftz.f32"] = true, true
		}
	}
	return m
}()

// unifyResult is unifyNaNs for the result of an instruction. It emits no code if only nanIgnorant operations of the
// same block read the result: then no other operation sees which NaN the result is. The interpreter, which executes
// other instructions meanwhile, does not read the result.
func (e *cache) unifyResult(in *Inst, d amd64.Vec) {
	if e.merges || e.readsNaNs(in.D) {
		e.unifyNaNs(d)
	}
}

// readsNaNs reports whether an operation that reads the present instruction's result may tell NaNs apart.
func (e *cache) readsNaNs(r Ref) bool {
	u := e.findUsage(Word, r)
	i := sort.Search(len(u.at), func(i int) bool { return u.at[i] > e.pos })
	for ; i < len(u.at); i++ {
		in := &e.insts[u.at[i]]
		if u.reads[i] && !nanIgnorant[in.Key] {
			return true
		}
		if in.Guard == 0 && writesWord(in, r) {
			return false
		}
	}
	return e.live.isLiveOut(e.block, Word, r)
}

// flushTo makes subnormal f32 zeros of their sign.
func (e *writer) flushTo(d amd64.Vec, s amd64.Source) {
	if s.Memory || s.Vec != d {
		e.emitOp2(amd64.VMOVDQU32, d, s)
	}
	e.a.TestLanes(amd64.VPTESTNMD, maskTmp, d, e.tableSource(tableExponent), amd64.Options{})
	e.a.Op3(amd64.VPANDD, d, d, e.tableSource(tableSign), amd64.Options{Mask: maskTmp})
}

func init() {
	for name, o := range map[string]struct{ single, double amd64.Op }{
		"add": {amd64.VADDPS, amd64.VADDPD}, "sub": {amd64.VSUBPS, amd64.VSUBPD},
		"mul": {amd64.VMULPS, amd64.VMULPD}, "div": {amd64.VDIVPS, amd64.VDIVPD},
	} {
		addOperation(name+".f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.emitOp3(o.single, d, e.wordIn(in.A, p, 0), e.wordPart(in.B, p))
				e.unifyResult(in, d)
			})
		})
		addOperation(name+".ftz.f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.flushTo(0, e.wordPart(in.A, p))
				e.flushTo(1, e.wordPart(in.B, p))
				e.emitOp3(o.single, d, 0, amd64.Register(1))
				e.flushTo(d, amd64.Register(d))
				e.unifyResult(in, d)
			})
		})
		addLongs(name+".f64", o.double)
	}
	addFused()
	addRoots()
	addMinMax()
	addOperation("abs.f64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU64, 0, e.tableSource(tableSign64))
			// ^sign & a
			e.emitOp2(amd64.VMOVDQU64, d, e.longPart(in.A, p))
			e.a.Op3Imm(amd64.VPTERNLOGQ, d, 0, amd64.Register(0), 0x30, amd64.Options{})
		})
	})
	addOperation("neg.f64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPXORQ, d, e.longIn(in.A, p, 0), e.tableSource(tableSign64))
		})
	})
}

// addFused adds the multiplications with an addition that are rounded once.
func addFused() {
	addOperation("fma.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU32, d, e.wordPart(in.C, p))
			e.emitOp3(amd64.VFMADD231PS, d, e.wordIn(in.A, p, 0), e.wordPart(in.B, p))
			e.unifyResult(in, d)
		})
	})
	addOperation("fma.ftz.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.flushTo(0, e.wordPart(in.A, p))
			e.flushTo(1, e.wordPart(in.B, p))
			e.flushTo(d, e.wordPart(in.C, p))
			e.emitOp3(amd64.VFMADD231PS, d, 0, amd64.Register(1))
			e.flushTo(d, amd64.Register(d))
			e.unifyResult(in, d)
		})
	})
	addOperation("fma.f64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU64, d, e.longPart(in.C, p))
			e.emitOp3(amd64.VFMADD231PD, d, e.longIn(in.A, p, 0), e.longPart(in.B, p))
		})
	})
}

// addRoots adds square roots and reciprocals.
func addRoots() {
	rsqrt := func(e *emitter, d, x amd64.Vec) {
		// By doubles, rounded at the end.
		e.a.NarrowTo(amd64.VEXTRACTI64, 3, x, []byte{1}, amd64.Options{})
		for _, v := range []amd64.Vec{x, 3} {
			e.emitOp2(amd64.VCVTPS2PD, 2, amd64.Register(v))
			e.emitOp2(amd64.VSQRTPD, 2, amd64.Register(2))
			e.emitOp2(amd64.VMOVDQU64, 4, e.tableSource(tableOneF64))
			e.emitOp3(amd64.VDIVPD, 2, 4, amd64.Register(2))
			if v == x {
				e.emitOp2(amd64.VCVTPD2PS, d, amd64.Register(2))
			} else {
				e.emitOp2(amd64.VCVTPD2PS, 2, amd64.Register(2))
			}
		}
		e.a.Op3Imm(amd64.VINSERTI64, d, d, amd64.Register(2), 1, amd64.Options{})
	}
	for name, f := range map[string]func(e *emitter, d, x amd64.Vec){
		"sqrt": func(e *emitter, d, x amd64.Vec) { e.emitOp2(amd64.VSQRTPS, d, amd64.Register(x)) },
		"rcp": func(e *emitter, d, x amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU32, 1, e.tableSource(tableOneF32))
			e.emitOp3(amd64.VDIVPS, d, 1, amd64.Register(x))
		},
		"rsqrt": rsqrt,
	} {
		addOperation(name+".f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				f(e, d, e.wordIn(in.A, p, 0))
				e.unifyNaNs(d)
			})
		})
		addOperation(name+".ftz.f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.flushTo(0, e.wordPart(in.A, p))
				f(e, d, 0)
				e.flushTo(d, amd64.Register(d))
				e.unifyNaNs(d)
			})
		})
	}
	addLong1("sqrt.f64", amd64.VSQRTPD)
	addOperation("rcp.f64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU64, 0, e.tableSource(tableOneF64))
			e.emitOp3(amd64.VDIVPD, d, 0, e.longPart(in.A, p))
		})
	})
}

// addMinMax adds min and max, which give the number if an operand is a NaN, and order the zeros. The processor's
// give the second operand in both cases.
func addMinMax() {
	for name, o := range map[string]struct{ single, double, equal, equal64 amd64.Op }{
		"min": {amd64.VMINPS, amd64.VMINPD, amd64.VPORD, amd64.VPORQ}, // of equal numbers, -0 if there is a -0
		"max": {amd64.VMAXPS, amd64.VMAXPD, amd64.VPANDD, amd64.VPANDQ},
	} {
		fix := func(e *emitter, d, x, y amd64.Vec, compare, move, equal amd64.Op) {
			e.a.Compare(compare, maskTmp, x, amd64.Register(y), amd64.EqOQ, amd64.Options{})
			e.a.Op3(equal, d, x, amd64.Register(y), amd64.Options{Mask: maskTmp})
			// The first operand where only the second is a NaN.
			e.a.Compare(compare, maskTmp, x, amd64.Register(x), amd64.OrdQ, amd64.Options{})
			e.a.Compare(compare, maskTmp, y, amd64.Register(y), amd64.UnordQ, amd64.Options{Mask: maskTmp})
			e.a.Op2(move, d, amd64.Register(x), amd64.Options{Mask: maskTmp})
		}
		addOperation(name+".f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				x, y := e.wordIn(in.A, p, 0), e.wordIn(in.B, p, 1)
				e.emitOp3(o.single, d, x, amd64.Register(y))
				fix(e, d, x, y, amd64.VCMPPS, amd64.VMOVDQU32, o.equal)
				e.unifyNaNs(d)
			})
		})
		addOperation(name+".f64", func(e *emitter, in *Inst) {
			e.eachLongPart(in.D, func(p int, d amd64.Vec) {
				x, y := e.longIn(in.A, p, 0), e.longIn(in.B, p, 1)
				e.emitOp3(o.double, d, x, amd64.Register(y))
				fix(e, d, x, y, amd64.VCMPPD, amd64.VMOVDQU64, o.equal64)
			})
		})
	}
}
