// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

func init() {
	for key, o := range map[string]amd64.Op{
		"add.u32": amd64.VPADDD, "sub.u32": amd64.VPSUBD, "and.u32": amd64.VPANDD, "or.u32": amd64.VPORD, "xor.u32": amd64.VPXORD,
		"mul.lo.u32": amd64.VPMULLD, "min.u32": amd64.VPMINUD, "max.u32": amd64.VPMAXUD, "min.s32": amd64.VPMINSD, "max.s32": amd64.VPMAXSD,
		"shl.u32": amd64.VPSLLVD, "shr.u32": amd64.VPSRLVD, "shr.s32": amd64.VPSRAVD,
	} {
		addWords(key, o)
	}
	for key, o := range map[string]amd64.Op{
		"add.u64": amd64.VPADDQ, "sub.u64": amd64.VPSUBQ, "and.u64": amd64.VPANDQ, "or.u64": amd64.VPORQ, "xor.u64": amd64.VPXORQ,
		"mul.lo.u64": amd64.VPMULLQ, "min.u64": amd64.VPMINUQ, "max.u64": amd64.VPMAXUQ, "min.s64": amd64.VPMINSQ, "max.s64": amd64.VPMAXSQ,
	} {
		addLongs(key, o)
	}
	for key, o := range map[string]amd64.Op{
		"mov.u32": amd64.VMOVDQU32, "abs.s32": amd64.VPABSD, "popc.u32": amd64.VPOPCNTD, "clz.u32": amd64.VPLZCNTD,
	} {
		addWord1(key, o)
	}
	addLong1("mov.u64", amd64.VMOVDQU64)
	addLong1("abs.s64", amd64.VPABSQ)
	for key, o := range map[string]amd64.Op{"shl.u64": amd64.VPSLLVQ, "shr.u64": amd64.VPSRLVQ, "shr.s64": amd64.VPSRAVQ} {
		addOperation(key, func(e *emitter, in *Inst) {
			e.eachLongPart(in.D, func(q int, d amd64.Vec) {
				e.emitOp2(amd64.VPMOVZXDQ, 2, e.halfPart(in.B, q, 1))
				e.emitOp3(o, d, e.longIn(in.A, q, 0), amd64.Register(2))
			})
		})
	}
	addOperation("mad.lo.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPMULLD, d, e.wordIn(in.A, p, 0), e.wordPart(in.B, p))
			e.emitOp3(amd64.VPADDD, d, d, e.wordPart(in.C, p))
		})
	})
	addOperation("mad.lo.u64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPMULLQ, d, e.longIn(in.A, p, 0), e.longPart(in.B, p))
			e.emitOp3(amd64.VPADDQ, d, d, e.longPart(in.C, p))
		})
	})
	addBits()
	addFields()
	addProducts()
	addDivisions()
	addHalves()
}

// notTable is the truth table of the inverse of VPTERNLOG's last operand.
const notTable = 0x55

// addBits adds not, neg, lop3 and selp.
func addBits() {
	addOperation("not.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.a.Op3Imm(amd64.VPTERNLOGD, d, d, e.wordPart(in.A, p), notTable, amd64.Options{})
		})
	})
	addOperation("not.u64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.a.Op3Imm(amd64.VPTERNLOGQ, d, d, e.longPart(in.A, p), notTable, amd64.Options{})
		})
	})
	addOperation("neg.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.clearVector(0)
			e.emitOp3(amd64.VPSUBD, d, 0, e.wordPart(in.A, p))
		})
	})
	addOperation("neg.u64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.clearVector(0)
			e.emitOp3(amd64.VPSUBQ, d, 0, e.longPart(in.A, p))
		})
	})
	addOperation("lop3.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp2(amd64.VMOVDQU32, d, e.wordPart(in.A, p))
			e.a.Op3Imm(amd64.VPTERNLOGD, d, e.wordIn(in.B, p, 0), e.wordPart(in.C, p), byte(in.Imm), amd64.Options{})
		})
	})
	addOperation("selp.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.flagMask(in.C, uint8(16*p))
			e.a.Op3(amd64.VPBLENDMD, d, e.wordIn(in.B, p, 0), e.wordPart(in.A, p), amd64.Options{Mask: maskTmp})
		})
	})
	addOperation("selp.u64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) {
			e.flagMask(in.C, uint8(8*p))
			e.a.Op3(amd64.VPBLENDMQ, d, e.longIn(in.B, p, 0), e.longPart(in.A, p), amd64.Options{Mask: maskTmp})
		})
	})
}

// addFields adds the fields of bits, and sad.
func addFields() {
	addOperation("bfe.u32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			// a >> (b & 255) & (1 << (c & 255) - 1)
			e.emitOp2(amd64.VMOVDQU32, 2, e.tableSource(tableLow8))
			e.emitOp3(amd64.VPANDD, 0, 2, e.wordPart(in.B, p))
			e.emitOp3(amd64.VPANDD, 2, 2, e.wordPart(in.C, p))
			e.emitOp2(amd64.VMOVDQU32, 3, e.tableSource(tableOne))
			e.emitOp3(amd64.VPSLLVD, 2, 3, amd64.Register(2))
			e.emitOp3(amd64.VPSUBD, 2, 2, amd64.Register(3))
			e.emitOp3(amd64.VPSRLVD, d, e.wordIn(in.A, p, 1), amd64.Register(0))
			e.emitOp3(amd64.VPANDD, d, d, amd64.Register(2))
		})
	})
	for _, t := range []struct {
		key      string
		min, max amd64.Op
	}{{"sad.u32", amd64.VPMINUD, amd64.VPMAXUD}, {"sad.s32", amd64.VPMINSD, amd64.VPMAXSD}} {
		addOperation(t.key, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				x := e.wordIn(in.A, p, 0)
				e.emitOp3(t.max, d, x, e.wordPart(in.B, p))
				e.emitOp3(t.min, 1, x, e.wordPart(in.B, p))
				e.emitOp3(amd64.VPSUBD, d, d, amd64.Register(1))
				e.emitOp3(amd64.VPADDD, d, d, e.wordPart(in.C, p))
			})
		})
	}
}

func (e *writer) clearVector(v amd64.Vec) { e.emitOp3(amd64.VPXORD, v, v, amd64.Register(v)) }

// flagMask makes K1 of a flag, from a lane on.
func (e *writer) flagMask(r Ref, lane uint8) {
	e.flagTo(amd64.RAX, r)
	if lane != 0 {
		e.a.ShiftRight32(amd64.RAX, lane)
	}
	e.a.MaskFrom(maskTmp, amd64.RAX)
}

// addProducts adds the high and wide products.
func addProducts() {
	for sign, o := range map[string]struct{ mul, widen amd64.Op }{
		"u32": {amd64.VPMULUDQ, amd64.VPMOVZXDQ}, "s32": {amd64.VPMULDQ, amd64.VPMOVSXDQ},
	} {
		high := func(e *emitter, in *Inst, p int, d amd64.Vec) {
			x, y := e.wordIn(in.A, p, 0), e.wordIn(in.B, p, 1)
			e.emitOp3(o.mul, d, x, amd64.Register(y))
			e.emitShift(amd64.VPSRLQ, d, amd64.Register(d), 32)
			e.emitShift(amd64.VPSRLQ, 2, amd64.Register(x), 32)
			e.emitShift(amd64.VPSRLQ, 3, amd64.Register(y), 32)
			e.emitOp3(o.mul, 2, 2, amd64.Register(3))
			e.a.Const32(amd64.RAX, 0xaaaa)
			e.a.MaskFrom(maskTmp, amd64.RAX)
			e.a.Op2(amd64.VMOVDQU32, d, amd64.Register(2), amd64.Options{Mask: maskTmp})
		}
		addOperation("mul.hi."+sign, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) { high(e, in, p, d) })
		})
		addOperation("mad.hi."+sign, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				high(e, in, p, d)
				e.emitOp3(amd64.VPADDD, d, d, e.wordPart(in.C, p))
			})
		})
		wide := func(e *emitter, in *Inst, q int, d amd64.Vec) {
			e.emitOp2(o.widen, 2, e.halfPart(in.A, q, 0))
			e.emitOp2(o.widen, 3, e.halfPart(in.B, q, 1))
			e.emitOp3(o.mul, d, 2, amd64.Register(3))
		}
		addOperation("mul.wide."+sign, func(e *emitter, in *Inst) {
			e.eachLongPart(in.D, func(q int, d amd64.Vec) { wide(e, in, q, d) })
		})
		addOperation("mad.wide."+sign, func(e *emitter, in *Inst) {
			e.eachLongPart(in.D, func(q int, d amd64.Vec) {
				wide(e, in, q, d)
				e.emitOp3(amd64.VPADDQ, d, d, e.longPart(in.C, q))
			})
		})
	}
}

// addDivisions adds quotients and remainders of 32 bits. The quotient of doubles is exact enough: it differs from the
// next integer by more than it is rounded. A division by zero gives all ones, which are set afterwards, as signed
// conversions do not give them.
func addDivisions() {
	for sign, o := range map[string]struct{ widen, cut amd64.Op }{
		"u32": {amd64.VCVTUDQ2PD, amd64.VCVTTPD2UDQ}, "s32": {amd64.VCVTDQ2PD, amd64.VCVTTPD2DQ},
	} {
		quotient := func(e *emitter, in *Inst, p int, d amd64.Vec) {
			e.joinHalves(d, p, func(q int, d amd64.Vec) {
				e.emitOp2(o.widen, 2, e.halfPart(in.A, q, 4))
				e.emitOp2(o.widen, 3, e.halfPart(in.B, q, 4))
				e.emitOp3(amd64.VDIVPD, 2, 2, amd64.Register(3))
				e.emitOp2(o.cut, d, amd64.Register(2))
			})
			y := e.wordIn(in.B, p, 3)
			e.a.TestLanes(amd64.VPTESTNMD, maskTmp, y, amd64.Register(y), amd64.Options{})
			e.a.Op2(amd64.VMOVDQU32, d, e.tableSource(tableOnes), amd64.Options{Mask: maskTmp})
		}
		addOperation("div."+sign, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) { quotient(e, in, p, d) })
		})
		addOperation("rem."+sign, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				quotient(e, in, p, d)
				e.emitOp3(amd64.VPMULLD, d, d, e.wordPart(in.B, p))
				e.emitOp3(amd64.VPSUBD, d, e.wordIn(in.A, p, 0), amd64.Register(d))
			})
		})
	}
}

// addHalves adds operations on 16 bits, of which the rest of a register is not part.
func addHalves() {
	for key, o := range map[string]amd64.Op{
		"add.u16": amd64.VPADDD, "sub.u16": amd64.VPSUBD, "and.u16": amd64.VPANDD, "or.u16": amd64.VPORD, "xor.u16": amd64.VPXORD,
		"mul.lo.u16": amd64.VPMULLD, "shl.u16": amd64.VPSLLVD,
	} {
		addOperation(key, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.emitOp3(o, d, e.wordIn(in.A, p, 0), e.wordPart(in.B, p))
				e.emitOp3(amd64.VPANDD, d, d, e.tableSource(tableLow16))
			})
		})
	}
	addOperation("mov.u16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPANDD, d, e.wordIn(in.A, p, 0), e.tableSource(tableLow16))
		})
	})
	addOperation("not.u16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.a.Op3Imm(amd64.VPTERNLOGD, d, d, e.wordPart(in.A, p), notTable, amd64.Options{})
			e.emitOp3(amd64.VPANDD, d, d, e.tableSource(tableLow16))
		})
	})
	addOperation("selp.u16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.flagMask(in.C, uint8(16*p))
			e.a.Op3(amd64.VPBLENDMD, d, e.wordIn(in.B, p, 0), e.wordPart(in.A, p), amd64.Options{Mask: maskTmp})
			e.emitOp3(amd64.VPANDD, d, d, e.tableSource(tableLow16))
		})
	})
	addOperation("shr.u16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPANDD, 0, e.wordIn(in.A, p, 0), e.tableSource(tableLow16))
			e.emitOp3(amd64.VPSRLVD, d, 0, e.wordPart(in.B, p))
		})
	})
	for _, sign := range []string{"u16", "s16"} {
		addOperation("mul.wide."+sign, func(e *emitter, in *Inst) {
			e.eachWordPart(in.D, func(p int, d amd64.Vec) {
				e.extendInteger(sign, 0, e.wordPart(in.A, p))
				e.extendInteger(sign, 1, e.wordPart(in.B, p))
				e.emitOp3(amd64.VPMULLD, d, 0, amd64.Register(1))
			})
		})
	}
}

// extendInteger cuts 32 bits to an integer type, and extends the result to 32 bits again.
func (e *writer) extendInteger(t string, d amd64.Vec, s amd64.Source) {
	switch t {
	case "u8":
		e.emitOp2(amd64.VMOVDQU32, d, s)
		e.emitOp3(amd64.VPANDD, d, d, e.tableSource(tableLow8))
	case "u16":
		e.emitOp2(amd64.VMOVDQU32, d, s)
		e.emitOp3(amd64.VPANDD, d, d, e.tableSource(tableLow16))
	case "s8", "s16":
		n := uint8(24)
		if t == "s16" {
			n = 16
		}
		e.emitShift(amd64.VPSLLD, d, s, n)
		e.emitShift(amd64.VPSRAD, d, amd64.Register(d), n)
	default:
		if s.Memory || s.Vec != d {
			e.emitOp2(amd64.VMOVDQU32, d, s)
		}
	}
}
