// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestFaults: a fault names the block, the thread and the line.
func TestFaults(t *testing.T) {
	cases := []struct {
		name, body string
		kind       FaultKind
		says       string
	}{
		{"null", "setp.eq.u32 %p1, %t, 33; @%p1 ld.global.u32 %r, [0];", IllegalAddress, "block (0,0,0) thread (33,0,0): k line 19: illegal address 0x0"},
		{"beyond", "mov.u64 %rd1, 0x5000000000; st.global.u64 [%rd1], 1;", IllegalAddress, "0x5000000000"},
		{"misaligned", "ld.global.u32 %r, [%out+2];", MisalignedAddress, "misaligned address 0x3000000002"},
		{"misaligned vector", "ld.global.v2.u32 {%r, %x1}, [%out+4];", MisalignedAddress, "0x3000000004"},
		{"shared", "st.shared.u32 [%t+5001], 1;", MisalignedAddress, "0x1389"},
		{"beyond shared", "shl.b32 %x1, %t, 2; st.shared.u32 [%x1+4096], 1;", IllegalAddress, "shared memory"},
		{"beyond local", "st.local.u32 [%t], 1;", IllegalAddress, "local memory"},
		{"shared window", "mov.u64 %rd1, 0x100002000; ld.u32 %r, [%rd1];", IllegalAddress, "0x100002000"},
		{"trap", "setp.eq.u32 %p1, %t, 3; @%p1 trap;", Trapped, "thread (3,0,0)"},
		{"brkpt", "brkpt;", Trapped, "brkpt"},
		{"atomic", "atom.global.add.u32 %r, [16], 1;", IllegalAddress, "0x10"},
		{"index", "T: .branchtargets A; brx.idx %t, T; A:", IllegalInstruction, "list of labels"},
		{"function", "mov.u64 %rd1, 77; { P: .callprototype _ (); call %rd1, P; }", IllegalInstruction, "no function"},
		{"barrier number", "bar.sync 16;", IllegalInstruction, "15"},
		{"barrier count", "bar.sync 1, 33;", IllegalInstruction, "multiple of 32"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := bootMachine(t, perThread(c.body))
			m.mapAt(testOut, make([]byte, 4*64))
			err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{64, 1, 1}, testOut)
			var f *Fault
			if !errors.As(err, &f) || f.Kind != c.kind {
				t.Fatalf("the launch ended with %v, want a fault of kind %v", err, c.kind)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
	t.Run("read-only", func(t *testing.T) {
		m := bootMachine(t, perThread("mov.u32 %r, 1;"))
		if err := m.mem.Map(testOut, make([]byte, 4096), true); err != nil {
			t.Fatal(err)
		}
		err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut)
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Fatal(err)
		}
	})
	t.Run("lowest block", func(t *testing.T) {
		for range 20 {
			m := bootMachine(t, perThread("setp.ge.u32 %p1, %c, 7; @%p1 trap; mov.u32 %r, 0;"))
			m.cfg.Workers = 4
			m.mapAt(testOut, make([]byte, 4*64*50))
			var f *Fault
			if err := m.launchKernel("k", Dim3{50, 1, 1}, Dim3{64, 1, 1}, testOut); !errors.As(err, &f) || f.Block.X != 7 {
				t.Fatalf("the launch ended with %v, want a fault of block 7", err)
			}
		}
	})
	t.Run("recursion without end", func(t *testing.T) {
		m := bootMachine(t, header+".func f() { .local .b8 x[64]; st.local.u8 [x], 1; call f, (); ret; }\n.entry k() { call f, (); ret; }")
		var f *Fault
		if err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{1, 1, 1}); !errors.As(err, &f) || f.Kind != StackOverflow || f.Func != "f" {
			t.Fatalf("the launch ended with %v, want a stack overflow in f", err)
		}
	})
	t.Run("endless", func(t *testing.T) {
		for _, body := range []string{"L: bra L;", "T: .branchtargets L; L: brx.idx 0, T;", "L: nanosleep.u32 5; bra L;"} {
			m := bootMachine(t, header+".entry k() { "+body+" }")
			k, err := m.p.Kernel("k")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := k.Launch(ctx, Config{Grid: Dim3{1, 1, 1}, Block: Dim3{64, 1, 1}}); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		m := bootMachine(t, header+`.entry k(.param .u64 p) { .reg .u64 a; ld.param.u64 a, [p]; bra L; L: trap; }`)
		k, err := m.p.Kernel("k")
		if err != nil {
			t.Fatal(err)
		}
		var issued atomic.Uint64
		err = k.Launch(context.Background(), Config{Grid: Dim3{1, 1, 1}, Block: Dim3{1, 1, 1}, Params: make([]byte, 8), Issued: &issued})
		if err == nil || issued.Load() == 0 {
			t.Errorf("the launch ended with %v, after %d instructions, want a trap that counts them", err, issued.Load())
		}
	})
	t.Run("many paths", func(t *testing.T) {
		// Each function calls the next twice: its stack and registers are computed once.
		text := header + ".func f40() { ret; }\n"
		for i := 39; i >= 0; i-- {
			text += fmt.Sprintf(".func f%d() { call f%d, (); call f%d, (); ret; }\n", i, i+1, i+1)
		}
		m := bootMachine(t, text+".entry k() { .reg .pred p; setp.eq.u32 p, 1, 2; @p call f0, (); ret; }")
		m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1})
	})
}

// TestRefusedLaunches: no block runs if the configuration is wrong.
func TestRefusedLaunches(t *testing.T) {
	m := bootMachine(t, header+".entry k(.param .u64 a, .param .u32 b) .maxntid 64 { .shared .b8 s[1000]; .reg .u32 r; mov.u32 r, s; trap; }\n.entry q() .reqntid 8, 2 { ret; }")
	cases := []struct {
		kernel      string
		grid, block Dim3
		shared      uint32
		params      int
		says        string
	}{
		{"k", Dim3{0, 1, 1}, Dim3{1, 1, 1}, 0, 12, "is zero"},
		{"k", Dim3{1, 1, 1}, Dim3{1, 1, 0}, 0, 12, "is zero"},
		{"k", Dim3{1, 70000, 1}, Dim3{1, 1, 1}, 0, 12, "grid"},
		{"k", Dim3{1, 1, 1}, Dim3{1025, 1, 1}, 0, 12, "too large"},
		{"k", Dim3{1, 1, 1}, Dim3{1, 1, 65}, 0, 12, "too large"},
		{"k", Dim3{1, 1, 1}, Dim3{65, 1, 1}, 0, 12, ".maxntid"},
		{"k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, MaxShared, 12, "shared memory"},
		{"k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, 0, 11, "parameters"},
		{"q", Dim3{1, 1, 1}, Dim3{16, 1, 1}, 0, 0, ".reqntid"},
	}
	for _, c := range cases {
		k, err := m.p.Kernel(c.kernel)
		if err != nil {
			t.Fatal(err)
		}
		err = k.Launch(context.Background(), Config{Grid: c.grid, Block: c.block, Shared: c.shared, Params: make([]byte, c.params)})
		var l *LaunchError
		if !errors.As(err, &l) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("the launch was refused with %v, want an error with %q", err, c.says)
		}
	}
}

// TestErrors: wrong texts are refused with the line and the reason.
func TestErrors(t *testing.T) {
	cases := []struct{ name, text, says string }{
		{"no version", ".target sm_80", "line 1: .version expected"},
		{"version", ".version 12.0\n.target sm_80", "unsupported .version 12.0"},
		{"target", ".version 8.0\n.target gfx900", "unknown target"},
		{"no end", header + ".entry k() {", "does not end"},
		{"twice", header + ".entry k() { ret; }\n.entry k() { ret; }", "defined twice, first on line 4"},
		{"opcode", header + ".entry k() {\nfrob.u32 %r1, %r2;\n}", "line 5: frob.u32: unknown instruction"},
		{"modifier", header + ".entry k() { .reg .u32 a;\nadd.bogus.u32 a, a, a; }", "unknown modifier .bogus"},
		{"register", header + ".entry k() { .reg .u32 a; add.u32 a, a, zz; }", "zz is not declared"},
		{"range", header + ".entry k() { .reg .u32 %r<4>; mov.u32 %r4, 1; }", "%r4 is not declared"},
		{"width", header + ".entry k() { .reg .u32 a; .reg .u64 b; add.u32 a, a, b; }", "b is of type u64, u32 is needed"},
		{"predicate", header + ".entry k() { .reg .u32 a; @a ret; }", "a is no predicate"},
		{"label", header + ".entry k() { bra X; }", "label X is not defined"},
		{"label twice", header + ".entry k() { X: X: ret; }", "defined twice"},
		{"operands", header + ".entry k() { .reg .u32 a; add.u32 a, a; }", "2 operands"},
		{"call", header + ".func f(.param .u32 x) { ret; }\n.entry k() { call f, (); }", "0 parameters and 0 results, 1 and 0 are declared"},
		{"undefined", header + ".extern .func f();\n.entry k() { call f, (); }", "f is not defined"},
		{"initialiser", header + ".global .u32 x[2] = {1, 2, 3};\n.entry k() { ret; }", "too many values"},
		{"string", header + ".entry k() { .pragma \"x; }", "string does not end"},
		{"character", header + ".entry k() { ` }", "unexpected character"},
		{"too large", header + ".global .b8 x[5000000000];\n.entry k() { ret; }", "too large"},
		{"shared", header + ".shared .b8 x[232449];\n.entry k() { .reg .u32 a; mov.u32 a, x; }", "shared memory"},
		{"texture", header + ".entry k() {\ntld4.r.2d.v4.f32.f32 {a, b, c, d}, [t, {x, y}]; }", "tld4.r.2d.v4.f32.f32 is not supported: gathers of textures"},
		{"cluster", header + ".entry k() .reqnctapercluster 2 { ret; }", "clusters of more than one block are not supported"},
		{"cluster of three extents", header + ".entry k() .reqnctapercluster 1, 1, 2 { ret; }", "clusters of more than one block are not supported"},
		{"tensor map", header + ".entry k() {\ncp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [a], [b, {c, d}], [e]; }", "tensor maps are not supported"},
		{"multicast", header + ".entry k() { .reg .b16 m; .reg .u64 a; .reg .u32 s;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [a], 16, [s], m; }", "clusters of more than one block"},
		{"copy to shared memory", header + ".global .b32 cell[4];\n.entry k() { cp.async.ca.shared.global [cell], [cell], 4; }", "cell lies in global memory"},
		{"told to shared memory", header + ".global .b64 cell[4];\n.shared .align 16 .b64 sm[4];\n.entry k() { cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [cell], 16, [cell]; }", "cell lies in global memory"},
		{"told store", header + ".entry k() { .reg .u32 a; st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [a], a, [a]; }", "told to an mbarrier"},
		{"mbarrier", header + ".entry k() { .reg .u32 a; mbarrier.shared.b64 [a], 1; }", "the operation is missing"},
		{"cluster's barrier", header + ".entry k() { barrier.cluster.aligned; }", "neither arrive nor wait"},
		{"dynamic parallelism", header + ".extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);\n.entry k() { .param .b32 r; .param .b64 a; .param .b64 b; call (r), cudaLaunchDeviceV2, (a, b); }", "cudaLaunchDeviceV2 is not supported: the text is not linked with CUDA's device runtime"},
		{"first dynamic parallelism", header + ".extern .func (.param .b32 r) cnpGetLastError ();\n.entry k() { .param .b32 r; call (r), cnpGetLastError, (); }", "cnpGetLastError is not supported: the first form of dynamic parallelism"},
		{"device of a thread", header + ".extern .func (.param .b32 r) __cuda_syscall_cnpv2GetDevice (.param .b64 a);\n.entry k() { .param .b32 r; .param .b64 a; call (r), __cuda_syscall_cnpv2GetDevice, (a); }", "__cuda_syscall_cnpv2GetDevice is not supported: dynamic parallelism without this call"},
		{"graph of a thread", header + ".extern .func (.param .b32 r) cudaGraphLaunch (.param .b64 a, .param .b64 b);\n.entry k() { .param .b32 r; .param .b64 a; .param .b64 b; call (r), cudaGraphLaunch, (a, b); }", "cudaGraphLaunch is not supported: threads launch no graphs"},
		{"cvt", header + ".entry k() { .reg .b16 a; .reg .f32 f; cvt.rn.satfinite.e2m1x2.f32 a, f, f; }", "this conversion is not supported"},
		{"matrix", header + ".entry k() { mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {a}, {b}, {c}, {d}, e, 0; }", "sparse"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse("text", c.text)
			var p *Program
			if err == nil {
				if p, err = Link(m); err == nil {
					if _, err = p.Place(testGlobals); err == nil {
						_, err = p.Kernel("k")
					}
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the text was refused with %v, want an error with %q", err, c.says)
			}
			failOnUnknown(t, err)
		})
	}
}
