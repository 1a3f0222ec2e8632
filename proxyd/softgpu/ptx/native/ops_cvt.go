// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

func init() {
	integers := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	for _, d := range integers {
		for _, s := range integers {
			addOperation("cvt."+d+"."+s, func(e *emitter, in *Inst) { e.convertInt(in, d, s) })
		}
	}
	for _, s := range integers {
		addOperation("cvt.f32."+s, func(e *emitter, in *Inst) { e.intToSingle(in, s) })
		addOperation("cvt.f64."+s, func(e *emitter, in *Inst) { e.intToDouble(in, s) })
	}
	addFormats()
	addCuts()
	addPacks()
}

// isLongType tells whether values of an integer type have 64 bits.
func isLongType(t string) bool { return t[1:] == "64" }

// convertInt converts between integers: the source is cut to its type and extended to the result's.
func (e *emitter) convertInt(in *Inst, to, from string) {
	switch {
	case isLongType(to) && isLongType(from):
		e.eachLongPart(in.D, func(p int, d amd64.Vec) { e.emitOp2(amd64.VMOVDQU64, d, e.longPart(in.A, p)) })
	case isLongType(to):
		widen := amd64.VPMOVZXDQ
		if from[0] == 's' {
			widen = amd64.VPMOVSXDQ
		}
		e.eachLongPart(in.D, func(q int, d amd64.Vec) {
			s := e.halfPart(in.A, q, 0)
			if from[1:] != "32" {
				// 256 bits more are read than are needed, and not used.
				if s.Memory {
					p := e.wordIn(in.A, q/2, 1)
					s = amd64.Register(p)
					if q%2 == 1 {
						e.a.NarrowTo(amd64.VEXTRACTI64, 0, p, []byte{1}, amd64.Options{})
						s = amd64.Register(0)
					}
				}
				e.extendInteger(from, 2, s)
				s = amd64.Register(2)
			}
			e.emitOp2(widen, d, s)
		})
	case isLongType(from):
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.narrowLong(d, in.A, p)
			e.extendInteger(to, d, amd64.Register(d))
		})
	default:
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.extendInteger(from, d, e.wordPart(in.A, p))
			e.extendInteger(to, d, amd64.Register(d))
		})
	}
}

func (e *emitter) intToSingle(in *Inst, from string) {
	signed := from[0] == 's'
	e.eachWordPart(in.D, func(p int, d amd64.Vec) {
		if isLongType(from) {
			o := amd64.VCVTUQQ2PS
			if signed {
				o = amd64.VCVTQQ2PS
			}
			e.joinHalves(d, p, func(q int, d amd64.Vec) { e.emitOp2(o, d, e.longPart(in.A, q)) })
			return
		}
		o := amd64.VCVTUDQ2PS
		if signed {
			o = amd64.VCVTDQ2PS
		}
		e.extendInteger(from, d, e.wordPart(in.A, p))
		e.emitOp2(o, d, amd64.Register(d))
	})
}

func (e *emitter) intToDouble(in *Inst, from string) {
	signed := from[0] == 's'
	e.eachLongPart(in.D, func(q int, d amd64.Vec) {
		if isLongType(from) {
			o := amd64.VCVTUQQ2PD
			if signed {
				o = amd64.VCVTQQ2PD
			}
			e.emitOp2(o, d, e.longPart(in.A, q))
			return
		}
		o := amd64.VCVTUDQ2PD
		if signed {
			o = amd64.VCVTDQ2PD
		}
		e.extendInteger(from, 0, e.wordPart(in.A, q/2))
		if q%2 == 1 {
			e.a.NarrowTo(amd64.VEXTRACTI64, 0, 0, []byte{1}, amd64.Options{})
		}
		e.emitOp2(o, d, amd64.Register(0))
	})
}

// addFormats adds conversions between floating-point formats.
func addFormats() {
	addOperation("cvt.f64.f32", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(q int, d amd64.Vec) { e.emitOp2(amd64.VCVTPS2PD, d, e.halfPart(in.A, q, 0)) })
	})
	addOperation("cvt.f32.f64", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.joinHalves(d, p, func(q int, d amd64.Vec) { e.emitOp2(amd64.VCVTPD2PS, d, e.longPart(in.A, q)) })
			e.unifyNaNs(d)
		})
	})
	addOperation("cvt.sat.f32.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.clearVector(1)
			e.emitOp3(amd64.VMAXPS, d, e.wordIn(in.A, p, 0), amd64.Register(1)) // the 0 also for a NaN and -0
			e.emitOp3(amd64.VMINPS, d, d, e.tableSource(tableOneF32))
		})
	})
	addOperation("cvt.f32.f16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.a.NarrowTo(amd64.VPMOVDW, 1, e.wordIn(in.A, p, 0), nil, amd64.Options{})
			e.emitOp2(amd64.VCVTPH2PS, d, amd64.Register(1))
			e.unifyNaNs(d)
		})
	})
	addOperation("cvt.f16.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			e.a.NarrowTo(amd64.VCVTPS2PH, 1, x, []byte{0}, amd64.Options{})
			e.emitOp2(amd64.VPMOVZXWD, d, amd64.Register(1))
			e.narrowNaN(d, x)
		})
	})
	addOperation("cvt.f32.bf16", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitShift(amd64.VPSLLD, d, e.wordPart(in.A, p), 16)
			e.unifyNaNs(d)
		})
	})
	addOperation("cvt.bf16.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			e.emitShift(amd64.VPSRLD, 1, amd64.Register(x), 16)
			e.emitOp3(amd64.VPANDD, 1, 1, e.tableSource(tableOne))
			e.emitOp3(amd64.VPADDD, 1, 1, e.tableSource(table7fff))
			e.emitOp3(amd64.VPADDD, 1, 1, amd64.Register(x))
			e.emitShift(amd64.VPSRLD, d, amd64.Register(1), 16)
			e.narrowNaN(d, x)
		})
	})
}

// narrowNaN gives formats of 16 bits their NaN where x is a NaN.
func (e *writer) narrowNaN(d, x amd64.Vec) {
	e.a.Compare(amd64.VCMPPS, maskTmp, x, amd64.Register(x), amd64.UnordQ, amd64.Options{})
	e.a.Op2(amd64.VMOVDQU32, d, e.tableSource(table7fff), amd64.Options{Mask: maskTmp})
}

// addCuts adds conversions to integers: NaN gives 0, but of f64 the lowest integer, as VCVTTPD2DQ does, and a number that is too large or too small the nearest integer of
// the type.
func addCuts() {
	signed := func(e *emitter, d, x amd64.Vec, convert func(d amd64.Vec)) {
		convert(d)
		e.a.Compare(amd64.VCMPPS, maskTmp, x, e.tableSource(tableTwo31F32), amd64.GeOQ, amd64.Options{})
		e.a.Op2(amd64.VMOVDQU32, d, e.tableSource(tableNaN), amd64.Options{Mask: maskTmp})
		e.a.Compare(amd64.VCMPPS, maskTmp, x, amd64.Register(x), amd64.OrdQ, amd64.Options{})
		e.a.Op2(amd64.VMOVDQU32, d, amd64.Register(d), amd64.Options{Mask: maskTmp, Zero: true})
	}
	addOperation("cvt.rzi.s32.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			signed(e, d, x, func(d amd64.Vec) { e.emitOp2(amd64.VCVTTPS2DQ, d, amd64.Register(x)) })
		})
	})
	addOperation("cvt.rni.s32.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			signed(e, d, x, func(d amd64.Vec) { e.emitOp2(amd64.VCVTPS2DQ, d, amd64.Register(x)) })
		})
	})
	addOperation("cvt.rmi.s32.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			signed(e, d, x, func(d amd64.Vec) {
				e.a.Op2Imm(amd64.VRNDSCALEPS, d, amd64.Register(x), 9, amd64.Options{}) // down
				e.emitOp2(amd64.VCVTTPS2DQ, d, amd64.Register(d))
			})
		})
	})
	addOperation("cvt.rzi.u32.f32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			x := e.wordIn(in.A, p, 0)
			e.clearVector(1)
			e.a.Compare(amd64.VCMPPS, maskTmp, x, amd64.Register(1), amd64.GtOQ, amd64.Options{})
			e.a.Op2(amd64.VCVTTPS2UDQ, d, amd64.Register(x), amd64.Options{Mask: maskTmp, Zero: true})
		})
	})
	addOperation("cvt.rzi.s32.f64", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.joinHalves(d, p, func(q int, d amd64.Vec) {
				x := e.longIn(in.A, q, 2)
				e.emitOp2(amd64.VCVTTPD2DQ, d, amd64.Register(x))
				e.a.Compare(amd64.VCMPPD, maskTmp, x, e.tableSource(tableTwo31F64), amd64.GeOQ, amd64.Options{})
				e.a.Op2(amd64.VMOVDQU32, d, e.tableSource(tableNaN), amd64.Options{Mask: maskTmp})
			})
		})
	})
}

// addPacks adds the joining of two halves into a register, and taking them apart again.
func addPacks() {
	addOperation("pack.b32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitOp3(amd64.VPANDD, 0, e.wordIn(in.A, p, 0), e.tableSource(tableLow16))
			e.emitShift(amd64.VPSLLD, 1, e.wordPart(in.B, p), 16)
			e.emitOp3(amd64.VPORD, d, 0, amd64.Register(1))
		})
	})
	addOperation("pack.b64", func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(q int, d amd64.Vec) {
			e.emitOp2(amd64.VPMOVZXDQ, 2, e.halfPart(in.A, q, 0))
			e.emitOp2(amd64.VPMOVZXDQ, 3, e.halfPart(in.B, q, 0))
			e.emitShift(amd64.VPSLLQ, 3, amd64.Register(3), 32)
			e.emitOp3(amd64.VPORQ, d, 2, amd64.Register(3))
		})
	})
	addOperation("unpack.b32", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			e.emitShift(amd64.VPSRLD, 0, e.wordPart(in.A, p), uint8(in.Imm))
			e.emitOp3(amd64.VPANDD, d, 0, e.tableSource(tableLow16))
		})
	})
	addOperation("unpack.b64", func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) {
			pick := amd64.Vec(constIndex)
			if in.Imm != 0 {
				pick = 0
				e.emitOp2(amd64.VMOVDQU32, pick, e.tableSource(tableOdd))
			}
			e.emitOp2(amd64.VMOVDQU32, d, e.longPart(in.A, 2*p))
			e.emitOp3(amd64.VPERMT2D, d, pick, e.longPart(in.A, 2*p+1))
		})
	})
}
