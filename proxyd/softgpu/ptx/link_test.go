// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// TestLink resolves functions and variables over modules.
func TestLink(t *testing.T) {
	user := header + `
.extern .func (.param .b32 r) twice (.param .b32 x);
.extern .global .align 4 .u32 shared_value;
.weak .func (.param .b32 r) weak_one () { st.param.b32 [r], 1; ret; }
.visible .entry k(.param .u64 out) {
	.reg .b32 %r<9>; .reg .b64 %out;
	ld.param.u64 %out, [out];
	ld.global.u32 %r1, [shared_value];
	{ .param .b32 x; .param .b32 r; st.param.b32 [x], %r1; call.uni (r), twice, (x); ld.param.b32 %r2, [r]; }
	{ .param .b32 r; call.uni (r), weak_one, (); ld.param.b32 %r3, [r]; }
	mad.lo.u32 %r4, %r3, 1000, %r2;
	st.global.u32 [%out], %r4;
	ret;
}`
	library := header + `
.visible .global .align 4 .u32 shared_value = 21;
.visible .func (.param .b32 r) twice (.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, a; st.param.b32 [r], a; ret; }
.visible .func (.param .b32 r) weak_one () { st.param.b32 [r], 2; ret; }
.visible .func (.param .b32 r) other () { st.param.b32 [r], 3; ret; }
.alias another, other;`
	m := bootMachine(t, user, library)
	out := m.mapAt(testOut, make([]byte, 64))
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, testOut)
	if got := readWords(out)[0]; got != 2042 {
		t.Errorf("the kernel's result is %d, want 2042", got)
	}
	parse := func(text string) *Module {
		m, err := Parse("m", text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if _, err := Link(parse(user)); err == nil || !strings.Contains(err.Error(), "shared_value") {
		t.Errorf("Link without a variable's definition: %v", err)
	}
	if _, err := Link(parse(library), parse(library)); err == nil || !strings.Contains(err.Error(), "defined in m and in m") {
		t.Errorf("Link with two definitions: %v", err)
	}
	// Names that are not visible do not meet.
	if _, err := Link(parse(header+".func f() { ret; }\n.global .u32 x;"), parse(header+".func f() { ret; }\n.global .u32 x;")); err != nil {
		t.Error(err)
	}
}

// TestInitialisers: values, symbols, parts of addresses and nested braces.
func TestInitialisers(t *testing.T) {
	m := bootMachine(t, header+`
.visible .global .align 8 .u64 p[3] = {target+4, generic(target), 7};
.visible .global .align 1 .b8 split[4] = {0xFF(target), 0xFF00(target), 0xFF0000(target), 0xFF00000000(target)};
.visible .const .align 4 .f32 f[4] = {1.5, 0f40000000, -3};
.visible .global .align 4 .u32 square[2][3] = {{1}, {2, 3}};
.visible .global .align 2 .f16 half = 0x3c00;
.visible .global .align 4 .s32 open[] = {-1, (1 << 4) | 3, 0xff};
.visible .global .align 8 .u64 function = f0;
.visible .global .align 256 .u32 target;
.func f0() { ret; }
.entry k() { ret; }`)
	at := map[string]Global{}
	for _, g := range m.p.Globals() {
		at[g.Name] = g
	}
	bytes := func(name string) []byte { return m.mem.Bytes(testGlobals+at[name].Offset, at[name].Size) }
	target := testGlobals + at["target"].Offset
	if p := bytes("p"); readBytes(p[:8]) != target+4 || readBytes(p[8:16]) != target || readBytes(p[16:]) != 7 {
		t.Errorf("p is %x", p)
	}
	if s := bytes("split"); s[0] != byte(target) || s[1] != byte(target>>8) || s[2] != byte(target>>16) || s[3] != byte(target>>32) {
		t.Errorf("split is %x", s)
	}
	if f := readFloat32s(bytes("f")); f[0] != 1.5 || f[1] != 2 || f[2] != -3 || f[3] != 0 {
		t.Errorf("f is %v", f)
	}
	if s := readWords(bytes("square")); s[0] != 1 || s[1] != 0 || s[3] != 2 || s[4] != 3 || len(s) != 6 {
		t.Errorf("square is %v", s)
	}
	if h := bytes("half"); readBytes(h) != 0x3c00 {
		t.Errorf("half is %x", h)
	}
	if o := readWords(bytes("open")); len(o) != 3 || o[0] != 0xffffffff || o[1] != 19 {
		t.Errorf("open is %v", o)
	}
	if f := readBytes(bytes("function")); f < memory.FunctionWindow {
		t.Errorf("function is %#x", f)
	}
	if at["f"].Space != types.ConstSpace || at["f"].Offset != 0 {
		t.Errorf("constants come first: %+v", at["f"])
	}
}

// TestOldTexts: PTX 1.4 as its compilers wrote it.
func TestOldTexts(t *testing.T) {
	m := bootMachine(t, `	.version 1.4
	.target sm_10, map_f64_to_f32
	// compiled with an old compiler
	.file	1	"old.cu"
	.shared .align 4 .b8 tile[256];

	.entry _Z3oldPfi (
		.param .u64 __cudaparm__Z3oldPfi_out,
		.param .s32 __cudaparm__Z3oldPfi_n)
	{
	.reg .u16 %rh<6>;
	.reg .u32 %r<16>;
	.reg .u64 %rd<8>;
	.reg .f32 %f<8>;
	.reg .pred %p<3>;
	.reg .u32 $r1;
	.loc	1	3	0
$LBB1__Z3oldPfi:
	mov.u16 	%rh1, %ctaid.x;
	mov.u16 	%rh2, %ntid.x;
	mul.wide.u16 	%r1, %rh1, %rh2;
	cvt.u32.u16 	%r2, %tid.x;
	add.u32 	%r3, %r2, %r1;
	mov.u64 	%rd1, tile;
	cvt.u64.u32 	%rd2, %r2;
	mul.lo.u64 	%rd3, %rd2, 4;
	add.u64 	%rd4, %rd1, %rd3;
	cvt.rn.f32.u32 	%f1, %r3;
	st.shared.f32 	[%rd4+0], %f1;
	bar.sync 	0;
	ld.param.s32 	%r4, [__cudaparm__Z3oldPfi_n];
	setp.le.s32 	%p1, %r4, %r3;
	@%p1 bra 	$Lt_0_1026;
	.loc	1	5	0
	ld.shared.f32 	%f2, [%rd4+0];
	mov.f32 	%f3, 0f40000000;     	// 2
	mad.f32 	%f4, %f2, %f3, %f1;
	ld.param.u64 	%rd5, [__cudaparm__Z3oldPfi_out];
	mul24.lo.u32 	$r1, %r3, 4;
	cvt.u64.u32 	%rd6, $r1;
	add.u64 	%rd7, %rd5, %rd6;
	st.global.f32 	[%rd7+0], %f4;
$Lt_0_1026:
	exit;
$LDWend__Z3oldPfi:
	} // _Z3oldPfi
`)
	out := m.mapAt(testOut, make([]byte, 4*64))
	m.runKernel("_Z3oldPfi", Dim3{2, 1, 1}, Dim3{32, 1, 1}, testOut, 50)
	for i, f := range readFloat32s(out) {
		if want := float32(3 * i); i < 50 && f != want || i >= 50 && f != 0 {
			t.Errorf("element %d is %g, want 3 times its number, or 0 from 50 on", i, f)
		}
	}
}

// TestPrintf formats as C does, and asserts end the kernel with their text.
func TestPrintf(t *testing.T) {
	m := bootMachine(t, header+`
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 format[28] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 124, 37, 48, 52, 120, 124, 37, 108, 108, 117, 124, 37, 99, 37, 37, 10, 0};
.global .align 1 .b8 name[3] = {104, 105, 0};
.visible .entry k() {
	.reg .b32 %t, %r; .reg .b64 %a, %f, %s; .reg .pred %p;
	.local .align 8 .b8 args[48];
	mov.u32 %t, %tid.x;
	setp.ne.u32 %p, %t, 1;
	@%p ret;
	neg.s32 %r, %t;
	st.local.u32 [args], %r;
	st.local.f64 [args+8], 0d3FF4000000000000;
	mov.u64 %s, name;
	st.local.u64 [args+16], %s;
	st.local.u32 [args+24], 255;
	st.local.u64 [args+32], 10000000000;
	st.local.u32 [args+40], 65;
	mov.u64 %a, args;
	cvta.local.u64 %a, %a;
	mov.u64 %f, format;
	cvta.global.u64 %f, %f;
	{ .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %f; st.param.b64 [p1], %a; call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r, [r0]; }
	{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
	st.param.b64 [p0], %s; st.param.b64 [p1], %s; st.param.b32 [p2], 12; st.param.b64 [p3], %s; st.param.b64 [p4], 1;
	call.uni __assertfail, (p0, p1, p2, p3, p4); }
	ret;
}`)
	var said []string
	m.cfg.Hooks.Printf = func(p Printf) {
		said = append(said, p.Text())
		if p.Thread.X != 1 {
			t.Errorf("thread %v printed, want thread 1 alone", p.Thread)
		}
	}
	err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{4, 1, 1})
	if want := []string{"-1 1.25 hi|00ff|10000000000|A%\n"}; !slices.Equal(said, want) {
		t.Errorf("the kernel printed %q, want %q", said, want)
	}
	if err == nil || !strings.Contains(err.Error(), "hi:12: hi: Assertion `hi` failed.") {
		t.Error(err)
	}
}

// TestAssertionsOfWarp: the fault has the assertion of each thread of the warp that came to the call, and of no other
// thread.
func TestAssertionsOfWarp(t *testing.T) {
	m := bootMachine(t, header+`
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .align 1 .b8 name[3] = {104, 105, 0};
.visible .entry k() {
	.reg .b32 %t; .reg .b64 %s; .reg .pred %p;
	mov.u32 %t, %tid.x;
	setp.lt.u32 %p, %t, 61;
	@%p ret;
	mov.u64 %s, name;
	{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
	st.param.b64 [p0], %s; st.param.b64 [p1], %s; st.param.b32 [p2], %t; st.param.b64 [p3], %s; st.param.b64 [p4], 1;
	call.uni __assertfail, (p0, p1, p2, p3, p4); }
	ret;
}`)
	var fault *Fault
	if err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{64, 1, 1}); !errors.As(err, &fault) {
		t.Fatal(err)
	}
	want := []FailedAssertion{
		{Dim3{61, 0, 0}, "hi:61: hi: Assertion `hi` failed."},
		{Dim3{62, 0, 0}, "hi:62: hi: Assertion `hi` failed."},
		{Dim3{63, 0, 0}, "hi:63: hi: Assertion `hi` failed."},
	}
	if !slices.Equal(fault.Assertions, want) {
		t.Errorf("the assertions are %v, want %v", fault.Assertions, want)
	}
	if fault.Thread != want[0].Thread || fault.Msg != want[0].Text {
		t.Errorf("the fault is thread %v's, %q, want the first assertion", fault.Thread, fault.Msg)
	}
}

// TestHeap: malloc and free are the launcher's.
func TestHeap(t *testing.T) {
	m := bootMachine(t, header+`
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.visible .entry k() {
	.reg .b64 %p; .reg .b32 %t;
	{ .param .b64 n; .param .b64 r; st.param.b64 [n], 256; call.uni (r), malloc, (n); ld.param.b64 %p, [r]; }
	mov.u32 %t, %ctaid.x;
	st.u32 [%p+4], %t;
	{ .param .b64 n; st.param.b64 [n], %p; call.uni free, (n); }
	ret;
}`)
	// Each block gets the same address, with other bytes behind it.
	var heaps [][]byte
	m.cfg.Hooks.Malloc = func(n uint64) uint64 {
		heaps = append(heaps, make([]byte, n))
		if err := m.mem.Map(testIn, heaps[len(heaps)-1], false); err != nil {
			t.Error(err)
		}
		return testIn
	}
	m.cfg.Hooks.Free = func(addr uint64) {
		if err := m.mem.Unmap(addr); err != nil {
			t.Error(err)
		}
	}
	m.runKernel("k", Dim3{3, 1, 1}, Dim3{1, 1, 1})
	for i, h := range heaps {
		if readWords(h)[1] != uint32(i) {
			t.Errorf("the memory that block %d allocated has %d, want the block's number", i, readWords(h)[1])
		}
	}
}

func TestMemory(t *testing.T) {
	var m memory.Memory
	b := make([]byte, 1024)
	for _, c := range []struct {
		base uint64
		n    int
		ok   bool
	}{{testIn, 1024, true}, {testIn, 256, false}, {testIn + 512, 1024, false}, {testIn - 256, 512, false}, {testIn + 1024, 256, true}, {4096, 256, false}, {testOut + 1, 16, false}, {testOut, 0, false}} {
		if err := m.Map(c.base, b[:c.n], false); (err == nil) != c.ok {
			t.Errorf("Map at %#x of %d bytes: %v", c.base, c.n, err)
		}
	}
	if m.Bytes(testIn+1020, 4) == nil || m.Bytes(testIn+1020, 8) != nil || m.Bytes(testIn-4, 4) != nil {
		t.Error("Bytes finds memory beyond the end of a range, or none within it")
	}
	if err := m.Unmap(testIn); err != nil || m.Bytes(testIn, 4) != nil {
		t.Error("Bytes finds memory that was unmapped, or Unmap failed:", err)
	}
	if err := m.Unmap(testIn); err == nil {
		t.Error("the second Unmap: no error")
	}
}
