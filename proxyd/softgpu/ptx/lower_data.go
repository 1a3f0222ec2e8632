// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// formals gives the function's parameters their places: an entry's in the launch's block
// of parameters, a function's in registers where only whole values are read and written,
// else in its frame.
func (l *lowerer) formals() {
	if l.f.entry {
		return
	}
	inMemory := l.addressed()
	place := func(ps []param) []argument {
		var out []argument
		for _, p := range ps {
			if p.reg != nil {
				for i := range ref(p.reg.vec) {
					out = append(out, argument{ref: l.registerRef(p.reg) + i<<1, class: p.reg.typ.classOf(), size: p.reg.typ.Size()})
				}
				continue
			}
			out = append(out, l.place(p.v, inMemory))
		}
		return out
	}
	l.out.formals = place(l.f.proto.params)
	l.out.rets = place(l.f.proto.ret)
}

// place gives a parameter or a local .param variable its place.
func (l *lowerer) place(v *variable, inMemory map[*variable]bool) argument {
	if r, ok := l.params[v]; ok {
		return argument{ref: r, class: v.typ.classOf(), size: v.typ.Size()}
	}
	if v.count == 1 && v.vec == 1 && v.typ != B128 && !inMemory[v] {
		l.params[v] = l.newReg(v.typ.classOf())
		return l.place(v, inMemory)
	}
	return argument{inMemory: true, offset: l.frameOffset(v), size: v.byteSize()}
}

// addressed finds the .param variables that are not only read and written as a whole.
func (l *lowerer) addressed() map[*variable]bool {
	found := map[*variable]bool{}
	var walk func(in *instruction, o operand, call bool)
	walk = func(in *instruction, o operand, call bool) {
		if v := in.scope.findVariable(o.name); v != nil && v.space == ParamSpace {
			whole := o.kind == argAddr && o.num == 0 && (in.op == "ld" || in.op == "st") && (in.hasModifier("param") || in.hasModifier("param::func")) &&
				!in.hasModifier("v2") && !in.hasModifier("v4") && !in.hasModifier("v8")
			size := uint32(0)
			for _, m := range in.mods {
				if t := typeNames[m]; t != NoType {
					size = t.Size()
				}
			}
			if !call && (!whole || size != v.byteSize()) {
				found[v] = true
			}
		}
		for _, e := range o.list {
			walk(in, e, call)
		}
	}
	for _, in := range l.f.body {
		for _, o := range in.args {
			walk(in, o, in.op == "call")
		}
	}
	return found
}

// frameOffset places a variable in the frame's local memory.
func (l *lowerer) frameOffset(v *variable) uint32 {
	at, ok := l.frame[v]
	if !ok {
		at = (l.out.local + v.align - 1) &^ (v.align - 1)
		l.frame[v] = at
		if uint64(at)+uint64(v.byteSize()) > maxLocal {
			l.refuseInstruction(tooMuchLocal)
		}
		l.out.local = at + v.byteSize()
	}
	return at
}

// frameRef returns a register with the address of the frame's local memory plus off.
func (l *lowerer) frameRef(off uint32) ref {
	if l.f.entry {
		return l.const32(off)
	}
	d := l.newReg(class32)
	m := l.emit(opFrame, shape{d: def32}, d, 0, 0, 0, 0)
	m.imm = uint64(off)
	return d
}

// variable finds a variable by name: of the function, of its module, or of the program.
func (l *lowerer) variable(name string) *variable {
	if v := l.in.scope.findVariable(name); v != nil {
		return v
	}
	return l.b.prog.findVariable(l.f.mod, name)
}

// symbol reads the address of a variable or a function as a value.
func (l *lowerer) symbol(o operand, t Type) ref {
	if t.Size() < 4 {
		l.failSyntax("%s is not declared as a register", o.name)
	}
	if v := l.variable(o.name); v != nil {
		return l.addressOf(v, o.num, t)
	}
	if f := l.b.prog.findFunction(l.f.mod, o.name); f != nil {
		l.b.noteAddress(f)
		return l.constantRef(t.classOf(), l.b.prog.addressOf(f))
	}
	l.failSyntax("%s is not declared", o.name)
	return 0
}

// addressOf makes the address of a variable, within its space, a value of type t.
func (l *lowerer) addressOf(v *variable, off uint64, t Type) ref {
	switch v.space {
	case GlobalSpace, ConstSpace:
		l.managed(v)
		return l.constantRef(t.classOf(), l.b.prog.variableAddress(v)+off)
	case SharedSpace:
		if v.open {
			return l.b.dynamicAddress(v, t.classOf(), off)
		}
		return l.constantRef(t.classOf(), uint64(l.b.sharedOffset(v))+off)
	case ParamSpace:
		if l.f.isParam(v) {
			return l.constantRef(t.classOf(), uint64(v.offset)+off)
		}
	case LocalSpace:
	default:
		l.refuseInstruction("textures and surfaces are not supported")
	}
	r := l.frameRef(l.frameOffset(v) + uint32(off))
	if t.classOf() == class32 {
		return r
	}
	d := l.newReg(class64)
	l.alu("cvt.u64.u32", d, r)
	return d
}

func (l *lowerer) managed(v *variable) {
	if v.managed {
		l.refuseInstruction("managed memory (" + v.name + ") is not supported")
	}
	if v.opaque != "" {
		l.refuseInstruction("textures and surfaces are not supported")
	}
}

// isParam reports whether v is a parameter of an entry, not of a call.
func (f *function) isParam(v *variable) bool {
	for _, p := range f.proto.params {
		if f.entry && p.v == v {
			return true
		}
	}
	return false
}

// access is the place of an access: the space, the register with the address, of 64 bits in global
// memory and else of 32, and what is added.
type access struct {
	space Space
	base  ref
	off   uint64
}

func (a access) opnd() opnd {
	if a.space == GlobalSpace || a.space == Generic || a.space == ConstSpace {
		return use64
	}
	return use32
}

// addr reads an operand in brackets.
func (l *lowerer) addr(i int, space Space) access {
	if i >= len(l.in.args) || l.in.args[i].kind != argAddr {
		l.failSyntax("operand %d is no address", i+1)
	}
	o := l.in.args[i]
	t := U32
	if (access{space: space}).opnd() == use64 {
		t = U64
	}
	if o.name == "" {
		return access{space: space, base: l.constantRef(t.classOf(), o.num)}
	}
	was := l.loose
	l.loose = true
	defer func() { l.loose = was }()
	if r, rt, ok := l.namedRegister(operand{kind: argName, name: o.name, sel: o.sel}); ok {
		return access{space: space, base: l.fitToClass(r, rt, t, o.name), off: o.num}
	}
	v := l.variable(o.name)
	if v == nil {
		l.failSyntax("%s is not declared", o.name)
	}
	if space == Generic || v.space == ConstSpace || v.space == GlobalSpace {
		space = v.space
	}
	if v.space == ParamSpace && !l.f.isParam(v) {
		space = LocalSpace
	}
	t = U32
	if (access{space: space}).opnd() == use64 {
		t = U64
	}
	if space != v.space && (space != LocalSpace || v.space != ParamSpace) {
		l.failSyntax("%s lies in %s memory", o.name, v.space)
	}
	return access{space: space, base: l.addressOf(v, o.num, t)}
}

// site numbers a memory access.
func (l *lowerer) site(m *micro) *micro {
	m.site = int32(l.b.sites)
	l.b.sites++
	return m
}

// space is that of the instruction's modifiers.
func (l *lowerer) space() Space {
	for _, m := range l.in.mods {
		if m == "shared::cluster" {
			l.refuseInstruction(noCluster)
		}
		if s, ok := spaceNames[m]; ok {
			return s
		}
	}
	return Generic
}
