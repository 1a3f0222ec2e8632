// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// lowerMov is mov, with packing and unpacking.
func lowerMov(l *lowerer) {
	t := l.typ()
	l.argc(2)
	d, s := l.spread(l.in.args[0]), l.spread(l.in.args[1])
	l.in.args = []operand{d, s}
	switch {
	case l.has("v2") || l.has("v4") || l.has("v8"):
		n := l.vectorOf()
		to, _, _ := l.elements(0, t, n, true)
		from, _, _ := l.elements(1, t, n, false)
		// Results may be among the sources.
		var keep []ref
		for _, r := range from {
			k := l.newReg(t.class())
			l.move(t, k, r)
			keep = append(keep, k)
		}
		for i, r := range keep {
			l.move(t, to[i], r)
		}
	case s.kind == argVector:
		l.pack(t, s.list)
	case d.kind == argVector:
		l.unpack(t, d.list)
	case t == B128:
		for p := range ref(2) {
			l.alu("mov.u64", l.dst(B64)+2*p, l.src(1, B64)+2*p)
		}
	default:
		// A special register of 32 bits is read into a register of 16 bits by old texts.
		l.move(t, l.dst(t), l.src(1, t))
	}
}

var bySize = map[uint32]Type{1: B8, 2: B16, 4: B32, 8: B64, 16: B128}

// pack joins elements into a value, the first lowest.
func (l *lowerer) pack(t Type, list []operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == NoType || t.Size()%uint32(len(list)) != 0 {
		l.fail("%d elements do not make a %s", len(list), t)
	}
	var src []ref
	for _, o := range list {
		src = append(src, l.operand(o, et))
	}
	if t == B128 {
		d := l.dst(B64)
		if len(src) == 2 {
			// The results may be among the sources.
			lo, hi := l.newReg(class64), l.newReg(class64)
			l.alu("mov.u64", lo, src[0])
			l.alu("mov.u64", hi, src[1])
			l.alu("mov.u64", d, lo)
			l.alu("mov.u64", d+2, hi)
			return
		}
		l.fail("no such form")
	}
	d := l.dst(t)
	size := 8 * et.Size()
	mask := sizeMask(et.Size())
	if len(src) == 2 {
		l.lanes(t, d, func(a, b, _ uint64) uint64 { return a&mask | b&mask<<size }, []Type{et, et}, src...)
		return
	}
	acc := l.constant(t.class(), 0)
	for i, s := range src {
		next := l.newReg(t.class())
		if i == len(src)-1 {
			next = d
		}
		l.lanes(t, next, func(a, b, _ uint64) uint64 { return b | a&mask<<(size*uint32(i)) }, []Type{et, t}, s, acc)
		acc = next
	}
}

// unpack takes a value apart.
func (l *lowerer) unpack(t Type, list []operand) {
	et := bySize[t.Size()/uint32(len(list))]
	if et == NoType || t.Size()%uint32(len(list)) != 0 {
		l.fail("%d elements do not make a %s", len(list), t)
	}
	if t == B128 {
		if len(list) != 2 {
			l.fail("no such form")
		}
		s := l.src(1, B64)
		lo, hi := l.newReg(class64), l.newReg(class64)
		l.alu("mov.u64", lo, s)
		l.alu("mov.u64", hi, s+2)
		l.alu("mov.u64", l.result(list[0], B64), lo)
		l.alu("mov.u64", l.result(list[1], B64), hi)
		return
	}
	s := l.src(1, t)
	// A result may be the source.
	keep := l.newReg(t.class())
	l.move(bySize[t.Size()], keep, s)
	for i, o := range list {
		if o.kind == argSink {
			continue
		}
		shift := 8 * et.Size() * uint32(i)
		l.lanes(et, l.result(o, et), func(a, _, _ uint64) uint64 { return a >> shift & sizeMask(et.Size()) }, []Type{t}, keep)
	}
}

var windows = map[Space]uint64{SharedSpace: sharedWindow, LocalSpace: localWindow, ParamSpace: paramWindow}

// lowerCvta converts between generic addresses and the addresses of a space.
func lowerCvta(l *lowerer) {
	l.loose = true
	t, space := l.typ(), l.space()
	l.argc(2)
	if space == ParamSpace && !l.f.entry {
		space = LocalSpace
	}
	w, ok := windows[space]
	if o := l.in.args[1]; o.kind == argName {
		if v := l.in.scope.variable(o.name); v != nil && v.space == ParamSpace && !l.f.isParam(v) {
			w, ok = localWindow, true
		}
	}
	d, s := l.dst(t), l.src(1, t)
	if !ok || t.Size() == 4 {
		l.move(t, d, s)
		return
	}
	if l.has("to") {
		l.alu("sub.u64", d, s, l.constant(class64, w))
	} else {
		l.alu("add.u64", d, s, l.constant(class64, w))
	}
}

func lowerIsspacep(l *lowerer) {
	l.loose = true
	l.argc(2)
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
	l.lanes(Pred, l.dst(Pred), f, []Type{U64}, l.src(1, U64))
}
