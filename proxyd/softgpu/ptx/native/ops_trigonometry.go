// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// The steps of float.Sin and float.Cos, by doubles: 8 lanes at a time. An operand beyond float.TurnBound is left to the
// interpreter. The routines take 16 f32 in V0 and leave the results in V4. V1 to V9 are temporary.

func init() {
	for name, f := range map[string]func(e *routines){
		"sin": func(e *routines) { e.emitSine(doubleWhole, true) },
		"cos": func(e *routines) { e.emitSine(doubleWholeOne, false) },
	} {
		for key, flushes := range map[string]bool{name + ".f32": false, name + ".ftz.f32": true} {
			addOperation(key, func(e *emitter, in *Inst) {
				exit := e.leaveLargeTurns(in)
				e.eachWordPart(in.D, func(p int, d amd64.Vec) {
					if flushes {
						e.flushTo(0, e.wordPart(in.A, p))
					} else {
						e.emitOp2(amd64.VMOVDQU32, 0, e.wordPart(in.A, p))
					}
					e.a.Call(e.functionLabel(name, f))
					if flushes {
						e.flushTo(d, amd64.Register(4))
					} else {
						e.emitOp2(amd64.VMOVDQU32, d, amd64.Register(4))
					}
					e.unifyNaNs(d)
				})
				e.resumeAfter(exit)
			})
		}
	}
}

// leaveLargeTurns leaves an instruction to the interpreter, by the exit that it returns, if the operand of a lane that runs is
// beyond float.TurnBound.
func (e *emitter) leaveLargeTurns(in *Inst) int {
	a := e.a
	operand := [2]amd64.Source{e.wordPart(in.A, 0), e.wordPart(in.A, 1)}
	bail, exit := e.newBail()
	for p := range 2 {
		e.emitOp2(amd64.VMOVDQU32, 0, e.tableSource(tableNaN)) // all bits but the sign
		e.emitOp3(amd64.VPANDD, 0, 0, operand[p])
		a.Compare(amd64.VCMPPS, maskTmp, 0, e.tableSource(tableTurnBound), amd64.GtOQ, amd64.Options{})
		if p == 0 {
			a.MaskTo(amd64.RAX, maskTmp)
			continue
		}
		a.MaskTo(amd64.RCX, maskTmp)
		a.ShiftLeft64(amd64.RCX, 16)
		a.Or32(amd64.RAX, amd64.RCX)
	}
	if e.merges {
		e.runningLanes(amd64.RDX, in.Guard)
		a.And32(amd64.RAX, amd64.RDX)
	} else {
		a.Test32(amd64.RAX, amd64.RAX)
	}
	a.JumpIf(amd64.NotEqual, bail)
	return exit
}

// emitSine emits the sine of V0 and as many quarters of a turn more as whole has in its lowest bits. The sign of an odd
// function is that of the operand.
func (e *routines) emitSine(whole int, odd bool) {
	reg, a := amd64.Register, e.a
	e.emitOp3(amd64.VPANDD, 9, 0, e.tableSource(tableSign))
	e.emitOp3(amd64.VPXORD, 0, 0, reg(9))
	e.eachHalf(func() {
		// V2 = k, V3 has the quarters in its lowest bits, V1 = z, V5 = zz
		e.emitOp3(amd64.VMULPD, 2, 1, e.tableSource(doubleTwoOverPi))
		a.Op2Imm(amd64.VRNDSCALEPD, 2, reg(2), 8, amd64.Options{}) // to nearest
		e.emitOp3(amd64.VADDPD, 3, 2, e.tableSource(whole))
		e.emitOp3(amd64.VFNMADD231PD, 1, 2, e.tableSource(doubleHalfPiHi))
		e.emitOp3(amd64.VFNMADD231PD, 1, 2, e.tableSource(doubleHalfPiLo))
		e.emitOp3(amd64.VMULPD, 5, 1, reg(1))
		for _, f := range []struct {
			d     amd64.Vec
			terms int
		}{{6, doubleSinTerms}, {8, doubleCosTerms}} {
			e.emitOp2(amd64.VMOVDQU64, f.d, e.tableSource(f.terms))
			for i := 1; i < doubleCosTerms-doubleSinTerms; i++ {
				e.emitOp3(amd64.VFMADD213PD, f.d, 5, e.tableSource(f.terms+i))
			}
		}
		e.emitOp3(amd64.VMULPD, 7, 1, reg(5))
		e.emitOp3(amd64.VFMADD213PD, 6, 7, reg(1))
		e.emitOp3(amd64.VFMADD213PD, 8, 5, e.tableSource(doubleMinusHalf))
		e.emitOp3(amd64.VFMADD213PD, 8, 5, e.tableSource(doubleOne))
		// For odd quarters the cosine is taken; then the sign is set.
		a.TestLanes(amd64.VPTESTMQ, maskTmp, 3, e.tableSource(doubleLowestBit), amd64.Options{})
		a.Op2(amd64.VMOVDQU64, 6, reg(8), amd64.Options{Mask: maskTmp})
		e.emitShift(amd64.VPSLLQ, 3, reg(3), 62)
		e.emitOp3(amd64.VPANDQ, 3, 3, e.tableSource(tableSign64))
		e.emitOp3(amd64.VPXORQ, 6, 6, reg(3))
	})
	if odd {
		e.emitOp3(amd64.VPXORD, 4, 4, reg(9))
	}
	a.Return()
}
