// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TightMemory is the memory of the device of RunTight: there is room for one tenant.
const TightMemory = 16 << 20

// tenantSize is the memory of a tenant.
const tenantSize = 10 << 20

// RunTight runs the cases of spaces that take turns on a device without room for all. open makes a backend for a single
// case each. Its first device has TightMemory and is a backend.Swapper. The suite closes the backend.
func RunTight(t *testing.T, open func(t *testing.T) backend.Backend, except ExcusedCases) {
	for _, c := range tightCases {
		t.Run(c.name, func(t *testing.T) {
			if why, ok := except[c.name]; ok {
				t.Skip("excused: " + why)
			}
			b := open(t)
			c.run(t, b)
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

var tightCases = []struct {
	name string
	run  func(*testing.T, backend.Backend)
}{
	{"spaces that fit together stay", testResident},
	{"spaces that do not fit keep their bytes", testSwapped},
	{"bytes that are alike stay", testAlikeStays},
	{"bytes that differ are moved alone", testDifferentMoved},
	{"bytes that have changed alike leave once", testChangedAlike},
	{"any work in turns", testSwappedWork},
}

// tenant is a space on a tight device, with memory at an address.
type tenant struct {
	*rig
	at   backend.Addr
	want []byte // of the memory at the address
}

// makeTenants makes spaces with the same addresses, each with so much memory.
func makeTenants(t *testing.T, b backend.Backend, n int, size uint64) []*tenant {
	t.Helper()
	var all []*tenant
	for range n {
		x := &tenant{rig: newRig(t, b, b.Devices()[0], backend.SpaceConfig{})}
		x.mustSucceed(x.space.Unmap())
		x.at, x.want = x.allocBytes(size), make([]byte, size)
		all = append(all, x)
	}
	return all
}

// swapCounts counts the bytes that a backend's first device has swapped.
func swapCounts(b backend.Backend) backend.Swap { return b.Devices()[0].(backend.Swapper).Swapped() }

// fillRange has the tenant's work set bytes.
func (x *tenant) fillRange(at, n int, v byte) {
	x.Helper()
	x.mustSucceed(x.stream.Fill(backend.Fill{Addr: x.at + backend.Addr(at), Value: uint32(v), Element: 1, Width: uint64(n)}))
	copy(x.want[at:], bytes.Repeat([]byte{v}, n))
}

// checkMemory compares all bytes, without a turn of the tenant's.
func (x *tenant) checkMemory(what string) {
	x.Helper()
	p := make([]byte, granule)
	for at := 0; at < len(x.want); at += granule {
		clear(p)
		must(x.space.ReadBlock(backend.BlockID{Base: x.at + backend.Addr(at)}, p))(x.rig)
		if want := x.want[at:][:granule]; !bytes.Equal(p, want) {
			x.Fatalf("%s: block at %d begins with % x, want % x", what, at, p[:8], want[:8])
		}
	}
}

// testResident: a turn moves no byte where the memory of all spaces fits on the device.
func testResident(t *testing.T, b backend.Backend) {
	all := makeTenants(t, b, 3, 4<<20)
	for round := range 3 {
		for i, x := range all {
			x.runInTurn(func() { x.fillRange(0, 4<<20, byte(10*round+i)) })
		}
	}
	if s := swapCounts(b); s.Out+s.In+s.Spared != 0 || s.Now || s.Alike || s.Most != 12<<20 {
		t.Errorf("swapped = %+v, want nothing but Most, 12 MiB", s)
	}
	for _, x := range all {
		x.checkMemory("after all turns")
	}
}

// testSwapped: spaces that do not fit together have their bytes in each turn and between turns, and no more bytes are
// moved than a turn needs.
func testSwapped(t *testing.T, b backend.Backend) {
	all := makeTenants(t, b, 3, tenantSize)
	for round := range 3 {
		for i, x := range all {
			x.runInTurn(func() {
				x.wantBytes("at the begin of a turn", x.at, x.want[:4096])
				x.fillRange(0, tenantSize, byte(10*round+i+1))
			})
		}
	}
	if s := swapCounts(b); s.Out == 0 || s.Out > 8*tenantSize || s.In == 0 || s.In > 6*tenantSize || !s.Now || s.Most > TightMemory || s.Took <= 0 {
		t.Errorf("swapped = %+v, want the bytes of at most 8 tenants out and of 6 in", s)
	}
	for _, x := range all {
		x.checkMemory("after all turns")
	}
	// Bytes that are written between turns are there in the next turn.
	block := makePattern(granule, 7)
	all[0].mustSucceed(all[0].space.WriteBlock(backend.BlockID{Base: all[0].at + granule}, block))
	copy(all[0].want[granule:], block)
	all[0].runInTurn(func() { all[0].wantBytes("written between turns", all[0].at+granule, block) })
	all[0].checkMemory("written between turns")
}

// fillBlocks has the tenant's work set each block to a value of its own.
func (x *tenant) fillBlocks(v byte) {
	x.Helper()
	for at := 0; at < len(x.want); at += granule {
		x.fillRange(at, granule, v+byte(32*at/granule))
	}
}

// takeTurns has each tenant take a turn, and returns the bytes that were moved.
func takeTurns(b backend.Backend, all []*tenant, do func(i int, x *tenant)) (out, in uint64) {
	before := swapCounts(b)
	for i, x := range all {
		x.runInTurn(func() { do(i, x) })
	}
	after := swapCounts(b)
	return after.Out - before.Out, after.In - before.In
}

// testAlikeStays: spaces that hold the same bytes take turns, and none is moved.
func testAlikeStays(t *testing.T, b backend.Backend) {
	for k := 2; k <= 4; k++ {
		all := makeTenants(t, b, k, tenantSize)
		takeTurns(b, all, func(_ int, x *tenant) { x.fillBlocks(1) })
		takeTurns(b, all, func(int, *tenant) {})
		for range 2 {
			out, in := takeTurns(b, all, func(_ int, x *tenant) { x.wantBytes("in a turn", x.at+granule, x.want[granule:][:4096]) })
			if out+in > 0 {
				t.Errorf("%d spaces that are alike: %d bytes out and %d in, want none", k, out, in)
			}
		}
		for _, x := range all {
			x.checkMemory("after all turns")
			x.mustSucceed(x.space.Close())
		}
	}
}

// testDifferentMoved: of spaces that differ in a block, that block is moved and no more.
func testDifferentMoved(t *testing.T, b backend.Backend) {
	for k := 2; k <= 4; k++ {
		all := makeTenants(t, b, k, tenantSize)
		takeTurns(b, all, func(i int, x *tenant) {
			x.fillBlocks(1)
			x.fillRange(3*granule+100, 50, byte(i+200))
		})
		takeTurns(b, all, func(int, *tenant) {})
		for round := range 2 {
			out, in := takeTurns(b, all, func(i int, x *tenant) { x.fillRange(3*granule+200, 50, byte(10*round+i)) })
			if most := uint64(k) * granule; out > most || in > most {
				t.Errorf("%d spaces with a block of their own: %d bytes out and %d in, want %d at most", k, out, in, most)
			}
		}
		for _, x := range all {
			x.checkMemory("after all turns")
			x.mustSucceed(x.space.Close())
		}
	}
}

// testChangedAlike: bytes that all spaces have changed alike go to the host's memory once.
func testChangedAlike(t *testing.T, b backend.Backend) {
	for k := 2; k <= 4; k++ {
		all := makeTenants(t, b, k, tenantSize)
		for round := range 4 {
			out, in := takeTurns(b, all, func(_ int, x *tenant) { x.fillBlocks(byte(1 + round)) })
			if most := uint64(k-1) * tenantSize; round > 0 && (out > tenantSize || in > most) {
				t.Errorf("%d spaces, round %d: %d bytes out and %d in, want %d and %d at most", k, round, out, in, tenantSize, most)
			}
			for _, x := range all {
				x.checkMemory("after a round")
			}
		}
		if s := swapCounts(b); k > 2 && (s.Spared == 0 || !s.Alike) {
			t.Errorf("%d spaces: swapped = %+v, want bytes that were spared", k, s)
		}
		for _, x := range all {
			x.mustSucceed(x.space.Close())
		}
	}
}

// testSwappedWork: after any work in any order of turns, each space has the bytes of a space that is alone.
func testSwappedWork(t *testing.T, b backend.Backend) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		all := makeTenants(t, b, 3, tenantSize)
		for range 60 {
			i := r.IntN(len(all))
			x := all[i]
			x.doAnything(r, all[(i+1)%len(all)])
			if y := all[r.IntN(len(all))]; r.IntN(4) == 0 {
				y.checkMemory("between turns")
			}
		}
		for _, x := range all {
			x.checkMemory("at the end")
			x.mustSucceed(x.space.Close())
		}
	}
}

// doAnything does a random piece of work. Values are few and ranges are whole blocks mostly, so tenants come to hold the
// same bytes and differ again.
func (x *tenant) doAnything(r *rand.Rand, other *tenant) {
	x.Helper()
	blocks := len(x.want) / granule
	at, n := granule*r.IntN(blocks), granule
	if r.IntN(3) == 0 {
		at, n = at+r.IntN(granule-4096), 1+r.IntN(4096)
	}
	switch v := byte(r.IntN(3)); r.IntN(7) {
	case 0:
		x.runInTurn(func() { x.fillRange(0, len(x.want), v) })
	case 1, 2:
		x.runInTurn(func() { x.fillRange(at, n, v) })
	case 3:
		x.runInTurn(func() {})
	case 4: // a copy from a space that may be away
		x.runInTurn(func() {
			x.mustSucceed(x.stream.Copy(backend.Copy{
				Src: backend.CopySide{Space: other.space, Addr: uint64(other.at) + uint64(at)}, Dst: deviceAt(x.at + backend.Addr(at)), Width: uint64(n),
			}))
		})
		copy(x.want[at:][:n], other.want[at:])
	case 5:
		block := makePattern(granule, v)
		at &^= granule - 1
		x.mustSucceed(x.space.WriteBlock(backend.BlockID{Base: x.at + backend.Addr(at)}, block))
		copy(x.want[at:], block)
	default: // other memory at the same addresses
		x.mustSucceed(x.cu.Free(x.at))
		x.at = x.allocBytes(uint64(len(x.want)))
		clear(x.want)
	}
}
