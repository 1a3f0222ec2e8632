// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// lowerer turns a function into micro-operations. Its methods panic with a
// *SyntaxError or *RefusedError, which lowerFunction returns.
type lowerer struct {
	b       *builder
	f       *syntax.Function
	in      *syntax.Instruction
	guard   ref
	code    []microOperation
	classes []types.Class // of virtual registers
	labels  map[int]int32 // statement of the body → micro-operation
	marks   map[string]int32
	after   []func() // emit the extension of results in wider registers, behind the present instruction
	cc      ref      // carry flag
	loose   bool     // operands may be wider than the instruction's type
	out     *code
	params  map[*syntax.Variable]ref // parameters that are kept in registers
	frame   map[*syntax.Variable]uint32
	spent   int // effort
	limit   int // of effort
}

// maxEffort bounds the steps of analyses that take more than linear time: some ten seconds.
const maxEffort = 1 << 33

// countEffort counts steps of an analysis, and refuses a function that takes too many.
func (l *lowerer) countEffort(steps int) {
	if l.spent += steps; l.spent > l.limit {
		l.in = &syntax.Instruction{Line: l.f.Line, Op: l.f.Name}
		l.refuseInstruction("its control flow takes too long to analyse")
	}
}

// lowerFunction lowers f. Its calls are resolved when the builder has lowered all.
func lowerFunction(b *builder, f *syntax.Function) (*code, error) {
	if err := f.ParseBody(); err != nil {
		return nil, err
	}
	l := newLowerer(b, f)
	if err := l.lowerBody(); err != nil {
		return nil, err
	}
	return l.out, nil
}

func newLowerer(b *builder, f *syntax.Function) *lowerer {
	return &lowerer{
		b: b, f: f, limit: maxEffort, classes: []types.Class{types.ClassPred}, labels: map[int]int32{}, marks: map[string]int32{},
		out: &code{fn: f}, params: map[*syntax.Variable]ref{}, frame: map[*syntax.Variable]uint32{},
	}
}

// lowerBody lowers the parsed body. It may be called once.
func (l *lowerer) lowerBody() (err error) {
	f := l.f
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *SyntaxError:
			err = p
		case *RefusedError:
			err = p
		default:
			panic(p)
		}
	}()
	l.placeFormals()
	for i, in := range f.Body {
		l.labels[i] = int32(len(l.code))
		l.lowerInstruction(in)
	}
	l.labels[len(f.Body)] = int32(len(l.code))
	l.guard, l.in = 0, &syntax.Instruction{Line: f.Line}
	if f.Entry {
		l.emitFlow(flowExit)
	} else {
		l.emitFlow(flowReturn)
	}
	l.resolveLabels()
	finishFunction(l)
	return nil
}

func (l *lowerer) failSyntax(format string, args ...any) {
	panic(&SyntaxError{Module: l.f.Module.Name, Line: l.in.Line, Msg: l.in.FullName() + ": " + fmt.Sprintf(format, args...)})
}

func (l *lowerer) refuseInstruction(reason string) {
	panic(&RefusedError{Module: l.f.Module.Name, Line: l.in.Line, Opcode: l.in.FullName(), Reason: reason})
}

// lowerInstruction lowers an instruction.
func (l *lowerer) lowerInstruction(in *syntax.Instruction) {
	l.in, l.guard, l.loose = in, 0, false
	op := opcodes[in.Op]
	if op == nil {
		l.failSyntax("unknown instruction")
	}
	if op.refused != "" {
		l.refuseInstruction(op.refused)
	}
	for _, m := range in.Mods {
		if types.ByName[m] == types.NoType && !op.allowsModifier(m) {
			if reason := refusedModifier(m); reason != "" {
				l.refuseInstruction(reason)
			}
			l.failSyntax("unknown modifier .%s", m)
		}
	}
	if in.Guard != "" {
		l.guard = l.predicateRef(syntax.Operand{Kind: syntax.ArgName, Name: in.Guard, Not: in.Not})
	}
	if l.guard != 0 && op.control {
		// Control is never guarded: branch around the instruction, and the lanes part as for any
		// branch.
		skip := fmt.Sprintf(" %d", len(l.code))
		m := l.emitFlow(flowBranch)
		m.guard, m.label = l.guard^1, skip
		l.guard = 0
		op.lower(l)
		l.runAfter()
		l.marks[skip] = int32(len(l.code))
		return
	}
	op.lower(l)
	l.runAfter()
}

func (l *lowerer) runAfter() {
	for len(l.after) > 0 {
		f := l.after[0]
		l.after = l.after[1:]
		f()
	}
}

// newReg makes a virtual register.
func (l *lowerer) newReg(c types.Class) ref {
	l.classes = append(l.classes, c)
	return ref(len(l.classes)-1) << 1
}

func (l *lowerer) emitMicro(fn opFunc, s shape, d, e, a, b, c ref) *microOperation {
	l.code = append(l.code, microOperation{
		inst:  inst{fn: fn, d: d, e: e, a: a, b: b, c: c, guard: l.guard, line: int32(l.in.Line), join: -1, target: -1, site: -1},
		shape: s,
	})
	return &l.code[len(l.code)-1]
}

// emitFlow emits a micro-operation that the warp's loop handles itself.
func (l *lowerer) emitFlow(f flow) *microOperation {
	m := l.emitMicro(nil, shape{}, 0, 0, 0, 0, 0)
	m.flow = f
	return m
}

// emitOperation emits an operation of the generated tables.
func (l *lowerer) emitOperation(key string, d ref, src ...ref) *microOperation {
	op, ok := alu[key]
	if !ok {
		l.failSyntax("no such form (%s)", key)
	}
	var s [3]ref
	copy(s[:], src)
	m := l.emitMicro(op.fn, op.shape, d, 0, s[0], s[1], s[2])
	m.key = key
	return m
}

// alu has all generated operations.
var alu = func() map[string]aluOp {
	all := make(map[string]aluOp)
	for _, m := range []map[string]aluOp{aluInt, aluFloat, aluSetp, aluCvt} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}()

// typesOf are an instruction's types, in order.
func typesOf(in *syntax.Instruction) []types.Type {
	var ts []types.Type
	for _, m := range in.Mods {
		if t := types.ByName[m]; t != types.NoType {
			ts = append(ts, t)
		}
	}
	return ts
}

// lastType is the instruction's last type.
func (l *lowerer) lastType() types.Type {
	ts := typesOf(l.in)
	if len(ts) == 0 {
		l.failSyntax("a type is missing")
	}
	return ts[len(ts)-1]
}

func (l *lowerer) hasModifier(mod string) bool { return l.in.HasModifier(mod) }

// checkArgs checks the number of operands.
func (l *lowerer) checkArgs(n ...int) {
	for _, k := range n {
		if len(l.in.Args) == k {
			return
		}
	}
	l.failSyntax("%d operands", len(l.in.Args))
}

func (l *lowerer) sourceRef(i int, t types.Type) ref {
	if i >= len(l.in.Args) {
		l.failSyntax("operand %d is missing", i+1)
	}
	return l.operandRef(l.in.Args[i], t)
}

func (l *lowerer) resultRef(t types.Type) ref {
	if len(l.in.Args) == 0 {
		l.failSyntax("the result is missing")
	}
	return l.refForResult(l.in.Args[0], t)
}

// emitLanes emits an operation that is computed lane by lane from zero-extended values.
func (l *lowerer) emitLanes(dt types.Type, d ref, f func(a, b, c uint64) uint64, st []types.Type, src ...ref) *microOperation {
	var s [3]ref
	var o [3]opnd
	for i, r := range src {
		s[i], o[i] = r, useOperand(st[i].Class())
	}
	m := l.emitMicro(opLanes, shape{d: defOperand(dt.Class()), a: o[0], b: o[1], c: o[2]}, d, 0, s[0], s[1], s[2])
	m.ext = &ext{f: f, opnds: []opnd{defOperand(dt.Class()), o[0], o[1], o[2]}}
	return m
}

// emitLanes2 is emitLanes for two operands of the type of the result.
func (l *lowerer) emitLanes2(t types.Type, f func(a, b, c uint64) uint64) {
	l.checkArgs(3)
	l.emitLanes(t, l.resultRef(t), f, []types.Type{t, t}, l.sourceRef(1, t), l.sourceRef(2, t))
}
