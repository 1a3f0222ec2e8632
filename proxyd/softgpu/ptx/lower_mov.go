// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// lowerMov is mov, with packing and unpacking.
func lowerMov(l *lowerer) {
	t := l.lastType()
	l.checkArgs(2)
	d, s := l.spreadVector(l.in.args[0]), l.spreadVector(l.in.args[1])
	l.in.args = []operand{d, s}
	switch {
	case l.hasModifier("v2") || l.hasModifier("v4") || l.hasModifier("v8"):
		n := l.vectorOf()
		to, _, _ := l.listElements(0, t, n, true)
		from, _, _ := l.listElements(1, t, n, false)
		// Results may be among the sources.
		var keep []ref
		for _, r := range from {
			k := l.newReg(t.classOf())
			l.emitMove(t, k, r)
			keep = append(keep, k)
		}
		for i, r := range keep {
			l.emitMove(t, to[i], r)
		}
	case s.kind == argVector:
		l.packElements(t, s.list)
	case d.kind == argVector:
		l.unpackElements(t, d.list)
	case t == B128:
		for p := range ref(2) {
			l.alu("mov.u64", l.resultRef(B64)+2*p, l.sourceRef(1, B64)+2*p)
		}
	default:
		// A special register of 32 bits is read into a register of 16 bits by old texts.
		l.emitMove(t, l.resultRef(t), l.sourceRef(1, t))
	}
}

var bySize = map[uint32]Type{1: B8, 2: B16, 4: B32, 8: B64, 16: B128}

// packElements joins elements into a value, the first lowest.
func (l *lowerer) packElements(t Type, list []operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == NoType || t.Size()%uint32(len(list)) != 0 {
		l.failSyntax("%d elements do not make a %s", len(list), t)
	}
	var src []ref
	for _, o := range list {
		src = append(src, l.operandRef(o, et))
	}
	if t == B128 {
		d := l.resultRef(B64)
		if len(src) == 2 {
			// The results may be among the sources.
			lo, hi := l.newReg(class64), l.newReg(class64)
			l.alu("mov.u64", lo, src[0])
			l.alu("mov.u64", hi, src[1])
			l.alu("mov.u64", d, lo)
			l.alu("mov.u64", d+2, hi)
			return
		}
		l.failSyntax("no such form")
	}
	d := l.resultRef(t)
	size := 8 * et.Size()
	mask := sizeMask(et.Size())
	if len(src) == 2 {
		l.emitLanes(t, d, func(a, b, _ uint64) uint64 { return a&mask | b&mask<<size }, []Type{et, et}, src...)
		return
	}
	acc := l.constantRef(t.classOf(), 0)
	for i, s := range src {
		next := l.newReg(t.classOf())
		if i == len(src)-1 {
			next = d
		}
		l.emitLanes(t, next, func(a, b, _ uint64) uint64 { return b | a&mask<<(size*uint32(i)) }, []Type{et, t}, s, acc)
		acc = next
	}
}

// unpackElements takes a value apart.
func (l *lowerer) unpackElements(t Type, list []operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == NoType || t.Size()%uint32(len(list)) != 0 {
		l.failSyntax("%d elements do not make a %s", len(list), t)
	}
	if t == B128 {
		if len(list) != 2 {
			l.failSyntax("no such form")
		}
		s := l.sourceRef(1, B64)
		lo, hi := l.newReg(class64), l.newReg(class64)
		l.alu("mov.u64", lo, s)
		l.alu("mov.u64", hi, s+2)
		l.alu("mov.u64", l.refForResult(list[0], B64), lo)
		l.alu("mov.u64", l.refForResult(list[1], B64), hi)
		return
	}
	s := l.sourceRef(1, t)
	// A result may be the source.
	keep := l.newReg(t.classOf())
	l.emitMove(bySize[t.Size()], keep, s)
	for i, o := range list {
		if o.kind == argSink {
			continue
		}
		shift := 8 * et.Size() * uint32(i)
		l.emitLanes(et, l.refForResult(o, et), func(a, _, _ uint64) uint64 { return a >> shift & sizeMask(et.Size()) }, []Type{t}, keep)
	}
}

var windows = map[Space]uint64{SharedSpace: sharedWindow, LocalSpace: localWindow, ParamSpace: paramWindow}

// lowerCvta converts between generic addresses and the addresses of a space.
func lowerCvta(l *lowerer) {
	l.loose = true
	t, space := l.lastType(), l.space()
	l.checkArgs(2)
	if space == ParamSpace && !l.f.entry {
		space = LocalSpace
	}
	w, ok := windows[space]
	if o := l.in.args[1]; o.kind == argName {
		if v := l.in.scope.findVariable(o.name); v != nil && v.space == ParamSpace && !l.f.isParam(v) {
			w, ok = localWindow, true
		}
	}
	d, s := l.resultRef(t), l.sourceRef(1, t)
	if !ok || t.Size() == 4 {
		l.emitMove(t, d, s)
		return
	}
	if l.hasModifier("to") {
		l.alu("sub.u64", d, s, l.constantRef(class64, w))
	} else {
		l.alu("add.u64", d, s, l.constantRef(class64, w))
	}
}

func lowerIsspacep(l *lowerer) {
	l.loose = true
	l.checkArgs(2)
	space := l.space()
	consts := l.b.prog.constants()
	f := func(a, _, _ uint64) uint64 {
		in := false
		switch space {
		case SharedSpace:
			in = a-sharedWindow < windowSize
		case LocalSpace:
			in = a-localWindow < windowSize
		case ParamSpace:
			in = a-paramWindow < windowSize
		default:
			isConst := a-consts[0] < consts[1]-consts[0]
			in = a >= MinAddress && isConst == (space == ConstSpace)
		}
		if in {
			return 1
		}
		return 0
	}
	l.emitLanes(Pred, l.resultRef(Pred), f, []Type{U64}, l.sourceRef(1, U64))
}
