// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"context"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// unlikeBlocks is a kernel of which block n does one thing of its own, if it is n & 15 = 3, 6, 7, 9, 10 or 12, and else runs
// straight. Each thread stores the values that it finds in registers, a predicate, shared and local memory before it writes them.
const unlikeBlocks = header + `.visible .entry k(.param .u64 out) {
	.reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .pred %p<8>;
	.shared .align 4 .b8 sm[512]; .local .align 4 .b8 lm[16];
	ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
	mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 16; add.u64 %rd1, %rd1, %rd2;
	shl.b32 %r5, %r1, 2; mov.u32 %r6, sm; add.u32 %r6, %r6, %r5;
	selp.u32 %r7, 1, 0, %p7; add.u32 %r7, %r7, %r11; st.global.u32 [%rd1], %r7;
	ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd1+4], %r7; ld.local.u32 %r7, [lm]; st.global.u32 [%rd1+8], %r7;
	add.u32 %r7, %r4, 77; st.shared.u32 [%r6], %r7; st.local.u32 [lm], %r7; mov.u32 %r11, %r7; setp.ne.u32 %p7, %r7, 0;
	and.b32 %r8, %r2, 15; mov.u32 %r9, 0;
	setp.eq.u32 %p1, %r8, 3; @%p1 bra BARRIER; setp.eq.u32 %p1, %r8, 6; @%p1 bra LOOP; setp.eq.u32 %p1, %r8, 7; @%p1 bra PART;
	setp.eq.u32 %p1, %r8, 9; @%p1 bra SECOND; setp.eq.u32 %p1, %r8, 10; @%p1 bra CLOCK; setp.eq.u32 %p1, %r8, 12; @%p1 bra FEW;
	bra END;
BARRIER: bar.sync 0; xor.b32 %r9, %r5, 64; mov.u32 %r10, sm; add.u32 %r10, %r10, %r9; and.b32 %r10, %r10, 255; ld.shared.u32 %r9, [%r10]; bra END;
LOOP: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2000; @%p2 bra LOOP; bra END;
PART: and.b32 %r10, %r1, 3; setp.eq.u32 %p2, %r10, 1; @%p2 bra END; mov.u32 %r9, 5; setp.eq.u32 %p3, %r10, 2; @%p3 exit; mov.u32 %r9, 6; bra END;
SECOND: setp.lt.u32 %p2, %r1, 32; @%p2 bra END; setp.gt.u32 %p2, %r1, 63; @%p2 bra END; bar.warp.sync -1; bar.sync 0; mov.u32 %r9, %clock; bra END;
CLOCK: mov.u32 %r9, %clock; bra END;
FEW: setp.gt.u32 %p2, %r1, 70; @%p2 bra END; vote.sync.ballot.b32 %r9, %p7, 1;
END: st.global.u32 [%rd1+12], %r9; ret; }`

// TestUnlikeBlocks: blocks that run straight behind each other, and blocks among them that do not, leave what the
// interpreter leaves, and find zeros where blocks before have written.
func TestUnlikeBlocks(t *testing.T) {
	for _, threads := range []uint32{32, 80, 96, 128} {
		m := bootMachine(t, unlikeBlocks)
		m.cfg.Workers = 1
		out := m.mapAt(addrC, make([]byte, 40*threads*16))
		m.runKernel("k", Dim3{40, 1, 1}, Dim3{threads, 1, 1}, addrC)
		for i, v := range readWords(out) {
			if i%4 != 3 && v != 0 {
				t.Fatalf("%d threads: thread %d of block %d has found %d in its word %d", threads, i/4%int(threads), i/4/int(threads), v, i%4)
			}
		}
	}
}

// TestStraightBlocks: a block behind one of which all warps have run straight is run by runStraight, but no block that is
// not machine code to its end.
func TestStraightBlocks(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	m := bootMachine(t, unlikeBlocks)
	m.mapAt(addrC, make([]byte, 40*80*16))
	k, cfg, err := m.prepareLaunch("k", Dim3{40, 1, 1}, Dim3{80, 1, 1}, addrC)
	if err != nil {
		t.Fatal(err)
	}
	k.compileNative(nil)
	r := &launch{kernel: k, cfg: cfg, ctx: context.Background(), memory: cfg.Memory, native: true}
	b := newBlock(r)
	for i := range uint64(40) {
		if err := r.runBlock(b, i); err != nil {
			t.Fatal(err)
		}
		alike := true
		switch i & 15 {
		case 0:
			alike = i > 0 // in the first block, accesses look for their memory
		case 3, 6, 7, 9, 10, 12:
			alike = false
		}
		if b.straight != alike {
			t.Errorf("block %d has run straight: %v, want %v", i, b.straight, alike)
		}
	}
}

// TestStraightLaunches: the first block of a launch is run by runStraight if the launch before was like the launch, whatever
// the parameters are. Each launch finds its own parameters, and its own grid.
func TestStraightLaunches(t *testing.T) {
	if err := native.Check(); err != nil {
		t.Skip(err)
	}
	m := bootMachine(t, header+`.visible .entry k(.param .u64 out, .param .u32 n) {
	.reg .b32 %r<8>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %nctaid.x;
	mad.lo.u32 %r6, %r3, %r4, %r2; mul.wide.u32 %rd2, %r6, 8; add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r5; ret; }`)
	const threads = 48
	at := map[uint64][]byte{addrB: m.mapAt(addrB, make([]byte, 4*threads*8)), addrC: m.mapAt(addrC, make([]byte, 4*threads*8))}
	var b *block
	for i, c := range []struct {
		out             uint64
		n               uint64
		grid            uint32
		machineCode     bool
		follows, atOnce bool // the launch before, and by runStraight from the first block on
	}{
		{out: addrC, n: 1, grid: 2, machineCode: true},
		{out: addrC, n: 2, grid: 2, machineCode: true, follows: true, atOnce: true},
		{out: addrC, n: 3, grid: 2, machineCode: true, follows: true, atOnce: true},
		{out: addrB, n: 4, grid: 2, machineCode: true, follows: true}, // the first access looks for its memory
		{out: addrB, n: 5, grid: 3, machineCode: true},
		{out: addrB, n: 6, grid: 3, machineCode: true, follows: true, atOnce: true},
		{out: addrB, n: 7, grid: 3},
		{out: addrB, n: 8, grid: 3, machineCode: true},
	} {
		k, cfg, err := m.prepareLaunch("k", Dim3{c.grid, 1, 1}, Dim3{threads, 1, 1}, c.out, c.n)
		if err != nil {
			t.Fatal(err)
		}
		k.compileNative(nil)
		r := &launch{kernel: k, cfg: cfg, ctx: context.Background(), memory: cfg.Memory, native: c.machineCode}
		if b == nil {
			b = newBlock(r)
		} else {
			b.followLaunch(r)
		}
		if b.straight != c.follows {
			t.Errorf("launch %d begins straight: %v, want %v", i, b.straight, c.follows)
		}
		for block := range uint64(c.grid) {
			if err := r.runBlock(b, block); err != nil {
				t.Fatal(err)
			}
			if block == 0 && c.follows && b.straight != c.atOnce {
				t.Errorf("the first block of launch %d has run straight: %v, want %v", i, b.straight, c.atOnce)
			}
		}
		b.recycleBlock()
		for j, v := range readWords(at[c.out])[:c.grid*threads*2] {
			if want := []uint32{uint32(c.n), c.grid}[j%2]; v != want {
				t.Fatalf("launch %d: word %d is %d, want %d", i, j, v, want)
			}
		}
	}
}
