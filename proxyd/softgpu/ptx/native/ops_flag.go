// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

func init() {
	addIntComparisons()
	addFloatComparisons()
	addOperation("mov.pred", func(e *emitter, in *Inst) {
		e.flagTo(amd64.RAX, in.A)
		e.setFlag(in.D, in.Guard)
	})
	for key, f := range map[string]func(a *amd64.Assembler, d, s amd64.Reg){
		"and.pred": (*amd64.Assembler).And32, "or.pred": (*amd64.Assembler).Or32, "xor.pred": (*amd64.Assembler).Xor32,
	} {
		addOperation(key, func(e *emitter, in *Inst) {
			e.flagTo(amd64.RAX, in.A)
			e.flagTo(amd64.RCX, in.B)
			f(e.a, amd64.RAX, amd64.RCX)
			e.setFlag(in.D, in.Guard)
		})
	}
	addParams()
	addUniforms()
}

// setFlagFrom writes a flag from masks of parts, made in turn by f in K1, for Words or Longs.
func (e *emitter) setFlagFrom(in *Inst, c Class, f func(p int)) {
	n, join := 2, uint8(16)
	if c == Long {
		n, join = 4, 8
	}
	for p := range n {
		f(p)
		e.unpinSlots()
		e.a.MaskTo(amd64.RCX, maskTmp)
		if p == 0 {
			e.a.Move32(amd64.RAX, amd64.RCX)
			continue
		}
		e.a.ShiftLeft64(amd64.RCX, uint8(p)*join)
		e.a.Or32(amd64.RAX, amd64.RCX)
	}
	e.setFlag(in.D, in.Guard)
}

func noImm(in *Inst) bool { return in.Imm == 0 }

// addFlags adds an operation that compares.
func addFlags(key string, emit func(e *emitter, in *Inst)) {
	operations[key] = operation{emit: emit, fits: noImm}
}

func addIntComparisons() {
	predicates := map[string]byte{"eq": amd64.EQ, "ne": amd64.NEQ, "lt": amd64.LT, "le": amd64.LE, "gt": amd64.NLE, "ge": amd64.NLT}
	for name, predicate := range predicates {
		for t, o := range map[string]amd64.Op{"u32": amd64.VPCMPUD, "s32": amd64.VPCMPD} {
			addFlags("setp."+name+"."+t, func(e *emitter, in *Inst) {
				e.setFlagFrom(in, Word, func(p int) {
					e.a.Compare(o, maskTmp, e.wordIn(in.A, p, 0), e.wordPart(in.B, p), predicate, amd64.Options{})
				})
			})
			narrow := t[:1] + "16"
			addFlags("setp."+name+"."+narrow, func(e *emitter, in *Inst) {
				e.setFlagFrom(in, Word, func(p int) {
					e.extendInteger(narrow, 0, e.wordPart(in.A, p))
					e.extendInteger(narrow, 1, e.wordPart(in.B, p))
					e.a.Compare(o, maskTmp, 0, amd64.Register(1), predicate, amd64.Options{})
				})
			})
		}
		for t, o := range map[string]amd64.Op{"u64": amd64.VPCMPUQ, "s64": amd64.VPCMPQ} {
			addFlags("setp."+name+"."+t, func(e *emitter, in *Inst) {
				e.setFlagFrom(in, Long, func(p int) {
					e.a.Compare(o, maskTmp, e.longIn(in.A, p, 0), e.longPart(in.B, p), predicate, amd64.Options{})
				})
			})
		}
	}
}

func addFloatComparisons() {
	for name, predicate := range map[string]byte{
		"eq": amd64.EqOQ, "ne": amd64.NeqOQ, "lt": amd64.LtOQ, "le": amd64.LeOQ, "gt": amd64.GtOQ, "ge": amd64.GeOQ,
		"equ": amd64.EqUQ, "neu": amd64.NeqUQ, "ltu": amd64.NgeUQ, "leu": amd64.NgtUQ, "gtu": amd64.NleUQ, "geu": amd64.NltUQ,
		"num": amd64.OrdQ, "nan": amd64.UnordQ,
	} {
		addFlags("setp."+name+".f32", func(e *emitter, in *Inst) {
			e.setFlagFrom(in, Word, func(p int) {
				e.a.Compare(amd64.VCMPPS, maskTmp, e.wordIn(in.A, p, 0), e.wordPart(in.B, p), predicate, amd64.Options{})
			})
		})
		addFlags("setp."+name+".ftz.f32", func(e *emitter, in *Inst) {
			e.setFlagFrom(in, Word, func(p int) {
				e.flushTo(0, e.wordPart(in.A, p))
				e.flushTo(1, e.wordPart(in.B, p))
				e.a.Compare(amd64.VCMPPS, maskTmp, 0, amd64.Register(1), predicate, amd64.Options{})
			})
		})
		addFlags("setp."+name+".f64", func(e *emitter, in *Inst) {
			e.setFlagFrom(in, Long, func(p int) {
				e.a.Compare(amd64.VCMPPD, maskTmp, e.longIn(in.A, p, 0), e.longPart(in.B, p), predicate, amd64.Options{})
			})
		})
	}
}

// fillResult sets the result of in, a Word or a Long, to the value that f leaves in a vector register, which is the
// same in all lanes.
func fillResult(e *emitter, c Class, in *Inst, f func(d amd64.Vec)) {
	n := 2
	if c == Long {
		n = 4
	}
	e.eachPart(c, in.D, n, func(_ int, d amd64.Vec) { f(d) })
}

// addParams adds the operations that read parameters of kernels.
func addParams() {
	for _, size := range []int{1, 2, 4} {
		for _, signed := range []bool{false, true} {
			key := "param." + string('0'+rune(size))
			if signed && size == 4 {
				continue // not extended
			}
			if signed {
				key += "s"
			}
			addOperation(key, func(e *emitter, in *Inst) {
				e.a.Load64(amd64.RAX, amd64.At(regState, atParams))
				at := amd64.At(amd64.RAX, int32(in.Imm))
				if size == 4 {
					fillResult(e, Word, in, func(d amd64.Vec) { e.emitOp2(amd64.VPBROADCASTD, d, amd64.Memory(at)) })
					return
				}
				e.a.LoadNarrow(amd64.RAX, at, size, signed)
				fillResult(e, Word, in, func(d amd64.Vec) { e.a.BroadcastReg(amd64.VPBROADCASTDReg, d, amd64.RAX, amd64.Options{}) })
			})
		}
	}
	addOperation("param.8", func(e *emitter, in *Inst) {
		e.a.Load64(amd64.RAX, amd64.At(regState, atParams))
		fillResult(e, Long, in, func(d amd64.Vec) { e.emitOp2(amd64.VPBROADCASTQ, d, amd64.Memory(amd64.At(amd64.RAX, int32(in.Imm)))) })
	})
}

// addUniforms adds the operations that read special registers and the state of the warp.
func addUniforms() {
	addOperation("uniform", func(e *emitter, in *Inst) {
		fillResult(e, Word, in, func(d amd64.Vec) {
			e.emitOp2(amd64.VPBROADCASTD, d, amd64.Memory(amd64.At(regState, atUniform+4*int32(in.Imm))))
		})
	})
	addOperation("thread", func(e *emitter, in *Inst) {
		e.a.Load64(amd64.RAX, amd64.At(regState, atThreads))
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU32, d, amd64.Memory(amd64.At(amd64.RAX, int32(in.Imm)*wordBytes+int32(p)*partBytes)))
		})
	})
	addOperation("lane", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) { e.emitOp2(amd64.VMOVDQU32, d, e.tableSource(tableCount+p)) })
	})
	addOperation("active", func(e *emitter, in *Inst) {
		e.runningLanes(amd64.RAX, in.Guard)
		fillResult(e, Word, in, func(d amd64.Vec) { e.a.BroadcastReg(amd64.VPBROADCASTDReg, d, amd64.RAX, amd64.Options{}) })
	})
	addOperation("frame", func(e *emitter, in *Inst) {
		e.a.Load32(amd64.RAX, amd64.At(regState, atFrame))
		e.a.Const32(amd64.RCX, uint32(in.Imm))
		e.a.Add64(amd64.RAX, amd64.RCX)
		fillResult(e, Word, in, func(d amd64.Vec) { e.a.BroadcastReg(amd64.VPBROADCASTDReg, d, amd64.RAX, amd64.Options{}) })
	})
	operations["spin"] = operation{ownMask: true, emit: func(e *emitter, in *Inst) {
		if in.Guard == 0 {
			e.a.StoreConst8(amd64.At(regState, atSpinning), 1)
			return
		}
		skip := e.a.NewLabel()
		e.runningLanes(amd64.RAX, in.Guard)
		e.a.Test32(amd64.RAX, amd64.RAX)
		e.a.JumpIf(amd64.Equal, skip)
		e.a.StoreConst8(amd64.At(regState, atSpinning), 1)
		e.a.Bind(skip)
	}}
}
