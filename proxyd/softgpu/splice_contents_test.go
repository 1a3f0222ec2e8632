// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// lastUnnoticed ends the mistakes from lastCheck on, which overlook the writes of a kind of work: of anyWriter, of
// kernelWriter, and so on.
const lastUnnoticed = lastCheck + spliceCheck(lastWriter)

// unnoticedWriters returns the writers that the mistake overlooks.
func (c spliceCheck) unnoticedWriters() []writer {
	if c < lastCheck {
		return nil
	}
	return []writer{writer(c - lastCheck)}
}

// writeBeside makes a program in which a rank's weights, of which the hash is known from the step before, are written by
// another kind of work in the fourth step. The rank then makes the same update as the other ranks.
func writeBeside(name string, once onDevices, write func(r *spliceRank)) spliceProgram {
	return spliceProgram{name: "the weights are written by " + name, once: once, step: func(r *spliceRank) {
		r.fillPart(r.at[acts], 100+r.rank, whole)
		r.fillPart(r.at[grads], 7, whole)
		if r.step == 3 {
			write(r)
		}
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
	}}
}

// writerPrograms have a program for each kind of work that writes to memory.
var writerPrograms = []spliceProgram{
	writeBeside("a kernel", onDevices{6, 3}, func(r *spliceRank) { r.runKernel("add", 8, r.at[weights], r.rank+1) }),
	writeBeside("a kernel that is an atomic", onDevices{9, 4}, func(r *spliceRank) {
		for range r.rank + 1 {
			r.runKernel("count", 1, r.at[weights], r.at[head])
		}
	}),
	writeBeside("a copy", onDevices{6, 3}, func(r *spliceRank) {
		r.failOn(r.st.Copy(backend.Copy{Src: backend.CopySide{Addr: uint64(r.at[acts])}, Dst: backend.CopySide{Addr: uint64(r.at[weights] + 4092)}, Width: 4}))
	}),
	writeBeside("a copy of rows", onDevices{6, 3}, func(r *spliceRank) {
		r.failOn(r.st.Copy(backend.Copy{
			Src:   backend.CopySide{Addr: uint64(r.at[acts]), Pitch: 512, Rows: 4},
			Dst:   backend.CopySide{Addr: uint64(r.at[weights]), Pitch: 1024, Rows: 4},
			Width: 4, Height: 2, Depth: 2,
		}))
	}),
	writeBeside("a copy of a peer", onDevices{6, 3}, func(r *spliceRank) {
		next := r.peers[(r.rank+1)%len(r.peers)]
		r.failOn(r.st.Copy(backend.Copy{
			Src: backend.CopySide{Addr: uint64(r.at[acts])}, Width: 4,
			Dst: backend.CopySide{Space: next.space, Addr: uint64(next.at[weights] + 4*backend.Addr(r.rank))},
		}))
	}),
	writeBeside("a fill", onDevices{6, 3}, func(r *spliceRank) { r.fillPart(r.at[weights]+pieceSize-4, r.rank+1, 1) }),
	writeBeside("a collective", onDevices{6, 3}, func(r *spliceRank) {
		r.givePart(r.stepName("own")+string(rune('a'+r.rank)), r.at[acts], 512)
		r.getResult(r.stepName("own")+string(rune('a'+r.rank)), r.at[weights]+512, 512, sumParts)
	}),
	writeBeside("a stream", onDevices{6, 3}, func(r *spliceRank) { r.failOn(r.st.Write(r.at[weights]+8, 4, uint64(r.rank+1))) }),
	writeBeside("the server", onDevices{6, 3}, func(r *spliceRank) {
		r.failOn(r.Drain(r.Context()))
		at := r.at[weights] &^ (backend.Granule - 1)
		p := make([]byte, backend.Granule)
		_, err := r.ReadBlock(backend.BlockID{Base: at}, p)
		r.failOn(err)
		p[r.at[weights]-at] = byte(r.rank + 1)
		r.failOn(r.WriteBlock(backend.BlockID{Base: at}, p))
	}),
	writeBeside("nodes of a graph", onDevices{6, 3}, func(r *spliceRank) {
		var g backend.Graph
		_, err := g.Add(backend.FillNode{Fill: backend.Fill{Addr: r.at[weights], Value: uint32(r.rank + 1), Element: 4, Width: 1}})
		r.failOn(err)
		_, err = g.Add(backend.CopyNode{Copy: backend.Copy{Src: backend.CopySide{Addr: uint64(r.at[acts])}, Dst: backend.CopySide{Addr: uint64(r.at[weights] + 4)}, Width: 4}})
		r.failOn(err)
		x, err := r.cu.Instantiate(&g)
		r.failOn(err)
		r.failOn(r.st.Graph(x))
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(x.Destroy())
	}),
	// The third rank begins at other addresses, and sees the first rank's memory.
	{name: "the weights are written by a kernel of a peer", bases: []int{0, 0, 1}, once: onDevices{4, 4}, step: func(r *spliceRank) {
		if r.rank < 2 {
			r.fillPart(r.at[grads], 7, whole)
			r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
			return
		}
		if r.step == 0 {
			r.failOn(r.AllowPeer(r.peers[0].space))
		}
		if r.step == 3 {
			r.runKernel("add", 8, r.peers[0].at[weights], 1)
		}
	}},
	// Memory that comes and goes in a stream does so without an operation in the reclaimer.
	{name: "the weights are freed and allocated again by a rank", once: onDevices{9, 3}, step: func(r *spliceRank) {
		if r.step == 3 && r.rank == 1 {
			r.failOn(r.st.FreeAsync(r.at[weights]))
			r.failOn(r.st.Synchronize(r.Context()))
			at, err := r.cu.Alloc(r.size)
			if r.failOn(err); at != r.at[weights] {
				r.Errorf("the weights are at %#x, not at %#x", uint64(at), uint64(r.at[weights]))
			}
		}
		r.fillPart(r.at[grads], 7, whole)
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
	}},
	// The second rank takes the result of the first rank, and then makes an update that the third rank has made of the same
	// weights without the first update.
	{name: "the weights are written by a result that is taken", once: onDevices{1, 1}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7, whole)
		if r.rank == 2 {
			r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
		} else {
			r.runKernel("add", whole, r.at[weights], 1)
		}
	}, then: func(r *spliceRank) {
		if r.rank == 1 {
			r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
		}
	}},
}

// noteBeside has other work of the same space write to memory, on another stream, just after that was read for a record. A
// program may do that: the kernel has the memory's address, and does not access the memory. The next kernel does.
func noteBeside(t *testing.T, omitted spliceCheck) (wrong bool) {
	devices, ranks := newSpliceRanks(t, smallPieces, 2, 1, nil, omitted)
	_, apart := newSpliceRanks(t, smallPieces, 2, 2, nil, noCheck)
	write := func(r *spliceRank) { r.fillPart(r.at[acts], 5+r.rank, whole) }
	turn := func(r *spliceRank) {
		at, from := r.at[acts], r.at[grads]
		r.fillPart(at, r.step, whole)
		r.runKernel("halves", 1, r.at[moments], int(uint32(at)), int(at>>32), 0, int(uint32(from)), int(from>>32))
		if r.step == 1 && r.peers[0] == apart[0] {
			write(r)
		}
		r.runKernel("axpy", whole, r.at[weights], at, 1)
	}
	for step := range 3 {
		for i, r := range ranks {
			st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
			r.failOn(err)
			written := step != 1
			devices[0].splicer.hooks.onHashed = func(x splice.Span) {
				if x.Base != uint64(r.at[acts]) || written {
					return
				}
				written = true
				r.failOn(st.Fill(backend.Fill{Addr: r.at[acts], Value: uint32(5 + i), Element: 4, Width: whole}))
				for st.Progress().Done == 0 {
					runtime.Gosched()
				}
			}
			r.takeTurn(step, turn)
			apart[i].takeTurn(step, turn)
			if !written {
				t.Errorf("step %d: the memory was not read for a record", step)
			}
			wrong = wrong || !r.holdsSame(apart[i])
		}
	}
	return wrong
}

// TestSpliceNoted: memory that was read for a record counts as unknown if other work of the space has begun meanwhile.
func TestSpliceNoted(t *testing.T) {
	if noteBeside(t, noCheck) {
		t.Error("memory that other work wrote while it was read counts as what it was")
	}
	if !noteBeside(t, noteCheck) {
		t.Error("the test does not find work that writes to memory while it is read")
	}
}

// writingGraph makes a graph of a rank, with a kernel that writes another rank's memory. The rank is allowed to do that before
// the graph is made, or only afterwards.
func (r *spliceRank) writingGraph(to *spliceRank, allowedBefore bool) backend.Exec {
	if allowedBefore {
		r.failOn(r.AllowPeer(to.space))
	}
	f, err := r.mods[0].Function("add")
	r.failOn(err)
	p := binary.LittleEndian.AppendUint64(nil, uint64(to.at[acts]))
	p = binary.LittleEndian.AppendUint32(p, 1)
	one := backend.Dim{X: 1, Y: 1, Z: 1}
	var g backend.Graph
	_, err = g.Add(backend.KernelNode{Launch: backend.Launch{Function: f, Grid: one, Block: backend.Dim{X: 8, Y: 1, Z: 1}, Params: p}})
	r.failOn(err)
	x, err := r.cu.Instantiate(&g)
	r.failOn(err)
	if !allowedBefore {
		r.failOn(r.AllowPeer(to.space))
	}
	return x
}

func (r *spliceRank) runGraph(x backend.Exec) {
	r.failOn(r.Map())
	r.failOn(r.st.Graph(x))
	r.failOn(r.st.Synchronize(r.Context()))
	r.failOn(r.Unmap())
}

// TestSplicePeerLater: a kernel of a graph writes memory of a peer that was allowed after the graph was made, just when
// that memory is read for a record. The bytes that were read do not count as the memory's content.
func TestSplicePeerLater(t *testing.T) {
	for _, before := range []bool{true, false} {
		devices, ranks := newSpliceRanks(t, smallPieces, 3, 2, []int{0, 0, 1}, noCheck)
		_, apart := newSpliceRanks(t, smallPieces, 3, 3, []int{0, 0, 1}, noCheck)
		graph, graphApart := ranks[2].writingGraph(ranks[1], before), apart[2].writingGraph(apart[1], before)
		turn := func(r *spliceRank) {
			at, from := r.at[acts], r.at[grads]
			r.fillPart(at, r.step, whole)
			r.runKernel("halves", 1, r.at[moments], int(uint32(at)), int(at>>32), 0, int(uint32(from)), int(from>>32))
			if r.step == 1 && r == apart[1] {
				r.failOn(r.st.Synchronize(r.Context()))
				apart[2].runGraph(graphApart)
			}
			r.runKernel("axpy", whole, r.at[weights], at, 1)
		}
		for step := range 3 {
			for i, r := range ranks[:2] {
				written := step != 1 || i == 0
				devices[0].splicer.hooks.onHashed = func(x splice.Span) {
					if !written && x.Base == uint64(r.at[acts]) {
						written = true
						ranks[2].runGraph(graph)
					}
				}
				r.takeTurn(step, turn)
				apart[i].takeTurn(step, turn)
				if !written {
					t.Errorf("step %d: the memory was not read for a record", step)
				}
				if !r.holdsSame(apart[i]) {
					t.Errorf("allowed before: %v, step %d: rank %d has other bytes than with a device of its own", before, step, i)
				}
			}
		}
	}
}

// TestSpliceFreed: a program that has queued a kernel may free the kernel's memory behind it on the stream: the memory has no
// name from then on, and stays until the kernel has ended. Where that happens while the memory is read for a record, or before the
// result is kept, another rank takes the result all the same.
func TestSpliceFreed(t *testing.T) {
	for _, moment := range []string{"record", "result"} {
		t.Run(moment, func(t *testing.T) {
			devices, ranks := newSpliceRanks(t, smallPieces, 2, 1, nil, noCheck)
			_, apart := newSpliceRanks(t, smallPieces, 2, 2, nil, noCheck)
			x := devices[0].splicer
			hooks := x.hooks
			freed := 0
			turn := func(r *spliceRank) {
				at, err := r.cu.Alloc(r.size)
				r.failOn(err)
				free := sync.OnceFunc(func() { r.failOn(r.st.FreeAsync(at)) })
				hooks.onHashed, hooks.onCopying = nil, nil
				if r.space.at.Load() == devices[0] && r.step > 0 {
					freeNow := func() { freed++; free() }
					if moment == "record" {
						hooks.onHashed = func(splice.Span) { freeNow() }
					} else {
						hooks.onCopying = func(*space) { freeNow() }
					}
				}
				r.fillPart(at, r.step, whole)
				if moment == "record" {
					r.runKernel("axpy", whole, r.at[weights], at, 1)
				} else {
					r.runKernel("axpy", whole, at, r.at[weights], 1) // the result lies in the memory
				}
				r.failOn(r.st.Synchronize(r.Context()))
				free()
			}
			for step := range 4 {
				for i := range ranks {
					ranks[i].takeTurn(step, turn)
					apart[i].takeTurn(step, turn)
					if !ranks[i].holdsSame(apart[i]) {
						t.Errorf("step %d: rank %d has other bytes than with a device of its own", step, i)
					}
				}
			}
			if freed == 0 {
				t.Error("no memory was freed while a kernel used the memory")
			}
			if x.counts.Once == 0 {
				t.Error("no kernel took the result of another rank's kernel")
			}
		})
	}
}

// TestSpliceAllocatedAgain: a program that runs ahead of its stream frees a kernel's memory behind the kernel and allocates memory
// at the same addresses, before the kernel has begun: work finds the earlier memory there, and calls name the later memory. The
// kernel runs once nevertheless, and the results go to the earlier memory.
func TestSpliceAllocatedAgain(t *testing.T) {
	for _, way := range []spliceWay{smallPieces, wholeBlocks} {
		t.Run(way.name, func(t *testing.T) {
			devices, ranks := newSpliceRanks(t, way, 3, 1, nil, noCheck)
			_, apart := newSpliceRanks(t, way, 3, 3, nil, noCheck)
			turn := func(r *spliceRank) {
				queued := make(chan struct{})
				r.failOn(r.st.Host(func() { <-queued }))
				at, err := r.st.AllocAsync(backend.DefaultPool, r.size)
				r.failOn(err)
				r.fillPart(at, 5+r.step, whole)
				r.runKernel("axpy", whole, at, r.at[weights], 1)
				r.failOn(r.st.Copy(backend.Copy{Src: backend.CopySide{Addr: uint64(at)}, Dst: backend.CopySide{Addr: uint64(r.at[moments])}, Width: pieceSize}))
				r.runKernel("axpy", whole, r.at[weights], r.at[moments], 3)
				r.failOn(r.st.FreeAsync(at))
				again, err := r.st.AllocAsync(backend.DefaultPool, r.size)
				r.failOn(err)
				if again != at {
					t.Fatalf("memory that was freed at %#x was allocated again at %#x, want the same address", uint64(at), uint64(again))
				}
				close(queued)
				r.fillPart(again, 100*r.rank, whole)
				r.runKernel("axpy", whole, r.at[acts], again, 1)
				r.failOn(r.st.Synchronize(r.Context()))
				r.failOn(r.st.FreeAsync(again))
			}
			for step := range 6 {
				for i := range ranks {
					ranks[i].takeTurn(step, turn)
					apart[i].takeTurn(step, turn)
					if !ranks[i].holdsSame(apart[i]) {
						t.Fatalf("step %d: rank %d has other bytes than with a device of its own", step, i)
					}
				}
			}
			// The first launch may only teach splicing which memory a kernel reads.
			if once := devices[0].Spliced().Once; once < 2*2*5 {
				t.Errorf("%d launches took another rank's result: %s", once, devices[0].Spliced().Why)
			}
		})
	}
}

// TestSpliceHashedBeside: other work of a space that writes to a block of common memory, while the block is read for a
// record, does not change the hash that the block has for the other spaces.
func TestSpliceHashedBeside(t *testing.T) {
	devices, ranks := newSpliceRanks(t, wholeBlocks, 2, 1, nil, noCheck)
	d := devices[0]
	update := func(r *spliceRank) { r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3) }
	for step := range 6 {
		for _, r := range ranks {
			r.takeTurn(step, update)
		}
	}
	c := commonBlock(ranks[0].space, ranks[0].at[weights], backend.Granule)
	if c == nil || c != commonBlock(ranks[1].space, ranks[1].at[weights], backend.Granule) {
		t.Fatal("the weights are not common memory")
	}
	st, err := ranks[1].cu.NewStream(backend.StreamConfig{NonBlocking: true})
	ranks[1].failOn(err)
	writes := 0
	d.splicer.hooks.onHashing = func() {
		writes++
		ranks[1].failOn(st.Fill(backend.Fill{Addr: ranks[1].at[weights], Value: 5, Element: 4, Width: whole}))
		ranks[1].failOn(st.Synchronize(t.Context()))
	}
	ranks[1].takeTurn(6, update)
	if writes == 0 {
		t.Fatal("no block of common memory was read")
	}
	p := make([]byte, backend.Granule)
	ranks[0].failOn(c.Read(p))
	want := d.splicer.hasher.hashTag(p)
	if got, err := c.Sum(d.splicer.hasher.key, func() ([16]byte, error) { return want, nil }); err != nil || got != want {
		t.Error("the block has the hash of what another space has written")
	}
}
