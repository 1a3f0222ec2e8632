// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// mixing has a kernel with a result that tells in which order the kernel ran, and how often: each thread makes many steps with
// its element.
const mixing = `.version 7.0
.target sm_70
.address_size 64
.visible .entry mix(.param .u64 p, .param .u32 v, .param .u32 steps)
{
	.reg .u64 %p, %o; .reg .u32 %v, %i, %x, %n, %b, %t; .reg .pred %q;
	ld.param.u64 %p, [p]; ld.param.u32 %v, [v]; ld.param.u32 %n, [steps];
	mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;
	mul.wide.u32 %o, %i, 4; add.u64 %p, %p, %o; ld.global.u32 %x, [%p];
again:
	mad.lo.u32 %x, %x, 1664525, %v; add.u32 %x, %x, %i;
	sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0;
	@%q bra again;
	st.global.u32 [%p], %x;
	ret;
}
`

const mixedWords = 64 * 32 // that one launch of mix changes

func mixParams(p uint64, v, steps uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, p)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, v), steps)
}

// launchMix posts a launch of mix, of 64 blocks.
func (c *client) launchMix(f, stream, p uint64, v, steps uint32) {
	c.launchShape(f, [7]uint32{64, 1, 1, 32, 1, 1, 0}, stream, mixParams(p, v, steps))
}

// countHeld returns how many calls the last save has held.
func (w *twin) countHeld(from Folder) (n int) {
	w.t.Helper()
	st, err := readState(from)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range st.Processes {
		n += len(p.Work)
	}
	return n
}

// queueSomething has both programs queue work of a random kind.
func (w *twin) queueSomething(mix, m, exec uint64, streams []uint64) {
	r := w.r
	st, other := streams[r.IntN(len(streams))], streams[r.IntN(len(streams))]
	at := func() uint64 { return m + 4*mixedWords*uint64(r.IntN(4)) }
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		a, v, steps := at(), r.Uint32(), uint32(1+r.IntN(300))
		w.postBoth("launch", mix, [7]uint32{64, 1, 1, 32, 1, 1, 0}, st, mixParams(a, v, steps), uint32(16))
	case 4:
		w.postBoth("cuMemcpyDtoDAsync_v2", at(), at(), uint64(4*r.IntN(mixedWords)), st)
	case 5:
		w.postBoth("cuMemsetD32Async", at(), r.Uint32(), uint64(r.IntN(100)), st)
	case 6:
		b := make([]byte, 1+r.IntN(3000))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		w.postBoth("copy_in", at(), b, uint64(len(b)), st)
	case 7:
		// An event that is gone as soon as something waits, as in programs.
		e := w.newHandle()
		w.callBoth("cuEventCreate", e, uint32(2))
		w.postBoth("cuEventRecord", e, st)
		w.postBoth("cuStreamWaitEvent", other, e, uint32(0))
		if r.IntN(2) == 0 {
			w.callBoth("cuEventDestroy_v2", e)
		}
	case 8:
		w.postBoth("graph_launch", exec, st)
	case 9:
		w.postBoth("cuStreamWriteValue32_v2", st, at()+4*uint64(r.IntN(100)), r.Uint32(), uint32(0))
	}
}

// orderStreams has later work of all streams come after the earlier work of all: then results are determined.
func (w *twin) orderStreams(streams []uint64) {
	for i := range streams {
		e := w.newHandle()
		w.callBoth("cuEventCreate", e, uint32(2))
		w.postBoth("cuEventRecord", e, streams[i])
		w.postBoth("cuStreamWaitEvent", streams[(i+1)%len(streams)], e, uint32(0))
	}
	e := w.newHandle()
	w.callBoth("cuEventCreate", e, uint32(2))
	w.postBoth("cuEventRecord", e, streams[0])
	for _, s := range streams[1:] {
		w.postBoth("cuStreamWaitEvent", s, e, uint32(0))
	}
}

// beginQueueing makes the objects for queueSomething: streams, a kernel, its memory, and a graph.
func (w *twin) beginQueueing() (streams []uint64, mix, m, exec uint64) {
	w.callBoth("cuCtxCreate_v2", uint64(ctxA), uint32(0), int32(0))
	w.c[0].context = ctxA
	mix = w.loadFunction(mixing, "mix")
	m = u64(w.second("cuMemAlloc_v2", uint64(4*4*mixedWords)))
	streams = []uint64{uint64(0)}
	for range 2 {
		s := w.newHandle()
		w.callBoth("cuStreamCreate", s, uint32(1))
		streams = append(streams, s)
	}
	g := w.newHandle()
	w.callBoth("cuGraphCreate", g, uint32(0))
	var before []uint64
	for range 3 {
		w.nodeBehind(g, before, "launch", mix, [7]uint32{64, 1, 1, 32, 1, 1, 0}, uint64(0), mixParams(m, 7, 50), uint32(16))
		before = []uint64{0x50000 + w.n}
	}
	exec = u64(w.second("graph_instantiate", g, paramsWithFlags(0), uint32(256))[8:])
	return streams, mix, m, exec
}

// sameBytes checks that the memory that queueSomething changes is the same on both, when all is done.
func (w *twin) sameBytes(m uint64) {
	w.t.Helper()
	w.callBoth("cuCtxSynchronize")
	for at := uint64(0); at < 4*4*mixedWords; at += 4096 {
		w.callBoth("copy_out", m+at, uint64(4096), uint64(0))
	}
}

// TestHeldWork: a program that queues and does not wait is moved at random moments, with its work in its streams, and
// has the same bytes in its memory in the end as an undisturbed run.
func TestHeldWork(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 3
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newTwin(t)
			w.r = rand.New(rand.NewPCG(seed, 11))
			streams, mix, m, exec := w.beginQueueing()
			flag, control := u64(w.second("cuMemAlloc_v2", uint64(4))), w.newHandle()
			w.callBoth("cuStreamCreate", control, uint32(1))
			held := 0
			for round := range uint32(rounds) {
				for i := range 40 {
					if i == 20 { // work behind this wait is not done before the cut
						// For at least round+1: the next round writes a greater value, perhaps before the wait looks again.
						w.postBoth("cuStreamWaitValue32_v2", streams[1], flag, round+1, uint32(0))
					}
					w.queueSomething(mix, m, exec, streams)
					w.orderStreams(streams)
				}
				w.moveRun()
				if n := w.countHeld(w.to); n < 20 {
					t.Errorf("round %d: %d calls were held", round, n)
				} else {
					held += n
				}
				w.postBoth("cuStreamWriteValue32_v2", control, flag, round+1, uint32(0))
			}
			w.sameBytes(m)
			t.Logf("%d calls were held at %d cuts", held, rounds)
		})
	}
}

// loadFunction loads code on both and finds a function there.
func (w *twin) loadFunction(text, name string) uint64 {
	w.t.Helper()
	m := w.loadCode("module_load", []byte(text), uint64(len(text)), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0))
	return u64(w.second("cuModuleGetFunction", m, name))
}

// TestHeldKernel: neither a kernel of many blocks nor calls that wait for the kernel keep a save waiting.
func TestHeldKernel(t *testing.T) {
	for _, wait := range []struct {
		name string
		args []any
	}{
		{"cuCtxSynchronize", nil}, {"cuStreamSynchronize", []any{uint64(streamA)}}, {"cuEventSynchronize", []any{uint64(eventA)}},
	} {
		t.Run(wait.name, func(t *testing.T) {
			s := serverOf(t, "test", nil, testMemory)
			_, cs := attachProcess(t, s, 2)
			c := cs[0]
			c.beginContext(ctxA, 0)
			f := c.callForNumber("cuModuleGetFunction", c.loadModule(mixing), "mix")
			c.must("cuStreamCreate", uint64(streamA), uint32(1))
			c.must("cuEventCreate", uint64(eventA), uint32(0))
			a := c.alloc(4 * mixedWords)
			// Some minutes.
			const launches = 1000
			for i := range uint32(launches) {
				c.launchMix(f, streamA, a, i, 20000)
			}
			c.post("cuEventRecord", uint64(eventA), uint64(streamA))
			cs[1].context = ctxA
			waits := make(chan int32, 2)
			go func() {
				r, _ := cs[1].call(wait.name, wait.args...)
				waits <- r
			}()
			copied := make(chan int32, 1)
			go func() {
				r, _ := c.call("copy_out", a, uint64(100), uint64(streamA))
				copied <- r
			}()
			folder := Folder(t.TempDir())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r, err := s.Save(ctx, folder, SaveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("stopped in %v", r.Cut)
			next := serverOf(t, "other", nil, testMemory)
			replaceServer(t, s, r, folder, next)
			p := next.allProcesses()[0]
			if left := len(p.Work.Left()); left < launches-100 {
				t.Errorf("%d calls are left", left)
			}
			select {
			case r := <-waits:
				t.Errorf("%s is over: %d", wait.name, r)
			case r := <-copied:
				t.Errorf("the copy is done: %d", r)
			default:
			}
			p.endProcess("the test is over")
			<-waits
			<-copied
		})
	}
}
