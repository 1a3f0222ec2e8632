// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// poolRig is a mapped space with a stream, over a fake driver with a log.
type poolRig struct {
	*testing.T
	b      *Backend
	space  backend.Space
	cu     backend.Context
	stream backend.Stream
	log    string
}

func newPoolRig(t *testing.T, memory uint64) *poolRig {
	t.Helper()
	l := newFakeLibrary(t)
	log := filepath.Join(t.TempDir(), "calls")
	l.Reset(log, memory)
	b := openBackend(t, l)
	r := &poolRig{T: t, b: b, log: log}
	r.space = r.newSpace(0)
	r.mustSucceed(r.space.Map())
	r.cu, r.stream = r.newStream(r.space)
	return r
}

func (r *poolRig) mustSucceed(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// newSpace makes the nth space, of 64 MiB.
func (r *poolRig) newSpace(n int) backend.Space {
	r.Helper()
	const size = 64 << 20
	s, err := r.b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: size, Base: backend.DefaultBase + backend.Addr(uint64(n)*backend.SpaceSize(size))})
	r.mustSucceed(err)
	return s
}

func (r *poolRig) newStream(s backend.Space) (backend.Context, backend.Stream) {
	r.Helper()
	cu, err := s.NewContext(0)
	r.mustSucceed(err)
	st, err := cu.NewStream(backend.StreamConfig{NonBlocking: true})
	r.mustSucceed(err)
	return cu, st
}

// keepAll makes the pool keep all of its memory.
func (r *poolRig) keepAll() {
	r.Helper()
	r.mustSucceed(r.space.SetPoolAttribute(backend.DefaultPool, backend.PoolReleaseThreshold, math.MaxUint64))
}

// alloc, fill and free work in the rig's stream.
func (r *poolRig) alloc(n uint64) backend.Addr {
	r.Helper()
	a, err := r.stream.AllocAsync(backend.DefaultPool, n)
	r.mustSucceed(err)
	return a
}

func (r *poolRig) fill(a backend.Addr, n uint64, value uint32) {
	r.Helper()
	r.mustSucceed(r.stream.Fill(backend.Fill{Addr: a, Value: value, Element: 1, Width: n}))
}

func (r *poolRig) free(a backend.Addr) {
	r.Helper()
	r.mustSucceed(r.stream.FreeAsync(a))
}

func (r *poolRig) sync() {
	r.Helper()
	r.mustSucceed(r.stream.Synchronize(r.Context()))
}

func (r *poolRig) bytes(a backend.Addr, n int) []byte {
	r.Helper()
	h := make(bytesOfHost, n)
	r.mustSucceed(r.stream.Copy(backend.Copy{Src: placeAt(a), Dst: backend.CopySide{Host: h}, Width: uint64(n)}))
	r.sync()
	return h
}

var driverCall = regexp.MustCompile(`(?m)\bcu[A-Z]\w*`)

// countCalls counts the driver's calls since countCalls was called last, by their names.
func (r *poolRig) countCalls() map[string]int {
	r.Helper()
	text, err := os.ReadFile(r.log)
	r.mustSucceed(err)
	r.mustSucceed(os.Truncate(r.log, 0))
	all := map[string]int{}
	for line := range strings.Lines(string(text)) {
		all[driverCall.FindString(line)]++
	}
	return all
}

// trainStep acts like a training step: allocations of many sizes live at the same time and are freed in another order.
func (r *poolRig) trainStep() (pairs int) {
	r.Helper()
	var live []backend.Addr
	for i, n := range []uint64{5 << 20, 700, 3 << 20, 9 << 20, 4096, 2 << 20, 6 << 20, 100, 12 << 20, 1 << 20, 300 << 10} {
		a := r.alloc(n)
		r.fill(a, n, 1)
		live = append(live, a)
		if i%3 == 2 {
			r.free(live[0])
			live = live[1:]
		}
		pairs++
	}
	for _, a := range live {
		r.free(a)
	}
	return pairs
}

// TestPooledCalls bounds the driver's calls for a program that allocates and frees in a stream.
func TestPooledCalls(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	for range 3 { // until memory is where allocations begin and end
		r.trainStep()
		r.sync()
	}
	r.countCalls()
	const steps = 20
	pairs := 0
	for range steps {
		pairs += r.trainStep()
		r.sync()
	}
	got := r.countCalls()
	got["cuMemsetD8Async"] -= pairs // the fills
	sum := 0
	for call, n := range got {
		if !strings.HasPrefix(call, "cuStream") || call == "cuStreamWaitEvent" {
			sum += n
		}
	}
	t.Logf("%.1f calls a pair: %v", float64(sum)/float64(pairs), got)
	for _, call := range []string{"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemsetD8Async"} {
		if got[call] > 0 {
			t.Errorf("%d calls of %s in %d pairs, want none", got[call], call, pairs)
		}
	}
	if sum > 3*pairs/2 { // an event is recorded for each, and some more by synchronising
		t.Errorf("%d calls in %d pairs: %v", sum, pairs, got)
	}
}

// TestPooledBytes: memory that a pool keeps has old bytes for the pool's next allocation, zeros for all others.
func TestPooledBytes(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	for _, n := range []uint64{3 << 20, 5000} {
		beside := r.alloc(n) // so that a granule is shared
		a := r.alloc(n)
		r.fill(a, n, 7)
		r.free(a)
		b := r.alloc(n)
		if a != b {
			t.Fatalf("the same allocation is at %#x, and at %#x before", uint64(b), uint64(a))
		}
		r.bytes(b, int(n)) // any bytes of the program
		r.fill(b, n, 9)
		r.free(b)
		c, err := r.cu.Alloc(n - 1000)
		r.mustSucceed(err)
		if c != a {
			t.Fatalf("the next allocation is at %#x, want %#x", uint64(c), uint64(a))
		}
		if got := r.bytes(c, int(n-1000)); !isAll(got, 0) {
			t.Errorf("%d bytes that are promised to be zero are not", n)
		}
		r.mustSucceed(r.cu.Free(c))
		r.free(beside)
	}
}

// runsOf describes bytes by their runs: the position of the first byte of each run, and its value.
func runsOf(b []byte) (out []int) {
	for i := range b {
		if (i == 0 || b[i] != b[i-1]) && len(out) < 20 {
			out = append(out, i, int(b[i]))
		}
	}
	return out
}

func isAll(b []byte, value byte) bool {
	for _, x := range b {
		if x != value {
			return false
		}
	}
	return true
}

// TestPooledOfOthers: memory that a pool keeps is zero when another space gets it.
func TestPooledOfOthers(t *testing.T) {
	r := newPoolRig(t, 32<<20)
	r.keepAll()
	const n = 20 << 20 // the device has no room for two
	a := r.alloc(n)
	r.fill(a, n, 0xAA)
	r.free(a)
	r.sync()
	if r.countCalls()["cuMemRelease"] != 0 {
		t.Error("the pool has kept nothing")
	}
	r.mustSucceed(r.space.Unmap())
	other := r.newSpace(1)
	r.mustSucceed(other.Map())
	cu, st := r.newStream(other)
	b, err := st.AllocAsync(backend.DefaultPool, n)
	r.mustSucceed(err)
	if n := r.countCalls()["cuMemRelease"]; n != 1 {
		t.Errorf("%d pieces of memory were given back to make room, want 1", n)
	}
	if swap := r.b.list[0].Swapped(); swap.Out != 0 {
		t.Errorf("%d bytes were moved to the host's memory without need", swap.Out)
	}
	h := make(bytesOfHost, n)
	r.mustSucceed(st.Copy(backend.Copy{Src: placeAt(b), Dst: backend.CopySide{Host: h}, Width: n}))
	r.mustSucceed(st.Synchronize(r.Context()))
	if !isAll(h, 0) {
		t.Error("another space sees bytes that were freed")
	}
	r.mustSucceed(cu.Err())
}

// TestPooledStreams: another stream that gets the addresses waits on the device for the stream that freed them, and the host does not.
func TestPooledStreams(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	const n = 4 << 20
	other, err := r.cu.NewStream(backend.StreamConfig{NonBlocking: true})
	r.mustSucceed(err)
	a := r.alloc(n)
	r.sync()
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	r.fill(a, n, 1)
	r.free(a)
	b, err := other.AllocAsync(backend.DefaultPool, n)
	r.mustSucceed(err)
	r.mustSucceed(other.Fill(backend.Fill{Addr: b, Value: 2, Element: 1, Width: n}))
	if a != b {
		t.Fatalf("the second allocation is at %#x, want %#x, which was freed", uint64(b), uint64(a))
	}
	if !r.space.Freeing() {
		t.Error("work that may use what was freed is not told of")
	}
	close(gate)
	r.mustSucceed(other.Synchronize(r.Context()))
	if got := r.bytes(b, n); !isAll(got, 2) {
		t.Error("the stream that freed the memory has written there later")
	}
	if r.countCalls()["cuStreamWaitEvent"] == 0 {
		t.Error("the device was not told to wait")
	}
}

// TestPooledInWork: an allocation that overlaps memory which work still uses, at other boundaries, gets its memory when
// that work is done, and the call does not wait.
func TestPooledInWork(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	r.free(r.alloc(6 << 20))
	r.sync()
	gate := make(chan struct{})
	r.mustSucceed(r.stream.Host(func() { <-gate }))
	a := r.alloc(6 << 20)
	r.fill(a, 6<<20, 1)
	r.free(a)
	b := r.alloc(2 << 20)
	r.fill(b, 2<<20, 2)
	r.free(b) // before the memory is there
	c := r.alloc(4 << 20)
	r.fill(c, 4<<20, 3)
	if a != b || b != c {
		t.Fatalf("allocations at %#x, %#x and %#x, want the same addresses", uint64(a), uint64(b), uint64(c))
	}
	close(gate)
	if got := r.bytes(c, 4<<20); !isAll(got, 3) {
		t.Errorf("the bytes are %v", runsOf(got))
	}
	r.mustSucceed(r.cu.Err())
}

// TestPoolGivesBack: a pool keeps as many bytes as its threshold allows, until it is trimmed, or the program ends it.
func TestPoolGivesBack(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name      string
		threshold uint64
		do        func(r *poolRig, pool backend.PoolID) error
		want      int // of 3 pieces of 4 MiB
	}{
		{"no threshold", 0, nil, 3},
		{"a threshold", 8 * mib, nil, 1},
		{"no end", math.MaxUint64, nil, 0},
		{"trimmed", math.MaxUint64, func(r *poolRig, p backend.PoolID) error { return r.space.TrimPool(p, 5*mib) }, 2},
		{"trimmed to nothing", math.MaxUint64, func(r *poolRig, p backend.PoolID) error { return r.space.TrimPool(p, 0) }, 3},
		{"destroyed", math.MaxUint64, func(r *poolRig, p backend.PoolID) error { return r.space.DestroyPool(p) }, 3},
		{"addresses are reserved", math.MaxUint64, func(r *poolRig, _ backend.PoolID) error {
			a, err := r.space.Reserve(4*mib, 0, 0)
			r.mustSucceed(err)
			id, err := r.space.NewMemory(4 * mib)
			r.mustSucceed(err)
			r.mustSucceed(r.space.MapMemory(a, 4*mib, 0, id))
			return r.space.SetAccess(a, 4*mib, true)
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPoolRig(t, 1<<30)
			pool, err := r.space.NewPool(0)
			r.mustSucceed(err)
			r.mustSucceed(r.space.SetPoolAttribute(pool, backend.PoolReleaseThreshold, tc.threshold))
			var all []backend.Addr
			for range 3 {
				a, err := r.stream.AllocAsync(pool, 4*mib)
				r.mustSucceed(err)
				all = append(all, a)
			}
			for _, a := range all {
				r.free(a)
			}
			r.countCalls()
			r.sync()
			if tc.do != nil {
				if n := r.countCalls()["cuMemRelease"]; n != 0 {
					t.Fatalf("%d pieces were given back before", n)
				}
				r.mustSucceed(tc.do(r, pool))
			}
			if n := r.countCalls()["cuMemRelease"]; n != tc.want {
				t.Errorf("%d pieces were given back, want %d", n, tc.want)
			}
		})
	}
}

// TestPooledSaved: memory that a pool keeps is not saved, nor are freed bytes beside live bytes; after a restore they
// are zero for allocations that promise zeros.
func TestPooledSaved(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	kept, live, dead := r.alloc(4<<20), r.alloc(3000), r.alloc(3000)
	r.fill(kept, 4<<20, 1)
	r.fill(live, 3000, 2)
	r.fill(dead, 3000, 3)
	r.free(kept)
	r.free(dead)
	r.sync()
	st := r.space.State()
	if n := len(st.Regions()); n != 1 {
		t.Errorf("%d regions are saved, want that of what is live", n)
	}
	block := make([]byte, backend.Granule)
	some, err := r.space.ReadBlock(backend.BlockID{Base: live &^ (backend.Granule - 1)}, block)
	r.mustSucceed(err)
	at := uint64(live & (backend.Granule - 1))
	if !some || !isAll(block[at:at+3000], 2) || !isAll(block[:at], 0) || !isAll(block[at+3000:], 0) {
		t.Error("the block does not have the bytes that are live, and zero elsewhere")
	}
}

// TestPooledBoundaries: allocations of all sizes at the same addresses have their own bytes.
func TestPooledBoundaries(t *testing.T) {
	r := newPoolRig(t, 1<<30)
	r.keepAll()
	rnd := rand.New(rand.NewPCG(1, 2))
	type allocation struct {
		at    backend.Addr
		n     uint64
		value uint32
		plain bool
	}
	var live []allocation
	check := func(x allocation) {
		t.Helper()
		if got := r.bytes(x.at, int(x.n)); !isAll(got, byte(x.value)) {
			t.Fatalf("%d bytes at %#x are not all %d: %v", x.n, uint64(x.at), x.value, runsOf(got))
		}
	}
	for step := range 300 {
		if len(live) > 0 && (len(live) > 6 || rnd.IntN(2) == 0) {
			i := rnd.IntN(len(live))
			x := live[i]
			live = append(live[:i], live[i+1:]...)
			check(x)
			if x.plain {
				r.mustSucceed(r.cu.Free(x.at))
			} else {
				r.free(x.at)
			}
			continue
		}
		x := allocation{n: 1 + rnd.Uint64N(7<<20), value: 1 + rnd.Uint32N(250), plain: rnd.IntN(4) == 0}
		if rnd.IntN(3) == 0 {
			x.n = 1 + rnd.Uint64N(20000)
		}
		if x.plain {
			a, err := r.cu.Alloc(x.n)
			r.mustSucceed(err)
			if got := r.bytes(a, int(x.n)); !isAll(got, 0) {
				t.Fatalf("step %d: %d bytes at %#x are not zero", step, x.n, uint64(a))
			}
			x.at = a
		} else {
			x.at = r.alloc(x.n)
		}
		r.fill(x.at, x.n, x.value)
		live = append(live, x)
		if step == 150 {
			r.mustSucceed(r.space.TrimPool(backend.DefaultPool, 0))
		}
	}
	for _, x := range live {
		check(x)
	}
}
