// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"
)

// builtin is a function that the package provides.
type builtin func(w *warp, in *inst, m uint32)

// lowerCall reads call (ret), f, (args), prototype;
func lowerCall(l *lowerer) {
	args := l.in.args
	site := &callSite{}
	var rets, actuals []operand
	if len(args) > 0 && args[0].kind == argList {
		rets, args = args[0].list, args[1:]
	}
	if len(args) == 0 || args[0].kind != argName {
		l.failSyntax("a function is needed")
	}
	callee := args[0]
	args = args[1:]
	if len(args) > 0 && args[0].kind == argList {
		actuals, args = args[0].list, args[1:]
	}
	var proto *prototype
	var target ref
	var sh shape
	if l.in.scope.findRegister(callee.name) != nil {
		l.loose = true
		target, sh.a = l.operandRef(callee, U64), use64
		l.b.indirect = true
		if len(args) != 1 || args[0].kind != argName {
			l.failSyntax("an indirect call needs a prototype or a list of targets")
		}
		if proto = l.in.scope.findPrototype(args[0].name); proto == nil {
			names, ok := l.in.scope.findTargets(args[0].name)
			if !ok || len(names) == 0 {
				l.failSyntax("%s is no prototype", args[0].name)
			}
			f := l.b.prog.findFunction(l.f.mod, names[0])
			if f == nil {
				l.failSyntax("function %s is not declared", names[0])
			}
			proto = &f.proto
		}
	} else {
		f := l.b.prog.findFunction(l.f.mod, callee.name)
		if f == nil {
			l.failSyntax("function %s is not declared", callee.name)
		}
		if f.entry {
			l.failSyntax("%s is an entry", f.name)
		}
		proto = &f.proto
		site.fn = f
		if f.decl {
			site.builtin = builtins[f.name]
			if site.builtin == nil {
				if reason := refusedFunctions[f.name]; reason != "" {
					l.in = &instruction{line: l.in.line, op: f.name}
					l.refuseInstruction(reason)
				}
				l.failSyntax("function %s is not defined", f.name)
			}
			l.b.ordered = l.b.ordered || f.name != "__assertfail"
		} else {
			l.b.queueFunction(f)
		}
	}
	site.noreturn = proto.noreturn
	if len(actuals) != len(proto.params) || len(rets) != len(proto.ret) {
		l.failSyntax("%d parameters and %d results, %d and %d are declared", len(actuals), len(rets), len(proto.params), len(proto.ret))
	}
	for i, o := range actuals {
		site.args = append(site.args, l.actualPlaces(o, proto.params[i], false)...)
	}
	for i, o := range rets {
		site.rets = append(site.rets, l.actualPlaces(o, proto.ret[i], true)...)
	}
	m := l.control(flowCall)
	m.a, m.shape, m.ext = target, sh, &ext{call: site}
}

// actualPlaces are the places of an operand, several for a vector.
func (l *lowerer) actualPlaces(o operand, p param, result bool) []argument {
	v := l.spreadVector(o)
	if v.kind != argVector {
		return []argument{l.actualPlace(o, p, result)}
	}
	var out []argument
	for _, e := range v.list {
		out = append(out, l.actualPlace(e, p, result))
	}
	return out
}

// actualPlace is the place of an argument or result at the caller's side.
func (l *lowerer) actualPlace(o operand, p param, result bool) argument {
	if o.kind == argName {
		if v := l.in.scope.findVariable(o.name); v != nil && v.space == ParamSpace {
			if l.b.inMemory[l.f] == nil {
				l.b.inMemory[l.f] = l.addressed()
			}
			return l.place(v, l.b.inMemory[l.f])
		}
	}
	t := B64
	switch {
	case p.reg != nil:
		t = p.reg.typ
	case p.v != nil:
		t = p.v.typ
	}
	l.loose = true
	if result {
		return argument{ref: l.refForResult(o, t), class: t.classOf(), size: max(t.Size(), 1)}
	}
	return argument{ref: l.operandRef(o, t), class: t.classOf(), size: max(t.Size(), 1)}
}

// readArg reads an argument of a builtin.
func (w *warp) readArg(in *inst, k, lane int) uint64 {
	site := in.ext.call
	if k >= len(site.args) {
		return 0
	}
	a := site.args[k]
	if a.inMemory {
		return readBytes(w.local.laneBytes(lane, w.cur.frame.local+a.offset, min(a.size, 8)))
	}
	return w.lane(use(a.class), a.ref, lane)
}

// setRet writes the result of a builtin.
func (w *warp) setRet(in *inst, lane int, v uint64) {
	for _, a := range in.ext.call.rets {
		if a.inMemory {
			writeBytes(w.local.laneBytes(lane, w.cur.frame.local+a.offset, min(a.size, 8)), v)
		} else {
			w.setLane(def(a.class), a.ref, lane, v)
		}
	}
}

// lowerAlloca is alloca: memory until the function returns.
func lowerAlloca(l *lowerer) {
	l.checkArgs(2, 3)
	l.loose = true
	l.b.unbounded = true
	t := l.lastType()
	align := uint64(8)
	if len(l.in.args) == 3 {
		if align = l.in.args[2].num; align == 0 || align&(align-1) != 0 || align > 1<<16 {
			l.failSyntax("the alignment is no power of two")
		}
	}
	d, s := l.resultRef(t), l.sourceRef(1, U64)
	m := l.emit(opAlloca, shape{d: def(t.classOf()), a: use64}, d, 0, s, 0, 0)
	m.imm = align
	m.ext = &ext{opnds: []opnd{def(t.classOf())}}
}

func opAlloca(w *warp, in *inst, m uint32) {
	f := w.cur.frame
	sizes := w.u64(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		at := (uint64(max(w.local.tops[i], f.local+f.code.local)) + in.imm - 1) &^ (in.imm - 1)
		if sizes[i] > uint64(w.local.size) || at+sizes[i] > uint64(w.local.size) {
			w.raiseFault(StackOverflow, in, i, 0, "alloca")
		}
		w.local.tops[i] = uint32(at + sizes[i])
		w.setLane(in.ext.opnds[0], in.d, i, at)
	}
}

// lowerStack is stacksave and stackrestore.
func lowerStack(l *lowerer) {
	l.checkArgs(1)
	l.loose = true
	l.b.unbounded = true
	t := l.lastType()
	if l.in.op == "stacksave" {
		m := l.emit(opStackSave, shape{d: def(t.classOf())}, l.resultRef(t), 0, 0, 0, 0)
		m.ext = &ext{opnds: []opnd{def(t.classOf())}}
		return
	}
	l.emit(opStackRestore, shape{a: use64}, 0, 0, l.sourceRef(0, U64), 0, 0)
}

func opStackSave(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		w.setLane(in.ext.opnds[0], in.d, i, uint64(w.local.tops[i]))
	}
}

func opStackRestore(w *warp, in *inst, m uint32) {
	a := w.u64(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		w.local.tops[i] = uint32(min(a[i], uint64(w.local.size)))
	}
}
