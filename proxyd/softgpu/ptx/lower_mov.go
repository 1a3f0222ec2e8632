// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// lowerMov is mov, with packing and unpacking.
func lowerMov(l *lowerer) {
	t := l.lastType()
	l.checkArgs(2)
	d, s := l.spreadVector(l.in.Args[0]), l.spreadVector(l.in.Args[1])
	l.in.Args = []syntax.Operand{d, s}
	switch {
	case l.hasModifier("v2") || l.hasModifier("v4") || l.hasModifier("v8"):
		n := vectorLength(l.in)
		to, _, _ := l.listElements(0, t, n, true)
		from, _, _ := l.listElements(1, t, n, false)
		// Results may be among the sources.
		var keep []ref
		for _, r := range from {
			k := l.newReg(t.Class())
			l.emitMove(t, k, r)
			keep = append(keep, k)
		}
		for i, r := range keep {
			l.emitMove(t, to[i], r)
		}
	case s.Kind == syntax.ArgVector:
		l.packElements(t, s.List)
	case d.Kind == syntax.ArgVector:
		l.unpackElements(t, d.List)
	case t == types.B128:
		for p := range ref(2) {
			l.emitOperation("mov.u64", l.resultRef(types.B64)+2*p, l.sourceRef(1, types.B64)+2*p)
		}
	default:
		// A special register of 32 bits is read into a register of 16 bits by old texts.
		l.emitMove(t, l.resultRef(t), l.sourceRef(1, t))
	}
}

var bySize = map[uint32]types.Type{1: types.B8, 2: types.B16, 4: types.B32, 8: types.B64, 16: types.B128}

// packElements joins elements into a value, the first lowest.
func (l *lowerer) packElements(t types.Type, list []syntax.Operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == types.NoType || t.Size()%uint32(len(list)) != 0 {
		l.failSyntax("%d elements do not make a %s", len(list), t)
	}
	var src []ref
	for _, o := range list {
		src = append(src, l.operandRef(o, et))
	}
	if t == types.B128 {
		d := l.resultRef(types.B64)
		if len(src) == 2 {
			// The results may be among the sources.
			lo, hi := l.newReg(types.Class64), l.newReg(types.Class64)
			l.emitOperation("mov.u64", lo, src[0])
			l.emitOperation("mov.u64", hi, src[1])
			l.emitOperation("mov.u64", d, lo)
			l.emitOperation("mov.u64", d+2, hi)
			return
		}
		l.failSyntax("no such form")
	}
	d := l.resultRef(t)
	size := 8 * et.Size()
	mask := types.SizeMask(et.Size())
	if len(src) == 2 {
		m := l.emitLanes(t, d, func(a, b, _ uint64) uint64 { return a&mask | b&mask<<size }, []types.Type{et, et}, src...)
		if t.Size() >= 4 {
			m.key = fmt.Sprintf("pack.b%d", 8*t.Size())
		}
		return
	}
	acc := l.constantRef(t.Class(), 0)
	for i, s := range src {
		next := l.newReg(t.Class())
		if i == len(src)-1 {
			next = d
		}
		l.emitLanes(t, next, func(a, b, _ uint64) uint64 { return b | a&mask<<(size*uint32(i)) }, []types.Type{et, t}, s, acc)
		acc = next
	}
}

// unpackElements takes a value apart.
func (l *lowerer) unpackElements(t types.Type, list []syntax.Operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == types.NoType || t.Size()%uint32(len(list)) != 0 {
		l.failSyntax("%d elements do not make a %s", len(list), t)
	}
	if t == types.B128 {
		if len(list) != 2 {
			l.failSyntax("no such form")
		}
		s := l.sourceRef(1, types.B64)
		lo, hi := l.newReg(types.Class64), l.newReg(types.Class64)
		l.emitOperation("mov.u64", lo, s)
		l.emitOperation("mov.u64", hi, s+2)
		l.emitOperation("mov.u64", l.refForResult(list[0], types.B64), lo)
		l.emitOperation("mov.u64", l.refForResult(list[1], types.B64), hi)
		return
	}
	s := l.sourceRef(1, t)
	// A result may be the source.
	keep := l.newReg(t.Class())
	l.emitMove(bySize[t.Size()], keep, s)
	for i, o := range list {
		if o.Kind == syntax.ArgSink {
			continue
		}
		shift := 8 * et.Size() * uint32(i)
		m := l.emitLanes(et, l.refForResult(o, et), func(a, _, _ uint64) uint64 { return a >> shift & types.SizeMask(et.Size()) }, []types.Type{t}, keep)
		if m.imm = uint64(shift); len(list) == 2 && t.Size() >= 4 {
			m.key = fmt.Sprintf("unpack.b%d", 8*t.Size())
		}
	}
}

var windows = map[types.Space]uint64{types.SharedSpace: memory.SharedWindow, types.LocalSpace: memory.LocalWindow, types.ParamSpace: memory.ParamWindow}

// lowerCvta converts between generic addresses and the addresses of a space.
func lowerCvta(l *lowerer) {
	l.loose = true
	t, space := l.lastType(), l.namedSpace()
	l.checkArgs(2)
	if space == types.ParamSpace && !l.f.Entry {
		space = types.LocalSpace
	}
	w, ok := windows[space]
	if o := l.in.Args[1]; o.Kind == syntax.ArgName {
		if v := l.in.Scope.FindVariable(o.Name); v != nil && v.Space == types.ParamSpace && !l.f.IsParam(v) {
			w, ok = memory.LocalWindow, true
		}
	}
	d, s := l.resultRef(t), l.sourceRef(1, t)
	if !ok || t.Size() == 4 {
		l.emitMove(t, d, s)
		return
	}
	if l.hasModifier("to") {
		l.emitOperation("sub.u64", d, s, l.constantRef(types.Class64, w))
	} else {
		l.emitOperation("add.u64", d, s, l.constantRef(types.Class64, w))
	}
}

func lowerIsspacep(l *lowerer) {
	l.loose = true
	l.checkArgs(2)
	space := l.namedSpace()
	consts := l.b.prog.constantRange()
	f := func(a, _, _ uint64) uint64 {
		in := false
		switch space {
		case types.SharedSpace:
			in = a-memory.SharedWindow < memory.WindowSize
		case types.LocalSpace:
			in = a-memory.LocalWindow < memory.WindowSize
		case types.ParamSpace:
			in = a-memory.ParamWindow < memory.WindowSize
		default:
			isConst := a-consts[0] < consts[1]-consts[0]
			in = a >= memory.MinAddress && isConst == (space == types.ConstSpace)
		}
		if in {
			return 1
		}
		return 0
	}
	l.emitLanes(types.Pred, l.resultRef(types.Pred), f, []types.Type{types.U64}, l.sourceRef(1, types.U64))
}
