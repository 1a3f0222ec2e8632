// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestMbarrierThreads: threads of a block wait for each other at mbarriers, in the forms that CUDA's barriers and pipelines use.
func TestMbarrierThreads(t *testing.T) {
	// Each round, a thread stores a number, and reads the number of a thread of another warp when all threads have stored.
	rounds := func(wait string) string {
		return `mov.u32 %r, 0; mov.u32 %x1, 0; mov.u32 %x9, 0;
			setp.ne.u32 %p1, %t, 0; @!%p1 mbarrier.init.shared.b64 [sm], %n; bar.sync 0;
			mov.u32 %x5, sm; mad.lo.u32 %x2, %t, 4, %x5;
			add.u32 %x3, %t, 33; rem.u32 %x3, %x3, %n; mad.lo.u32 %x3, %x3, 4, %x5;
		L:	mad.lo.u32 %x4, %t, 100, %x1; st.shared.u32 [%x2+16], %x4;
			mbarrier.arrive.shared.b64 %rd1, [sm];
		W:	` + wait + ` @!%p2 bra W;
			ld.shared.u32 %x4, [%x3+16]; add.u32 %r, %r, %x4; xor.b32 %x9, %x9, 1;
			mbarrier.arrive.shared::cta.b64 %rd1, [%x5];
		V:	` + wait + ` @!%p2 bra V;
			xor.b32 %x9, %x9, 1; add.u32 %x1, %x1, 1; setp.lt.u32 %p3, %x1, 5; @%p3 bra L;`
	}
	for name, wait := range map[string]string{
		"state":           "mbarrier.test_wait.shared.b64 %p2, [sm], %rd1;",
		"state, may wait": "mbarrier.try_wait.acquire.cta.shared::cta.b64 %p2, [%x5], %rd1, 1000;",
		"parity":          "mbarrier.try_wait.parity.shared.b64 %p2, [sm], %x9;",
		"generic":         "cvta.shared.u64 %rd2, %rd3; mov.u64 %rd2, sm; cvta.shared.u64 %rd2, %rd2; mbarrier.test_wait.parity.b64 %p2, [%rd2], %x9;",
	} {
		for _, threads := range []int{1, 20, 64, 200} {
			t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) {
				for i, got := range perThreadOut(t, rounds(wait), 3, threads) {
					if want := uint32(5*100*((i%threads+33)%threads) + 10); got != want {
						t.Fatalf("thread %d: %d, should be %d", i, got, want)
					}
				}
			})
		}
	}
}

// TestMbarrierLanes: lanes of a warp arrive while other lanes of the warp wait for them already, and threads that drop out are
// not waited for from then on.
func TestMbarrierLanes(t *testing.T) {
	const body = `mov.u32 %r, 7; mov.u32 %x1, 0;
		setp.ne.u32 %p1, %t, 0; @!%p1 mbarrier.init.shared.b64 [sm], 32; bar.warp.sync -1;
		and.b32 %x2, %t, 3; setp.eq.u32 %p1, %x2, 1; @%p1 bra D;
		mbarrier.arrive.shared.b64 %rd1, [sm];
	W:	mbarrier.try_wait.shared.b64 %p2, [sm], %rd1; @!%p2 bra W;
		mbarrier.arrive.shared.b64 %rd1, [sm];
	V:	mbarrier.try_wait.shared.b64 %p2, [sm], %rd1; @!%p2 bra V;
		add.u32 %x1, %x1, 1; setp.lt.u32 %p3, %x1, 4; @!%p3 bra F;
		bra G;
	D:	st.shared.u32 [sm+8], 5; mbarrier.arrive_drop.shared.b64 %rd1, [sm];
		mbarrier.pending_count.b64 %r, %rd1; min.u32 %r, %r, 1; bra E;
	G:
	F:	ld.shared.u32 %r, [sm+8];
	E:`
	for i, got := range perThreadOut(t, body, 1, 32) {
		want := uint32(5)
		if i%4 == 1 {
			want = 1
		}
		if got != want {
			t.Errorf("thread %d: %d, should be %d", i, got, want)
		}
	}
}

// TestMbarrierJoin: lanes of a warp that wait at an mbarrier do not keep the other lanes, which stand where all lanes of the
// warp meet, from arriving at the mbarrier.
func TestMbarrierJoin(t *testing.T) {
	const body = `mov.u32 %r, 0; mov.u32 %x1, 0; setp.ge.u32 %p1, %t, 16;
		setp.ne.u32 %p2, %t, 0; @!%p2 mbarrier.init.shared.b64 [sm], 16; bar.warp.sync -1;
		@%p1 bra A;
	W:	mbarrier.try_wait.parity.shared.b64 %p3, [sm], 0; @%p3 bra A;
		add.u32 %x1, %x1, 1; setp.lt.u32 %p4, %x1, 200000; @%p4 bra W;
	A:	@%p1 mbarrier.arrive.shared.b64 %rd1, [sm]; setp.lt.u32 %p4, %x1, 200000; selp.u32 %r, 1, 0, %p4;`
	for i, got := range perThreadOut(t, body, 1, 32) {
		if got != 1 {
			t.Errorf("thread %d waits for ever", i)
		}
	}
}

// phases is an mbarrier as PTX's manual has it: the count of phases that have ended, and the arrivals and bytes that
// the present phase waits for.
type phases struct{ ended, pending, expected, bytes int }

func (p *phases) settle() {
	if p.pending == 0 && p.bytes == 0 {
		p.ended++
		p.pending = p.expected
	}
}

// TestMbarrierRandom: after random operations of a thread, an mbarrier has the same phase and pending arrivals as a model.
func TestMbarrierRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for round := range 60 {
		p := phases{expected: 1 + r.IntN(4)}
		p.pending = p.expected
		var body strings.Builder
		var want []uint32
		fmt.Fprintf(&body, "mbarrier.init.shared::cta.b64 [sm+64], %d; mov.u64 %%rd8, sm; mov.u32 %%x9, 0;\n", p.expected)
		for range 20 {
			// pending_count reads the state that the operation returns.
			before, told := p.pending, true
			n, op := 1+r.IntN(3), r.IntN(9)
			switch {
			case op == 0 && n <= p.pending:
				fmt.Fprintf(&body, "mbarrier.arrive.release.cta.shared.b64 %%rd1, [sm+64], %d;\n", n)
				p.pending -= n
				p.settle()
			case op == 1 && n < p.pending:
				fmt.Fprintf(&body, "mbarrier.arrive.noComplete.shared.b64 %%rd1, [sm+64], %d;\n", n)
				p.pending -= n
			case op == 2 && p.expected > 1 && p.pending > 0:
				body.WriteString("mbarrier.arrive_drop.shared.b64 %rd1, [%rd8+64];\n")
				p.expected, p.pending = p.expected-1, p.pending-1
				p.settle()
			case op == 3 && p.pending > 0:
				body.WriteString("mov.u32 %x1, 48; mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd1, [sm+64], %x1;\n")
				p.bytes, p.pending = p.bytes+48, p.pending-1
				p.settle()
			case op == 4 && p.pending > 0:
				fmt.Fprintf(&body, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [sm+64], %d;\n", 16*n)
				p.bytes, told = p.bytes+16*n, false
			case op == 5 && p.bytes > 0:
				fmt.Fprintf(&body, "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [sm+64], %d;\n", min(p.bytes, 32))
				p.bytes, told = p.bytes-min(p.bytes, 32), false
				p.settle()
			case op == 6 && p.pending > 0:
				body.WriteString("cp.async.mbarrier.arrive.noinc.shared.b64 [sm+64];\n")
				p.pending, told = p.pending-1, false
				p.settle()
			case op == 7:
				body.WriteString("cp.async.mbarrier.arrive.shared::cta.b64 [sm+64];\n")
				told = false
			case p.pending > 0:
				body.WriteString("mbarrier.arrive.shared::cluster.b64 _, [sm+64];\n")
				p.pending, told = p.pending-1, false
				p.settle()
			default: // all have arrived, and bytes are missing
				fmt.Fprintf(&body, "mbarrier.complete_tx.shared.b64 [sm+64], %d;\n", p.bytes)
				p.bytes, told = 0, false
				p.settle()
			}
			if told {
				fmt.Fprintf(&body, "mbarrier.pending_count.b64 %%x2, %%rd1; st.global.u32 [%%out+%d], %%x2;\n", 4*len(want))
				want = append(want, uint32(before))
			}
			for parity := range 2 {
				fmt.Fprintf(&body, "mbarrier.test_wait.parity.shared.b64 %%p1, [sm+64], %d; selp.u32 %%x2, 1, 0, %%p1; st.global.u32 [%%out+%d], %%x2;\n", parity, 4*len(want))
				want = append(want, uint32((p.ended+parity)%2))
			}
		}
		body.WriteString("mbarrier.inval.shared.b64 [sm+64]; mov.u32 %r, 0; ret;\n")
		m := bootMachine(t, perThread(body.String()))
		out := m.mapAt(testOut, make([]byte, 4*len(want)))
		m.runKernel("k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, testOut)
		for i, got := range readWords(out)[:len(want)] {
			if got != want[i] {
				t.Fatalf("round %d: result %d is %d, should be %d\n%s", round, i, got, want[i], &body)
			}
		}
	}
}

// TestMbarrierFaults: uses that PTX leaves undefined, since no barrier could work so, are faults.
func TestMbarrierFaults(t *testing.T) {
	for _, c := range []struct {
		name, body string
		kind       FaultKind
		addr       uint64
	}{
		{"no arrivals", "mov.u32 %x1, 0; mbarrier.init.shared.b64 [sm], %x1;", IllegalInstruction, 0},
		{"too many arrivals are expected", "mbarrier.init.shared.b64 [sm], 1048576;", IllegalInstruction, 0},
		{"more arrive than are expected", "mbarrier.init.shared.b64 [sm], 2; mbarrier.arrive.shared.b64 %rd1, [sm], 3;", IllegalInstruction, 0},
		{"not initialised", "mbarrier.arrive.shared.b64 %rd1, [sm];", IllegalInstruction, 0},
		{"too many bytes", "mbarrier.init.shared.b64 [sm], 1; mbarrier.expect_tx.shared.b64 [sm], 1048576;", IllegalInstruction, 0},
		{"misaligned", "mbarrier.init.shared.b64 [sm+4], 1;", MisalignedAddress, 4},
		{"outside", "mbarrier.init.shared.b64 [sm+8192], 1;", IllegalAddress, 8192},
		{"in global memory", "mov.u64 %rd1, cell; cvta.global.u64 %rd1, %rd1; mbarrier.init.b64 [%rd1], 1;", IllegalAddress, 0},
		{"bulk copy, misaligned", "mbarrier.init.shared.b64 [sm], 1; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+24], [cell], 16, [sm];", MisalignedAddress, 24},
		{"bulk copy, part of 16 bytes", "cp.async.bulk.global.shared::cta.bulk_group [cell], [sm], 24;", IllegalInstruction, 0},
		{"bulk copy, beyond the memory", "cp.async.bulk.global.shared::cta.bulk_group [cell], [sm], 8192;", IllegalAddress, 0},
		{"another block of the cluster", "mov.u32 %x1, 1; mapa.shared::cluster.u32 %x2, %x3, %x1;", IllegalInstruction, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := bootMachine(t, perThread(c.body+" mov.u32 %r, 0;"))
			m.mapAt(testOut, make([]byte, 64))
			err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, testOut)
			var f *Fault
			if !errors.As(err, &f) || f.Kind != c.kind || c.addr != 0 && f.Addr != c.addr {
				t.Errorf("the launch ended with %v (%+v), want a fault of kind %v", err, f, c.kind)
			}
		})
	}
}

// TestBulkCopies: cp.async.bulk copies the bytes that a thread names, and reports their number to an mbarrier.
func TestBulkCopies(t *testing.T) {
	const body = `mov.u32 %r, 0; mov.u64 %rd5, cell; cvta.global.u64 %rd5, %rd5;
		setp.ne.u32 %p1, %t, 0; @%p1 bra W;
		mbarrier.init.shared::cta.b64 [sm], 1; fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
		mov.u32 %x1, 64; mbarrier.arrive.expect_tx.shared::cta.b64 _, [sm], 96;
		cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+64], [%out], %x1, [sm];
		cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [sm+128], [%out+64], 16, [sm], %rd6;
		cp.async.bulk.prefetch.L2.global [%out], 64;
		cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [sm+144], [sm+64], 16, [sm];
	W:	bar.sync 0;
	V:	mbarrier.try_wait.parity.shared::cta.b64 %p2, [sm], 0; @!%p2 bra V;
		@%p1 bra E;
		cp.async.bulk.global.shared::cta.bulk_group [cell], [sm+64], 64;
		cp.async.bulk.global.shared::cta.bulk_group [%rd5+64], [sm+128], 32;
		cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;
	E:	bar.sync 0;
		mad.wide.u32 %rd4, %t, 4, %rd5; ld.global.u32 %r, [%rd4];`
	m := bootMachine(t, perThread(body))
	in := make([]uint32, 24)
	for i := range in {
		in[i] = uint32(1000 + i)
	}
	out := m.mapAt(testOut, wordBytes(in...))
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{24, 1, 1}, testOut)
	for i, got := range readWords(out)[:24] {
		want := in[i]
		if i >= 20 {
			want = in[i-20]
		}
		if got != want {
			t.Errorf("word %d: %d, should be %d", i, got, want)
		}
	}
}

// TestClusterOfOne: instructions of clusters give right results in clusters of a single block, as all clusters here
// are.
func TestClusterOfOne(t *testing.T) {
	const body = `mov.u32 %x5, sm; mad.lo.u32 %x2, %t, 4, %x5; mov.u32 %r, 0; mov.u32 %x1, 0;
		add.u32 %x3, %t, 33; rem.u32 %x3, %x3, %n; mad.lo.u32 %x3, %x3, 4, %x5;
		mov.u32 %x7, %cluster_ctarank; mapa.shared::cluster.u32 %x3, %x3, %x7;
		mov.u64 %rd1, sm; cvta.shared::cluster.u64 %rd1, %rd1; mapa.u64 %rd2, %rd1, 0; getctarank.u64 %x8, %rd2;
		isspacep.shared::cluster %p2, %rd2; selp.u32 %x9, 1000, 0, %p2; add.u32 %x8, %x8, %x9;
	L:	mad.lo.u32 %x4, %t, 100, %x1; st.shared.u32 [%x2], %x4;
		barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
		ld.shared::cluster.u32 %x4, [%x3]; add.u32 %r, %r, %x4;
		setp.lt.u32 %p3, %t, 40; @%p3 bra S; barrier.cluster.arrive; bra T; S: barrier.cluster.arrive.relaxed;
	T:	barrier.cluster.wait;
		add.u32 %x1, %x1, 1; setp.lt.u32 %p3, %x1, 5; @%p3 bra L; add.u32 %r, %r, %x8;`
	for _, threads := range []int{20, 64, 200} {
		text := strings.Replace(perThread(body), "(.param .u64 out)", "(.param .u64 out) .reqnctapercluster 1, 1, 1", 1)
		m := bootMachine(t, text)
		out := m.mapAt(testOut, make([]byte, 4*2*threads))
		m.runKernel("k", Dim3{2, 1, 1}, Dim3{uint32(threads), 1, 1}, testOut)
		for i, got := range readWords(out)[:2*threads] {
			if want := uint32(5*100*((i%threads+33)%threads) + 10 + 1000); got != want {
				t.Fatalf("%d threads: thread %d: %d, should be %d", threads, i, got, want)
			}
		}
	}
}
