// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "math"

func lowerCopysign(l *lowerer) {
	t := l.typ()
	mask := uint64(1) << (t.Size()*8 - 1)
	l.lanes2(t, func(a, b, _ uint64) uint64 { return b&^mask | a&mask })
}

func lowerTestp(l *lowerer) {
	t := l.typ()
	l.argc(2)
	least := formats[t].least
	kind := ""
	for _, k := range []string{"finite", "infinite", "number", "notanumber", "normal", "subnormal"} {
		if l.has(k) {
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
		l.fail("what to test for is missing")
	}
	l.lanes(Pred, l.dst(Pred), func(a, _, _ uint64) uint64 {
		if test(decode(t, a)) {
			return 1
		}
		return 0
	}, []Type{t}, l.src(1, t))
}
