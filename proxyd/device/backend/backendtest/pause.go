// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"encoding/binary"
	"runtime"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// pauseSpace pauses the rig's space and waits until the space is unmapped.
func (r *rig) pauseSpace() {
	r.Helper()
	for r.space.Pause(); ; runtime.Gosched() {
		err := r.space.Unmap()
		if err == nil {
			return
		}
		r.wantError("unmap a space that comes to rest", err, backend.NotReady)
		r.mustSucceed(r.ctx.Err())
	}
}

// checkProgress compares the progress of a stream.
func (r *rig) checkProgress(what string, s backend.Stream, want backend.Progress) {
	r.Helper()
	checkEqual(r, what, s.Progress(), want)
	checkEqual(r, what+", Given", s.Given(), want.Given)
}

// testPausing: a paused space begins no work, begun work ends, and each stream tells how much is left.
func testPausing(r *rig) {
	a := r.allocBytes(64)
	fill := func(v uint32) {
		r.Helper()
		r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: v, Element: 1, Width: 1}))
	}
	r.checkProgress("new", r.stream, backend.Progress{})
	fill(1)
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Element: 1}))
	r.syncStream()
	given := r.stream.Progress().Given
	if given == 0 || given > 2 {
		r.Errorf("a fill, and one of nothing, are %d pieces of work", given)
	}
	r.pauseSpace()
	r.checkProgress("done", r.stream, backend.Progress{Given: given, Done: given})
	fill(2)
	fill(3)
	e := must(r.cu.NewEvent(backend.EventConfig{}))(r)
	r.mustSucceed(r.stream.Record(e))
	r.checkProgress("not mapped", r.stream, backend.Progress{Given: given + 3, Done: given})
	r.mustSucceed(r.space.Map())
	r.syncStream()
	r.checkProgress("mapped again", r.stream, backend.Progress{Given: given + 3, Done: given + 3})
	r.wantBytes("filled", a, []byte{3})

	// Work that has begun goes on, later work does not begin.
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g := &backend.Graph{}
	first := must(g.Add(backend.HostNode{Func: func() { close(begun); <-over }}))(r)
	must(g.Add(backend.FillNode{Fill: backend.Fill{Addr: a, Value: 7, Element: 1, Width: 1}}, first))(r)
	s := r.newStream()
	r.mustSucceed(s.Graph(must(r.cu.Instantiate(g))(r)))
	r.mustSucceed(s.Host(func() { close(ended) }))
	<-begun
	r.space.Pause()
	r.checkProgress("begun", s, backend.Progress{Given: 2, Begun: true})
	close(over)
	for s.Progress().Done != 1 {
		runtime.Gosched()
		r.mustSucceed(r.ctx.Err())
	}
	r.pauseSpace()
	r.checkProgress("behind it", s, backend.Progress{Given: 2, Done: 1})
	r.mustSucceed(r.space.Map())
	<-ended
	r.mustSucceed(s.Synchronize(r.ctx))
	r.wantBytes("filled by the graph", a, []byte{7})

	// A wait for a value can be begun again.
	r.mustSucceed(s.WaitValue(a+4, 4, 1, backend.Equal))
	r.pauseSpace()
	r.checkProgress("waiting", s, backend.Progress{Given: 3, Done: 2})
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.stream.Write(a+4, 4, 1))
	r.mustSucceed(s.Synchronize(r.ctx))
	r.checkProgress("the value has come", s, backend.Progress{Given: 3, Done: 3})
	r.mustSucceed(s.Destroy())
	r.checkProgress("destroyed", s, backend.Progress{Given: 3, Done: 3})
}

// testPausedKernel: where a kernel can be paused, a copy of the space does the rest, and so does the paused space itself.
func testPausedKernel(r *rig) {
	const blocks, threads = pausedBlocks, pausedThreads
	add := r.findKernel(r.loadKernels(), "add")
	m := r.allocBytes(4 * blocks * threads)
	launch := backend.Launch{
		Function: add, Grid: backend.Dim{X: blocks, Y: 1, Z: 1}, Block: backend.Dim{X: threads, Y: 1, Z: 1}, Params: joinArgs([]backend.Addr{m}, 5),
	}
	rest := launch
	rest.Done.Blocks = blocks - 1
	switch err := r.stream.Launch(rest); backend.ResultOf(err) {
	case backend.NotSupported:
		r.Log("this backend's kernels cannot be paused")
		return
	default:
		r.mustSucceed(err)
	}
	r.syncStream()
	r.wantBytes("all but the last block", m+4*threads*(blocks-2), joinWords(0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5))
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: m, Element: 4, Width: blocks * threads}))
	r.syncStream()
	coop := rest
	coop.Cooperative, coop.Grid.X, coop.Done.Blocks = true, 8, 1
	r.wantError("the rest of a cooperative kernel", r.stream.Launch(coop), backend.InvalidValue)

	before := r.stream.Progress().Given
	r.mustSucceed(r.stream.Launch(launch))
	r.pauseSpace()
	p := r.stream.Progress()
	if p.Done > before { // too fast to be paused
		p.Partial.Blocks = blocks
	}
	checkEqual(r, "pieces of work", p.Given, before+1)
	checkEqual(r, "begun", p.Begun, false)

	o := carryUnmapped(r, r.secondDevice())
	r.mustSucceed(o.space.Map())
	o.stream = must(o.cu.NewStream(backend.StreamConfig{NonBlocking: true}))(r)
	checkBlocksDone(o, "carried", m, p.Partial.Blocks)
	again, log, err := o.cu.Load([]byte(Kernels), backend.LoadConfig{Globals: add.Module().Variables().Base})
	if err != nil {
		r.Fatalf("%v\n%s", err, log.Error)
	}
	rest = launch
	rest.Function, rest.Done = o.findKernel(again, "add"), p.Partial
	r.mustSucceed(o.stream.Launch(rest))
	checkBlocksDone(o, "the rest, in the copy", m, blocks)
	o.pauseSpace()
	r.mustSucceed(r.space.Map())
	checkBlocksDone(r, "the rest, where it was paused", m, blocks)
	r.checkProgress("done", r.stream, backend.Progress{Given: r.stream.Progress().Given, Done: r.stream.Progress().Given})
}

// The kernel of testPausedKernel.
const pausedBlocks, pausedThreads = 1 << 16, 8

// checkBlocksDone checks that the first blocks of testPausedKernel's kernel, as many as are done, have added 5 to the
// words at m.
func checkBlocksDone(r *rig, what string, m backend.Addr, done uint64) {
	r.Helper()
	for i, b := 0, r.copyOut(m, 4*pausedBlocks*pausedThreads); i < pausedBlocks*pausedThreads; i++ {
		block, want := i/pausedThreads, uint32(0)
		if uint64(block) < done {
			want = 5
		}
		if got := binary.LittleEndian.Uint32(b[4*i:]); got != want {
			r.Fatalf("%s: thread %d of block %d has %d, want %d; %d blocks are done", what, i%pausedThreads, block, got, want, done)
		}
	}
}

// testFreeingHeld: memory that is freed behind work which is held is not free yet, and Freeing says so.
func testFreeingHeld(r *rig) {
	a, b := r.allocBytes(granule), r.allocBytes(granule)
	r.pauseSpace()
	checkEqual(r, "freeing", r.space.Freeing(), false)
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: 1, Element: 1, Width: 1}))
	r.mustSucceed(r.cu.Free(a))
	checkEqual(r, "freeing behind work", r.space.Freeing(), true)
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.space.Drain(r.ctx))
	checkEqual(r, "freeing when the work is done", r.space.Freeing(), false)
	r.pauseSpace()
	r.mustSucceed(r.cu.Free(b))
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.space.Drain(r.ctx))
	checkEqual(r, "freeing at the end", r.space.Freeing(), false)
}

// testFullStream: a stream makes its program wait when very much is queued, but not in a space without limit.
func testFullStream(r *rig) {
	const more = 1<<17 + 10
	a := r.allocBytes(64)
	r.pauseSpace()
	queued := make(chan error)
	go func() {
		for range more {
			if err := r.stream.Fill(backend.Fill{Addr: a, Value: 1, Element: 1, Width: 1}); err != nil {
				queued <- err
				return
			}
		}
		close(queued)
	}()
	for last := uint64(0); last == 0 || r.stream.Progress().Given != last; runtime.Gosched() {
		last = r.stream.Progress().Given
	}
	r.space.Unlimit(true)
	r.mustSucceed(<-queued)
	checkEqual(r, "work that was given", r.stream.Progress().Given, uint64(more))
	r.space.Unlimit(false)
	r.mustSucceed(r.space.Map())
	r.mustSucceed(r.space.Drain(r.ctx))
}

// testPutBackExchange: code that cannot use its turn in an exchange gets another turn, after the pause if the space is
// paused.
func testPutBackExchange(r *rig) {
	if _, lends := r.stream.(backend.Lender); lends {
		r.Log("this backend's exchanges are not put back")
		return
	}
	a := r.allocBytes(8)
	turns := make(chan func(error), 1)
	begin := func(b [][]byte, done func(error)) {
		b[0][0]++
		turns <- done
	}
	r.mustSucceed(r.stream.Exchange([]backend.Buffer{{Addr: a, Size: 8, Write: true}}, begin))
	(<-turns)(backend.ErrPutBack) // the space is mapped: the next turn comes at once
	done := <-turns
	r.checkProgress("in its turn", r.stream, backend.Progress{Given: 1, Begun: true})
	r.space.Pause()
	done(backend.ErrPutBack)
	r.pauseSpace()
	for r.stream.Progress().Begun { // the exchange was waiting, and is put back
		runtime.Gosched()
		r.mustSucceed(r.ctx.Err())
	}
	r.checkProgress("put back", r.stream, backend.Progress{Given: 1})
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a + 4, Value: 9, Element: 1, Width: 1}))
	r.mustSucceed(r.space.Map())
	(<-turns)(nil)
	r.syncStream()
	r.checkProgress("done", r.stream, backend.Progress{Given: 2, Done: 2})
	r.wantBytes("three turns, then the fill", a, []byte{3, 0, 0, 0, 9})
}
