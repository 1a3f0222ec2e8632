// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// program is a random program over eight registers: arithmetic, branches, bounded loops with exits and early ends. It
// is printed as PTX and executed thread by thread in plain Go, to test where lanes part and meet, and where values are
// kept.
type program struct {
	r     *rand.Rand
	text  strings.Builder
	label int
	left  int // statements
	temps int
}

// state is the state of a single thread.
type state struct {
	x    [8]uint32
	fuel int
}

// outcome is how a thread goes on after a statement.
type outcome int

const (
	goesOn outcome = iota
	breaks
	ends
)

type statement func(s *state) outcome

func sequenceOf(list []statement) statement {
	return func(s *state) outcome {
		for _, f := range list {
			if o := f(s); o != goesOn {
				return o
			}
		}
		return goesOn
	}
}

func (p *program) newLabel() string {
	p.label++
	return fmt.Sprintf("L%d", p.label)
}

// emitCondition emits a comparison into a fresh predicate and returns its name and oracle.
func (p *program) emitCondition() (string, func(s *state) bool) {
	a, n := p.r.IntN(8), uint32(p.r.IntN(7))
	p.temps++
	pred := fmt.Sprintf("%%p%d", p.temps)
	fmt.Fprintf(&p.text, "\tand.b32 %%y%d, %%x%d, 7;\n\tsetp.lt.u32 %s, %%y%d, %d;\n", p.temps, a, pred, p.temps, n)
	return pred, func(s *state) bool { return s.x[a]&7 < n }
}

func (p *program) emitBlock(depth int, exit string) statement {
	var list []statement
	for n := 1 + p.r.IntN(5); n > 0 && p.left > 0; n-- {
		p.left--
		list = append(list, p.emitStatement(depth, exit))
	}
	return sequenceOf(list)
}

func (p *program) emitStatement(depth int, exit string) statement {
	d, a, b := p.r.IntN(8), p.r.IntN(8), p.r.IntN(8)
	kind := p.r.IntN(12)
	if depth > 4 && kind < 5 {
		kind = 11
	}
	switch kind {
	case 0, 1: // if
		pred, holds := p.emitCondition()
		skip := p.newLabel()
		fmt.Fprintf(&p.text, "\t@!%s bra %s;\n", pred, skip)
		body := p.emitBlock(depth+1, exit)
		fmt.Fprintf(&p.text, "%s:\n", skip)
		return func(s *state) outcome {
			if holds(s) {
				return body(s)
			}
			return goesOn
		}
	case 2: // if and else
		pred, holds := p.emitCondition()
		other, end := p.newLabel(), p.newLabel()
		fmt.Fprintf(&p.text, "\t@!%s bra %s;\n", pred, other)
		yes := p.emitBlock(depth+1, exit)
		fmt.Fprintf(&p.text, "\tbra %s;\n%s:\n", end, other)
		no := p.emitBlock(depth+1, exit)
		fmt.Fprintf(&p.text, "%s:\n", end)
		return func(s *state) outcome {
			if holds(s) {
				return yes(s)
			}
			return no(s)
		}
	case 3, 4: // a loop of at most seven rounds, by thread
		p.temps++
		i := fmt.Sprintf("%%y%d", p.temps)
		head, end := p.newLabel(), p.newLabel()
		fmt.Fprintf(&p.text, "\tand.b32 %s, %%x%d, 7;\n%s:\n", i, a, head)
		done := fmt.Sprintf("%%p%d", p.temps)
		fmt.Fprintf(&p.text, "\tsetp.eq.u32 %s, %s, 0;\n\t@%s bra %s;\n\tsub.u32 %s, %s, 1;\n", done, i, done, end, i, i)
		body := p.emitBlock(depth+1, end)
		fmt.Fprintf(&p.text, "\tbra %s;\n%s:\n", head, end)
		return func(s *state) outcome {
			for n := s.x[a] & 7; n > 0; n-- {
				if s.fuel--; s.fuel < 0 {
					return ends
				}
				switch body(s) {
				case breaks:
					return goesOn
				case ends:
					return ends
				}
			}
			return goesOn
		}
	case 5: // leave the loop
		if exit == "" {
			break
		}
		pred, holds := p.emitCondition()
		fmt.Fprintf(&p.text, "\t@%s bra %s;\n", pred, exit)
		return func(s *state) outcome {
			if holds(s) {
				return breaks
			}
			return goesOn
		}
	case 6: // the thread ends; its result is stored before
		if p.r.IntN(4) > 0 {
			break
		}
		pred, holds := p.emitCondition()
		fmt.Fprintf(&p.text, "\t@%s bra STORE;\n", pred)
		return func(s *state) outcome {
			if holds(s) {
				return ends
			}
			return goesOn
		}
	case 7: // guarded
		pred, holds := p.emitCondition()
		fmt.Fprintf(&p.text, "\t@%s xor.b32 %%x%d, %%x%d, %%x%d;\n", pred, d, a, b)
		return func(s *state) outcome {
			if holds(s) {
				s.x[d] = s.x[a] ^ s.x[b]
			}
			return goesOn
		}
	case 8: // a call, and a call of a call
		fmt.Fprintf(&p.text, "\tcall (%%x%d), mix, (%%x%d, %%x%d);\n", d, a, b)
		return func(s *state) outcome {
			u, v := s.x[a], s.x[b]
			if v&3 == 1 {
				u = u*5 + 1
			} else {
				u ^= v >> 2
			}
			s.x[d] = u + v
			return goesOn
		}
	case 9:
		fmt.Fprintf(&p.text, "\tmad.lo.u32 %%x%d, %%x%d, 3, %%x%d;\n", d, a, b)
		return func(s *state) outcome { s.x[d] = s.x[a]*3 + s.x[b]; return goesOn }
	}
	n := p.r.IntN(31) + 1
	p.temps++
	fmt.Fprintf(&p.text, "\tshr.u32 %%y%d, %%x%d, %d;\n\tadd.u32 %%x%d, %%y%d, %%x%d;\n", p.temps, a, n, d, p.temps, b)
	return func(s *state) outcome { s.x[d] = s.x[a]>>n + s.x[b]; return goesOn }
}

func TestRandomPrograms(t *testing.T) {
	programs := 300
	if testing.Short() {
		programs = 60
	}
	const threads = 50
	ran := 0
	for seed := range uint64(programs) {
		p := &program{r: rand.New(rand.NewPCG(seed, 8)), left: 60}
		body := p.emitBlock(0, "")
		text := header + `.func (.reg .u32 %o) odd(.reg .u32 %u) { mad.lo.u32 %o, %u, 5, 1; ret; }
.func (.reg .u32 %o) mix(.reg .u32 %u, .reg .u32 %v) {
	.reg .u32 %w; .reg .pred %p;
	and.b32 %w, %v, 3; setp.eq.u32 %p, %w, 1;
	@!%p bra E;
	call (%w), odd, (%u);
	add.u32 %o, %w, %v;
	ret;
E:	shr.u32 %w, %v, 2; xor.b32 %w, %w, %u; add.u32 %o, %w, %v; ret;
}
` + fmt.Sprintf(".visible .entry k(.param .u64 out) {\n\t.reg .b64 %%rd<4>; .reg .b32 %%x<8>, %%y<%d>; .reg .pred %%p<%d>;\n\tmov.u32 %%x0, %%tid.x;\n", p.temps+2, p.temps+2)
		for i := 1; i < 8; i++ {
			text += fmt.Sprintf("\tmad.lo.u32 %%x%d, %%x0, %d, %d;\n", i, 0x9e3779b1*uint32(i), i)
		}
		text += p.text.String() + "STORE:\n\tld.param.u64 %rd1, [out]; mov.u32 %y0, %tid.x; mul.wide.u32 %rd2, %y0, 32; add.u64 %rd1, %rd1, %rd2;\n"
		for i := range 8 {
			text += fmt.Sprintf("\tst.global.u32 [%%rd1+%d], %%x%d;\n", 4*i, i)
		}
		text += "\tret;\n}\n"
		want := make([]uint32, 0, 8*threads)
		spent := false
		for i := range uint32(threads) {
			s := &state{fuel: 20000}
			for k := range s.x {
				s.x[k] = i*0x9e3779b1*uint32(k) + uint32(k)
			}
			s.x[0] = i
			body(s)
			spent = spent || s.fuel < 0
			want = append(want, s.x[:]...)
		}
		if spent {
			continue
		}
		ran++
		m := bootMachine(t, text)
		out := m.mapAt(testOut, make([]byte, 32*threads))
		m.runKernel("k", Dim3{1, 1, 1}, Dim3{threads, 1, 1}, testOut)
		for i, g := range readWords(out) {
			if g != want[i] {
				t.Fatalf("program %d, thread %d, x%d: %#x, should be %#x\n%s", seed, i/8, i%8, g, want[i], text)
			}
		}
	}
	if ran < programs*3/4 {
		t.Errorf("%d of %d programs ended soon enough to be run", ran, programs)
	}
}
