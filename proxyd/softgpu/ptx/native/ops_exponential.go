// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
)

// The steps of float.Exp2 and float.Log2, by doubles: 8 lanes at a time. Both are routines: they take 16 f32 in V0 and
// leave the results in V4. V1 to V9 are temporary.

// The doubles that these routines need, as tables from tableDoubles on. Behind them are the terms of polynomials.
const (
	doubleOne = tableDoubles + iota
	doubleHalf
	doubleTwo
	doubleLn2Hi
	doubleLn2Lo
	doubleL1
	doubleL2
	doubleL3
	doubleL4
	doubleL5
	doubleL6
	doubleL7
	doubleRootHalf
	doubleMinusOne
	doubleInverseLn2
	doubleTwoOverPi
	doubleHalfPiHi
	doubleHalfPiLo
	doubleMinusHalf
	doubleWhole    // a number that is added to have an integer in the lowest bits
	doubleWholeOne // the same, with 1 in them
	doubleLowestBit
	doubleExp2Terms
	doubleSinTerms = doubleExp2Terms + len(float.Exp2Terms)
	doubleCosTerms = doubleSinTerms + len(float.SinTerms)
)

var doubles = slices.Concat([]float64{
	1, 0.5, 2, float.Ln2Hi, float.Ln2Lo, float.Log2L1, float.Log2L2, float.Log2L3, float.Log2L4, float.Log2L5, float.Log2L6, float.Log2L7,
	math.Sqrt2 / 2, -1, 1 / math.Ln2, 2 / math.Pi, float.HalfPiHi, float.HalfPiLo, -0.5, 3 << 51, 3<<51 + 1, math.Float64frombits(1),
}, float.Exp2Terms[:], float.SinTerms[:], float.CosTerms[:])

func init() {
	for name, f := range map[string]func(e *routines){"ex2": (*routines).emitExp2, "lg2": (*routines).emitLog2} {
		addOperation(name+".f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.emitOp2(amd64.VMOVDQU32, 0, e.wordPart(in.A, p))
				e.a.Call(e.functionLabel(name, f))
				e.emitOp2(amd64.VMOVDQU32, d, amd64.Register(4))
				e.unifyNaNs(d)
			})
		})
		addOperation(name+".ftz.f32", func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.flushTo(0, e.wordPart(in.A, p))
				e.a.Call(e.functionLabel(name, f))
				e.flushTo(d, amd64.Register(4))
				e.unifyNaNs(d)
			})
		})
	}
}

// eachHalf calls f with the halves of V0, as doubles in V1, and joins f's results in V6 to f32 in V4.
func (e *routines) eachHalf(f func()) {
	for half := range 2 {
		if half == 0 {
			e.emitOp2(amd64.VCVTPS2PD, 1, amd64.Register(0))
			f()
			e.emitOp2(amd64.VCVTPD2PS, 4, amd64.Register(6))
			continue
		}
		e.a.NarrowTo(amd64.VEXTRACTI64, 1, 0, []byte{1}, amd64.Options{})
		e.emitOp2(amd64.VCVTPS2PD, 1, amd64.Register(1))
		f()
		e.emitOp2(amd64.VCVTPD2PS, 6, amd64.Register(6))
		e.a.Op3Imm(amd64.VINSERTI64, 4, 4, amd64.Register(6), 1, amd64.Options{})
	}
}

// emitPolynomial makes d = (((c[0] x + c[1]) x + c[2]) ...), of tables c.
func (e *routines) emitPolynomial(d, x amd64.Vec, c ...int) {
	for i, t := range c {
		if i == 0 {
			e.emitOp2(amd64.VMOVDQU64, d, e.tableSource(t))
			continue
		}
		e.emitOp3(amd64.VMULPD, d, d, amd64.Register(x))
		e.emitOp3(amd64.VADDPD, d, d, e.tableSource(t))
	}
}

func (e *routines) emitExp2() {
	reg, a := amd64.Register, e.a
	// A NaN stays: of two operands of which one is a NaN, min and max give the second.
	e.emitOp2(amd64.VMOVDQU32, 1, e.tableSource(tableExp2Bound))
	e.emitOp3(amd64.VMINPS, 0, 1, reg(0))
	e.emitOp3(amd64.VPXORD, 1, 1, e.tableSource(tableSign))
	e.emitOp3(amd64.VMAXPS, 0, 1, reg(0))
	e.eachHalf(func() {
		// V2 = k, V1 = t
		a.Op2Imm(amd64.VRNDSCALEPD, 2, reg(1), 8, amd64.Options{}) // to nearest
		e.emitOp3(amd64.VSUBPD, 1, 1, reg(2))
		e.emitOp2(amd64.VMOVDQU64, 6, e.tableSource(doubleExp2Terms))
		for i := 1; i < len(float.Exp2Terms); i++ {
			e.emitOp3(amd64.VFMADD213PD, 6, 1, e.tableSource(doubleExp2Terms+i))
		}
		e.emitOp3(amd64.VFMADD213PD, 6, 1, e.tableSource(doubleOne))
		e.emitOp3(amd64.VSCALEFPD, 6, 6, reg(2))
	})
	a.Return()
}

func (e *routines) emitLog2() {
	reg, a := amd64.Register, e.a
	e.eachHalf(func() {
		// V2 = exponent - 1, V1 = fraction, in K6 the powers of two, V3 = k, V1 = f
		e.emitOp2(amd64.VGETEXPPD, 2, reg(1))
		a.Op2Imm(amd64.VGETMANTPD, 1, reg(1), 2, amd64.Options{}) // at least 0.5, below 1
		a.Compare(amd64.VCMPPD, maskPart, 1, e.tableSource(doubleHalf), amd64.EqOQ, amd64.Options{})
		a.Compare(amd64.VCMPPD, maskTmp, 1, e.tableSource(doubleRootHalf), amd64.LtOQ, amd64.Options{})
		e.emitOp3(amd64.VPXORQ, 3, 3, reg(3))
		e.emitOp2(amd64.VMOVDQU64, 5, e.tableSource(doubleMinusOne))
		a.Op2(amd64.VMOVDQU64, 3, reg(5), amd64.Options{Mask: maskTmp})
		a.Op3(amd64.VADDPD, 1, 1, reg(1), amd64.Options{Mask: maskTmp})
		e.emitOp3(amd64.VADDPD, 1, 1, reg(5))
		// V5 = s, V7 = s2, V8 = s4
		e.emitOp3(amd64.VADDPD, 6, 1, e.tableSource(doubleTwo))
		e.emitOp3(amd64.VDIVPD, 5, 1, reg(6))
		e.emitOp3(amd64.VMULPD, 7, 5, reg(5))
		e.emitOp3(amd64.VMULPD, 8, 7, reg(7))
		e.emitPolynomial(6, 8, doubleL7, doubleL5, doubleL3, doubleL1)
		e.emitOp3(amd64.VMULPD, 7, 7, reg(6))
		e.emitPolynomial(6, 8, doubleL6, doubleL4, doubleL2)
		e.emitOp3(amd64.VMULPD, 6, 6, reg(8))
		e.emitOp3(amd64.VADDPD, 6, 6, reg(7)) // r
		e.emitOp3(amd64.VMULPD, 7, 1, e.tableSource(doubleHalf))
		e.emitOp3(amd64.VMULPD, 7, 7, reg(1)) // half
		e.emitOp3(amd64.VADDPD, 6, 6, reg(7))
		e.emitOp3(amd64.VMULPD, 6, 6, reg(5))
		e.emitOp3(amd64.VMULPD, 8, 3, e.tableSource(doubleLn2Lo))
		e.emitOp3(amd64.VADDPD, 6, 6, reg(8))
		e.emitOp3(amd64.VSUBPD, 7, 7, reg(6))
		e.emitOp3(amd64.VSUBPD, 7, 7, reg(1))
		e.emitOp3(amd64.VMULPD, 6, 3, e.tableSource(doubleLn2Hi))
		e.emitOp3(amd64.VSUBPD, 6, 6, reg(7)) // ln
		e.emitOp3(amd64.VMULPD, 6, 6, e.tableSource(doubleInverseLn2))
		e.emitOp3(amd64.VADDPD, 8, 2, e.tableSource(doubleOne))
		e.emitOp3(amd64.VADDPD, 6, 6, reg(8))
		a.Op2(amd64.VMOVDQU64, 6, reg(2), amd64.Options{Mask: maskPart})
	})
	// Operands that are no positive number: the infinity and NaNs as they are, the logarithm of 0, and of negative
	// numbers.
	e.clearVector(1)
	a.Compare(amd64.VCMPPS, maskTmp, 0, reg(1), amd64.LtOQ, amd64.Options{})
	a.Op2(amd64.VMOVDQU32, 4, reg(constNaN), amd64.Options{Mask: maskTmp})
	e.emitOp2(amd64.VMOVDQU32, 2, e.tableSource(tableExponent))
	a.Compare(amd64.VCMPPS, maskTmp, 0, reg(2), amd64.NltUQ, amd64.Options{})
	a.Op2(amd64.VMOVDQU32, 4, reg(0), amd64.Options{Mask: maskTmp})
	a.Compare(amd64.VCMPPS, maskTmp, 0, reg(1), amd64.EqOQ, amd64.Options{})
	a.Op3(amd64.VPORD, 4, 2, e.tableSource(tableSign), amd64.Options{Mask: maskTmp})
	a.Return()
}
