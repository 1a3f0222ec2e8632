// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"encoding/binary"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// The programs are ranks that are almost alike, written to find results that are taken wrongly. Programs that need
// processes, because a rank waits for another rank outside of the device, are in tests/device/testdata.

// spliceKernels are kernels that are hard to tell apart.
const spliceKernels = `
.version 7.0
.target sm_80
.address_size 64

// axpy adds v times the thread's element of g to that of p, as integers.
.visible .entry axpy(.param .u64 p, .param .u64 g, .param .u32 v)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [g];
	ld.param.u32 %r1, [v];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mad.lo.u32 %r2, %r3, %r4, %r2;
	mul.wide.u32 %rd3, %r2, 4;
	add.u64 %rd4, %rd1, %rd3;
	add.u64 %rd5, %rd2, %rd3;
	ld.global.u32 %r5, [%rd4];
	ld.global.u32 %r6, [%rd5];
	mad.lo.u32 %r5, %r6, %r1, %r5;
	st.global.u32 [%rd4], %r5;
	ret;
}

// halves adds the number at an address that is passed as two words, which are not aligned for an address.
.visible .entry halves(.param .u64 p, .param .u32 lo, .param .u32 hi, .param .u32 more, .param .u32 lo2, .param .u32 hi2)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [lo2];
	ld.param.u32 %r2, [hi2];
	mov.b64 %rd2, {%r1, %r2};
	ld.global.u32 %r3, [%rd2];
	ld.global.u32 %r4, [%rd1];
	add.u32 %r4, %r4, %r3;
	st.global.u32 [%rd1], %r4;
	ret;
}

// clock writes the time.
.visible .entry clock(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %clock;
	st.global.u32 [%rd1], %r1;
	ret;
}

// count adds to a word atomically, and writes the word's old value.
.visible .entry count(.param .u64 p, .param .u64 out)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [out];
	atom.global.add.u32 %r1, [%rd1], 1;
	mov.u32 %r2, %ctaid.x;
	mul.wide.u32 %rd3, %r2, 4;
	add.u64 %rd2, %rd2, %rd3;
	st.global.u32 [%rd2], %r1;
	ret;
}

// scale adds v times the thread's element of g to that of p, as numbers of 32 bits.
.visible .entry scale(.param .u64 p, .param .u64 g, .param .u32 v)
{
	.reg .f32 %f<4>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [g];
	ld.param.f32 %f1, [v];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mad.lo.u32 %r2, %r3, %r4, %r2;
	mul.wide.u32 %rd3, %r2, 4;
	add.u64 %rd4, %rd1, %rd3;
	add.u64 %rd5, %rd2, %rd3;
	ld.global.f32 %f2, [%rd4];
	ld.global.f32 %f3, [%rd5];
	fma.rn.f32 %f2, %f3, %f1, %f2;
	st.global.f32 [%rd4], %f2;
	ret;
}
`

// spliceProgram is the work of a rank in a step: all ranks do step, then all do then, then all do last.
type spliceProgram struct {
	name string
	// once is how many launches, in 6 steps of 3 ranks, take another rank's result. More than 0 is the rung "splice".
	// The first launch may only teach splicing which memory a kernel reads.
	once             onDevices
	steps            int   // 0: 6
	any              bool  // once depends on the work that runs at the same time
	bases            []int // of the ranks, if they begin at different addresses, as processes that see all GPUs
	step, then, last func(r *spliceRank)
}

// onDevices are counts of 3 ranks on a single device, and on two, of which the first has 2 ranks.
type onDevices [2]uint64

// board is where ranks meet outside of their devices: the bytes that each has given, by name and step.
type board struct {
	mu    sync.Mutex
	given map[string][][]byte
}

// givePart hands a part of a rank's memory to a collective.
func (r *spliceRank) givePart(name string, at backend.Addr, n uint64) {
	r.Helper()
	r.failOn(r.st.Exchange([]backend.Buffer{{Addr: at, Size: n}}, func(p [][]byte, done func(error)) {
		r.board.mu.Lock()
		defer r.board.mu.Unlock()
		r.board.given[name] = append(r.board.given[name], append([]byte(nil), p[0]...))
		done(nil)
	}))
}

// getResult writes the result of a collective, which make computes of all parts that were given.
func (r *spliceRank) getResult(name string, at backend.Addr, n uint64, make func(given [][]byte) []byte) {
	r.Helper()
	r.failOn(r.st.Exchange([]backend.Buffer{{Addr: at, Size: n, Write: true}}, func(p [][]byte, done func(error)) {
		r.board.mu.Lock()
		defer r.board.mu.Unlock()
		copy(p[0], make(r.board.given[name]))
		done(nil)
	}))
}

// sumParts returns the sum of all parts that were given, as integers. The race detector does not look at each word, which
// would take most of the time, and the parts are read with the board's lock.
//
//go:norace
func sumParts(given [][]byte) []byte {
	out := make([]byte, len(given[0]))
	for _, p := range given {
		for i := 0; i < len(p); i += 4 {
			binary.LittleEndian.PutUint32(out[i:], binary.LittleEndian.Uint32(out[i:])+binary.LittleEndian.Uint32(p[i:]))
		}
	}
	return out
}

// stepName is a name for a collective of this step.
func (r *spliceRank) stepName(what string) string { return what + string(rune('0'+r.step)) }

// printedBytes is memory of a rank's program, in which bytes are printed when they are written.
type printedBytes struct{ r *spliceRank }

// Read implements backend.HostMemory.
func (printedBytes) Read(uint64, []byte) error { return backend.InvalidValue }

// Write implements backend.HostMemory.
func (h printedBytes) Write(_ uint64, p []byte) error {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.printed.Write(p)
	return nil
}

// copyOut copies memory to the program, on a stream.
func (r *spliceRank) copyOut(st backend.Stream, at backend.Addr, n uint64) {
	r.Helper()
	r.failOn(st.Copy(backend.Copy{Src: backend.CopySide{Addr: uint64(at)}, Dst: backend.CopySide{Host: printedBytes{r}}, Width: n}))
}

// updateNode is an update of the weights as a node of a graph.
func (r *spliceRank) updateNode(rate int) backend.KernelNode {
	r.Helper()
	f, err := r.mods[1].Function("axpy")
	r.failOn(err)
	p := binary.LittleEndian.AppendUint64(nil, uint64(r.at[weights]))
	p = binary.LittleEndian.AppendUint64(p, uint64(r.at[grads]))
	p = binary.LittleEndian.AppendUint32(p, uint32(rate))
	return backend.KernelNode{Launch: backend.Launch{Function: f, Grid: backend.Dim{X: whole / 128, Y: 1, Z: 1}, Block: backend.Dim{X: 128, Y: 1, Z: 1}, Params: p}}
}

// updateByGraph runs a graph that is an update, after its parameters were set.
func (r *spliceRank) updateByGraph(rate int) {
	r.Helper()
	var g backend.Graph
	id, err := g.Add(r.updateNode(0))
	r.failOn(err)
	x, err := r.cu.Instantiate(&g)
	r.failOn(err)
	r.failOn(x.Set(id, r.updateNode(rate)))
	r.failOn(r.st.Graph(x))
	r.failOn(x.Set(id, r.updateNode(100))) // a run that was queued does not change
	r.failOn(r.st.Synchronize(r.Context()))
	r.failOn(x.Destroy())
}

// pinMemory has the program's memory at an address that the device can reach.
func (r *spliceRank) pinMemory() backend.Addr {
	r.Helper()
	if r.host == nil {
		var err error
		r.host, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		r.failOn(err)
		r.failOn(r.MapHost(backend.Addr(uintptr(unsafe.Pointer(&r.host[0]))), r.host)) //nolint:gosec // an address of the host
	}
	return backend.Addr(uintptr(unsafe.Pointer(&r.host[0]))) //nolint:gosec // an address of the host
}

// trainStep is the part of a step that differs by rank, and the sum of the gradients, which is the same for all.
func (r *spliceRank) trainStep() {
	r.fillPart(r.at[acts], 100*r.rank+r.step, whole)
	r.runKernel("axpy", whole, r.at[acts], r.at[weights], r.rank+1)
	r.fillPart(r.at[grads], 7+r.step, whole) // as a collective would
}

var splicePrograms = []spliceProgram{
	{name: "an update that is alike", once: onDevices{24, 12}, step: func(r *spliceRank) {
		r.trainStep()
		r.runKernel("axpy", whole, r.at[moments], r.at[grads], 3)
		r.runKernel("axpy", whole, r.at[weights], r.at[moments], r.step)
	}},
	{name: "1 a learning rate for each rank", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.trainStep()
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1+r.rank)
	}},
	{name: "2 a seed for each rank", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.trainStep()
		r.runKernel("add", whole, r.at[weights], 77*r.rank)
	}},
	{name: "3 the update follows a pointer in memory", once: onDevices{0, 0}, step: func(r *spliceRank) {
		to := r.at[acts] + 64
		r.fillPart(r.at[head], int(uint32(to)), 1)
		r.fillPart(r.at[head]+4, int(to>>32), 1)
		r.fillPart(r.at[acts], 10+r.rank, whole)
		r.runKernel("peek", 1, r.at[head], r.at[weights])
	}},
	{name: "3 the pointer leads to what is alike", once: onDevices{11, 5}, step: func(r *spliceRank) {
		to := r.at[acts] + 64
		r.fillPart(r.at[head], int(uint32(to)), 1)
		r.fillPart(r.at[head]+4, int(to>>32), 1)
		r.fillPart(r.at[acts], 10+r.step, whole)
		r.runKernel("peek", 1, r.at[head], r.at[weights])
	}},
	{name: "3 an address in halves", once: onDevices{0, 0}, step: func(r *spliceRank) {
		to := r.at[acts] + 64
		r.fillPart(r.at[acts], 10+r.rank, whole)
		r.runKernel("halves", 1, r.at[weights], 0, 0, 0, int(uint32(to)), int(to>>32))
	}},
	{name: "4 a variable of the module", once: onDevices{11, 5}, step: func(r *spliceRank) {
		r.runKernel("bump", 1, r.at[weights])
	}},
	{name: "4 a variable of the module that differs", once: onDevices{0, 0}, step: func(r *spliceRank) {
		if r.step == 0 {
			for range r.rank {
				r.runKernel("bump", 1, r.at[acts])
			}
			return
		}
		r.runKernel("bump", 1, r.at[weights])
	}},
	{name: "5 the clock in the update", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.runKernel("clock", 1, r.at[weights])
	}},
	{name: "6 printf in the update", once: onDevices{0, 0}, step: func(r *spliceRank) { r.runKernel("say", 1, r.step) }},
	{name: "6 allocation in the update", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.runKernel("grab", 1, r.at[head], 64, r.step)
		r.runKernel("drop", 1, r.at[head])
	}},
	{name: "7 a rank corrects the weights", once: onDevices{8, 3}, step: func(r *spliceRank) {
		if r.rank == 0 && r.step%2 == 1 {
			r.runKernel("add", 1, r.at[weights]+4, 1)
		}
		r.fillPart(r.at[grads], 7, whole)
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 1)
		if r.step%2 == 1 {
			r.fillPart(r.at[weights], 5, whole)
		}
	}},
	{name: "8 alike for long, then not", once: onDevices{8, 4}, step: func(r *spliceRank) {
		rate := 3
		if r.step > 3 {
			rate += r.rank
		}
		r.fillPart(r.at[grads], 7, whole)
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], rate)
	}},
	// The rank makes up for that a step later, and takes the other ranks' result then.
	{name: "10 an overflow skips the update of a rank", once: onDevices{11, 5}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7, whole)
		if r.rank == 1 && r.step == 3 {
			return
		}
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
	}},
	{name: "11 averages on the first rank only", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
		if r.rank == 0 {
			r.runKernel("axpy", whole, r.at[moments], r.at[weights], 3)
		}
	}},
	{name: "15 weights that are freed and allocated again", once: onDevices{12, 6}, step: func(r *spliceRank) {
		if r.step == 2 {
			r.failOn(r.cu.Free(r.at[weights]))
			at, err := r.cu.Alloc(r.size)
			r.failOn(err)
			r.at[weights] = at
		}
		r.runKernel("add", whole, r.at[weights], 3)
	}},
	{name: "18 sizes that differ by rank", once: onDevices{2, 1}, step: func(r *spliceRank) {
		if r.step == 1 {
			r.failOn(r.cu.Free(r.at[weights]))
			at, err := r.cu.Alloc(r.size + uint64(512*r.rank))
			r.failOn(err)
			r.at[weights] = at
		}
		r.runKernel("add", 8, r.at[weights], 3)
	}},
	{name: "21 atomics", once: onDevices{12, 6}, step: func(r *spliceRank) { r.runKernel("count", 512, r.at[weights], r.at[moments]) }},
	{name: "the end of a piece", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.fillPart(r.at[weights]+pieceSize-4, r.rank, 1)
		r.runKernel("add", whole, r.at[weights], 3)
	}},
	{name: "27 scratch that the next step reads", once: onDevices{18, 9}, step: func(r *spliceRank) {
		r.runKernel("axpy", whole, r.at[weights], r.at[acts], 3)
		r.runKernel("add", whole, r.at[acts], r.rank*(r.step%2))
		r.fillPart(r.at[acts], 3, whole)
	}},
	// A single allocation has parameters, gradients and activations, as PyTorch's allocator puts them. The activations,
	// of which a part lies in each block, differ. The 17th step learns which parts a kernel accesses.
	{name: "parts of an allocation", steps: 24, once: onDevices{92, 14}, step: func(r *spliceRank) {
		const tensor = 1024 // bytes
		at := r.at[weights]
		r.fillPart(at+2*tensor, 100*r.rank+r.step, tensor/4)
		r.fillPart(at+pieceSize-tensor, 100*r.rank+r.step, tensor/4)
		r.runKernel("axpy", tensor/4, at+2*tensor, at+pieceSize-tensor, r.rank+1)
		r.fillPart(at+tensor, 7+r.step, tensor/4)
		r.runKernel("axpy", tensor/4, at+3*tensor, at+tensor, 3)
		r.runKernel("axpy", tensor/4, at, at+3*tensor, r.step)
	}},
	// The third rank's gradients come to lie beside those of the other ranks: a part that was not accessed before.
	{name: "parts that change", steps: 24, once: onDevices{90, 13}, step: func(r *spliceRank) {
		const tensor = 1024 // bytes
		at := r.at[weights]
		r.fillPart(at+2*tensor, 100*r.rank+r.step, tensor/4)
		to := at + 4*tensor
		if r.step > 19 {
			to += tensor
		}
		r.fillPart(r.at[head], int(uint32(to)), 1)
		r.fillPart(r.at[head]+4, int(to>>32), 1)
		r.fillPart(to, 9*r.step, 1)
		r.runKernel("peek", 1, r.at[head], at)
		r.runKernel("add", 8, at, 1)
	}},
	{name: "an address in halves, into a part that differs", steps: 24, once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.fillPart(r.at[acts], r.rank, 8)
		to := r.at[acts]
		if r.step > 19 {
			to += 2048
			r.fillPart(to, 10+r.rank, 8)
		}
		r.fillPart(r.at[weights]+2048, r.rank, 8)
		r.runKernel("halves", 1, r.at[weights], 0, 0, 0, int(uint32(to)), int(to>>32))
	}},
	{name: "another order of the same operations", once: onDevices{2, 2}, step: func(r *spliceRank) {
		for i := range 3 {
			n := (i + r.rank) % 3
			r.fillPart(r.at[grads]+backend.Addr(4*n), r.step+n, 1)
			r.runKernel("axpy", whole, r.at[weights], r.at[grads], n+1)
		}
	}},
	{name: "two streams at once", any: true, step: func(r *spliceRank) {
		// The kernel on the second stream waits for the word that the first stream writes.
		st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.failOn(err)
		to := r.at[weights]
		r.fillPart(r.at[head], 0, 1)
		r.fillPart(r.at[head]+8, int(uint32(to)), 1)
		r.fillPart(r.at[head]+12, int(to>>32), 1)
		r.fillPart(r.at[weights], 0, 1)
		r.failOn(r.st.Synchronize(r.Context()))
		r.runOn(st, "spin", 1, r.at[head])
		r.runOn(st, "peek", 1, r.at[head]+8, r.at[moments])
		for p := st.Progress(); p.Done == 0 && !p.Begun; p = st.Progress() {
			runtime.Gosched()
		}
		for range 20 {
			r.runKernel("axpy", whole, r.at[acts], r.at[grads], 1)
		}
		r.fillPart(r.at[weights], r.rank+1, 1)
		r.fillPart(r.at[head], 1, 1)
		r.failOn(st.Synchronize(r.Context()))
		r.failOn(st.Destroy())
	}},
	{name: "9 a norm that the program reads, and clips by", once: onDevices{24, 12}, step: func(r *spliceRank) {
		r.trainStep()
		r.runKernel("axpy", whole, r.at[moments], r.at[grads], 3)
		r.copyOut(r.st, r.at[moments], 4)
		r.failOn(r.st.Synchronize(r.Context()))
		said := r.printed.String()
		r.runKernel("axpy", whole, r.at[weights], r.at[moments], int(said[len(said)-4]))
	}},
	{name: "12 weights that are read on another stream meanwhile", once: onDevices{12, 6}, step: func(r *spliceRank) {
		st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.failOn(err)
		before, err := r.cu.NewEvent(backend.EventConfig{NoTiming: true})
		r.failOn(err)
		after, err := r.cu.NewEvent(backend.EventConfig{NoTiming: true})
		r.failOn(err)
		r.failOn(r.st.Record(before))
		r.failOn(st.Wait(before))
		r.copyOut(st, r.at[weights], pieceSize)
		r.failOn(st.Record(after))
		r.trainStep()
		r.failOn(r.st.Wait(after))
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(st.Destroy())
	}},
	{name: "13 a sum in place, and one into other memory", once: onDevices{24, 12}, step: func(r *spliceRank) {
		r.trainStep()
		r.fillPart(r.at[grads], 5+r.rank, whole)
		r.givePart(r.stepName("in place"), r.at[grads], pieceSize)
		r.givePart(r.stepName("elsewhere"), r.at[acts], pieceSize)
	}, then: func(r *spliceRank) {
		r.getResult(r.stepName("in place"), r.at[grads], pieceSize, sumParts)
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
		r.getResult(r.stepName("elsewhere"), r.at[head], pieceSize, sumParts)
		r.runKernel("axpy", whole, r.at[moments], r.at[head], 3)
	}},
	{name: "14 the step is a graph, whose parameters are set", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7, whole)
		r.updateByGraph(r.step)
	}},
	{name: "14 the parameters differ", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7, whole)
		r.updateByGraph(r.step + 10*r.rank)
	}},
	{name: "14 a graph that sums the gradients, and updates", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 5+r.rank, whole)
		r.givePart(r.stepName("gradients"), r.at[grads], pieceSize)
	}, then: func(r *spliceRank) {
		var g backend.Graph
		collective, err := g.Add(backend.ExchangeNode{
			Buffers: []backend.Buffer{{Addr: r.at[grads], Size: pieceSize, Write: true}},
			Begin: func(p [][]byte, done func(error)) {
				r.board.mu.Lock()
				defer r.board.mu.Unlock()
				copy(p[0], sumParts(r.board.given[r.stepName("gradients")]))
				done(nil)
			},
		})
		r.failOn(err)
		_, err = g.Add(r.updateNode(3), collective)
		r.failOn(err)
		x, err := r.cu.Instantiate(&g)
		r.failOn(err)
		r.failOn(r.st.Graph(x))
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(x.Destroy())
	}},
	{name: "14 branches of a graph, which may run at the same time", any: true, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7, whole)
		r.fillPart(r.at[acts], r.rank, whole)
		f, err := r.mods[0].Function("add")
		r.failOn(err)
		var g backend.Graph
		begin, err := g.Add(backend.EmptyNode{})
		r.failOn(err)
		_, err = g.Add(r.updateNode(3), begin)
		r.failOn(err)
		for _, at := range []backend.Addr{r.at[acts], r.at[moments], r.at[head]} {
			p := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(at)), 3)
			_, err = g.Add(backend.KernelNode{Launch: backend.Launch{Function: f, Grid: backend.Dim{X: 8, Y: 1, Z: 1}, Block: backend.Dim{X: 128, Y: 1, Z: 1}, Params: p}}, begin)
			r.failOn(err)
		}
		x, err := r.cu.Instantiate(&g)
		r.failOn(err)
		r.failOn(r.st.Graph(x))
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(x.Destroy())
	}},
	{name: "16 the update reads a peer's memory", bases: []int{0, 1, 2}, once: onDevices{0, 0}, step: func(r *spliceRank) {
		next := r.peers[(r.rank+1)%len(r.peers)]
		if r.step == 0 {
			r.failOn(r.AllowPeer(next.space))
		}
		r.fillPart(r.at[grads], 10*r.rank+r.step, whole)
		r.runKernel("axpy", whole, r.at[weights], next.at[grads], 3)
	}},
	{name: "17 a counter in the program's memory", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.runKernel("count", 512, r.pinMemory(), r.at[moments])
		r.copyOut(r.st, r.pinMemory(), 4)
		r.runKernel("axpy", whole, r.at[weights], r.at[moments], 3)
	}},
	// The address is in the code, and differs by rank.
	{name: "18 a pointer to a variable in the program's memory", once: onDevices{0, 0}, step: func(r *spliceRank) {
		managed := backend.ManagedVariables{Offered: true, At: r.pinMemory(), Kept: true}
		binary.LittleEndian.PutUint32(r.host, uint32(100*r.rank+r.step))
		m, _, err := r.cu.Load([]byte(managedCode), backend.LoadConfig{Managed: managed})
		r.failOn(err)
		f, err := m.Function("where")
		r.failOn(err)
		one := backend.Dim{X: 1, Y: 1, Z: 1}
		r.failOn(r.st.Launch(backend.Launch{Function: f, Grid: one, Block: one, Params: binary.LittleEndian.AppendUint64(nil, uint64(r.at[head]))}))
		r.runKernel("peek", 1, r.at[head], r.at[weights])
		r.fillPart(r.at[head], 0, 2) // the address is another in each run
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(m.Unload())
	}},
	{name: "19 threads of a process, each with a GPU of its own", bases: []int{0, 1, 2}, once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.trainStep()
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
	}},
	{name: "20 parts of a tensor: nothing is alike", once: onDevices{0, 0}, step: func(r *spliceRank) {
		if r.step == 0 {
			r.fillPart(r.at[weights], 1000*r.rank, whole)
		}
		r.runKernel("axpy", whole, r.at[acts], r.at[weights], 2)
		r.givePart(r.stepName("parts"), r.at[acts], pieceSize)
	}, then: func(r *spliceRank) {
		r.getResult(r.stepName("parts"), r.at[acts], pieceSize, sumParts)
		r.runKernel("axpy", whole, r.at[weights], r.at[acts], 1)
	}},
	{name: "22 numbers that are none, and tiny ones", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 0x7fc12345, 64)
		r.fillPart(r.at[grads]+256, 0x00000007, 64)
		r.fillPart(r.at[grads]+512, 0xff812345-1<<32, 64)
		r.runKernel("scale", whole, r.at[weights], r.at[grads], 0x3f000000)
	}},
	{name: "22 a zero with another sign", once: onDevices{0, 0}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], (r.rank<<31)-(r.rank>>1)<<32, 64)
		r.fillPart(r.at[grads]+256, 0x7fc00000+r.rank, 64)
		r.fillPart(r.at[weights], -(1 << 31), 64)
		r.runKernel("scale", whole, r.at[weights], r.at[grads], 0x3f800000)
	}},
	{name: "23 an update of which the blocks may wait for each other", once: onDevices{0, 0}, step: func(r *spliceRank) {
		f, err := r.mods[0].Function("add")
		r.failOn(err)
		p := binary.LittleEndian.AppendUint64(nil, uint64(r.at[weights]))
		p = binary.LittleEndian.AppendUint32(p, 3)
		l := backend.Launch{Function: f, Grid: backend.Dim{X: 8, Y: 1, Z: 1}, Block: backend.Dim{X: 128, Y: 1, Z: 1}, Params: p, Cooperative: true}
		r.failOn(r.st.Launch(l))
	}},
	// The rank was the first to make the fifth update. The other ranks take its result after its end.
	{name: "24 a rank ends, and others take what it has left", once: onDevices{11, 4}, step: func(r *spliceRank) {
		if r.gone {
			return
		}
		r.trainStep()
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
		if r.rank == 1 && r.step == 4 {
			r.failOn(r.Drain(r.Context()))
			r.gone = true
		}
	}},
	{name: "25 statistics of a batch, of all ranks", once: onDevices{24, 12}, step: func(r *spliceRank) {
		r.fillPart(r.at[acts], 10*r.rank+r.step, whole)
		r.runKernel("axpy", whole, r.at[acts], r.at[weights], r.rank+1)
		r.givePart(r.stepName("statistics"), r.at[acts], 512)
	}, then: func(r *spliceRank) {
		r.getResult(r.stepName("statistics"), r.at[head], 512, sumParts)
		r.runKernel("axpy", 128, r.at[moments], r.at[head], 9) // the running ranks, alike
		r.runKernel("axpy", 128, r.at[acts], r.at[head], 1)    // the batch's, of each rank
		r.givePart(r.stepName("gradients"), r.at[acts], pieceSize)
	}, last: func(r *spliceRank) {
		r.getResult(r.stepName("gradients"), r.at[grads], pieceSize, sumParts)
		r.runKernel("axpy", whole, r.at[weights], r.at[grads], 3)
	}},
	// Each rank updates a part of its own. Memory made of the whole is alike.
	{name: "28 each rank has the state of a part, ZeRO-1", once: onDevices{12, 6}, step: func(r *spliceRank) {
		r.fillPart(r.at[grads], 7*r.rank+r.step, whole)
		r.givePart(r.stepName("scatter"), r.at[grads], pieceSize)
	}, then: func(r *spliceRank) {
		own := backend.Addr(r.rank * 4096)
		r.getResult(r.stepName("scatter"), r.at[grads]+own, 4096, func(given [][]byte) []byte { return sumParts(given)[own : own+4096] })
		r.runKernel("axpy", 1024, r.at[moments]+own, r.at[grads]+own, 2)
		r.runKernel("axpy", 1024, r.at[weights]+own, r.at[moments]+own, 1)
		r.givePart(r.stepName("parts")+string(rune('a'+r.rank)), r.at[weights]+own, 4096)
	}, last: func(r *spliceRank) {
		for i := range r.peers {
			r.getResult(r.stepName("parts")+string(rune('a'+i)), r.at[weights]+backend.Addr(i*4096), 4096, func(given [][]byte) []byte { return given[0] })
		}
		r.runKernel("axpy", whole, r.at[acts], r.at[weights], 1)
	}},
	{name: "28 each rank has a part of the weights, ZeRO-3", once: onDevices{0, 0}, step: func(r *spliceRank) {
		if r.step == 0 {
			r.fillPart(r.at[weights], 500+r.rank, 1024)
		}
		r.givePart(r.stepName("parts")+string(rune('a'+r.rank)), r.at[weights], 4096)
	}, then: func(r *spliceRank) {
		at, err := r.cu.Alloc(r.size)
		r.failOn(err)
		for i := range r.peers {
			r.getResult(r.stepName("parts")+string(rune('a'+i)), at+backend.Addr(i*4096), 4096, func(given [][]byte) []byte { return given[0] })
		}
		r.fillPart(r.at[acts], 10*r.rank, whole)
		r.runKernel("axpy", 3072, r.at[acts], at, 1+r.rank)
		r.failOn(r.st.Synchronize(r.Context()))
		r.failOn(r.cu.Free(at))
		r.givePart(r.stepName("gradients"), r.at[acts], pieceSize)
	}, last: func(r *spliceRank) {
		own := r.rank * 4096
		r.getResult(r.stepName("gradients"), r.at[grads], 4096, func(given [][]byte) []byte { return sumParts(given)[own : own+4096] })
		r.runKernel("axpy", 1024, r.at[weights], r.at[grads], 3)
	}},
	{name: "29 memory that is mapped twice", once: onDevices{0, 0}, step: func(r *spliceRank) {
		if r.step == 0 {
			base, err := r.Reserve(2*backend.Granule, 0, 0)
			r.failOn(err)
			id, err := r.NewMemory(backend.Granule)
			r.failOn(err)
			for i := range backend.Addr(2) {
				r.failOn(r.MapMemory(base+i*backend.Granule, backend.Granule, 0, id))
			}
			r.failOn(r.SetAccess(base, 2*backend.Granule, true))
			r.mapped = base
		}
		r.fillPart(r.mapped, r.step, whole)
		r.runKernel("add", 8, r.mapped+backend.Granule, r.rank*(r.step%2)) // the same memory
		r.runKernel("axpy", whole, r.at[weights], r.mapped, 3)
	}},
}
