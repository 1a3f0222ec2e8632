// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

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

// halves adds what an address in two words points to, which are not aligned for an address.
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

// count adds to a word atomically and writes what was there.
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
`

// The pieces of a rank's memory, each an allocation of its own.
const (
	weights = iota
	moments
	grads
	acts
	head
	pieces
)

const pieceSize = 16 << 10

// spliceRank is a rank of a program.
type spliceRank struct {
	*testing.T
	*space
	cu         backend.Context
	st         backend.Stream
	at         [pieces]backend.Addr
	rank, step int
	mods       [2]backend.Module
	printed    strings.Builder
	mu         sync.Mutex
}

func (r *spliceRank) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// run launches a kernel with so many threads.
func (r *spliceRank) run(name string, n uint32, params ...any) {
	r.Helper()
	r.runOn(r.st, name, n, params...)
}

func (r *spliceRank) runOn(st backend.Stream, name string, n uint32, params ...any) {
	r.Helper()
	var b []byte
	for _, p := range params {
		switch p := p.(type) {
		case backend.Addr:
			b = binary.LittleEndian.AppendUint64(b, uint64(p))
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(p))
		}
	}
	f, err := r.mods[0].Function(name)
	if err != nil {
		f, err = r.mods[1].Function(name)
	}
	r.check(err)
	r.check(st.Launch(backend.Launch{Function: f, Grid: backend.Dim{X: (n + 127) / 128, Y: 1, Z: 1}, Block: backend.Dim{X: min(n, 128), Y: 1, Z: 1}, Params: b}))
}

// set fills a part of a piece.
func (r *spliceRank) set(at backend.Addr, v, words int) {
	r.Helper()
	r.check(r.st.Fill(backend.Fill{Addr: at, Value: uint32(v), Element: 4, Width: uint64(words)}))
}

// whole is how many words a piece has.
const whole = pieceSize / 4

// spliceProgram is what each rank does in a step. once is how many launches, in 6 steps of 3 ranks, take another's
// result; the first step is for learning what kernels read.
type spliceProgram struct {
	name string
	once uint64
	step func(r *spliceRank)
}

// train is the part of a step that differs by rank, and the sum of the gradients, which is the same for all.
func (r *spliceRank) train() {
	r.set(r.at[acts], 100*r.rank+r.step, whole)
	r.run("axpy", whole, r.at[acts], r.at[weights], r.rank+1)
	r.set(r.at[grads], 7+r.step, whole) // as a collective would
}

var splicePrograms = []spliceProgram{
	{"an update that is alike", 24, func(r *spliceRank) {
		r.train()
		r.run("axpy", whole, r.at[moments], r.at[grads], 3)
		r.run("axpy", whole, r.at[weights], r.at[moments], r.step)
	}},
	{"1 a learning rate for each rank", 0, func(r *spliceRank) {
		r.train()
		r.run("axpy", whole, r.at[weights], r.at[grads], 1+r.rank)
	}},
	{"2 a seed for each rank", 0, func(r *spliceRank) {
		r.train()
		r.run("add", whole, r.at[weights], 77*r.rank)
	}},
	{"3 the update follows a pointer in memory", 0, func(r *spliceRank) {
		to := r.at[acts] + 64
		r.set(r.at[head], int(uint32(to)), 1)
		r.set(r.at[head]+4, int(to>>32), 1)
		r.set(r.at[acts], 10+r.rank, whole)
		r.run("peek", 1, r.at[head], r.at[weights])
	}},
	{"3 the pointer leads to what is alike", 11, func(r *spliceRank) {
		to := r.at[acts] + 64
		r.set(r.at[head], int(uint32(to)), 1)
		r.set(r.at[head]+4, int(to>>32), 1)
		r.set(r.at[acts], 10+r.step, whole)
		r.run("peek", 1, r.at[head], r.at[weights])
	}},
	{"3 an address in halves", 0, func(r *spliceRank) {
		to := r.at[acts] + 64
		r.set(r.at[acts], 10+r.rank, whole)
		r.run("halves", 1, r.at[weights], 0, 0, 0, int(uint32(to)), int(to>>32))
	}},
	{"4 a variable of the module", 11, func(r *spliceRank) {
		r.run("bump", 1, r.at[weights])
	}},
	{"4 a variable of the module that differs", 0, func(r *spliceRank) {
		if r.step == 0 {
			for range r.rank {
				r.run("bump", 1, r.at[acts])
			}
			return
		}
		r.run("bump", 1, r.at[weights])
	}},
	{"5 the clock in the update", 12, func(r *spliceRank) {
		r.run("clock", 1, r.at[weights])
	}},
	{"6 printf in the update", 0, func(r *spliceRank) { r.run("say", 1, r.step) }},
	{"6 allocation in the update", 0, func(r *spliceRank) {
		r.run("grab", 1, r.at[head], 64, r.step)
		r.run("drop", 1, r.at[head])
	}},
	{"7 a rank corrects the weights", 8, func(r *spliceRank) {
		if r.rank == 0 && r.step%2 == 1 {
			r.run("add", 1, r.at[weights]+4, 1)
		}
		r.set(r.at[grads], 7, whole)
		r.run("axpy", whole, r.at[weights], r.at[grads], 1)
		if r.step%2 == 1 {
			r.set(r.at[weights], 5, whole)
		}
	}},
	{"8 alike for long, then not", 8, func(r *spliceRank) {
		rate := 3
		if r.step > 3 {
			rate += r.rank
		}
		r.set(r.at[grads], 7, whole)
		r.run("axpy", whole, r.at[weights], r.at[grads], rate)
	}},
	// The rank makes up for it a step later, and takes what the others wrote then.
	{"10 an overflow skips the update of a rank", 11, func(r *spliceRank) {
		r.set(r.at[grads], 7, whole)
		if r.rank == 1 && r.step == 3 {
			return
		}
		r.run("axpy", whole, r.at[weights], r.at[grads], 3)
	}},
	{"11 averages on the first rank only", 12, func(r *spliceRank) {
		r.run("axpy", whole, r.at[weights], r.at[grads], 3)
		if r.rank == 0 {
			r.run("axpy", whole, r.at[moments], r.at[weights], 3)
		}
	}},
	{"15 weights that are freed and allocated again", 12, func(r *spliceRank) {
		if r.step == 2 {
			r.check(r.cu.Free(r.at[weights]))
			at, err := r.cu.Alloc(pieceSize)
			r.check(err)
			r.at[weights] = at
		}
		r.run("add", whole, r.at[weights], 3)
	}},
	{"18 sizes that differ by rank", 2, func(r *spliceRank) {
		if r.step == 1 {
			r.check(r.cu.Free(r.at[weights]))
			at, err := r.cu.Alloc(uint64(pieceSize + 512*r.rank))
			r.check(err)
			r.at[weights] = at
		}
		r.run("add", 8, r.at[weights], 3)
	}},
	{"21 atomics", 12, func(r *spliceRank) { r.run("count", 512, r.at[weights], r.at[moments]) }},
	{"the end of a piece", 0, func(r *spliceRank) {
		r.set(r.at[weights]+pieceSize-4, r.rank, 1)
		r.run("add", whole, r.at[weights], 3)
	}},
	{"27 scratch that the next step reads", 18, func(r *spliceRank) {
		r.run("axpy", whole, r.at[weights], r.at[acts], 3)
		r.run("add", whole, r.at[acts], r.rank*(r.step%2))
		r.set(r.at[acts], 3, whole)
	}},
	{"another order of the same operations", 2, func(r *spliceRank) {
		for i := range 3 {
			n := (i + r.rank) % 3
			r.set(r.at[grads]+backend.Addr(4*n), r.step+n, 1)
			r.run("axpy", whole, r.at[weights], r.at[grads], n+1)
		}
	}},
	{"two streams at once", 0, func(r *spliceRank) {
		// The kernel on the second stream waits for what the first stream writes.
		st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.check(err)
		to := r.at[weights]
		r.set(r.at[head], 0, 1)
		r.set(r.at[head]+8, int(uint32(to)), 1)
		r.set(r.at[head]+12, int(to>>32), 1)
		r.set(r.at[weights], 0, 1)
		r.check(r.st.Synchronize(r.Context()))
		r.runOn(st, "spin", 1, r.at[head])
		r.runOn(st, "peek", 1, r.at[head]+8, r.at[moments])
		for p := st.Progress(); p.Done == 0 && !p.Begun; p = st.Progress() {
			runtime.Gosched()
		}
		for range 20 {
			r.run("axpy", whole, r.at[acts], r.at[grads], 1)
		}
		r.set(r.at[weights], r.rank+1, 1)
		r.set(r.at[head], 1, 1)
		r.check(st.Synchronize(r.Context()))
		r.check(st.Destroy())
	}},
}

// newSpliceRanks makes ranks, on a device or each on its own.
func newSpliceRanks(t *testing.T, n int, together bool, twist spliceTwist) (*device, []*spliceRank) {
	cfg := Config{Splice: together}
	for range map[bool]int{true: 1, false: n}[together] {
		cfg.Memory = append(cfg.Memory, 32<<20)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	d := b.Devices()[0].(*device)
	if together {
		d.splicer.twist = twist
		d.splicer.results = splice.NewResults(4<<20, 1<<30) // the kernels here are small
	}
	var out []*spliceRank
	for i := range n {
		r := &spliceRank{T: t, rank: i}
		s, err := b.Devices()[i%len(cfg.Memory)].NewSpace(backend.SpaceConfig{Output: func(_ int, text []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.printed.Write(text)
		}})
		r.check(err)
		r.space = s.(*space)
		r.cu, err = s.NewContext(0)
		r.check(err)
		r.st, err = r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.check(err)
		for k := range r.at {
			r.at[k], err = r.cu.Alloc(pieceSize)
			r.check(err)
		}
		for k, text := range []string{backendtest.Kernels, spliceKernels} {
			r.mods[k], _, err = r.cu.Load([]byte(text), backend.LoadConfig{})
			r.check(err)
		}
		out = append(out, r)
	}
	return d, out
}

// turn has a rank do a step, with the device to itself.
func (r *spliceRank) turn(step int, do func(*spliceRank)) {
	r.Helper()
	r.check(r.Map())
	r.step = step
	do(r)
	r.check(r.Drain(r.Context()))
	r.check(r.Unmap())
}

// contents is all that a rank holds and has printed.
func (r *spliceRank) contents() []byte {
	r.Helper()
	out := []byte(r.printed.String())
	for _, region := range r.State().Regions() {
		for at := uint64(0); at < region.Size; at += backend.Granule {
			p := make([]byte, min(backend.Granule, region.Size-at))
			_, err := r.ReadBlock(backend.BlockID{Base: region.Base + backend.Addr(at)}, p)
			r.check(err)
			out = append(out, p...)
		}
	}
	return out
}

// runSplice runs a program on one device and on one for each rank, and returns what is wrong, or "", and how many
// launches took another rank's result.
func runSplice(t *testing.T, p *spliceProgram, ranks, steps int, twist spliceTwist) (wrong string, s backend.Spliced) {
	d, shared := newSpliceRanks(t, ranks, true, twist)
	_, apart := newSpliceRanks(t, ranks, false, noTwist)
	for step := range steps {
		for i := range ranks {
			i = (i + step) % ranks // each rank is the first at times
			shared[i].turn(step, p.step)
			apart[i].turn(step, p.step)
		}
		for i := range ranks {
			if !bytes.Equal(shared[i].contents(), apart[i].contents()) {
				return fmt.Sprintf("step %d: rank %d holds other bytes than on a device of its own", step, i), s
			}
		}
	}
	return "", d.Spliced()
}

// TestSplicePrograms: ranks of which kernels run once hold the bytes of ranks with devices of their own, and kernels run
// once where that can be known.
func TestSplicePrograms(t *testing.T) {
	for _, p := range splicePrograms {
		t.Run(p.name, func(t *testing.T) {
			wrong, s := runSplice(t, &p, 3, 6, noTwist)
			if wrong != "" {
				t.Fatal(wrong)
			}
			if s.Once != p.once {
				t.Errorf("%d launches took another rank's result, want %d: %+v", s.Once, p.once, s)
			}
		})
	}
}

// TestSpliceMistakes: the programs find each of the deliberate mistakes.
func TestSpliceMistakes(t *testing.T) {
	for twist := noTwist + 1; twist < lastTwist; twist++ {
		found := false
		for _, p := range splicePrograms {
			if wrong, _ := runSplice(t, &p, 3, 6, twist); wrong != "" {
				t.Logf("mistake %d: %s: %s", twist, p.name, wrong)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("mistake %d: no program found it", twist)
		}
	}
}

// TestSpliceRandom: the same for random programs, of which ranks do most alike.
func TestSpliceRandom(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	once := uint64(0)
	for seed := range seeds {
		p := spliceProgram{name: fmt.Sprint("seed ", seed), step: func(r *spliceRank) {
			// All ranks draw the same numbers, and a rank of its own now and then.
			same := rand.New(rand.NewPCG(seed, uint64(r.step)))
			own := rand.New(rand.NewPCG(seed, uint64(100+10*r.step+r.rank)))
			for range 8 {
				from, to, v := same.IntN(pieces), same.IntN(pieces), same.IntN(5)
				kind := same.IntN(6)
				if own.IntN(12) == 0 {
					from, to, v, kind = own.IntN(pieces), own.IntN(pieces), own.IntN(5), own.IntN(6)
				}
				switch kind {
				case 0:
					r.set(r.at[to]+backend.Addr(4*v), v, 1)
				case 1:
					r.set(r.at[to], v, whole)
				case 2:
					r.run("bump", 1, r.at[to])
				case 3:
					r.run("count", 128, r.at[to], r.at[to])
				case 4:
					r.run("add", whole, r.at[to], v)
				default:
					r.run("axpy", whole, r.at[to], r.at[from], v)
				}
			}
		}}
		wrong, s := runSplice(t, &p, 3, 5, noTwist)
		if wrong != "" {
			t.Fatalf("%s: %s", p.name, wrong)
		}
		once += s.Once
	}
	if once == 0 {
		t.Error("no launch took another rank's result")
	}
	t.Logf("%d launches took another rank's result", once)
}
