// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "testing"

// TestParameters: arguments and results in the space param, by value, by part and by address.
func TestParameters(t *testing.T) {
	cases := []struct {
		name, functions, body string
		want                  func(t uint32) uint32
	}{
		{"structure", `.func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 x[16]) {
			.reg .b32 a<4>; ld.param.v2.b32 {a0, a1}, [x]; ld.param.b32 a2, [x+8]; st.param.b32 [r], a2; st.param.v2.b32 [r+8], {a1, a0}; ret; }`,
			`{ .param .align 8 .b8 p[16]; .param .align 8 .b8 r[16]; st.param.b32 [p], %t; st.param.b32 [p+4], 7; st.param.b32 [p+8], 5;
			call.uni (r), swap, (p); ld.param.b32 %x1, [r]; ld.param.v2.b32 {%x2, %x3}, [r+8]; } mad.lo.u32 %r, %x1, 100, %x2; mad.lo.u32 %r, %x3, 1000, %r;`,
			func(t uint32) uint32 { return 507 + 1000*t }},
		{"address", `.func (.param .b32 r) deref(.param .b64 p) { .reg .b64 a; .reg .b32 v; ld.param.b64 a, [p]; ld.u32 v, [a+4]; st.u32 [a], 11; st.param.b32 [r], v; ret; }`,
			`{ .local .align 8 .b8 loc[8]; mov.u64 %rd1, loc; cvta.local.u64 %rd1, %rd1; st.local.u32 [loc+4], %t;
			.param .b64 p; .param .b32 r; st.param.b64 [p], %rd1; call.uni (r), deref, (p); ld.param.b32 %r, [r]; ld.local.u32 %x1, [loc]; mad.lo.u32 %r, %x1, 1000, %r; }`,
			func(t uint32) uint32 { return t + 11000 }},
		{"frames apart", `.func (.param .b32 r) leaf(.param .b32 x) { .local .align 4 .b8 l[16]; .reg .b32 a; .reg .b64 p; ld.param.b32 a, [x]; mov.u64 p, l; st.local.u32 [p+8], a; add.u32 a, a, 1; st.local.u32 [p], a; ld.local.u32 a, [p+8]; st.param.b32 [r], a; ret; }`,
			`{ .local .align 4 .b8 l[16]; mov.u64 %rd1, l; st.local.u32 [%rd1], 1000; st.local.u32 [%rd1+8], 2000;
			.param .b32 x; .param .b32 r; st.param.b32 [x], %t; call.uni (r), leaf, (x); ld.param.b32 %r, [r]; ld.local.u32 %x1, [%rd1]; ld.local.u32 %x2, [%rd1+8]; add.u32 %r, %r, %x1; add.u32 %r, %r, %x2; }`,
			func(t uint32) uint32 { return t + 3000 }},
		{"registers and literals", `.func (.reg .u32 %o, .reg .u64 %q) pair(.reg .u32 %a, .reg .f32 %f) { cvt.rzi.u32.f32 %o, %f; add.u32 %o, %o, %a; mov.u64 %q, 0x100000002; ret; }`,
			`call (%r, %rd1), pair, (%t, 0f40A00000); cvt.u32.u64 %x1, %rd1; mad.lo.u32 %r, %x1, 100, %r;`,
			func(t uint32) uint32 { return t + 5 + 200 }},
		{"guarded", `.func (.param .b32 r) one() { st.param.b32 [r], 1; ret; }`,
			`{ .param .b32 r; and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0; st.param.b32 [r], 9; @%p1 call (r), one, (); ld.param.b32 %r, [r]; }`,
			func(t uint32) uint32 {
				if t%2 == 0 {
					return 1
				}
				return 9
			}},
		{"targets", `.func (.param .b32 r) f1(.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, 1; st.param.b32 [r], a; ret; }
			.func (.param .b32 r) f2(.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, 200; st.param.b32 [r], a; ret; }`,
			`{ .param .b32 x; .param .b32 r; mov.u64 %rd1, f1; mov.u64 %rd2, f2; setp.lt.u32 %p1, %t, 7; selp.b64 %rd3, %rd1, %rd2, %p1; st.param.b32 [x], %t;
			T: .calltargets f1, f2; call (r), %rd3, (x), T; ld.param.b32 %r, [r]; } activemask.b32 %x1; setp.ne.u32 %p2, %x1, -1; @%p2 mov.u32 %r, 0;`,
			func(t uint32) uint32 {
				if t < 7 {
					return t + 1
				}
				return t + 200
			}},
		{"early returns", `.func (.param .b32 r) f(.param .b32 x) { .reg .b32 a; .reg .pred p; ld.param.b32 a, [x]; st.param.b32 [r], 3; setp.lt.u32 p, a, 9; @p ret; setp.lt.u32 p, a, 20; @p bra M; st.param.b32 [r], 5; ret; M: st.param.b32 [r], 4; ret; }`,
			`{ .param .b32 x; .param .b32 r; st.param.b32 [x], %t; call.uni (r), f, (x); ld.param.b32 %r, [r]; } vote.sync.ballot.b32 %x1, %p8, -1; add.u32 %r, %r, %x1;`,
			func(t uint32) uint32 {
				switch {
				case t < 9:
					return 3
				case t < 20:
					return 4
				}
				return 5
			}},
		{"exit in a function", `.func f(.param .b32 x) { .reg .b32 a; .reg .pred p; ld.param.b32 a, [x]; setp.gt.u32 p, a, 3; @p exit; ret; }`,
			`{ .param .b32 x; st.param.b32 [x], %t; call.uni f, (x); } activemask.b32 %r;`,
			func(t uint32) uint32 {
				if t <= 3 {
					return 15
				}
				return 0
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			text := perThread(c.body)
			m := bootMachine(t, header+c.functions+text[len(header):])
			out := m.mapAt(testOut, make([]byte, 4*32))
			m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut)
			for i, g := range readWords(out) {
				if want := c.want(uint32(i)); g != want {
					t.Fatalf("thread %d: %d, should be %d", i, g, want)
				}
			}
		})
	}
}

// TestKernelParameters: layout, parts, indices and addresses of an entry's parameters.
func TestKernelParameters(t *testing.T) {
	m := bootMachine(t, header+`.visible .entry k(.param .u64 out, .param .u8 c, .param .align 16 .b8 s[24], .param .s16 h) {
	.reg .b64 %o, %i, %a; .reg .b32 %r, %t, %x; .reg .s16 %h;
	ld.param.u64 %o, [out];
	ld.param.u8 %r, [c];
	mov.u32 %t, %tid.x;
	mul.wide.u32 %i, %t, 4;
	mov.b64 %a, s;
	add.u64 %a, %a, %i;
	ld.param.u32 %x, [%a];
	mad.lo.u32 %r, %r, 1000, %x;
	cvta.param.u64 %a, %a;
	ld.u32 %x, [%a];
	add.u32 %r, %r, %x;
	ld.param.s16 %h, [h];
	cvt.s32.s16 %x, %h;
	add.s32 %r, %r, %x;
	ld.param.v2.u32 {%x, %t}, [s+16];
	add.u32 %r, %r, %t;
	add.u64 %o, %o, %i;
	st.global.u32 [%o], %r;
	ret; }`)
	k, err := m.p.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	offsets := []uint32{0, 8, 16, 40}
	for i, p := range k.Params {
		if p.Offset != offsets[i] {
			t.Errorf("%s lies at %d, should at %d", p.Name, p.Offset, offsets[i])
		}
	}
	if k.ParamSize != 42 {
		t.Errorf("%d bytes of parameters, should be 42", k.ParamSize)
	}
	out := m.mapAt(testOut, make([]byte, 64))
	m.cfg.Params = make([]byte, 42)
	writeBytes(m.cfg.Params[0:8], testOut)
	m.cfg.Params[8] = 3
	for i := range 6 {
		writeBytes(m.cfg.Params[16+4*i:][:4], uint64(10*i))
	}
	writeBytes(m.cfg.Params[40:], 0xfffe)
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{4, 1, 1})
	for i, g := range readWords(out)[:4] {
		if want := uint32(3000 + 20*i - 2 + 50); g != want {
			t.Errorf("thread %d: %d, should be %d", i, g, want)
		}
	}
}
