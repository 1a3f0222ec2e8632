// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

func lowestLane(m uint32) int { return bits.TrailingZeros32(m) & 31 }

// atomSite is an atomic operation: its function of the old value.
type atomSite struct {
	f       func(old, b, c uint64) uint64
	fShared func(old, b, c uint64) uint64 // where a generic address is in shared memory; nil: f
	size    uint32
	o       opnd // of d, b and c
	shared  bool // only the block can see the memory: no other core
	result  bool
	space   types.Space
}

// wordUpdates compute the new values of operations that do not depend on the type of the element.
var wordUpdates = map[string]func(old, b, c uint64) uint64{
	"and":  func(old, b, _ uint64) uint64 { return old & b },
	"or":   func(old, b, _ uint64) uint64 { return old | b },
	"xor":  func(old, b, _ uint64) uint64 { return old ^ b },
	"exch": func(_, b, _ uint64) uint64 { return b },
	"inc": func(old, b, _ uint64) uint64 {
		if old >= b {
			return 0
		}
		return old + 1
	},
	"dec": func(old, b, _ uint64) uint64 {
		if old == 0 || old > b {
			return b
		}
		return old - 1
	},
}

// atomicUpdate returns the function that computes an operation's new value, and whether several operations give the
// same outcome in any order.
func (l *lowerer) atomicUpdate(op string, t types.Type, flush bool) (f func(old, b, c uint64) uint64, commutes bool) {
	if f := wordUpdates[op]; f != nil {
		return f, op == "and" || op == "or" || op == "xor"
	}
	mask := types.SizeMask(t.Size())
	switch op {
	case "cas":
		return func(old, b, c uint64) uint64 {
			if old&mask == b&mask {
				return c
			}
			return old
		}, false
	case "add":
		if t.IsFloat() {
			e := elementType(t)
			o := &float.Operation{Name: "add", Type: e, FTZ: flush && e == types.F32}
			f = o.Compute
			if e != t {
				f = onHalves(f)
			}
			return f, false
		}
		return func(old, b, _ uint64) uint64 { return (old + b) & mask }, true
	case "min", "max":
		if t.IsFloat() {
			return floatExtreme(op, t), true
		}
		return integerExtreme(op, t), true
	}
	l.failSyntax("the operation is missing")
	return nil, false
}

// floatExtreme returns the function that computes the new value of min or max of floating-point numbers.
func floatExtreme(op string, t types.Type) func(old, b, c uint64) uint64 {
	e := elementType(t)
	f := func(old, b, _ uint64) uint64 {
		if op == "min" {
			return float.Encode(e, minNum(float.Decode(e, old), float.Decode(e, b)))
		}
		return float.Encode(e, maxNum(float.Decode(e, old), float.Decode(e, b)))
	}
	if e != t {
		f = onHalves(f)
	}
	return f
}

// integerExtreme returns the function that computes the new value of min or max of integers.
func integerExtreme(op string, t types.Type) func(old, b, c uint64) uint64 {
	signed := t.IsSigned()
	ext := func(v uint64) int64 {
		s := 64 - 8*t.Size()
		return int64(v<<s) >> s
	}
	return func(old, b, _ uint64) uint64 {
		less := old < b
		if signed {
			less = ext(old) < ext(b)
		}
		if less == (op == "min") {
			return old
		}
		return b
	}
}

// atomOperations are the modifiers that name the atomic operation.
var atomOperations = []string{"and", "or", "xor", "exch", "cas", "inc", "dec", "add", "min", "max"}

// lowerAtom is atom and red.
func lowerAtom(l *lowerer) {
	t, red, n := l.lastType(), l.in.Op == "red", vectorLength(l.in)
	op := ""
	for _, m := range atomOperations {
		if l.hasModifier(m) {
			op = m
		}
	}
	args, first := 3, 1
	if red {
		args, first = 2, 0
	}
	if op == "cas" {
		args++
	}
	if len(l.in.Args) == args+1 && l.hasModifier("L2::cache_hint") {
		l.in.Args = l.in.Args[:args]
	}
	l.checkArgs(args)
	switch {
	case l.hasModifier("async"):
		l.refuseInstruction(noTellStore)
	case t == types.B128:
		l.refuseInstruction("128-bit atomics are not supported")
	case t.Size() < 2 || t.Size() == 2 && op != "cas" && op != "add" && op != "min" && op != "max",
		n > 1 && (!t.IsFloat() || op != "add" && op != "min" && op != "max"):
		l.failSyntax("not for type %s", t)
	}
	address := l.readAddress(first, l.namedSpace())
	if n == 1 {
		var d ref
		result := !red && l.in.Args[0].Kind != syntax.ArgSink
		if result {
			d = l.resultRef(t)
		}
		l.emitAtom(op, t, address, d, result, l.sourceRef(first+1, t))
		return
	}
	lowerAtomVector(l, op, t, address, first)
}

// lowerAtomVector is atom and red on a vector: the operation on each element, in no order.
func lowerAtomVector(l *lowerer, op string, t types.Type, address access, first int) {
	n := vectorLength(l.in)
	sources, _, size := l.listElements(first+1, t, n, false)
	results := []ref(nil)
	if first > 0 && l.in.Args[0].Kind != syntax.ArgSink {
		results, _, _ = l.listElements(0, t, n, true)
	}
	moves := []func(){}
	for k, c := range sources {
		var d ref
		if results != nil {
			d = l.newReg(t.Class()) // a result may be the source of a later element
			moves = append(moves, func() { l.emitMove(t, results[k], d) })
		}
		l.emitAtom(op, t, address, d, results != nil, c)
		address.off += uint64(size)
	}
	for _, move := range moves {
		move()
	}
}

// emitAtom emits the atomic operation op on the element at an address.
func (l *lowerer) emitAtom(op string, t types.Type, a access, d ref, result bool, c ref) {
	f, commutes := l.atomicUpdate(op, t, a.space != types.SharedSpace)
	o := useOperand(t.Class())
	s := &atomSite{f: f, size: t.Size(), o: o, shared: a.space == types.SharedSpace, result: result, space: a.space}
	if a.space == types.Generic && op == "add" && t == types.F32 {
		s.fShared, _ = l.atomicUpdate(op, t, false) // additions in shared memory keep subnormal numbers
	}
	sh := shape{a: a.addressOperand(), c: o}
	if result {
		sh.d = defOperand(t.Class())
	}
	refs, opnds := []ref(nil), []opnd(nil)
	if op == "cas" {
		refs, opnds = append(refs, l.sourceRef(len(l.in.Args)-1, t)), append(opnds, o)
	}
	if a.space != types.SharedSpace && a.space != types.LocalSpace {
		l.b.ordered = l.b.ordered || result || !commutes
	}
	l.b.spins = true
	m := l.numberSite(l.emitMicro(opAtom, sh, d, 0, a.base, ref(a.space), c))
	m.imm, m.key = a.off, atomKey(s, op, t)
	m.ext = &ext{atom: s, refs: refs, opnds: opnds}
}

// atomKey names an atomic operation to machine code, which has operations on integers of 32 bits only; "" for other
// elements.
func atomKey(s *atomSite, op string, t types.Type) string {
	space := accessSpaces[s.space]
	if space == "" || t.Size() != 4 || t.IsFloat() {
		return ""
	}
	kind := "red"
	if s.result {
		kind = "atom"
	}
	switch {
	case op != "min" && op != "max":
	case t.IsSigned():
		op += ".s32"
	default:
		op += ".u32"
	}
	return kind + "." + space + "." + op
}

// opAtom executes an atomic operation in ascending order of lanes.
func opAtom(w *warp, in *inst, m uint32) {
	s := in.ext.atom
	w.spinning = true
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		p := w.resolveOperand(in, s.size, i, true)
		b := w.readLane(s.o, in.c, i)
		var c uint64
		if len(in.ext.refs) > 0 {
			c = w.readLane(s.o, in.ext.refs[0], i)
		}
		f := s.f
		if s.fShared != nil && (w.u64(in.a)[i]+in.imm)>>32 == memory.SharedWindow>>32 {
			f = s.fShared
		}
		var old uint64
		if s.shared {
			old = loadElement(p, s.size, false)
			storeElement(p, s.size, f(old, b, c))
		} else {
			old = updateBytes(p, s.size, func(old uint64) uint64 { return f(old, b, c) })
		}
		if s.result {
			w.setLane(s.o, in.d, i, old)
		}
	}
}
