// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

func lowerBra(l *lowerer) {
	l.checkArgs(1)
	if l.in.Args[0].Kind != syntax.ArgName {
		l.failSyntax("a label is needed")
	}
	at, ok := l.in.Scope.FindLabel(l.in.Args[0].Name)
	if !ok {
		l.failSyntax("label %s is not defined", l.in.Args[0].Name)
	}
	m := l.emitFlow(flowBranch)
	m.target = int32(at) // a statement until resolve
	m.label = "#"
}

func lowerBrx(l *lowerer) {
	l.checkArgs(2)
	names, ok := l.in.Scope.FindTargets(l.in.Args[1].Name)
	if !ok {
		l.failSyntax("%s is no list of labels", l.in.Args[1].Name)
	}
	a := l.sourceRef(0, types.U32)
	x := &ext{}
	for _, n := range names {
		at, ok := l.in.Scope.FindLabel(n)
		if !ok {
			l.failSyntax("label %s is not defined", n)
		}
		x.targets = append(x.targets, int32(at))
	}
	m := l.emitFlow(flowIndex)
	m.a, m.shape.a, m.ext, m.label = a, use32, x, "#"
}

// resolveLabels turns labels into numbers of micro-operations.
func (l *lowerer) resolveLabels() {
	for i := range l.code {
		m := &l.code[i]
		switch {
		case m.label == "#" && m.flow == flowIndex:
			for k, t := range m.ext.targets {
				m.ext.targets[k] = l.labels[int(t)]
			}
		case m.label == "#":
			m.target = l.labels[int(m.target)]
		case m.label != "":
			m.target = l.marks[m.label]
		}
	}
}

// lowerRet is ret and exit.
func lowerRet(l *lowerer) {
	l.checkArgs(0)
	if l.in.Op == "exit" || l.f.Entry {
		l.emitFlow(flowExit)
		return
	}
	// All returns meet at the end.
	m := l.emitFlow(flowBranch)
	m.label, m.target = "#", int32(len(l.f.Body))
}

func lowerTrap(l *lowerer) {
	l.checkArgs(0)
	m := l.emitMicro(opTrap, shape{}, 0, 0, 0, 0, 0)
	m.ext = &ext{text: l.in.Op}
}

func opTrap(w *warp, in *inst, m uint32) {
	lane := 0
	for m>>lane&1 == 0 {
		lane++
	}
	w.raiseFault(Trapped, in, lane, 0, in.ext.text)
}

func lowerNothing(*lowerer) {}

func lowerNanosleep(l *lowerer) {
	l.checkArgs(1)
	l.sourceRef(0, types.U32)
	l.emitFlow(flowYield)
}

func lowerFence(l *lowerer) { emitSpin(l) }

// lowerBar is bar and barrier.
func lowerBar(l *lowerer) {
	if l.hasModifier("warp") {
		l.checkArgs(1)
		l.syncOp("warp", gatherNone, finishNone, l.sourceRef(0, types.B32), shape{}, 0, 0, 0, 0, 0)
		return
	}
	if l.hasModifier("cluster") {
		lowerClusterBarrier(l)
		return
	}
	s := &barrierSite{arrive: l.hasModifier("arrive")}
	args := l.in.Args
	var d, c ref
	var sh shape
	if l.hasModifier("red") {
		for _, op := range []string{"popc", "and", "or"} {
			if l.hasModifier(op) {
				s.red = op
			}
		}
		l.checkArgs(3, 4)
		if s.red == "popc" {
			d, sh.d = l.resultRef(types.U32), def32
		} else {
			d, sh.d = l.resultRef(types.Pred), defPred
		}
		c, sh.c = l.predicateRef(args[len(args)-1]), usePred
		args = args[1 : len(args)-1]
	}
	a, b := l.wordConstant(0), l.wordConstant(0)
	if len(args) > 0 {
		a = l.operandRef(args[0], types.U32)
	}
	if len(args) > 1 {
		b, s.counted = l.operandRef(args[1], types.U32), true
	}
	if len(args) > 2 {
		l.failSyntax("%d operands", len(l.in.Args))
	}
	if s.arrive && !s.counted {
		l.failSyntax("the count of threads is missing")
	}
	sh.a, sh.b = use32, use32
	m := l.emitFlow(flowBarrier)
	m.d, m.a, m.b, m.c, m.shape = d, a, b, c, sh
	m.ext = &ext{bar: s}
}

// syncOp emits an instruction that the lanes of a member mask execute together.
func (l *lowerer) syncOp(key string, g, f func(w *warp, in *inst, m uint32, g *gather), mask ref, sh shape, d, e, a, b, c ref) *microOperation {
	m := l.emitFlow(flowSync)
	m.shape, m.d, m.e, m.a, m.b, m.c = sh, d, e, a, b, c
	m.ext = &ext{sync: &syncSite{key: key, gather: g, finish: f}, refs: []ref{mask}, opnds: []opnd{use32}}
	return m
}

// memberMask reads the member mask, the last operand with .sync; without .sync the active lanes take
// part: emulated by a mask of the active lanes.
func (l *lowerer) memberMask(i int) ref {
	if l.hasModifier("sync") {
		return l.sourceRef(i, types.B32)
	}
	d := l.newReg(types.Class32)
	l.emitMicro(opActive, shape{d: def32}, d, 0, 0, 0, 0).key = "active"
	return d
}

func opActive(w *warp, in *inst, m uint32) {
	d := w.u32(in.d)
	all := w.cur.mask
	if in.guard != 0 {
		all &= w.pred(in.guard)
	}
	for ; m != 0; m &= m - 1 {
		lane := 31 & lowestLane(m)
		d[lane] = all
	}
}

func lowerActivemask(l *lowerer) {
	l.checkArgs(1)
	l.emitMicro(opActive, shape{d: def32}, l.resultRef(types.B32), 0, 0, 0, 0).key = "active"
}

func lowerShfl(l *lowerer) {
	n := 4
	if l.hasModifier("sync") {
		n = 5
	}
	l.checkArgs(n)
	mode := map[string]int{"up": shflUp, "down": shflDown, "bfly": shflBfly, "idx": shflIdx}
	var f func(w *warp, in *inst, m uint32, g *gather)
	key := "shfl."
	for name, k := range mode {
		if l.hasModifier(name) {
			f, key = finishShfl(k), key+name
		}
	}
	if f == nil {
		l.failSyntax("the mode is missing")
	}
	mask := l.memberMask(4)
	a, b, c := l.sourceRef(1, types.B32), l.sourceRef(2, types.B32), l.sourceRef(3, types.B32)
	sh := shape{d: def32, a: use32, b: use32, c: use32}
	var e ref
	if pair := l.in.Args[0].Pair; pair != nil {
		e, sh.e = l.refForResult(*pair, types.Pred), defPred
	}
	m := l.syncOp(key, gatherA32, f, mask, sh, l.resultRef(types.B32), e, a, b, c)
	if e != 0 {
		m.imm = 1
	}
}

func lowerVote(l *lowerer) {
	n := 2
	if l.hasModifier("sync") {
		n = 3
	}
	l.checkArgs(n)
	for _, mode := range []string{"all", "any", "uni", "ballot"} {
		if !l.hasModifier(mode) {
			continue
		}
		mask := l.memberMask(2)
		a := l.sourceRef(1, types.Pred)
		if mode == "ballot" {
			l.syncOp("vote."+mode, gatherPred, finishVote(mode), mask, shape{d: def32, a: usePred}, l.resultRef(types.B32), 0, a, 0, 0)
		} else {
			l.syncOp("vote."+mode, gatherPred, finishVote(mode), mask, shape{d: defPred, a: usePred}, l.resultRef(types.Pred), 0, a, 0, 0)
		}
		return
	}
	l.failSyntax("the mode is missing")
}

func lowerMatch(l *lowerer) {
	l.checkArgs(3)
	t, all := l.lastType(), l.hasModifier("all")
	g, u := gatherA32, use32
	if t.Size() == 8 {
		g, u = gatherA64, use64
	}
	sh := shape{d: def32, a: u}
	mask, a := l.sourceRef(2, types.B32), l.sourceRef(1, t)
	var e ref
	if pair := l.in.Args[0].Pair; pair != nil {
		e, sh.e = l.refForResult(*pair, types.Pred), defPred
	}
	m := l.syncOp(strings.Join(append([]string{"match"}, l.in.Mods...), "."), g, finishMatch(all), mask, sh, l.resultRef(types.B32), e, a, 0, 0)
	if e != 0 {
		m.imm = 1
	}
}

func lowerRedux(l *lowerer) {
	l.checkArgs(3)
	t := l.lastType()
	if t.Size() != 4 || t.IsFloat() {
		l.refuseInstruction("floating-point redux is not supported")
	}
	signed := t.IsSigned()
	ops := map[string]func(a, b uint32) uint32{
		"add": func(a, b uint32) uint32 { return a + b },
		"and": func(a, b uint32) uint32 { return a & b },
		"or":  func(a, b uint32) uint32 { return a | b },
		"xor": func(a, b uint32) uint32 { return a ^ b },
		"min": func(a, b uint32) uint32 {
			if signed {
				return uint32(min(int32(a), int32(b)))
			}
			return min(a, b)
		},
		"max": func(a, b uint32) uint32 {
			if signed {
				return uint32(max(int32(a), int32(b)))
			}
			return max(a, b)
		},
	}
	for name, f := range ops {
		if l.hasModifier(name) {
			mask, a := l.sourceRef(2, types.B32), l.sourceRef(1, t)
			l.syncOp("redux."+name+"."+t.String(), gatherA32, finishRedux(f), mask, shape{d: def32, a: use32}, l.resultRef(t), 0, a, 0, 0)
			return
		}
	}
	l.failSyntax("the operation is missing")
}

func lowerElect(l *lowerer) {
	l.checkArgs(2)
	mask := l.sourceRef(1, types.B32)
	if l.in.Args[0].Pair == nil {
		l.failSyntax("a predicate is missing")
	}
	e := l.refForResult(*l.in.Args[0].Pair, types.Pred)
	f := func(w *warp, in *inst, m uint32, g *gather) {
		leader := lowestLane(g.mask & w.u32(in.ext.refs[0])[lowestLane(m)])
		w.setBits(in.e, m, 1<<leader)
		d := w.u32(in.d)
		for ; m != 0; m &= m - 1 {
			d[lowestLane(m)] = uint32(leader)
		}
	}
	l.syncOp("elect", gatherNone, f, mask, shape{d: def32, e: defPred}, l.resultRef(types.B32), e, 0, 0, 0)
}
