// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// builtin is a function that the package provides.
type builtin func(w *warp, in *inst, m uint32)

// lowerCall reads call (ret), f, (args), prototype;
func lowerCall(l *lowerer) {
	args := l.in.Args
	site := &callSite{}
	var rets, actuals []syntax.Operand
	if len(args) > 0 && args[0].Kind == syntax.ArgList {
		rets, args = args[0].List, args[1:]
	}
	if len(args) == 0 || args[0].Kind != syntax.ArgName {
		l.failSyntax("a function is needed")
	}
	callee := args[0]
	args = args[1:]
	if len(args) > 0 && args[0].Kind == syntax.ArgList {
		actuals, args = args[0].List, args[1:]
	}
	var proto *syntax.Prototype
	var target ref
	var sh shape
	if l.in.Scope.FindRegister(callee.Name) != nil {
		l.loose = true
		target, sh.a = l.operandRef(callee, types.U64), use64
		l.b.indirect = true
		proto = indirectPrototype(l, args)
	} else {
		proto = resolveCallee(l, callee.Name, site)
	}
	site.noreturn = proto.NoReturn
	if len(actuals) != len(proto.Params) || len(rets) != len(proto.Results) {
		l.failSyntax("%d parameters and %d results, %d and %d are declared", len(actuals), len(rets), len(proto.Params), len(proto.Results))
	}
	for i, o := range actuals {
		site.args = append(site.args, l.actualPlaces(o, proto.Params[i], false)...)
	}
	for i, o := range rets {
		site.rets = append(site.rets, l.actualPlaces(o, proto.Results[i], true)...)
	}
	m := l.emitFlow(flowCall)
	m.a, m.shape, m.ext = target, sh, &ext{call: site}
}

// indirectPrototype returns the prototype of an indirect call: the operand behind the parameters, or that of the targets which
// the operand lists.
func indirectPrototype(l *lowerer, args []syntax.Operand) *syntax.Prototype {
	if len(args) != 1 || args[0].Kind != syntax.ArgName {
		l.failSyntax("an indirect call needs a prototype or a list of targets")
	}
	if proto := l.in.Scope.FindPrototype(args[0].Name); proto != nil {
		return proto
	}
	names, ok := l.in.Scope.FindTargets(args[0].Name)
	if !ok || len(names) == 0 {
		l.failSyntax("%s is no prototype", args[0].Name)
	}
	f := l.b.prog.findFunction(l.f.Module, names[0])
	if f == nil {
		l.failSyntax("function %s is not declared", names[0])
	}
	return &f.Prototype
}

// resolveCallee enters the function of a direct call into site, and returns its prototype. A function that is defined is queued
// for lowering.
func resolveCallee(l *lowerer, name string, site *callSite) *syntax.Prototype {
	f := l.b.prog.findFunction(l.f.Module, name)
	if f == nil {
		l.failSyntax("function %s is not declared", name)
	}
	if f.Entry {
		l.failSyntax("%s is an entry", f.Name)
	}
	site.fn = f
	if !f.Declared {
		l.b.queueFunction(f)
		return &f.Prototype
	}
	site.builtin = findBuiltin(f)
	if site.builtin == nil {
		if reason := whyRefused(f.Name); reason != "" {
			l.in = &syntax.Instruction{Line: l.in.Line, Op: f.Name}
			l.refuseInstruction(reason)
		}
		l.failSyntax("function %s is not defined", f.Name)
	}
	l.b.callsHooks = l.b.callsHooks || f.Name != "__assertfail"
	l.b.ordered = l.b.ordered || l.b.callsHooks
	l.b.launches = l.b.launches || strings.HasPrefix(f.Name, driverCall+"Launch")
	return &f.Prototype
}

// actualPlaces are the places of an operand, several for a vector.
func (l *lowerer) actualPlaces(o syntax.Operand, p syntax.Param, result bool) []argument {
	v := l.spreadVector(o)
	if v.Kind != syntax.ArgVector {
		return []argument{l.actualPlace(o, p, result)}
	}
	var out []argument
	for _, e := range v.List {
		out = append(out, l.actualPlace(e, p, result))
	}
	return out
}

// actualPlace is the place of an argument or result at the caller's side.
func (l *lowerer) actualPlace(o syntax.Operand, p syntax.Param, result bool) argument {
	if o.Kind == syntax.ArgName {
		if v := l.in.Scope.FindVariable(o.Name); v != nil && v.Space == types.ParamSpace {
			if l.b.inMemory[l.f] == nil {
				l.b.inMemory[l.f] = findAddressed(l.f)
			}
			return l.placeParameter(v, l.b.inMemory[l.f])
		}
	}
	t := types.B64
	switch {
	case p.Register != nil:
		t = p.Register.Type
	case p.Variable != nil:
		t = p.Variable.Type
	}
	l.loose = true
	if result {
		return argument{ref: l.refForResult(o, t), class: t.Class(), size: max(t.Size(), 1)}
	}
	return argument{ref: l.operandRef(o, t), class: t.Class(), size: max(t.Size(), 1)}
}

// readArg reads an argument of a builtin.
func (w *warp) readArg(in *inst, k, lane int) uint64 {
	site := in.ext.call
	if k >= len(site.args) {
		return 0
	}
	a := site.args[k]
	if a.inMemory {
		return readBytes(w.local.LaneBytes(lane, w.cur.frame.local+a.offset, min(a.size, 8)))
	}
	return w.readLane(useOperand(a.class), a.ref, lane)
}

// setRet writes the result of a builtin.
func (w *warp) setRet(in *inst, lane int, v uint64) {
	for _, a := range in.ext.call.rets {
		if a.inMemory {
			writeBytes(w.local.LaneBytes(lane, w.cur.frame.local+a.offset, min(a.size, 8)), v)
		} else {
			w.setLane(defOperand(a.class), a.ref, lane, v)
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
	if len(l.in.Args) == 3 {
		if align = l.in.Args[2].Num; align == 0 || align&(align-1) != 0 || align > 1<<16 {
			l.failSyntax("the alignment is no power of two")
		}
	}
	d, s := l.resultRef(t), l.sourceRef(1, types.U64)
	m := l.emitMicro(opAlloca, shape{d: defOperand(t.Class()), a: use64}, d, 0, s, 0, 0)
	m.imm = align
	m.ext = &ext{opnds: []opnd{defOperand(t.Class())}}
}

func opAlloca(w *warp, in *inst, m uint32) {
	f := w.cur.frame
	sizes := w.u64(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		at := (uint64(max(w.local.Tops[i], f.local+f.code.local)) + in.imm - 1) &^ (in.imm - 1)
		if sizes[i] > uint64(w.local.Size) || at+sizes[i] > uint64(w.local.Size) {
			w.raiseFault(StackOverflow, in, i, 0, "alloca")
		}
		w.local.Tops[i] = uint32(at + sizes[i])
		w.setLane(in.ext.opnds[0], in.d, i, at)
	}
}

// lowerStack is stacksave and stackrestore.
func lowerStack(l *lowerer) {
	l.checkArgs(1)
	l.loose = true
	l.b.unbounded = true
	t := l.lastType()
	if l.in.Op == "stacksave" {
		m := l.emitMicro(opStackSave, shape{d: defOperand(t.Class())}, l.resultRef(t), 0, 0, 0, 0)
		m.ext = &ext{opnds: []opnd{defOperand(t.Class())}}
		return
	}
	l.emitMicro(opStackRestore, shape{a: use64}, 0, 0, l.sourceRef(0, types.U64), 0, 0)
}

func opStackSave(w *warp, in *inst, m uint32) {
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		w.setLane(in.ext.opnds[0], in.d, i, uint64(w.local.Tops[i]))
	}
}

func opStackRestore(w *warp, in *inst, m uint32) {
	a := w.u64(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		w.local.Tops[i] = uint32(min(a[i], uint64(w.local.Size)))
	}
}
