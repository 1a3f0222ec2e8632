// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// placeFormals gives the function's parameters their places: an entry's in the launch's block
// of parameters, a function's in registers where only whole values are read and written,
// else in its frame.
func (l *lowerer) placeFormals() {
	if l.f.Entry {
		return
	}
	inMemory := findAddressed(l.f)
	place := func(ps []syntax.Param) []argument {
		var out []argument
		for _, p := range ps {
			if p.Register != nil {
				for i := range ref(p.Register.Vec) {
					out = append(out, argument{ref: l.registerRef(p.Register) + i<<1, class: p.Register.Type.Class(), size: p.Register.Type.Size()})
				}
				continue
			}
			out = append(out, l.placeParameter(p.Variable, inMemory))
		}
		return out
	}
	l.out.formals = place(l.f.Prototype.Params)
	l.out.rets = place(l.f.Prototype.Results)
}

// placeParameter gives a parameter or a local .param variable its place.
func (l *lowerer) placeParameter(v *syntax.Variable, inMemory map[*syntax.Variable]bool) argument {
	if r, ok := l.params[v]; ok {
		return argument{ref: r, class: v.Type.Class(), size: v.Type.Size()}
	}
	if v.Count == 1 && v.Vec == 1 && v.Type != types.B128 && !inMemory[v] {
		l.params[v] = l.newReg(v.Type.Class())
		return l.placeParameter(v, inMemory)
	}
	return argument{inMemory: true, offset: l.frameOffset(v), size: v.ByteSize()}
}

// findAddressed finds the .param variables that are not only read and written as a whole.
func findAddressed(f *syntax.Function) map[*syntax.Variable]bool {
	found := map[*syntax.Variable]bool{}
	var walk func(in *syntax.Instruction, o syntax.Operand, call bool)
	walk = func(in *syntax.Instruction, o syntax.Operand, call bool) {
		if v := in.Scope.FindVariable(o.Name); v != nil && v.Space == types.ParamSpace {
			whole := o.Kind == syntax.ArgAddr && o.Num == 0 && (in.Op == "ld" || in.Op == "st") && (in.HasModifier("param") || in.HasModifier("param::func")) &&
				!in.HasModifier("v2") && !in.HasModifier("v4") && !in.HasModifier("v8")
			size := uint32(0)
			for _, m := range in.Mods {
				if t := types.ByName[m]; t != types.NoType {
					size = t.Size()
				}
			}
			if !call && (!whole || size != v.ByteSize()) {
				found[v] = true
			}
		}
		for _, e := range o.List {
			walk(in, e, call)
		}
	}
	for _, in := range f.Body {
		for _, o := range in.Args {
			walk(in, o, in.Op == "call")
		}
	}
	return found
}

// frameOffset places a variable in the frame's local memory.
func (l *lowerer) frameOffset(v *syntax.Variable) uint32 {
	at, ok := l.frame[v]
	if !ok {
		at = (l.out.local + v.Align - 1) &^ (v.Align - 1)
		l.frame[v] = at
		if uint64(at)+uint64(v.ByteSize()) > maxLocal {
			l.refuseInstruction(tooMuchLocal)
		}
		l.out.local = at + v.ByteSize()
	}
	return at
}

// frameRef returns a register with the address of the frame's local memory plus off.
func (l *lowerer) frameRef(off uint32) ref {
	if l.f.Entry {
		return l.wordConstant(off)
	}
	d := l.newReg(types.Class32)
	m := l.emitMicro(opFrame, shape{d: def32}, d, 0, 0, 0, 0)
	m.imm, m.key = uint64(off), "frame"
	return d
}

// variableNamed finds a variable by name: of the function, of its module, or of the program.
func (l *lowerer) variableNamed(name string) *syntax.Variable {
	if v := l.in.Scope.FindVariable(name); v != nil {
		return v
	}
	return l.b.prog.findVariable(l.f.Module, name)
}

// addressRef reads the address of a variable or a function as a value.
func (l *lowerer) addressRef(o syntax.Operand, t types.Type) ref {
	if t.Size() < 4 {
		l.failSyntax("%s is not declared as a register", o.Name)
	}
	if v := l.variableNamed(o.Name); v != nil {
		return l.addressOf(v, o.Num, t)
	}
	if f := l.b.prog.findFunction(l.f.Module, o.Name); f != nil {
		l.b.noteAddress(f)
		return l.constantRef(t.Class(), l.b.prog.addressOf(f))
	}
	l.failSyntax("%s is not declared", o.Name)
	return 0
}

// addressOf makes the address of a variable, within its space, a value of type t.
func (l *lowerer) addressOf(v *syntax.Variable, off uint64, t types.Type) ref {
	switch v.Space {
	case types.GlobalSpace, types.ConstSpace:
		l.refuseManaged(v)
		return l.constantRef(t.Class(), l.b.prog.variableAddress(v)+off)
	case types.SharedSpace:
		if v.Open {
			return l.b.dynamicAddress(v, t.Class(), off)
		}
		return l.constantRef(t.Class(), uint64(l.b.sharedOffset(v))+off)
	case types.ParamSpace:
		if l.f.IsParam(v) {
			return l.constantRef(t.Class(), uint64(v.Offset)+off)
		}
	case types.LocalSpace:
	default:
		l.refuseInstruction(noReferences)
	}
	r := l.frameRef(l.frameOffset(v) + uint32(off))
	if t.Class() == types.Class32 {
		return r
	}
	d := l.newReg(types.Class64)
	l.emitOperation("cvt.u64.u32", d, r)
	return d
}

func (l *lowerer) refuseManaged(v *syntax.Variable) {
	if v.Managed && l.b.prog.apart == nil {
		l.refuseInstruction("managed memory (" + v.Name + ") is not supported")
	}
	if v.Opaque != "" {
		l.refuseInstruction(noReferences)
	}
}

// access is the place of an access: the space, the register with the address, of 64 bits in global memory and else of
// 32, and the offset that is added.
type access struct {
	space types.Space
	base  ref
	off   uint64
}

func (a access) addressOperand() opnd {
	if a.space == types.GlobalSpace || a.space == types.Generic || a.space == types.ConstSpace {
		return use64
	}
	return use32
}

// readAddress reads an operand in brackets.
func (l *lowerer) readAddress(i int, space types.Space) access {
	if i >= len(l.in.Args) || l.in.Args[i].Kind != syntax.ArgAddr {
		l.failSyntax("operand %d is no address", i+1)
	}
	o := l.in.Args[i]
	t := types.U32
	if (access{space: space}).addressOperand() == use64 {
		t = types.U64
	}
	if o.Name == "" {
		return access{space: space, base: l.constantRef(t.Class(), o.Num)}
	}
	was := l.loose
	l.loose = true
	defer func() { l.loose = was }()
	if r, rt, ok := l.namedRegister(syntax.Operand{Kind: syntax.ArgName, Name: o.Name, Sel: o.Sel}); ok {
		return access{space: space, base: l.fitToClass(r, rt, t, o.Name), off: o.Num}
	}
	v := l.variableNamed(o.Name)
	if v == nil {
		l.failSyntax("%s is not declared", o.Name)
	}
	if space == types.Generic || v.Space == types.ConstSpace || v.Space == types.GlobalSpace {
		space = v.Space
	}
	if v.Space == types.ParamSpace && !l.f.IsParam(v) {
		space = types.LocalSpace
	}
	t = types.U32
	if (access{space: space}).addressOperand() == use64 {
		t = types.U64
	}
	if space != v.Space && (space != types.LocalSpace || v.Space != types.ParamSpace) {
		l.failSyntax("%s lies in %s memory", o.Name, v.Space)
	}
	return access{space: space, base: l.addressOf(v, o.Num, t)}
}

// numberSite numbers a memory access.
func (l *lowerer) numberSite(m *microOperation) *microOperation {
	m.site = int32(l.b.sites)
	l.b.sites++
	return m
}

// namedSpace returns the state space that the instruction's modifiers name.
func (l *lowerer) namedSpace() types.Space {
	for _, m := range l.in.Mods {
		if s, ok := types.SpacesByName[m]; ok {
			return s
		}
	}
	return types.Generic
}
