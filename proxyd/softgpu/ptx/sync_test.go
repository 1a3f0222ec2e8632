// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// perThread wraps a body into a kernel that stores %r of each thread to out; %t is the
// thread's number in its block, %g in the grid.
func perThread(body string) string {
	return header + `
.global .align 8 .u32 flag;
.global .align 32 .u32 cell[64];
.visible .entry k(.param .u64 out)
{
	.reg .b64 %out, %off, %rd<9>;
	.reg .b32 %t, %g, %r, %x<20>, %c, %n;
	.reg .f32 %f<9>;
	.reg .pred %p<9>;
	.shared .align 16 .b8 sm[4096];
	ld.param.u64 %out, [out];
	mov.u32 %t, %tid.x;
	mov.u32 %c, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mad.lo.u32 %g, %c, %n, %t;
` + body + `
	mul.wide.u32 %off, %g, 4;
	add.s64 %out, %out, %off;
	st.global.u32 [%out], %r;
	ret;
}`
}

func perThreadOut(t *testing.T, body string, blocks, threads int) []uint32 {
	t.Helper()
	m := bootMachine(t, perThread(body))
	out := m.mapAt(testOut, make([]byte, 4*blocks*threads))
	m.runKernel("k", Dim3{uint32(blocks), 1, 1}, Dim3{uint32(threads), 1, 1}, testOut)
	return readWords(out)[:blocks*threads]
}

// TestThreads compares the result of each thread of a body with an oracle's.
func TestThreads(t *testing.T) {
	cases := []struct {
		name, body      string
		blocks, threads int
		want            func(block, t uint32) uint32
	}{
		{"specials", "mov.u32 %r, %laneid; mov.u32 %x1, %warpid; mad.lo.u32 %r, %x1, 100, %r; mov.u32 %x1, %lanemask_lt; xor.b32 %r, %r, %x1;", 1, 70,
			func(_, t uint32) uint32 { return (t%32 + 100*(t/32)) ^ (1<<(t%32) - 1) }},
		{"loop trips differ", "mov.u32 %r, 0; mov.u32 %x1, 0; L: setp.ge.u32 %p1, %x1, %t; @%p1 bra D; add.u32 %r, %r, %x1; add.u32 %x1, %x1, 1; bra L; D:", 2, 40,
			func(_, t uint32) uint32 { return t * (t - 1) / 2 }},
		{"nested", `and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0; and.b32 %x2, %t, 2; setp.eq.u32 %p2, %x2, 0; mov.u32 %r, 0;
			@%p1 bra A; @%p2 bra B; add.u32 %r, %r, 1; bra E; B: add.u32 %r, %r, 2; bra E; A: @%p2 bra C; add.u32 %r, %r, 3; bra E; C: add.u32 %r, %r, 4; E: add.u32 %r, %r, 10;`, 1, 32,
			func(_, t uint32) uint32 { return []uint32{14, 12, 13, 11}[t%4] }},
		{"brx.idx", "and.b32 %x1, %t, 3; T: .branchtargets A, B, C, B; brx.idx %x1, T; A: mov.u32 %r, 1; bra E; B: mov.u32 %r, 2; bra E; C: mov.u32 %r, 3; E:", 1, 32,
			func(_, t uint32) uint32 { return []uint32{1, 2, 3, 2}[t%4] }},
		{"exit in a branch", "mov.u32 %r, 9; and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0; @%p1 exit; vote.sync.ballot.b32 %r, 1, -1;", 1, 32,
			func(_, t uint32) uint32 {
				if t%2 == 0 {
					return 0
				}
				return 0xaaaaaaaa
			}},
		{"meets again", "setp.lt.u32 %p1, %t, 5; @%p1 bra A; mov.u32 %x1, 2; bra B; A: mov.u32 %x1, 1; B: activemask.b32 %r;", 1, 32,
			func(_, _ uint32) uint32 { return 0xffffffff }},
		{"shfl in both arms", `setp.lt.u32 %p1, %t, 16; @%p1 bra A; shfl.sync.bfly.b32 %r, %t, 16, 31, -1; bra B; A: shfl.sync.bfly.b32 %r, %t, 16, 31, -1; add.u32 %r, %r, 100; B:`, 1, 32,
			func(_, t uint32) uint32 {
				if t < 16 {
					return t ^ 16 + 100
				}
				return t ^ 16
			}},
		{"warp barrier in one arm", `setp.lt.u32 %p1, %t, 16; @!%p1 bra B; bar.warp.sync -1; bra C; B: mov.u32 %x1, 1; C: @!%p1 bar.warp.sync -1; mov.u32 %r, %t;`, 1, 32,
			func(_, t uint32) uint32 { return t }},
		{"vote of a part", `setp.lt.u32 %p1, %t, 10; mov.u32 %r, 0; @!%p1 bra E; and.b32 %x1, %t, 1; setp.eq.u32 %p2, %x1, 1; vote.sync.ballot.b32 %r, %p2, 0x3ff; E:`, 1, 32,
			func(_, t uint32) uint32 {
				if t < 10 {
					return 0x2aa
				}
				return 0
			}},
		{"vote modes", `setp.lt.u32 %p1, %t, 64; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, !%p1, -1; vote.sync.uni.pred %p4, %p1, -1;
			selp.u32 %r, 1, 0, %p2; selp.u32 %x1, 2, 0, %p3; selp.u32 %x2, 4, 0, %p4; or.b32 %r, %r, %x1; or.b32 %r, %r, %x2;`, 1, 80,
			func(_, t uint32) uint32 {
				if t < 64 {
					return 5
				}
				return 6
			}},
		{"old vote and shfl", `setp.lt.u32 %p1, %t, 3; vote.ballot.b32 %x1, %p1; vote.any.pred %p2, %p1; shfl.up.b32 %x2|%p3, %t, 1, 0; selp.u32 %r, %x1, 0, %p2; mad.lo.u32 %r, %x2, 16, %r;`, 1, 32,
			func(_, t uint32) uint32 { return 7 + 16*max(t, 1) - 16 }},
		{"shfl segments", "shfl.sync.down.b32 %r|%p1, %t, 3, 0x181f, -1; @!%p1 add.u32 %r, %r, 1000;", 1, 32,
			func(_, t uint32) uint32 {
				if t%8+3 > 7 {
					return t + 1000
				}
				return t + 3
			}},
		{"shfl idx", "and.b32 %x1, %t, 3; shfl.sync.idx.b32 %r, %t, %x1, 0x1c1f, -1;", 1, 32, func(_, t uint32) uint32 { return t&^3 | t&3 }},
		{"match any", "and.b32 %x1, %t, 3; match.any.sync.b32 %r, %x1, -1;", 1, 32, func(_, t uint32) uint32 { return 0x11111111 << (t & 3) }},
		{"match all", "mov.u64 %rd1, 5; match.all.sync.b64 %r|%p1, %rd1, -1; @!%p1 mov.u32 %r, 0; match.all.sync.b32 %x1|%p2, %t, -1; @%p2 mov.u32 %r, 1;", 1, 32,
			func(_, _ uint32) uint32 { return 0xffffffff }},
		{"redux", "redux.sync.add.u32 %r, %t, -1; redux.sync.max.s32 %x1, %t, -1; redux.sync.xor.b32 %x2, %t, -1; mad.lo.u32 %r, %x1, 1000, %r; add.u32 %r, %r, %x2;", 1, 32,
			func(_, _ uint32) uint32 { return 496 + 31000 }},
		{"redux min", "sub.s32 %x1, %t, 10; redux.sync.min.s32 %r, %x1, -1;", 1, 32, func(_, _ uint32) uint32 { return 0xfffffff6 }},
		{"elect", "elect.sync %r|%p1, -1; @%p1 add.u32 %r, %r, 50;", 1, 32, func(_, t uint32) uint32 {
			if t == 0 {
				return 50
			}
			return 0
		}},
		{"bar.red", "and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0; bar.red.popc.u32 %r, 0, %p1; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 1, %p1; @%p2 add.u32 %r, %r, 100; @%p3 add.u32 %r, %r, 200;", 2, 100,
			func(_, _ uint32) uint32 { return 250 }},
		{"named barriers", `mov.u32 %x1, sm; shl.b32 %x2, %t, 2; add.u32 %x2, %x1, %x2; setp.lt.u32 %p1, %t, 32; @%p1 bra P; bar.sync 1, 64; ld.shared.u32 %r, [%x2-128]; bra E;
			P: add.u32 %x3, %t, 7; st.shared.u32 [%x2], %x3; bar.arrive 1, 64; mov.u32 %r, 1; E:`, 3, 64,
			func(_, t uint32) uint32 {
				if t < 32 {
					return 1
				}
				return t - 32 + 7
			}},
		{"barrier with the rest gone", "setp.ge.u32 %p1, %t, 40; @%p1 exit; barrier.sync 0; mov.u32 %r, 3;", 1, 96, func(_, t uint32) uint32 {
			if t < 40 {
				return 3
			}
			return 0
		}},
		{"lock that lanes take in turn", `mov.u32 %x1, sm; L: atom.shared.cas.b32 %x2, [%x1], 0, 1; setp.ne.u32 %p1, %x2, 0; @%p1 bra L;
			ld.volatile.shared.u32 %x3, [%x1+4]; add.u32 %x3, %x3, 1; st.volatile.shared.u32 [%x1+4], %x3; membar.cta; atom.shared.exch.b32 %x4, [%x1], 0; bar.sync 0; ld.shared.u32 %r, [%x1+4];`, 2, 64,
			func(_, _ uint32) uint32 { return 64 }},
		{"warp waits for a warp", `mov.u32 %x1, sm; setp.ge.u32 %p1, %t, 32; @%p1 bra W; L: ld.volatile.shared.u32 %x2, [%x1]; setp.eq.u32 %p2, %x2, 0; @%p2 bra L; mov.u32 %r, %x2; bra E;
			W: st.volatile.shared.u32 [%x1], 5; mov.u32 %r, 1; E:`, 1, 64,
			func(_, t uint32) uint32 {
				if t < 32 {
					return 5
				}
				return 1
			}},
		{"waiting for a time", "mov.u64 %rd1, %clock64; wait: mov.u64 %rd2, %clock64; sub.u64 %rd2, %rd2, %rd1; setp.lt.u64 %p1, %rd2, 1004; @%p1 bra wait; setp.gt.u64 %p1, %rd2, 1004; selp.u32 %r, 1, 0, %p1;", 1, 32,
			func(_, _ uint32) uint32 { return 1 }},
		{"sleeping", "nanosleep.u32 100; mov.u32 %x1, %clock; mov.u64 %rd1, %clock64; mov.u32 %x2, %clock; setp.gt.u32 %p1, %x2, %x1; selp.u32 %r, 1, 0, %p1;", 1, 32,
			func(_, _ uint32) uint32 { return 1 }},
		{"generic addresses", `mov.u64 %rd1, sm; cvta.shared.u64 %rd2, %rd1; isspacep.shared %p1, %rd2; isspacep.global %p2, %out; isspacep.local %p3, %rd2; mul.wide.u32 %rd3, %t, 4; add.u64 %rd2, %rd2, %rd3;
			st.u32 [%rd2], %t; cvta.to.shared.u64 %rd4, %rd2; ld.shared.u32 %r, [%rd4]; @%p1 add.u32 %r, %r, 100; @%p2 add.u32 %r, %r, 200; @%p3 add.u32 %r, %r, 1000;`, 1, 32,
			func(_, t uint32) uint32 { return t + 300 }},
		{"local memory", `{ .local .align 4 .b8 loc[16]; mov.u64 %rd1, loc; cvta.local.u64 %rd2, %rd1; st.local.u32 [%rd1+4], %t; ld.u32 %r, [%rd2+4]; st.local.u8 [loc+4], 0; ld.local.u32 %x1, [loc+4]; and.b32 %x1, %x1, 0xff; add.u32 %r, %r, %x1; }`, 2, 64,
			func(_, t uint32) uint32 { return t }},
		{"ordered atomics", "mov.u64 %rd1, flag; atom.global.add.u32 %r, [%rd1], 1;", 3, 64, func(b, t uint32) uint32 { return 64*b + t }},
		{"carry on without lanes", "setp.eq.u32 %p1, %t, 99; @%p1 st.global.u32 [8], 1; mov.u32 %r, 4;", 1, 32, func(_, _ uint32) uint32 { return 4 }},
		{"hints", `createpolicy.fractional.L2::evict_first.b64 %rd1, 0.5; prefetch.global.L2 [%out]; ld.global.L1::no_allocate.L2::128B.u32 %x1, [%out]; ld.global.L2::cache_hint.u32 %x2, [%out], %rd1; discard.global.L2 [%out], 128; applypriority.global.L2::evict_normal [%out], 128; prefetchu.L1 [%out]; fence.acq_rel.gpu; pmevent 1; griddepcontrol.wait; setmaxnreg.inc.sync.aligned.u32 40; mov.u32 %r, 6;`, 1, 32,
			func(_, _ uint32) uint32 { return 6 }},
		{"alloca", "mov.u64 %rd1, 64; stacksave.u64 %rd3; alloca.u64 %rd2, %rd1, 8; st.local.u32 [%rd2+4], %t; ld.local.u32 %r, [%rd2+4]; stackrestore.u64 %rd3;", 1, 64, func(_, t uint32) uint32 { return t }},
		{"ldu and v8", "ldu.global.u32 %x1, [cell]; st.global.v4.u32 [cell+16], {1, 2, 3, 4}; ld.global.v8.u32 {%x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9}, [cell]; add.u32 %r, %x6, %x9;", 1, 1, func(_, _ uint32) uint32 { return 5 }},
		{"cp.async", `mov.u32 %x1, sm; shl.b32 %x2, %t, 4; add.u32 %x1, %x1, %x2; mov.u64 %rd1, cell; st.global.u32 [cell+8], 77; st.global.u32 [cell+12], 88; cp.async.ca.shared.global [%x1], [%rd1], 16, 12; cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all; ld.shared.u32 %r, [%x1+8]; ld.shared.u32 %x3, [%x1+12]; add.u32 %r, %r, %x3;`, 1, 32,
			func(_, _ uint32) uint32 { return 77 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := perThreadOut(t, c.body, c.blocks, c.threads)
			for i, g := range got {
				if want := c.want(uint32(i/c.threads), uint32(i%c.threads)); g != want {
					t.Fatalf("block %d, thread %d: %#x, should be %#x", i/c.threads, i%c.threads, g, want)
				}
			}
		})
	}
}

// TestAtomics: every operation, on global and shared memory, against plain Go in the order
// of threads.
func TestAtomics(t *testing.T) {
	h := func(f float64) uint32 { return uint32(float.Bits(types.F16, f)) }
	fl := func(f float32) uint32 { return uint32(float.Bits32(f)) }
	cases := []struct {
		op     string
		start  uint32
		value  string // of thread t, in %x1
		update func(old, t uint32) uint32
	}{
		{"add.u32", 3, "mov.u32 %x1, %t;", func(o, t uint32) uint32 { return o + t }},
		{"add.s32", 3, "neg.s32 %x1, %t;", func(o, t uint32) uint32 { return o - t }},
		{"and.b32", 0xffffffff, "not.b32 %x1, %t;", func(o, t uint32) uint32 { return o &^ t }},
		{"or.b32", 0, "mov.u32 %x1, %t;", func(o, t uint32) uint32 { return o | t }},
		{"xor.b32", 0, "mov.u32 %x1, %t;", func(o, t uint32) uint32 { return o ^ t }},
		{"min.s32", 5, "sub.s32 %x1, %t, 10;", func(o, t uint32) uint32 { return uint32(min(int32(o), int32(t)-10)) }},
		{"max.u32", 5, "sub.s32 %x1, %t, 10;", func(o, t uint32) uint32 { return max(o, t-10) }},
		{"inc.u32", 3, "mov.u32 %x1, 7;", func(o, _ uint32) uint32 {
			if o >= 7 {
				return 0
			}
			return o + 1
		}},
		{"dec.u32", 3, "mov.u32 %x1, 7;", func(o, _ uint32) uint32 {
			if o == 0 || o > 7 {
				return 7
			}
			return o - 1
		}},
		{"exch.b32", 3, "mov.u32 %x1, %t;", func(_, t uint32) uint32 { return t }},
		{"add.f32", fl(0.5), "cvt.rn.f32.u32 %f1, %t; mov.b32 %x1, %f1;", func(o, t uint32) uint32 { return fl(float.From32(uint64(o)) + float32(t)) }},
		{"add.noftz.f16x2", h(1) | h(2)<<16, "mov.u32 %x1, 0x3c004000;", func(o, _ uint32) uint32 {
			return uint32(float.F16From32(float.F16To32(uint16(o))+2)) | uint32(float.F16From32(float.F16To32(uint16(o>>16))+1))<<16
		}},
	}
	for _, c := range cases {
		for _, space := range []string{"global", "shared"} {
			t.Run(c.op+" "+space, func(t *testing.T) {
				at := map[string]string{"global": "flag", "shared": "sm"}[space]
				body := fmt.Sprintf(`setp.eq.u32 %%p1, %%t, 0; @%%p1 st.%s.u32 [%s], %d; bar.sync 0; %s atom.%s.%s %%r, [%s], %%x1;`, space, at, c.start, c.value, space, c.op, at)
				old := c.start
				for i, g := range perThreadOut(t, body, 1, 45) {
					if g != old {
						t.Fatalf("thread %d: %#x, should be %#x", i, g, old)
					}
					old = c.update(old, uint32(i))
				}
				if c.op == "exch.b32" {
					return
				}
				body = fmt.Sprintf(`setp.eq.u32 %%p1, %%t, 0; @%%p1 st.%s.u32 [%s], %d; bar.sync 0; %s red.relaxed.gpu.%s.%s [%s], %%x1; bar.sync 0; ld.%s.u32 %%r, [%s];`, space, at, c.start, c.value, space, c.op, at, space, at)
				for i, g := range perThreadOut(t, body, 1, 45) {
					if g != old {
						t.Fatalf("red, thread %d: %#x, should be %#x", i, g, old)
					}
				}
			})
		}
	}
	t.Run("cas.b16", func(t *testing.T) {
		body := `{ .reg .b16 %h<4>; cvt.u16.u32 %h1, %t; add.u16 %h2, %h1, 1; atom.global.cas.b16 %h3, [flag+2], %h1, %h2; cvt.u32.u16 %r, %h3; }`
		for i, g := range perThreadOut(t, body, 1, 40) {
			if g != uint32(i) {
				t.Fatalf("thread %d: cas.b16 found %d, want the thread's number", i, g)
			}
		}
	})
	t.Run("64 bits", func(t *testing.T) {
		body := `cvt.u64.u32 %rd1, %t; shl.b64 %rd1, %rd1, 32; atom.global.add.u64 %rd2, [cell], %rd1; atom.global.cas.b64 %rd3, [cell+8], 0, 5; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r, %rd2;`
		for i, g := range perThreadOut(t, body, 1, 40) {
			if g != uint32(i*(i-1)/2) {
				t.Fatalf("thread %d: add.u64 found %d, want the sum of the threads before", i, g)
			}
		}
	})
}

// TestSubnormalSums: adding f32 atomically keeps subnormal numbers in shared memory and flushes them in global memory,
// also where only the address says which memory it is.
func TestSubnormalSums(t *testing.T) {
	for _, c := range []struct {
		name, address, at string
		want              uint32
	}{
		{"global", "", "global [flag]", 0},
		{"shared", "", "shared [sm]", 3},
		{"generic address of global memory", "mov.u64 %rd1, flag; cvta.global.u64 %rd1, %rd1;", "[%rd1]", 0},
		{"generic address of shared memory", "mov.u64 %rd1, sm; cvta.shared.u64 %rd1, %rd1;", "[%rd1]", 3},
		{"name of shared memory", "", "[sm]", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			space, place, named := strings.Cut(c.at, " ")
			if named {
				space = "." + space
			} else {
				space, place = "", c.at
			}
			body := fmt.Sprintf(`%s mov.u32 %%x1, 0; st%s.u32 %s, %%x1; mov.b32 %%f1, 3; atom%s.add.f32 %%f2, %s, %%f1; ld%s.u32 %%r, %s;`,
				c.address, space, place, space, place, space, place)
			if got := perThreadOut(t, body, 1, 1); got[0] != c.want {
				t.Errorf("atom: %#x, should be %#x", got[0], c.want)
			}
			body = strings.Replace(body, "atom"+space+".add.f32 %f2,", "red"+space+".add.f32", 1)
			if got := perThreadOut(t, body, 1, 1); got[0] != c.want {
				t.Errorf("red: %#x, should be %#x", got[0], c.want)
			}
		})
	}
}

// TestSeveralCores: a kernel without ordered atomics gives the same result on any number of cores.
func TestSeveralCores(t *testing.T) {
	body := "mov.u32 %r, %g; and.b32 %x1, %g, 63; mul.wide.u32 %rd1, %x1, 4; mov.u64 %rd2, cell; add.u64 %rd2, %rd2, %rd1; red.global.add.u32 [%rd2], %g;"
	for _, workers := range []int{1, 2, 5} {
		m := bootMachine(t, perThread(body))
		m.cfg.Workers = workers
		m.mapAt(testOut, make([]byte, 4*64*100))
		k, err := m.p.Kernel("k")
		if err != nil || k.Ordered {
			t.Fatal(err, "a reduction of integers does not order blocks")
		}
		m.runKernel("k", Dim3{100, 1, 1}, Dim3{64, 1, 1}, testOut)
		var at uint64
		for _, g := range m.p.Globals() {
			if g.Name == "cell" {
				at = testGlobals + g.Offset
			}
		}
		for i, v := range readWords(m.mem.Bytes(at, 256)) {
			want := uint32(0)
			for b := range uint32(100) {
				want += b*64 + uint32(i)
			}
			if v != want {
				t.Fatalf("%d workers, cell %d: %d, should be %d", workers, i, v, want)
			}
		}
	}
}

// TestCooperative: blocks of a cooperative launch wait for each other, and so do blocks of an ordinary launch that wait
// without having asked to run together.
func TestCooperative(t *testing.T) {
	for _, together := range []bool{true, false} {
		testGridBarrier(t, together)
	}
}

func testGridBarrier(t *testing.T, together bool) {
	t.Helper()
	body := `setp.ne.u32 %p1, %t, 0; @%p1 bra W; mov.u32 %x2, %nctaid.x; atom.add.release.gpu.global.u32 %x1, [flag], 1; L: ld.acquire.gpu.global.u32 %x3, [flag]; setp.lt.u32 %p2, %x3, %x2; @%p2 bra L; W: barrier.sync 0; ld.relaxed.gpu.global.u32 %r, [flag]; mov.u32 %x4, %envreg1; add.u32 %r, %r, %x4;`
	m := bootMachine(t, perThread(body))
	out := m.mapAt(testOut, make([]byte, 4*64*6))
	m.cfg.Cooperative = together
	m.cfg.Env[1] = 10
	m.runKernel("k", Dim3{6, 1, 1}, Dim3{64, 1, 1}, testOut)
	for i, v := range readWords(out) {
		if v != 16 {
			t.Fatalf("thread %d: %d, want 16", i, v)
		}
	}
}

// TestGridSync: blocks meet as grid.sync() of CUDA 12's cooperative groups has them do, several times
// and in launches in turn.
func TestGridSync(t *testing.T) {
	body := `{ .reg .b32 %lo, %hi, %nb, %old, %now, %round, %size; .reg .b64 %ws; .reg .pred %master, %q;
		mov.u32 %hi, %envreg1; mov.u32 %lo, %envreg2; mov.b64 %ws, {%lo, %hi}; setp.eq.u64 %q, %ws, 0; @%q trap;
		ld.global.u32 %size, [%ws]; mov.u32 %round, 0; mov.u32 %x4, %nctaid.x;
		AGAIN: red.global.add.u32 [flag], 1; bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 bra W;
		setp.eq.u32 %master, %c, 0; sub.u32 %nb, 0x80000001, %x4; @!%master mov.u32 %nb, 1;
		membar.gl; atom.global.add.u32 %old, [%ws+4], %nb;
		L: ld.volatile.global.u32 %now, [%ws+4]; xor.b32 %now, %now, %old; setp.ge.s32 %q, %now, 0; @%q bra L; membar.gl;
		W: bar.sync 0; ld.volatile.global.u32 %r, [flag]; bar.sync 0; add.u32 %round, %round, 1; setp.lt.u32 %q, %round, 1; @%q bra AGAIN;
		mad.lo.u32 %r, %size, 1000, %r; }`
	m := bootMachine(t, perThread(body))
	out := m.mapAt(testOut, make([]byte, 4*64*6))
	m.cfg.Cooperative = true
	for round := range uint32(3) {
		m.runKernel("k", Dim3{6, 1, 1}, Dim3{64, 1, 1}, testOut)
		for i, v := range readWords(out) {
			if want := 8000 + (round+1)*6*64; v != want {
				t.Fatalf("launch %d, thread %d: %d, should be %d", round, i, v, want)
			}
		}
	}
}

// TestDeadlock: a barrier that no warp can open is a fault, not a hang.
func TestDeadlock(t *testing.T) {
	m := bootMachine(t, perThread("mov.u32 %r, 0; setp.lt.u32 %p1, %t, 32; @%p1 bar.sync 1, 96;"))
	m.mapAt(testOut, make([]byte, 4*64))
	err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{64, 1, 1}, testOut)
	var f *Fault
	if !errors.As(err, &f) || f.Kind != BarrierDeadlock {
		t.Fatalf("the launch ended with %v, want a deadlock", err)
	}
}

func TestBallotCounts(t *testing.T) {
	got := perThreadOut(t, "and.b32 %x1, %t, 5; setp.eq.u32 %p1, %x1, 5; vote.sync.ballot.b32 %r, %p1, -1; popc.b32 %r, %r;", 1, 32)
	if want := uint32(bits.OnesCount32(0xa0a0a0a0)); got[0] != want {
		t.Errorf("%d, should be %d", got[0], want)
	}
}

// TestVectorAtomics: an atomic operation on a vector is an operation on each element.
func TestVectorAtomics(t *testing.T) {
	const body = `cvt.rn.f32.u32 %f1, %t; mov.f32 %f2, 0f3f800000; mov.f32 %f3, 0f40000000; mov.f32 %f4, 0fbf800000; mov.u64 %rd5, cell;
		red.global.v4.f32.add [cell], {%f1, %f2, %f3, %f4};
		atom.global.v2.f32.add {%f2, %f5}, [%rd5+8], {%f2, %f2};
		mov.b32 %x3, 0x3c004000; red.relaxed.gpu.global.add.noftz.v2.f16x2 [%rd5+32], {%x3, %x3};
		mov.u32 %r, 0; bar.sync 0; setp.gt.u32 %p1, %t, 5; @%p1 bra E;
		and.b32 %x1, %t, 7; mad.wide.u32 %rd4, %x1, 4, %rd5; ld.global.u32 %r, [%rd4];
		setp.lt.u32 %p1, %t, 4; @%p1 bra E; ld.global.u32 %r, [%rd4+16]; E:`
	got := perThreadOut(t, body, 1, 40)
	// 0 + … + 39; 40; 80 + 40; 0; and 40 times (2, 1) twice.
	for i, want := range []uint32{0x44430000, 0x42200000, 0x42f00000, 0, 0x51005500, 0x51005500} {
		if got[i] != want {
			t.Errorf("element %d: %#x, should be %#x", i, got[i], want)
		}
	}
}
