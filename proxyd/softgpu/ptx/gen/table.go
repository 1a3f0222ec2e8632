// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// newRow makes a row with an expression.
func newRow(key, dst string, src []string, expr string) row { return row{key, dst, src, expr, ""} }

func addBinary(out *[]row, key, dst, src, expr string) {
	*out = append(*out, newRow(key, dst, []string{src, src}, expr))
}

// intRows are the operations on integers.
func intRows() []row { return slices.Concat(signlessRows(), signedRows(), bitRows(), wordRows()) }

// signlessRows are the operations that do the same to signed and unsigned integers.
func signlessRows() []row {
	var out []row
	for _, t := range []string{"u16", "u32", "u64"} {
		for _, op := range []struct{ name, expr string }{
			{"add", "a + b"}, {"sub", "a - b"}, {"mul.lo", "a * b"}, {"and", "a & b"}, {"or", "a | b"}, {"xor", "a ^ b"},
		} {
			addBinary(&out, op.name+"."+t, t, t, op.expr)
		}
		out = append(out,
			newRow("mad.lo."+t, t, []string{t, t, t}, "a*b + c"),
			newRow("not."+t, t, []string{t}, "^a"),
			newRow("neg."+t, t, []string{t}, "-a"),
			newRow("shl."+t, t, []string{t, "u32"}, "a << b"),
			newRow("mov."+t, t, []string{t}, "a"),
			newRow("selp."+t, t, []string{t, t, "b"}, "pickValue(a, b, c)"),
			newRow("lop3."+t, t, []string{t, t, t}, "lop3(a, b, c, uint8(in.imm))"),
		)
	}
	return out
}

// signedRows are the operations to which it matters whether integers are signed.
func signedRows() []row {
	var out []row
	for _, t := range []string{"u16", "s16", "u32", "s32", "u64", "s64"} {
		sat := "u"
		if t[0] == 's' {
			sat = "s"
		}
		addBinary(&out, "min."+t, t, t, "min(a, b)")
		addBinary(&out, "max."+t, t, t, "max(a, b)")
		addBinary(&out, "div."+t, t, t, "quotient(a, b)")
		addBinary(&out, "rem."+t, t, t, "remainder(a, b)")
		out = append(out,
			newRow("shr."+t, t, []string{t, "u32"}, "a >> b"),
			newRow("sad."+t, t, []string{t, t, t}, "c + max(a, b) - min(a, b)"),
		)
		if t[1:] != "64" {
			w := map[string]string{"16": "32", "32": "64"}[t[1:]]
			wide, conv := sat+w, map[string]string{"u": "uint", "s": "int"}[sat]+w
			out = append(out,
				newRow("mul.wide."+t, wide, []string{t, t}, fmt.Sprintf("%s(a) * %s(b)", conv, conv)),
				newRow("mad.wide."+t, wide, []string{t, t, wide}, fmt.Sprintf("%s(a)*%s(b) + c", conv, conv)),
				newRow("mul.hi."+t, t, []string{t, t}, fmt.Sprintf("%s(a) * %s(b) >> %s", conv, conv, t[1:])),
				newRow("mad.hi."+t, t, []string{t, t, t}, fmt.Sprintf("%s(%s(a)*%s(b)>>%s) + c", map[string]string{"u": "uint", "s": "int"}[sat]+t[1:], conv, conv, t[1:])),
			)
		} else {
			out = append(out,
				newRow("mul.hi."+t, t, []string{t, t}, "mulHi"+t[:1]+"(a, b)"),
				newRow("mad.hi."+t, t, []string{t, t, t}, "mulHi"+t[:1]+"(a, b) + c"),
			)
		}
	}
	for _, t := range []string{"s16", "s32", "s64"} {
		out = append(out, newRow("abs."+t, t, []string{t}, "max(a, -a)"))
	}
	return out
}

// bitRows are the operations that extract, count and turn round bits.
func bitRows() []row {
	var out []row
	for _, t := range []string{"u32", "u64"} {
		n := t[1:]
		out = append(out,
			newRow("bfe."+t, t, []string{t, "u32", "u32"}, "bfeU"+n+"(a, b, c)"),
			newRow("bfe.s"+n, "s"+n, []string{"s" + n, "u32", "u32"}, "bfeS"+n+"(a, b, c)"),
			newRow("popc."+t, "u32", []string{t}, "bits.OnesCount"+n+"(a)"),
			newRow("clz."+t, "u32", []string{t}, "bits.LeadingZeros"+n+"(a)"),
			newRow("brev."+t, t, []string{t}, "bits.Reverse"+n+"(a)"),
		)
	}
	return out
}

// wordRows are the operations that there are for 32 bits alone.
func wordRows() []row {
	return []row{
		newRow("add.sat.s32", "s32", []string{"s32", "s32"}, "clampS32(int64(a) + int64(b))"),
		newRow("sub.sat.s32", "s32", []string{"s32", "s32"}, "clampS32(int64(a) - int64(b))"),
		newRow("shf.l", "u32", []string{"u32", "u32", "u32"}, "(uint64(b)<<32 | uint64(a)) << min(c, 32) >> 32"),
		newRow("shf.r", "u32", []string{"u32", "u32", "u32"}, "(uint64(b)<<32 | uint64(a)) >> min(c, 32)"),
		newRow("shf.l.wrap", "u32", []string{"u32", "u32", "u32"}, "(uint64(b)<<32 | uint64(a)) << (c & 31) >> 32"),
		newRow("shf.r.wrap", "u32", []string{"u32", "u32", "u32"}, "(uint64(b)<<32 | uint64(a)) >> (c & 31)"),
		newRow("prmt", "u32", []string{"u32", "u32", "u32"}, "prmt(a, b, c)"),
	}
}

// fma32 is the fused multiply-add. The product of two float32 is exact in float64, so the
// sum has a single rounding; a second rounding, to float32, errs only where the first has landed on
// the middle between two float32, or where the result is no normal float32.
const fma32 = `		s := float64(a)*float64(b) + float64(c)
		u := math.Float64bits(s)
		if u>>52&0x7ff-897 > 253 || u&(1<<29-1) == 1<<28 {
			ds[i] = float.FMA32(a, b, c)
		} else {
			ds[i] = float32(s)
		}
`

func floatRows() []row {
	var out []row
	for _, op := range []struct{ name, expr string }{{"add", "a + b"}, {"sub", "a - b"}, {"mul", "a * b"}, {"div", "a / b"}} {
		addBinary(&out, op.name+".f32", "f32", "f32", op.expr)
		double := op.expr
		if op.name == "add" || op.name == "mul" {
			double = "float.FirstNaN(" + op.expr + ", a, b)" // the compiler may exchange the operands
		}
		addBinary(&out, op.name+".f64", "f64", "f64", double)
		out = append(out, newRow(op.name+".ftz.f32", "f32", []string{"u32", "u32"},
			"float.Flush32(float.Flushed(a) "+string(op.expr[2])+" float.Flushed(b))"))
	}
	for _, op := range []struct{ name, expr string }{
		{"sqrt", "float32(math.Sqrt(float64(X)))"}, {"rcp", "1 / X"}, {"rsqrt", "float32(1 / math.Sqrt(float64(X)))"},
		{"sin", "float.Sin(X)"}, {"cos", "float.Cos(X)"},
		{"ex2", "float.Exp2(X)"}, {"lg2", "float.Log2(X)"}, {"tanh", "float32(math.Tanh(float64(X)))"},
	} {
		out = append(out,
			newRow(op.name+".f32", "f32", []string{"f32"}, strings.ReplaceAll(op.expr, "X", "a")),
			newRow(op.name+".ftz.f32", "f32", []string{"u32"}, "float.Flush32("+strings.ReplaceAll(op.expr, "X", "float.Flushed(a)")+")"))
	}
	out = append(out,
		row{"fma.f32", "f32", []string{"f32", "f32", "f32"}, "", fma32},
		newRow("fma.ftz.f32", "f32", []string{"u32", "u32", "u32"}, "float.Flush32(float.FMA32(float.Flushed(a), float.Flushed(b), float.Flushed(c)))"),
		newRow("fma.rm.f32", "f32", []string{"f32", "f32", "f32"}, "float.FMADown32(a, b, c)"),
		newRow("fma.f64", "f64", []string{"f64", "f64", "f64"}, "math.FMA(a, b, c)"),
		newRow("sqrt.f64", "f64", []string{"f64"}, "math.Sqrt(a)"),
		newRow("rcp.f64", "f64", []string{"f64"}, "1 / a"),
		newRow("min.f32", "f32", []string{"f32", "f32"}, "minNum32(a, b)"),
		newRow("max.f32", "f32", []string{"f32", "f32"}, "maxNum32(a, b)"),
		newRow("min.f64", "f64", []string{"f64", "f64"}, "minNum(a, b)"),
		newRow("max.f64", "f64", []string{"f64", "f64"}, "maxNum(a, b)"),
		newRow("abs.f64", "u64", []string{"u64"}, "a &^ (1 << 63)"),
		newRow("neg.f64", "u64", []string{"u64"}, "a ^ 1<<63"),
	)
	return out
}

func setpRows() []row {
	var out []row
	for _, t := range []string{"u16", "s16", "u32", "s32", "u64", "s64"} {
		for _, c := range []struct{ name, op string }{{"eq", "=="}, {"ne", "!="}, {"lt", "<"}, {"le", "<="}, {"gt", ">"}, {"ge", ">="}} {
			addBinary(&out, "setp."+c.name+"."+t, "p", t, "a "+c.op+" b")
		}
	}
	for _, t := range []string{"f32", "f64"} {
		for _, c := range []struct{ name, expr string }{
			{"eq", "a == b"}, {"ne", "a < b || a > b"}, {"lt", "a < b"}, {"le", "a <= b"}, {"gt", "a > b"}, {"ge", "a >= b"},
			{"equ", "!(a < b || a > b)"}, {"neu", "a != b"}, {"ltu", "!(a >= b)"}, {"leu", "!(a > b)"}, {"gtu", "!(a <= b)"}, {"geu", "!(a < b)"},
			{"num", "a == a && b == b"}, {"nan", "a != a || b != b"},
		} {
			addBinary(&out, "setp."+c.name+"."+t, "p", t, c.expr)
		}
	}
	return out
}

func cvtRows() []row {
	var out []row
	ints := []string{"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"}
	for _, d := range ints {
		for _, s := range ints {
			out = append(out, newRow("cvt."+d+"."+s, d, []string{s}, "a"))
		}
	}
	for _, s := range ints {
		out = append(out,
			newRow("cvt.f32."+s, "f32", []string{s}, "float32(a)"),
			newRow("cvt.f64."+s, "f64", []string{s}, "float64(a)"),
		)
	}
	out = append(out,
		newRow("cvt.sat.f32.f32", "f32", []string{"f32"}, "clampToUnit(a)"),
		newRow("cvt.f64.f32", "f64", []string{"f32"}, "float64(a)"),
		newRow("cvt.f32.f64", "f32", []string{"f64"}, "float32(a)"),
		newRow("cvt.rzi.s32.f32", "s32", []string{"f32"}, "truncS32(float64(a))"),
		newRow("cvt.rzi.u32.f32", "u32", []string{"f32"}, "truncU32(float64(a))"),
		newRow("cvt.rzi.s32.f64", "s32", []string{"f64"}, "truncS32F64(a)"),
		newRow("cvt.rni.s32.f32", "s32", []string{"f32"}, "truncS32(math.RoundToEven(float64(a)))"),
		newRow("cvt.rmi.s32.f32", "s32", []string{"f32"}, "truncS32(math.Floor(float64(a)))"),
		newRow("cvt.f32.f16", "f32", []string{"u16"}, "float.F16To32(a)"),
		newRow("cvt.f16.f32", "u16", []string{"f32"}, "float.F16From32(a)"),
		newRow("cvt.f32.bf16", "f32", []string{"u16"}, "float.BF16To32(a)"),
		newRow("cvt.bf16.f32", "u16", []string{"f32"}, "float.BF16From32(a)"),
	)
	return out
}
