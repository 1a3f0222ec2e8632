// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// vectorLength is the number of elements of .v2, .v4 or .v8.
func vectorLength(in *syntax.Instruction) int {
	for i, m := range []string{"v2", "v4", "v8"} {
		if in.HasModifier(m) {
			return 2 << i
		}
	}
	return 1
}

// noteWatched notes accesses for which the order between blocks, or in time, matters.
func (l *lowerer) noteWatched(space types.Space) {
	for _, m := range []string{"volatile", "relaxed", "acquire", "release", "mmio"} {
		if l.hasModifier(m) {
			l.b.spins = true
			if space == types.Generic || space == types.GlobalSpace {
				l.b.ordered = true
			}
			emitSpin(l)
			return
		}
	}
}

// wholeParam returns the register that stands for a .param variable, if l.in.args[i] is a .param
// variable.
func (l *lowerer) wholeParam(i int) (ref, *syntax.Variable) {
	o := l.in.Args[i]
	if o.Kind != syntax.ArgAddr || o.Name == "" || l.f.Entry && l.f.Scope.Vars[o.Name] != nil && l.in.Scope.FindVariable(o.Name) == l.f.Scope.Vars[o.Name] {
		return 0, nil
	}
	v := l.in.Scope.FindVariable(o.Name)
	if v == nil || v.Space != types.ParamSpace {
		return 0, nil
	}
	if l.b.inMemory[l.f] == nil {
		l.b.inMemory[l.f] = findAddressed(l.f)
	}
	a := l.placeParameter(v, l.b.inMemory[l.f])
	if a.inMemory {
		return 0, nil
	}
	return a.ref, v
}

func lowerLd(l *lowerer) {
	l.loose = true
	t, n, space := l.lastType(), vectorLength(l.in), l.namedSpace()
	if len(l.in.Args) == 3 && (l.hasModifier("L2::cache_hint") || l.hasModifier("level::cache_hint")) {
		l.in.Args = l.in.Args[:2]
	}
	l.checkArgs(2)
	l.noteWatched(space)
	if r, v := l.wholeParam(1); v != nil {
		d := l.resultRef(t)
		l.emitMove(t, d, r)
		return
	}
	a := l.readAddress(1, space)
	if t == types.B128 || n > 1 {
		l.ldVector(t, n, a)
		return
	}
	op := loads[loadKey{t.Size(), t.IsSigned()}]
	d := l.resultRef(t)
	if at := l.b.constantAt(a); op != nil && a.space == types.ParamSpace && at+uint64(t.Size()) <= uint64(l.b.paramSize) && at%uint64(t.Size()) == 0 {
		m := l.emitMicro(opParam, shape{d: defOperand(t.Class())}, d, 0, 0, 0, 0)
		m.imm, m.ext, m.key = at, &ext{param: t}, sizeKey("param", t)
		return
	}
	if op == nil {
		l.failSyntax("no such form")
	}
	m := l.numberSite(l.emitMicro(op(a.space), shape{d: defOperand(t.Class()), a: a.addressOperand()}, d, 0, a.base, ref(a.space), 0))
	m.imm, m.key = a.off, accessKey("ld", a.space, t)
}

// listElements lists the registers of a vector operand, or of an operand of type b128.
func (l *lowerer) listElements(i int, t types.Type, n int, write bool) ([]ref, []opnd, uint32) {
	list := []syntax.Operand{l.in.Args[i]}
	if n > 1 {
		list = l.spreadVector(l.in.Args[i]).List
	}
	if len(list) != n {
		l.failSyntax("a vector of %d is needed", n)
	}
	var refs []ref
	var os []opnd
	for _, o := range list {
		et, parts := t, 1
		if t == types.B128 {
			et, parts = types.B64, 2
		}
		for p := range parts {
			var r ref
			if write {
				r = l.refForResult(o, et)
			} else {
				r = l.operandRef(o, et)
			}
			if o.Kind == syntax.ArgName && p > 0 {
				r += 2
			}
			refs = append(refs, r)
			if write {
				os = append(os, defOperand(et.Class()))
			} else {
				os = append(os, useOperand(et.Class()))
			}
		}
	}
	size := t.Size()
	if t == types.B128 {
		size = 8
	}
	return refs, os, size
}

func (l *lowerer) ldVector(t types.Type, n int, a access) {
	refs, os, size := l.listElements(0, t, n, true)
	m := l.numberSite(l.emitMicro(vectorLoad(a.space, size, os), shape{a: a.addressOperand()}, 0, 0, a.base, ref(a.space), ref(size)))
	m.imm, m.ext, m.key = a.off, &ext{refs: refs, opnds: os}, vectorKey("ld", a.space, size, os)
	if t.IsSigned() {
		m.e = 1
	}
}

func lowerSt(l *lowerer) {
	l.loose = true
	t, n, space := l.lastType(), vectorLength(l.in), l.namedSpace()
	if len(l.in.Args) == 3 && (l.hasModifier("L2::cache_hint") || l.hasModifier("level::cache_hint")) {
		l.in.Args = l.in.Args[:2]
	}
	l.checkArgs(2)
	l.noteWatched(space)
	if r, v := l.wholeParam(0); v != nil {
		l.emitMove(t, r, l.sourceRef(1, t))
		return
	}
	a := l.readAddress(0, space)
	if t == types.B128 || n > 1 {
		refs, os, size := l.listElements(1, t, n, false)
		m := l.numberSite(l.emitMicro(vectorStore(a.space, size, os), shape{a: a.addressOperand()}, 0, 0, a.base, ref(a.space), ref(size)))
		m.imm, m.ext, m.key = a.off, &ext{refs: refs, opnds: os}, vectorKey("st", a.space, size, os)
		return
	}
	op := stores[t.Size()]
	if op == nil {
		l.failSyntax("no such form")
	}
	v := l.sourceRef(1, t)
	m := l.numberSite(l.emitMicro(op(a.space), shape{a: a.addressOperand(), c: useOperand(t.Class())}, 0, 0, a.base, ref(a.space), v))
	m.imm, m.key = a.off, accessKey("st", a.space, wordOfSize(t))
}

// accessKey names an access to machine code; "" for a space that accessSpaces does not name.
func accessKey(op string, space types.Space, t types.Type) string {
	name := accessSpaces[space]
	if name == "" {
		return ""
	}
	return sizeKey(op+"."+name, t)
}

var accessSpaces = map[types.Space]string{
	types.Generic: "global", types.GlobalSpace: "global", types.ConstSpace: "global", types.SharedSpace: "shared", types.LocalSpace: "local",
}

// sizeKey adds the size of a type to a name, and whether it is extended with its sign.
func sizeKey(op string, t types.Type) string {
	key := fmt.Sprintf("%s.%d", op, t.Size())
	if t.IsSigned() && t.Size() < 4 {
		key += "s"
	}
	return key
}

func wordOfSize(t types.Type) types.Type { return bySize[t.Size()] }

// vectorKey names an access to a vector whose elements fill their registers.
func vectorKey(op string, space types.Space, size uint32, os []opnd) string {
	name := accessSpaces[space]
	if name == "" || size < 4 || size == 4 && !areAllWords(os) {
		return ""
	}
	return fmt.Sprintf("%s.%s.%d.v%d", op, name, size, len(os))
}

// emitMove copies a value of type t.
func (l *lowerer) emitMove(t types.Type, d, s ref) {
	switch t.Class() {
	case types.ClassPred:
		emitFlagMove(l, d, s)
	case types.Class64:
		l.emitOperation("mov.u64", d, s)
	default:
		switch {
		case t.Size() == 1 && t.IsSigned():
			l.emitOperation("cvt.s8.s8", d, s)
		case t.Size() == 1:
			l.emitOperation("cvt.u8.u8", d, s)
		case t.Size() == 2 && t.IsSigned():
			l.emitOperation("cvt.s16.s16", d, s)
		case t.Size() == 2:
			l.emitOperation("mov.u16", d, s)
		default:
			l.emitOperation("mov.u32", d, s)
		}
	}
}

// constantAt is the address of an access to a known place in a 32-bit space, or an address beyond
// all places.
func (b *builder) constantAt(a access) uint64 {
	if a.base&1 == 0 || a.addressOperand() != use32 {
		return 1 << 40
	}
	return uint64(b.const32[a.base/4]) + a.off
}

// opParam reads an entry's parameter: the same in all lanes.
func opParam(w *warp, in *inst, m uint32) {
	t := in.ext.param
	v := readBytes(w.block.params[in.imm:][:t.Size()])
	if t.Class() == types.Class64 {
		d := w.u64(in.d)
		for ; m != 0; m &= m - 1 {
			d[lowestLane(m)] = v
		}
		return
	}
	if t.IsSigned() && t.Size() < 4 {
		v = castInt(v, types.S32, t, false)
	}
	d := w.u32(in.d)
	for ; m != 0; m &= m - 1 {
		d[lowestLane(m)] = uint32(v)
	}
}
