// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/splice"
)

// The pieces of a rank's memory, each an allocation of its own.
const (
	weights = iota
	moments
	grads
	acts
	head
	pieces
)

const pieceSize = 16 << 10 // that programs use

// spliceWay is the size of a piece's allocation, of the device's memory, and of the results that may be kept.
type spliceWay struct {
	name                 string
	size, memory, budget uint64
}

// In a way with whole blocks, results become common memory.
var (
	smallPieces = spliceWay{"pieces of a block", pieceSize, 32 << 20, 4 << 20}
	wholeBlocks = spliceWay{"whole blocks", backend.Granule, 64 << 20, 64 << 20}
	littleRoom  = spliceWay{"room for a rank and a half", backend.Granule, 18 << 20, 64 << 20}
)

// spliceRank is a rank of a program.
type spliceRank struct {
	*testing.T
	*space
	size       uint64 // of a piece's allocation
	cu         backend.Context
	st         backend.Stream
	at         [pieces]backend.Addr
	rank, step int
	mods       [2]backend.Module
	printed    strings.Builder
	mu         sync.Mutex
	board      *board
	peers      []*spliceRank // all ranks, in order
	host       []byte        // memory of the program, if the rank has asked for it
	mapped     backend.Addr
	gone       bool // the rank ends with this turn, or has ended
	closed     bool
}

func (r *spliceRank) failOn(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// runKernel launches a kernel with n threads.
func (r *spliceRank) runKernel(name string, n uint32, params ...any) {
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
	r.failOn(err)
	r.failOn(st.Launch(backend.Launch{Function: f, Grid: backend.Dim{X: (n + 127) / 128, Y: 1, Z: 1}, Block: backend.Dim{X: min(n, 128), Y: 1, Z: 1}, Params: b}))
}

// fillPart fills a part of a piece.
func (r *spliceRank) fillPart(at backend.Addr, v, words int) {
	r.Helper()
	r.failOn(r.st.Fill(backend.Fill{Addr: at, Value: uint32(v), Element: 4, Width: uint64(words)}))
}

// whole is how many words a piece has.
const whole = pieceSize / 4

// newSpliceRanks makes n ranks, on a number of devices.
func newSpliceRanks(t *testing.T, way spliceWay, n, devices int, bases []int, omitted spliceCheck) (all []*device, ranks []*spliceRank) {
	cfg := Config{Splice: devices < n}
	for range devices {
		cfg.Memory = append(cfg.Memory, way.memory)
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for _, x := range b.Devices() {
		d := x.(*device)
		if d.splicer != nil {
			d.splicer.hooks = &spliceHooks{omitted: omitted}
			d.splicer.results = splice.NewResults(way.budget, 1<<30) // the kernels here are small
		}
		all = append(all, d)
	}
	meet := &board{given: map[string][][]byte{}}
	for i := range n {
		r := &spliceRank{T: t, rank: i, board: meet, size: way.size}
		cfg := backend.SpaceConfig{Output: func(_ int, text []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.printed.Write(text)
		}}
		if bases != nil {
			cfg.Base = backend.DefaultBase + backend.Addr(bases[i])<<40
		}
		s, err := all[i*devices/n].NewSpace(cfg)
		r.failOn(err)
		r.space = s.(*space)
		r.reclaimer.hooks = &spliceHooks{omitted: omitted, unnoticed: omitted.unnoticedWriters()}
		r.cu, err = s.NewContext(0)
		r.failOn(err)
		r.st, err = r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.failOn(err)
		for k := range r.at {
			r.at[k], err = r.cu.Alloc(r.size)
			r.failOn(err)
		}
		for k, text := range []string{backendtest.Kernels, spliceKernels} {
			r.mods[k], _, err = r.cu.Load([]byte(text), backend.LoadConfig{})
			r.failOn(err)
		}
		ranks = append(ranks, r)
	}
	for _, r := range ranks {
		r.peers = ranks
	}
	return all, ranks
}

// takeTurn has a rank do a part of a step, with the device to itself.
func (r *spliceRank) takeTurn(step int, do func(*spliceRank)) {
	r.Helper()
	if r.closed || do == nil {
		return
	}
	r.failOn(r.Map())
	r.step = step
	do(r)
	if r.gone {
		r.closed = true
		r.failOn(r.Close())
		return
	}
	r.failOn(r.Drain(r.Context()))
	r.failOn(r.Unmap())
}

// listBlocks returns the ids and the sizes of the blocks that a rank holds.
func (r *spliceRank) listBlocks() (ids []backend.BlockID, sizes []uint64) {
	for _, region := range r.State().Regions() {
		for at := uint64(0); at < region.Size; at += backend.Granule {
			id := backend.BlockID{Base: region.Base + backend.Addr(at)}
			if region.Memory != 0 {
				id = backend.BlockID{Memory: region.Memory, Offset: at}
			}
			ids, sizes = append(ids, id), append(sizes, min(backend.Granule, region.Size-at))
		}
	}
	return ids, sizes
}

// readBlock reads a block into p, and zeros where the program has written nothing.
func (r *spliceRank) readBlock(id backend.BlockID, p []byte) {
	r.Helper()
	written, err := r.ReadBlock(id, p)
	r.failOn(err)
	if !written {
		clear(p)
	}
}

// readContents returns the bytes that a rank holds.
func (r *spliceRank) readContents() []byte {
	r.Helper()
	var out []byte
	ids, sizes := r.listBlocks()
	for i, id := range ids {
		p := make([]byte, sizes[i])
		r.readBlock(id, p)
		out = append(out, p...)
	}
	return out
}

// blockPair is memory for two blocks that are compared. It is outside of Go's heap, where the race detector keeps account of
// each byte: it would spend most of a test on that.
var blockPair = sync.OnceValue(func() (pair [2][]byte) {
	for i := range pair {
		p, err := unix.Mmap(-1, 0, backend.Granule, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			panic(err)
		}
		pair[i] = p
	}
	return pair
})

// holdsSame tells whether two ranks hold the same bytes and have printed the same.
func (r *spliceRank) holdsSame(other *spliceRank) bool {
	r.Helper()
	ids, sizes := r.listBlocks()
	otherIDs, otherSizes := other.listBlocks()
	if r.printed.String() != other.printed.String() || !slices.Equal(sizes, otherSizes) {
		return false
	}
	pair := blockPair()
	for i, size := range sizes {
		p, q := pair[0][:size], pair[1][:size]
		r.readBlock(ids[i], p)
		other.readBlock(otherIDs[i], q)
		if !bytes.Equal(p, q) {
			return false
		}
	}
	return true
}

// runSplice runs a program on some devices and then on a device for each rank. It returns the first difference, or "",
// and how many launches took another rank's result.
func runSplice(t *testing.T, p *spliceProgram, way spliceWay, ranks, devices, steps int, omitted spliceCheck) (wrong string, once uint64) {
	all, shared := newSpliceRanks(t, way, ranks, devices, p.bases, omitted)
	_, apart := newSpliceRanks(t, way, ranks, ranks, p.bases, noCheck)
	for step := range steps {
		for _, part := range []func(*spliceRank){p.step, p.then, p.last} {
			for i := range ranks {
				i = (i + step) % ranks // each rank is the first at times
				shared[i].takeTurn(step, part)
				apart[i].takeTurn(step, part)
			}
		}
		for i := range ranks {
			if way.size > pieceSize && step%3 < 2 {
				continue // to compare so many bytes takes too long
			}
			if !shared[i].gone && !shared[i].holdsSame(apart[i]) {
				return fmt.Sprintf("step %d: rank %d holds other bytes than on a device of its own", step, i), 0
			}
		}
	}
	for _, d := range all {
		once += d.Spliced().Once
	}
	return "", once
}

// TestSplicePrograms: ranks of which kernels run once hold the bytes of ranks with devices of their own, on any number of
// devices, and kernels run once where that can be known.
func TestSplicePrograms(t *testing.T) {
	for w, way := range []spliceWay{smallPieces, wholeBlocks, littleRoom} {
		for i, p := range slices.Concat(splicePrograms, writerPrograms) {
			t.Run(way.name+"/"+p.name, func(t *testing.T) {
				if testing.Short() && i%3 != w {
					t.Skip("in short, each program runs in one way")
				}
				for i, want := range p.once {
					wrong, once := runSplice(t, &p, way, 3, i+1, cmp.Or(p.steps, 6), noCheck)
					if wrong != "" {
						t.Fatalf("%d devices: %s", i+1, wrong)
					}
					if once != want && !p.any {
						t.Errorf("%d devices: %d launches took another rank's result, want %d", i+1, once, want)
					}
				}
			})
		}
	}
}

// beginBeside has a copy of a result begin other work of the same space, on another stream: the fill of a part of the
// memory of which another part is updated. A program may do that, since the two parts do not overlap.
func beginBeside(t *testing.T, omitted spliceCheck) (wrong bool) {
	devices, ranks := newSpliceRanks(t, smallPieces, 2, 1, nil, omitted)
	streams := map[*space]backend.Stream{}
	for _, r := range ranks {
		st, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
		r.failOn(err)
		streams[r.space] = st
	}
	devices[0].splicer.hooks.onCopying = func(s *space) {
		for _, r := range ranks {
			if r.space != s {
				continue
			}
			st := streams[s]
			done := st.Progress().Done
			r.failOn(st.Fill(backend.Fill{Addr: r.at[weights] + pieceSize/2, Value: uint32(5 + r.rank), Element: 4, Width: whole / 2}))
			p := st.Progress()
			for ; p.Done == done && !p.Begun; p = st.Progress() {
				runtime.Gosched()
			}
			// A fill that is not held up ends; a fill that is held up does not, however long this goes on.
			for i := 0; (i < 1000 || omitted == beginCheck) && st.Progress().Done == done; i++ {
				runtime.Gosched()
			}
		}
	}
	for step := range 3 {
		for _, r := range ranks {
			r.takeTurn(step, func(r *spliceRank) { r.runKernel("axpy", whole/2, r.at[weights], r.at[grads], 3) })
			for i, b := range r.readContents()[pieceSize/2 : pieceSize] { // the weights come first
				wrong = wrong || i%4 == 0 && b != byte(5+r.rank)
			}
		}
	}
	return wrong
}

// TestSpliceBeside: work that begins beside a copy of a result waits for its end, so that the copy holds no bytes of
// the work, and overwrites none of them.
func TestSpliceBeside(t *testing.T) {
	if beginBeside(t, noCheck) {
		t.Error("a copy of a result has undone what other work of the space wrote")
	}
	if !beginBeside(t, beginCheck) {
		t.Error("the test does not find work that begins while a result is copied")
	}
}

// trainStep is a step of a data-parallel rank that frees its activations before the ranks meet. measure is called where
// the rank has most memory.
func trainStep(m *meeting, measure func()) (gradients, update func(*spliceRank)) {
	gradients = func(r *spliceRank) {
		at, err := r.cu.Alloc(2 * r.size)
		r.failOn(err)
		r.fillPart(at, 100*r.rank+r.step, int(r.size/2))
		r.fillPart(r.at[grads], 10*r.rank+r.step, int(r.size/4))
		r.failOn(r.st.Synchronize(r.Context()))
		measure()
		r.failOn(r.cu.Free(at))
		m.queueCollective(r, collective.Op{Kind: collective.AllReduce, Type: collective.Int32, Count: int(r.size / 4)}, r.at[grads], r.at[grads])
	}
	update = func(r *spliceRank) {
		r.runKernel("axpy", uint32(r.size/4), r.at[moments], r.at[grads], 3)
		r.runKernel("axpy", uint32(r.size/4), r.at[weights], r.at[moments], r.step)
		r.failOn(r.st.Synchronize(r.Context()))
		measure()
	}
	return gradients, update
}

// TestSpliceMemory: ranks that train alike have parameters and moments once, but twice until all have made an update,
// and of the gradients a sum for each level of the tree, until all have come to the all-reduce. No bytes are copied for
// results; common bytes are read once.
func TestSpliceMemory(t *testing.T) {
	const size = 4 * backend.Granule
	const one = 5*size + backend.Granule // a rank alone, with the variables of its modules
	// The gradients are there as often beside those of one rank.
	for _, x := range []struct{ ranks, gradients uint64 }{{2, 1}, {4, 2}, {8, 3}} {
		k := x.ranks
		devices, ranks := newSpliceRanks(t, spliceWay{size: size, memory: max(4, k) * 20 << 20, budget: max(4, k) * 20 << 20 / keptShare}, int(k), 1, nil, noCheck)
		d, most := devices[0], uint64(0)
		m := makeMeeting(ranks)
		gradients, update := trainStep(m, func() {
			c := d.Common()
			most = max(most, c.Shared+c.Private+d.Spliced().Kept)
		})
		for _, r := range ranks {
			r.failOn(r.cu.Free(r.at[acts]))
			r.failOn(r.cu.Free(r.at[head]))
		}
		for step := range 6 {
			before := d.Spliced()
			if step == 3 {
				most = 0 // until the cost of the kernels is known, no launch takes a result
			}
			m.comeInOrder(step, ranks, gradients)
			for _, r := range ranks {
				r.takeTurn(step, update)
			}
			after := d.Spliced()
			if step < 3 {
				continue
			}
			if once := after.Once - before.Once; once != 2*(k-1) {
				t.Errorf("%d ranks, step %d: %d kernels took a result, want %d", k, step, once, 2*(k-1))
			}
			if n := after.Taken - before.Taken; n != 0 {
				t.Errorf("%d ranks, step %d: %d bytes of results were copied", k, step, n)
			}
			// The gradients, and the moments and weights that are new.
			if n := after.Compared - before.Compared; n != 3*size {
				t.Errorf("%d ranks, step %d: %d blocks were read to compare, want %d", k, step, n/backend.Granule, 3*size/backend.Granule)
			}
		}
		bound := one*11/10 + x.gradients*size + (k-1)*backend.Granule // each rank has a block for its variables
		t.Logf("%d ranks have %d blocks at most, a rank has %d", k, most/backend.Granule, one/backend.Granule)
		if most > bound {
			t.Errorf("%d ranks have %d blocks at most, want %d", k, most/backend.Granule, bound/backend.Granule)
		}
	}
}

// TestSpliceMistakes: the programs find each of the deliberate mistakes, among them to take no notice of each kind of
// work that writes to memory.
func TestSpliceMistakes(t *testing.T) {
	for omitted := noCheck + 1; omitted < lastUnnoticed; omitted++ {
		programs := splicePrograms
		switch {
		case omitted == beginCheck || omitted == noteCheck:
			continue // TestSpliceBeside, TestSpliceNoted
		case omitted >= lastCheck:
			programs = writerPrograms
		}
		t.Run(fmt.Sprint(omitted), func(t *testing.T) {
			for range 10 { // aloneCheck is missed only where two streams of a rank work at the same time
				for _, p := range programs {
					wrong := ""
					t.Run(p.name, func(t *testing.T) { wrong, _ = runSplice(t, &p, smallPieces, 3, 1, 6, omitted) })
					if wrong != "" {
						t.Logf("%s: %s", p.name, wrong)
						return
					}
				}
			}
			t.Error("no program found the mistake")
		})
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
					r.fillPart(r.at[to]+backend.Addr(4*v), v, 1)
				case 1:
					r.fillPart(r.at[to], v, whole)
				case 2:
					r.runKernel("bump", 1, r.at[to])
				case 3:
					r.runKernel("count", 128, r.at[to], r.at[to])
				case 4:
					r.runKernel("add", whole, r.at[to], v)
				default:
					r.runKernel("axpy", whole, r.at[to], r.at[from], v)
				}
			}
		}}
		wrong, n := runSplice(t, &p, smallPieces, 3, 1, 5, noCheck)
		if wrong != "" {
			t.Fatalf("program %s: %s", p.name, wrong)
		}
		once += n
	}
	if once == 0 {
		t.Error("no launch took another rank's result")
	}
	t.Logf("%d launches took another rank's result", once)
}
