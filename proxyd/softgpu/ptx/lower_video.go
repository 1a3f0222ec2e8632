// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"

// The video instructions take bytes, halves or words of their operands, compute with more
// bits than the operands have, and may combine the result with a third operand.

// selectPart picks the part that a selector names (b0 to b3, h0, h1, or "" for all), extended by t's sign.
func selectPart(v uint64, sel string, signed bool) int64 {
	width, shift := 32, 0
	if sel != "" {
		n := int(sel[1] - '0')
		width, shift = 8, 8*n
		if sel[0] == 'h' {
			width, shift = 16, 16*n
		}
	}
	v = v >> shift & sizeMaskBits(width)
	if signed {
		return int64(v<<(64-width)) >> (64 - width)
	}
	return int64(v)
}

func validPart(sel string) bool {
	switch sel {
	case "", "b0", "b1", "b2", "b3", "h0", "h1":
		return true
	}
	return false
}

// clampTo clamps to a type of n bits.
func clampTo(v int64, n int, signed bool) int64 {
	if signed {
		return min(max(v, -1<<(n-1)), 1<<(n-1)-1)
	}
	return min(max(v, 0), 1<<n-1)
}

// videoOps are the first operations, on extended operands.
var videoOps = map[string]func(a, b int64, clamp bool) int64{
	"vadd":     func(a, b int64, _ bool) int64 { return a + b },
	"vsub":     func(a, b int64, _ bool) int64 { return a - b },
	"vabsdiff": func(a, b int64, _ bool) int64 { return max(a-b, b-a) },
	"vmin":     func(a, b int64, _ bool) int64 { return min(a, b) },
	"vmax":     func(a, b int64, _ bool) int64 { return max(a, b) },
}

// lowerVideo is vadd, vsub, vabsdiff, vmin, vmax, vshl and vshr:
// d{.part}, a{.part}, b{.part}, c with .sat, and for vshl and vshr .clamp or .wrap.
func lowerVideo(l *lowerer) {
	op := l.in.Op
	ts := typesOf(l.in)
	if len(ts) != 3 {
		l.failSyntax("three types are needed")
	}
	l.checkArgs(3, 4)
	args := l.in.Args
	dsel, asel, bsel := args[0].Sel, args[1].Sel, args[2].Sel
	if !validPart(dsel) || !validPart(asel) || !validPart(bsel) {
		l.failSyntax("no such part of a register")
	}
	dt, at, bt := ts[0], ts[1], ts[2]
	sat, clamp, second := l.hasModifier("sat"), l.hasModifier("clamp"), ""
	for _, s := range []string{"add", "min", "max"} {
		if l.hasModifier(s) {
			second = s
		}
	}
	if len(args) == 3 && (second != "" || dsel != "") {
		l.failSyntax("the third operand is missing")
	}
	f := func(a, b, c uint64) uint64 {
		x, y := selectPart(a, asel, at.IsSigned()), selectPart(b, bsel, bt.IsSigned())
		var v int64
		if g := videoOps[op]; g != nil {
			v = g(x, y, clamp)
		} else {
			n := uint64(y) & 0xffffffff
			if clamp {
				n = min(n, 32)
			} else {
				n &= 31
			}
			if op == "vshl" {
				v = x << n
			} else {
				v = x >> n
			}
		}
		if sat {
			width := 32
			if dsel != "" {
				width = map[byte]int{'b': 8, 'h': 16}[dsel[0]]
			}
			v = clampTo(v, width, dt.IsSigned())
		}
		return combineParts(v, c, dsel, second, dt.IsSigned())
	}
	l.loose = true
	src := []ref{l.sourceRef(1, types.U32), l.sourceRef(2, types.U32)}
	if len(args) == 4 {
		src = append(src, l.sourceRef(3, types.U32))
	}
	l.emitLanes(types.U32, l.resultRef(types.U32), f, []types.Type{types.U32, types.U32, types.U32}, src...)
}

// combineParts is the second operation, or the merge into part of c.
func combineParts(v int64, c uint64, dsel, second string, signed bool) uint64 {
	cv := int64(uint32(c))
	if signed {
		cv = int64(int32(c))
	}
	if dsel != "" && second == "" {
		n := int(dsel[1] - '0')
		if dsel[0] == 'b' {
			return c&^(0xff<<(8*n)) | uint64(v)&0xff<<(8*n)
		}
		return c&^(0xffff<<(16*n)) | uint64(v)&0xffff<<(16*n)
	}
	if !signed {
		v = int64(uint32(v))
	} else {
		v = int64(int32(v))
	}
	switch second {
	case "add":
		v += cv
	case "min":
		v = min(v, cv)
	case "max":
		v = max(v, cv)
	}
	return uint64(uint32(v))
}

// lowerVmad is vmad: a·b + c, shifted and saturated, in signed arithmetic of more bits.
func lowerVmad(l *lowerer) {
	l.checkArgs(4)
	ts := typesOf(l.in)
	if len(ts) != 3 {
		l.failSyntax("three types are needed")
	}
	args := l.in.Args
	dt, at, bt := ts[0], ts[1], ts[2]
	asel, bsel := args[1].Sel, args[2].Sel
	negAB, negC, po := args[1].Neg != args[2].Neg, args[3].Neg, l.hasModifier("po")
	sat, shift := l.hasModifier("sat"), 0
	if l.hasModifier("shr7") {
		shift = 7
	} else if l.hasModifier("shr15") {
		shift = 15
	}
	f := func(a, b, c uint64) uint64 {
		x, y := selectPart(a, asel, at.IsSigned()), selectPart(b, bsel, bt.IsSigned())
		cv := int64(uint32(c))
		if dt.IsSigned() {
			cv = int64(int32(c))
		}
		v := x * y
		if negAB {
			v = -v
		}
		if negC {
			cv = -cv
		}
		v += cv
		if po {
			v++
		}
		v >>= shift
		if sat {
			v = clampTo(v, 32, dt.IsSigned())
		}
		return uint64(uint32(v))
	}
	l.loose = true
	l.emitLanes(types.U32, l.resultRef(types.U32), f, []types.Type{types.U32, types.U32, types.U32}, l.sourceRef(1, types.U32), l.sourceRef(2, types.U32), l.sourceRef(3, types.U32))
}

// lowerVset is vset: 1 where the comparison holds.
func lowerVset(l *lowerer) {
	l.checkArgs(3, 4)
	ts := typesOf(l.in)
	if len(ts) != 2 {
		l.failSyntax("two types are needed")
	}
	args := l.in.Args
	dsel, asel, bsel, op, second := args[0].Sel, args[1].Sel, args[2].Sel, "", ""
	for _, m := range l.in.Mods {
		if comparisons[m] {
			op = m
		}
		if m == "add" || m == "min" || m == "max" {
			second = m
		}
	}
	f := func(a, b, c uint64) uint64 {
		v := int64(0)
		if compareFloats(op, float64(selectPart(a, asel, ts[0].IsSigned())), float64(selectPart(b, bsel, ts[1].IsSigned()))) {
			v = 1
		}
		return combineParts(v, c, dsel, second, false)
	}
	if op == "" {
		l.failSyntax("the comparison is missing")
	}
	l.loose = true
	src := []ref{l.sourceRef(1, types.U32), l.sourceRef(2, types.U32)}
	if len(args) == 4 {
		src = append(src, l.sourceRef(3, types.U32))
	}
	l.emitLanes(types.U32, l.resultRef(types.U32), f, []types.Type{types.U32, types.U32, types.U32}, src...)
}

// lowerSimd is vadd2, vadd4 and the like without lane masks and selections: each half or
// byte by itself. .add sums the results and c.
func lowerSimd(l *lowerer) {
	l.checkArgs(4)
	ts := typesOf(l.in)
	if len(ts) < 2 {
		l.failSyntax("types are missing")
	}
	op := l.in.Op
	n := int(op[len(op)-1] - '0')
	base := op[:len(op)-1]
	width := 32 / n
	sat, sum := l.hasModifier("sat"), l.hasModifier("add")
	dt, at, bt := ts[0], ts[len(ts)-2], ts[len(ts)-1]
	if len(ts) == 2 {
		dt = types.U32
	}
	for _, o := range l.in.Args {
		if o.Sel != "" {
			l.refuseInstruction("selected lanes of SIMD video instructions are not supported")
		}
	}
	ext := func(v uint64, signed bool) int64 {
		v &= sizeMaskBits(width)
		if signed {
			return int64(v<<(64-width)) >> (64 - width)
		}
		return int64(v)
	}
	compute := simdOperation(l, base)
	f := func(a, b, c uint64) uint64 {
		r, total := c, c
		for i := range n {
			v := compute(ext(a>>(width*i), at.IsSigned()), ext(b>>(width*i), bt.IsSigned()), false)
			if sat {
				v = clampTo(v, width, dt.IsSigned())
			}
			total += uint64(v)
			r = r&^(sizeMaskBits(width)<<(width*i)) | uint64(v)&sizeMaskBits(width)<<(width*i)
		}
		if sum {
			return uint64(uint32(total))
		}
		return r
	}
	l.loose = true
	m := l.emitLanes(types.U32, l.resultRef(types.U32), f, []types.Type{types.U32, types.U32, types.U32}, l.sourceRef(1, types.U32), l.sourceRef(2, types.U32), l.sourceRef(3, types.U32))
	if op == "vabsdiff4" && sum && !sat && !at.IsSigned() && !bt.IsSigned() {
		m.key = "vabsdiff4.add.u8"
	}
}

// simdOperation returns the operation of a SIMD video instruction on each pair of its parts: base is its name without
// the number of parts. The result has the form of videoOps.
func simdOperation(l *lowerer, base string) func(a, b int64, clamp bool) int64 {
	switch base {
	case "vavrg":
		return func(x, y int64, _ bool) int64 {
			if x+y < 0 {
				return -((-(x + y) + 1) >> 1)
			}
			return (x + y + 1) >> 1
		}
	case "vset":
		comparison := ""
		for _, m := range l.in.Mods {
			if comparisons[m] {
				comparison = m
			}
		}
		return func(x, y int64, _ bool) int64 {
			if compareFloats(comparison, float64(x), float64(y)) {
				return 1
			}
			return 0
		}
	}
	return videoOps[base]
}
