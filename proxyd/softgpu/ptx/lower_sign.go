// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "math"

func lowerCopysign(l *lowerer) {
	t := l.lastType()
	mask := uint64(1) << (t.Size()*8 - 1)
	l.emitLanes2(t, func(a, b, _ uint64) uint64 { return b&^mask | a&mask })
}

func lowerTestp(l *lowerer) {
	t := l.lastType()
	l.checkArgs(2)
	least := formats[t].least
	kind := ""
	for _, k := range []string{"finite", "infinite", "number", "notanumber", "normal", "subnormal"} {
		if l.hasModifier(k) {
			kind = k
		}
	}
	test := map[string]func(v float64) bool{
		"finite":     func(v float64) bool { return v == v && !math.IsInf(v, 0) },
		"infinite":   func(v float64) bool { return math.IsInf(v, 0) },
		"number":     func(v float64) bool { return v == v },
		"notanumber": func(v float64) bool { return v != v },
		"normal":     func(v float64) bool { return v == v && !math.IsInf(v, 0) && math.Abs(v) >= least },
		"subnormal":  func(v float64) bool { return v != 0 && math.Abs(v) < least },
	}[kind]
	if test == nil {
		l.failSyntax("what to test for is missing")
	}
	l.emitLanes(Pred, l.resultRef(Pred), func(a, _, _ uint64) uint64 {
		if test(decode(t, a)) {
			return 1
		}
		return 0
	}, []Type{t}, l.sourceRef(1, t))
}
