// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEndlessLoops: loops without an exit, taken or not, are compiled like other loops.
func TestEndlessLoops(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(t uint32) uint32
	}{
		{"never taken", "mov.u32 %r, 5; setp.gt.u32 %p1, %t, 99; @!%p1 bra E; L: add.u32 %r, %r, 1; bra L; E:", func(uint32) uint32 { return 5 }},
		{"two blocks", "mov.u32 %r, 6; setp.gt.u32 %p1, %t, 99; @!%p1 bra E; L: setp.eq.u32 %p2, %r, 3; @%p2 bra M; add.u32 %r, %r, 1; bra L; M: add.u32 %r, %r, 2; bra L; E:", func(uint32) uint32 { return 6 }},
		{"two loops, one in the other", "mov.u32 %r, 7; setp.gt.u32 %p1, %t, 99; @!%p1 bra E; L: add.u32 %r, %r, 1; M: setp.eq.u32 %p2, %r, 3; @%p2 bra M; bra L; E:", func(uint32) uint32 { return 7 }},
		{"a trap in it", "mov.u32 %r, 8; setp.gt.u32 %p1, %t, 99; @!%p1 bra E; L: setp.eq.u32 %p2, %r, 3; @%p2 bra M; bra L; M: trap; E:", func(uint32) uint32 { return 8 }},
		{"lanes part before it", "mov.u32 %r, %t; and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0; setp.gt.u32 %p2, %t, 99; @%p1 bra A; add.u32 %r, %r, 10; @%p2 bra L; bra E; A: @%p2 bra L; add.u32 %r, %r, 20; bra E; L: bra L; E: activemask.b32 %x2; setp.ne.u32 %p3, %x2, -1; @%p3 mov.u32 %r, 0;",
			func(t uint32) uint32 { return t + 20 - t%2*10 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, got := range perThreadOut(t, c.body, 1, 32) {
				if want := c.want(uint32(i)); got != want {
					t.Fatalf("thread %d: %d, should be %d", i, got, want)
				}
			}
		})
	}
}

// TestRandomControlFlow: a kernel with random branches is compiled, and runs until it ends or is stopped.
func TestRandomControlFlow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 100 {
		n := 1 + r.IntN(24)
		var body strings.Builder
		body.WriteString("mov.u32 %r, %t;\n")
		for i := range n {
			fmt.Fprintf(&body, "L%d: add.u32 %%r, %%r, %d; and.b32 %%x1, %%r, %d; setp.eq.u32 %%p1, %%x1, 0;\n", i, 1+r.IntN(9), 1<<r.IntN(4)-1+r.IntN(2))
			to := r.IntN(n)
			switch r.IntN(6) {
			case 0:
				fmt.Fprintf(&body, "bra L%d;\n", to)
			case 1:
				body.WriteString("@%p1 exit;\n")
			case 2:
				body.WriteString("@%p1 trap;\n")
			case 3:
				fmt.Fprintf(&body, "@%%p1 vote.sync.ballot.b32 %%x2, 1, -1;\n")
			default:
				fmt.Fprintf(&body, "@%%p1 bra L%d;\n", to)
			}
		}
		m := bootMachine(t, perThread(body.String()))
		m.mapAt(testOut, make([]byte, 4*64))
		k, err := m.p.Kernel("k")
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, body.String())
		}
		err = k.Launch(&patience{context.Background(), 4}, Config{
			Grid: Dim3{1, 1, 1}, Block: Dim3{64, 1, 1}, Params: []byte{0, 0, 0, 0, 0x30, 0, 0, 0}, Memory: &m.mem, Workers: 1,
		})
		var f *Fault
		if errors.As(err, &f) && f.Kind != Trapped && f.Kind != BarrierDeadlock || err != nil && f == nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("round %d: %v\n%s", round, err, body.String())
		}
	}
}

// lowerBranches analyses a kernel of n branches, with a limit of steps, and returns the steps that were taken.
func lowerBranches(t *testing.T, n, limit int, target func(i, n int) int, end string) (steps int, err error) {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "L%d: @%%p1 bra L%d;\n", i, target(i, n))
	}
	fmt.Fprintf(&b, "L%d:\n%s", n, end)
	m := bootMachine(t, perThread(b.String()))
	f := m.p.funcs["k"]
	if err := f.ParseBody(); err != nil {
		t.Fatal(err)
	}
	if err := new(Kernel).placeParams(f); err != nil {
		t.Fatal(err)
	}
	l := newLowerer(newBuilder(m.p), f)
	l.limit = limit
	err = l.lowerBody()
	return l.spent, err
}

// TestLargeControlFlow: the steps in which a function's control flow is analysed are linear in the function's size for
// code as compilers write it, and bounded for any other.
func TestLargeControlFlow(t *testing.T) {
	const n, times = 5000, 4
	for _, tc := range []struct {
		name, end string
		target    func(i, n int) int
		most      int // how many times more steps a function takes that is that many times larger
	}{
		{"traps", "trap;\n", func(i, n int) int { return min(i+2, n) }, times + 1},
		{"forward", "", func(i, n int) int { return min(i+7, n) }, times + 1},
		{"nested", "", func(i, n int) int { return max(i, n-i) }, times + 1},
		{"loops", "", func(i, _ int) int { return i / 2 }, times*times + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			small, err := lowerBranches(t, n, maxEffort, tc.target, tc.end)
			if err != nil {
				t.Fatal(err)
			}
			large, err := lowerBranches(t, times*n, maxEffort, tc.target, tc.end)
			if err != nil {
				t.Fatal(err)
			}
			if large > tc.most*small {
				t.Errorf("%d branches take %d steps, and %d take %d: more than %d times as many", n, small, times*n, large, tc.most)
			}
			limit := large / 2
			steps, err := lowerBranches(t, times*n, limit, tc.target, tc.end)
			var refused *RefusedError
			if !errors.As(err, &refused) || steps > limit+small {
				t.Errorf("with a limit of %d, %d steps were taken: %v", limit, steps, err)
			}
		})
	}
}

// TestHostileTexts: small texts that ask for much are refused and take little memory.
func TestHostileTexts(t *testing.T) {
	entry := func(body string) string { return header + ".visible .entry k()\n{\n" + body + "\nret;\n}\n" }
	for name, c := range map[string]struct{ text, says string }{
		"many parameters":         {entry(strings.Repeat("{ .param .b32 p<1000000>; }\n", 1000)), "more than"},
		"an empty vector":         {entry(".reg .b64 %a; mov.b64 %a, {};"), "vector"},
		"an empty vector to load": {entry(".reg .b64 %a; ld.global.v2.b64 {}, [%a];"), "vector"},
		"local memory":            {entry(".local .b8 x[1000000]; .reg .b32 %a; ld.local.u32 %a, [x];"), "512 KiB"},
		"shared memory":           {entry(".shared .b8 x[1000000]; .reg .b32 %a; ld.shared.u32 %a, [x];"), "shared memory"},
		"a large variable":        {header + ".global .b8 x[1000000][1000000];", "too large"},
		"nesting":                 {entry(strings.Repeat("{", 100000)), "nested"},
		"deep expressions":        {header + ".global .u32 x = " + strings.Repeat("(", 100000) + "1;", "nested"},
		"a chain of functions":    {callChain(40), "512 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compileText(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%.300v does not say %q", err, c.says)
			}
		})
	}
}

// callChain is a text of functions each of which calls the next and has 64 KiB of local memory.
func callChain(n int) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		fmt.Fprintf(&b, ".func f%d() { .local .b8 x[65536]; .reg .b32 %%a; ld.local.u32 %%a, [x];\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "call f%d;\n", i-1)
		}
		b.WriteString("ret; }\n")
	}
	fmt.Fprintf(&b, ".entry k() { call f%d; ret; }\n", n-1)
	return b.String()
}

// compileText goes the way of a text to its kernels.
func compileText(text string) error {
	m, err := Parse("hostile", text)
	if err != nil {
		return err
	}
	p, err := Link(m)
	if err != nil {
		return err
	}
	if _, err := p.Place(testGlobals); err != nil {
		return err
	}
	for _, err := range p.Check() {
		return err
	}
	return nil
}

// TestManyBlocksStopped: a launch of more blocks than can ever run ends when its context is cancelled.
func TestManyBlocksStopped(t *testing.T) {
	m := bootMachine(t, header+".visible .entry k() { ret; }")
	k, err := m.p.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Launch(ctx, Config{Grid: Dim3{1<<31 - 1, 65535, 65535}, Block: Dim3{1, 1, 1}}) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestOldDeclarations: declarations as older compilers wrote them are accepted.
func TestOldDeclarations(t *testing.T) {
	for name, text := range map[string]string{
		"forward declaration before .visible": ".version 1.4\n.target sm_10\n.file 1 \"a.c\"\n.func (.reg .u32 r) f (.reg .u32 a)\n.visible .func (.reg .u32 r) g (.reg .u32 a)\n{\nmov.u32 r, a;\nret;\n}\n.entry k { exit; }\n",
		"forward declaration before .file":    ".version 2.3\n.target sm_20\n.address_size 64\n.func (.param .u32 r) f (.param .u32 a)\n.file 1 \"a.c\"\n.file 2 \"b.c\"\n.entry k { exit; }\n",
		"forward declaration at the end":      ".version 2.3\n.target sm_20\n.address_size 64\n.entry k { exit; }\n.func f (.param .u32 a)",
		"forward declaration before .global":  ".version 2.0\n.target sm_20\n.func f\n.global .u32 x;\n.entry k { exit; }\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := compileText(text); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestVectorsOfOne: a register in braces is that register.
func TestVectorsOfOne(t *testing.T) {
	body := `{ .reg .f64 %fd<9>; .reg .b64 %q; cvt.rn.f64.u32 %fd1, %t; mov.b64 %q, {%fd1}; mov.b64 {%fd2}, %q; st.global.f64 [cell], {%fd2}; ld.global.f64 {%fd3}, [cell]; cvt.rzi.u32.f64 %r, %fd3; }`
	if got := perThreadOut(t, body, 1, 1); got[0] != 0 {
		t.Fatalf("with f64 vectors of one: got %v, want 0 in thread 0", got)
	}
	body = `{ .reg .f64 %fd<9>; mov.u64 %rd1, cell; mov.f64 %fd3, 0d4000000000000000; mov.f64 %fd4, 0d3FF0000000000000;
		wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%fd20}, [%rd1]; mov.u32 %r, 3; }`
	body = strings.Replace(body, "%fd<9>", "%fd<30>", 1)
	if got := perThreadOut(t, body, 1, 32); got[31] != 3 {
		t.Fatalf("with wmma fragments of one register: got %v, want 3 in thread 31", got)
	}
}

// TestReservedShared: a block has shared memory that libraries use, beyond its own.
func TestReservedShared(t *testing.T) {
	body := `mov.u32 %x1, %reserved_smem_offset_1; mov.u32 %x2, %reserved_smem_offset_end; sub.u32 %r, %x2, %x1; shl.b32 %x3, %t, 2; add.u32 %x1, %x1, %x3;
		st.shared.u32 [%x1], %t; st.shared.u32 [sm+4092], 99; bar.sync 0; ld.shared.u32 %x4, [%x1]; add.u32 %r, %r, %x4; mov.u32 %x5, %reserved_smem_offset_begin; mov.u32 %x6, %reserved_smem_offset_cap; mov.u32 %x7, %reserved_smem_offset_0;`
	for i, got := range perThreadOut(t, body, 2, 64) {
		if want := uint32(1024 + i%64); got != want {
			t.Fatalf("thread %d: %d, should be %d", i, got, want)
		}
	}
}
