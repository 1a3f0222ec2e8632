// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// registerRef returns the first virtual register of a declared register.
func (l *lowerer) registerRef(r *syntax.Register) ref {
	if r.ID < 0 || l.b.owner[r] != l {
		l.b.owner[r] = l
		c, n := r.Type.Class(), r.Vec
		if c == types.Class128 {
			c, n = types.Class64, 2*n
		}
		r.ID = len(l.classes)
		for range n {
			l.newReg(c)
		}
	}
	return ref(r.ID) << 1
}

// namedRegister finds the register that an operand names, with its component; false if the name is no register.
func (l *lowerer) namedRegister(o syntax.Operand) (ref, types.Type, bool) {
	r := l.in.Scope.FindRegister(o.Name)
	if r == nil {
		return 0, types.NoType, false
	}
	at := l.registerRef(r)
	if o.Sel != "" && r.Vec > 1 {
		k := strings.Index(components, o.Sel)
		if k < 0 || r.Vec <= 4 && k >= 4 {
			k = strings.Index("rgba", o.Sel)
		}
		if k < 0 || len(o.Sel) != 1 || uint32(k) >= r.Vec {
			l.failSyntax("%s has no component %s", o.Name, o.Sel)
		}
		at += ref(k) << 1
	}
	return at, r.Type, true
}

// predicateRef reads an operand of type pred.
func (l *lowerer) predicateRef(o syntax.Operand) ref {
	switch o.Kind {
	case syntax.ArgInt:
		if o.Num&1 != 0 != o.Not {
			return alwaysTrue
		}
		return alwaysFalse
	case syntax.ArgName:
		r, t, ok := l.namedRegister(o)
		if !ok {
			l.failSyntax("%s is not declared", o.Name)
		}
		if t != types.Pred {
			l.failSyntax("%s is no predicate", o.Name)
		}
		if o.Not {
			r |= 1
		}
		return r
	}
	l.failSyntax("a predicate is missing")
	return 0
}

// operandRef reads an operand as a value of type t; the ref is of t's class.
func (l *lowerer) operandRef(o syntax.Operand, t types.Type) ref {
	if t == types.Pred {
		return l.predicateRef(o)
	}
	switch o.Kind {
	case syntax.ArgInt, syntax.ArgFloat:
		return l.immediateRef(o, t)
	case syntax.ArgName:
		if r, rt, ok := l.namedRegister(o); ok {
			r = l.fitToClass(r, rt, t, o.Name)
			if o.Num == 0 {
				return r
			}
			if t.IsFloat() {
				l.failSyntax("%s is a register", o.Name)
			}
			sum := l.newReg(t.Class())
			l.emitOperation(unsignedKey("add", wordOf(t.Class())), sum, r, l.constantRef(t.Class(), o.Num))
			return sum
		}
		if r, rt, ok := l.specialRegister(o); ok {
			was := l.loose
			l.loose = true
			defer func() { l.loose = was }()
			return l.fitToClass(r, rt, t, o.Name)
		}
		return l.addressRef(o, t)
	}
	l.failSyntax("not a value of type %s", t)
	return 0
}

// fitToClass brings a register's value into the class that t needs.
func (l *lowerer) fitToClass(r ref, rt, t types.Type, name string) ref {
	if rt == types.Pred {
		l.failSyntax("%s is a predicate", name)
	}
	if rt.Size() != t.Size() && !l.loose && (rt != types.B128 || t.Class() != types.Class64) {
		l.failSyntax("%s is of type %s, %s is needed", name, rt, t)
	}
	switch {
	case rt.Class() == t.Class(), rt.Class() == types.Class128 && t.Class() == types.Class64:
		return r
	case t.Class() == types.Class32:
		d := l.newReg(types.Class32)
		l.emitOperation("cvt.u32.u64", d, r)
		return d
	case rt.Class() == types.Class32 && rt.Size() < 4:
		d := l.newReg(types.Class64)
		l.emitOperation("cvt.u64.u16", d, r)
		return d
	case rt.Class() == types.Class32:
		d := l.newReg(types.Class64)
		l.emitOperation("cvt.u64.u32", d, r)
		return d
	}
	l.failSyntax("%s is of type %s, %s is needed", name, rt, t)
	return 0
}

// wordOf is the unsigned type that fills a register of a class.
func wordOf(c types.Class) types.Type {
	if c == types.Class64 {
		return types.U64
	}
	return types.U32
}

// spreadVector turns a register declared as a vector, named as a whole, into its components.
func (l *lowerer) spreadVector(o syntax.Operand) syntax.Operand {
	if o.Kind != syntax.ArgName || o.Sel != "" {
		return o
	}
	r := l.in.Scope.FindRegister(o.Name)
	if r == nil || r.Vec == 1 {
		return o
	}
	v := syntax.Operand{Kind: syntax.ArgVector}
	for i := range r.Vec {
		v.List = append(v.List, syntax.Operand{Kind: syntax.ArgName, Name: o.Name, Sel: components[i : i+1]})
	}
	return v
}

// components are the names of a vector's elements, by position.
const components = "xyzwabcd"

// immediateRef makes a constant of a literal.
func (l *lowerer) immediateRef(o syntax.Operand, t types.Type) ref {
	return l.constantRef(t.Class(), l.literalBits(o, t))
}

// literalBits are the bits of a literal as a value of type t.
func (l *lowerer) literalBits(o syntax.Operand, t types.Type) uint64 {
	switch {
	case o.Kind == syntax.ArgInt && (t == types.F32 || t == types.F64):
		return float.Bits(t, float64(int64(o.Num)))
	case o.Kind == syntax.ArgInt:
		return o.Num & types.SizeMask(t.Size())
	case o.Kind != syntax.ArgFloat:
		l.failSyntax("a number is needed")
	case o.F32 && t.Size() <= 4 && t != types.F16 && t != types.BF16:
		return o.Num
	case o.F32:
		return float.Bits(t, float64(float.From32(o.Num)))
	case t.IsFloat():
		return float.Bits(t, float.From64(o.Num))
	}
	return o.Num & types.SizeMask(t.Size())
}

// constantRef returns the ref of a constant, the same in all lanes.
func (l *lowerer) constantRef(c types.Class, v uint64) ref {
	switch c {
	case types.Class64:
		return l.b.addConstant64(v)
	case types.ClassPred:
		return ref(v & 1)
	default:
		return l.b.addConstant32(uint32(v))
	}
}

func (l *lowerer) wordConstant(v uint32) ref { return l.b.addConstant32(v) }

// refForResult returns the ref to which a result of type t goes. If the register is wider, the
// value is widened afterwards.
func (l *lowerer) refForResult(o syntax.Operand, t types.Type) ref {
	if o.Kind == syntax.ArgSink {
		return l.newReg(t.Class())
	}
	if o.Kind != syntax.ArgName {
		l.failSyntax("a register is needed for the result")
	}
	r, rt, ok := l.namedRegister(o)
	if !ok {
		l.failSyntax("%s is not declared", o.Name)
	}
	if (rt == types.Pred) != (t == types.Pred) {
		l.failSyntax("%s is of type %s, %s is needed", o.Name, rt, t)
	}
	if rt.Size() != t.Size() && (!l.loose || rt.Size() < t.Size()) && t != types.Pred && (rt != types.B128 || t.Class() != types.Class64) {
		l.failSyntax("%s is of type %s, %s is needed", o.Name, rt, t)
	}
	if rt.Class() == t.Class() || rt.Class() == types.Class128 && t.Class() == types.Class64 {
		return r
	}
	tmp := l.newReg(t.Class())
	key := "cvt.u64.u32"
	if t.IsSigned() {
		key = "cvt.s64.s32"
	}
	l.after = append(l.after, func() { l.emitOperation(key, r, tmp) })
	return tmp
}
