// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "strings"

// registerRef returns the first virtual register of a declared register.
func (l *lowerer) registerRef(r *register) ref {
	if r.id < 0 || l.b.owner[r] != l {
		l.b.owner[r] = l
		c, n := r.typ.classOf(), r.vec
		if c == class128 {
			c, n = class64, 2*n
		}
		r.id = len(l.classes)
		for range n {
			l.newReg(c)
		}
	}
	return ref(r.id) << 1
}

// namedRegister finds the register that an operand names, with its component; false if there is none.
func (l *lowerer) namedRegister(o operand) (ref, Type, bool) {
	r := l.in.scope.findRegister(o.name)
	if r == nil {
		return 0, NoType, false
	}
	at := l.registerRef(r)
	if o.sel != "" && r.vec > 1 {
		k := strings.Index(components, o.sel)
		if k < 0 || r.vec <= 4 && k >= 4 {
			k = strings.Index("rgba", o.sel)
		}
		if k < 0 || len(o.sel) != 1 || uint32(k) >= r.vec {
			l.failSyntax("%s has no component %s", o.name, o.sel)
		}
		at += ref(k) << 1
	}
	return at, r.typ, true
}

// predicateRef reads an operand of type pred.
func (l *lowerer) predicateRef(o operand) ref {
	switch o.kind {
	case argInt:
		if o.num&1 != 0 != o.not {
			return alwaysTrue
		}
		return alwaysFalse
	case argName:
		r, t, ok := l.namedRegister(o)
		if !ok {
			l.failSyntax("%s is not declared", o.name)
		}
		if t != Pred {
			l.failSyntax("%s is no predicate", o.name)
		}
		if o.not {
			r |= 1
		}
		return r
	}
	l.failSyntax("a predicate is missing")
	return 0
}

// operandRef reads an operand as a value of type t; the ref is of t's class.
func (l *lowerer) operandRef(o operand, t Type) ref {
	if t == Pred {
		return l.predicateRef(o)
	}
	switch o.kind {
	case argInt, argFloat:
		return l.immediateRef(o, t)
	case argName:
		if r, rt, ok := l.namedRegister(o); ok {
			r = l.fitToClass(r, rt, t, o.name)
			if o.num == 0 {
				return r
			}
			if t.isFloat() {
				l.failSyntax("%s is a register", o.name)
			}
			sum := l.newReg(t.classOf())
			l.alu(unsignedKey("add", wordOf(t.classOf())), sum, r, l.constantRef(t.classOf(), o.num))
			return sum
		}
		if r, rt, ok := l.specialRegister(o); ok {
			was := l.loose
			l.loose = true
			defer func() { l.loose = was }()
			return l.fitToClass(r, rt, t, o.name)
		}
		return l.symbol(o, t)
	}
	l.failSyntax("not a value of type %s", t)
	return 0
}

// fitToClass brings a register's value into the class that t needs.
func (l *lowerer) fitToClass(r ref, rt, t Type, name string) ref {
	if rt == Pred {
		l.failSyntax("%s is a predicate", name)
	}
	if rt.Size() != t.Size() && !l.loose && (rt != B128 || t.classOf() != class64) {
		l.failSyntax("%s is of type %s, %s is needed", name, rt, t)
	}
	switch {
	case rt.classOf() == t.classOf(), rt.classOf() == class128 && t.classOf() == class64:
		return r
	case t.classOf() == class32:
		d := l.newReg(class32)
		l.alu("cvt.u32.u64", d, r)
		return d
	case rt.classOf() == class32 && rt.Size() < 4:
		d := l.newReg(class64)
		l.alu("cvt.u64.u16", d, r)
		return d
	case rt.classOf() == class32:
		d := l.newReg(class64)
		l.alu("cvt.u64.u32", d, r)
		return d
	}
	l.failSyntax("%s is of type %s, %s is needed", name, rt, t)
	return 0
}

// wordOf is the unsigned type that fills a register of a class.
func wordOf(c class) Type {
	if c == class64 {
		return U64
	}
	return U32
}

// spreadVector turns a register declared as a vector, named as a whole, into its components.
func (l *lowerer) spreadVector(o operand) operand {
	if o.kind != argName || o.sel != "" {
		return o
	}
	r := l.in.scope.findRegister(o.name)
	if r == nil || r.vec == 1 {
		return o
	}
	v := operand{kind: argVector}
	for i := range r.vec {
		v.list = append(v.list, operand{kind: argName, name: o.name, sel: components[i : i+1]})
	}
	return v
}

// components are the names of a vector's elements, by position.
const components = "xyzwabcd"

// immediateRef makes a constant of a literal.
func (l *lowerer) immediateRef(o operand, t Type) ref {
	return l.constantRef(t.classOf(), l.literalBits(o, t))
}

// literalBits are the bits of a literal as a value of type t.
func (l *lowerer) literalBits(o operand, t Type) uint64 {
	switch {
	case o.kind == argInt && (t == F32 || t == F64):
		return floatBits(t, float64(int64(o.num)))
	case o.kind == argInt:
		return o.num & sizeMask(t.Size())
	case o.kind != argFloat:
		l.failSyntax("a number is needed")
	case o.f32 && t.Size() <= 4 && t != F16 && t != BF16:
		return o.num
	case o.f32:
		return floatBits(t, float64(f32from(o.num)))
	case t.isFloat():
		return floatBits(t, f64from(o.num))
	}
	return o.num & sizeMask(t.Size())
}

// constantRef returns the ref of a constant, the same in all lanes.
func (l *lowerer) constantRef(c class, v uint64) ref {
	switch c {
	case class64:
		return l.b.constant64(v)
	case classPred:
		return ref(v & 1)
	default:
		return l.b.constant32(uint32(v))
	}
}

func (l *lowerer) const32(v uint32) ref { return l.b.constant32(v) }

// refForResult returns the ref to which a result of type t goes. If the register is wider, the
// value is widened afterwards.
func (l *lowerer) refForResult(o operand, t Type) ref {
	if o.kind == argSink {
		return l.newReg(t.classOf())
	}
	if o.kind != argName {
		l.failSyntax("a register is needed for the result")
	}
	r, rt, ok := l.namedRegister(o)
	if !ok {
		l.failSyntax("%s is not declared", o.name)
	}
	if (rt == Pred) != (t == Pred) {
		l.failSyntax("%s is of type %s, %s is needed", o.name, rt, t)
	}
	if rt.Size() != t.Size() && (!l.loose || rt.Size() < t.Size()) && t != Pred && (rt != B128 || t.classOf() != class64) {
		l.failSyntax("%s is of type %s, %s is needed", o.name, rt, t)
	}
	if rt.classOf() == t.classOf() || rt.classOf() == class128 && t.classOf() == class64 {
		return r
	}
	tmp := l.newReg(t.classOf())
	key := "cvt.u64.u32"
	if t.isSigned() {
		key = "cvt.s64.s32"
	}
	l.after = append(l.after, func() { l.alu(key, r, tmp) })
	return tmp
}
