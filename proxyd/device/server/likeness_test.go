// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// blocksOf makes a device's blocks.
func blocksOf(blocks ...int) map[int]bool {
	out := map[int]bool{}
	for _, b := range blocks {
		out[b] = true
	}
	return out
}

// TestSpreadAlike: processes with the same content share a device, and each device has as many processes as without that rule.
func TestSpreadAlike(t *testing.T) {
	for _, tc := range []struct {
		name   string
		blocks []map[int]bool
		on     int
		want   []int
		alike  uint64
	}{
		{"nothing is alike", []map[int]bool{blocksOf(1), blocksOf(2), blocksOf(3), blocksOf(4)}, 2, []int{0, 0, 1, 1}, 0},
		{"nothing is there", make([]map[int]bool, 3), 2, []int{0, 0, 1}, 0},
		{"tensor-parallel pairs, twice", []map[int]bool{blocksOf(1, 2), blocksOf(3, 4), blocksOf(1, 2), blocksOf(3, 4)}, 2, []int{0, 1, 0, 1}, 4 * backend.Granule},
		{"the most alike", []map[int]bool{blocksOf(1, 2, 3), blocksOf(1, 8), blocksOf(1, 2, 9), blocksOf(8, 9)}, 2, []int{0, 1, 0, 1}, 3 * backend.Granule},
		{"all on one", []map[int]bool{blocksOf(1), blocksOf(1), blocksOf(1)}, 1, []int{0, 0, 0}, 2 * backend.Granule},
	} {
		got := spreadAlike(tc.blocks, tc.on)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
			continue
		}
		alike := uint64(0)
		for _, n := range alikeBytes(tc.blocks, got, tc.on) {
			alike += n
		}
		if alike != tc.alike {
			t.Errorf("%s: %d bytes are alike, want %d", tc.name, alike, tc.alike)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		blocks := make([]map[int]bool, 1+r.IntN(16))
		for i := range blocks {
			blocks[i] = blocksOf(r.IntN(4), r.IntN(4))
		}
		on := 1 + r.IntN(len(blocks))
		got, want := spreadAlike(blocks, on), Spread(len(blocks), on)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%d on %d: %v, want as many on each as %v", len(blocks), on, got, want)
		}
	}
}

// TestMostBytes: the need of a job's devices on fewer devices, with equal blocks there once, and without.
func TestMostBytes(t *testing.T) {
	pairs := []map[int]bool{blocksOf(1, 2), blocksOf(3, 4), blocksOf(1, 2), blocksOf(3, 4, 5)}
	for _, tt := range []struct {
		on          int
		once, apart uint64
	}{{1, 5, 9}, {2, 3, 5}, {4, 3, 3}} {
		if got := mostBytes(pairs, tt.on, true); got != tt.once*backend.Granule {
			t.Errorf("on %d: %d blocks, want %d", tt.on, got/backend.Granule, tt.once)
		}
		if got := mostBytes(pairs, tt.on, false); got != tt.apart*backend.Granule {
			t.Errorf("on %d, each its own: %d blocks, want %d", tt.on, got/backend.Granule, tt.apart)
		}
	}
}

// TestAlikeAreTogether: a job of four devices comes to two, where processes of like memory share a device, and all have
// their bytes.
func TestAlikeAreTogether(t *testing.T) {
	const memory = 64 << 20
	s, next := serverOf(t, "test", nil, memory, memory, memory, memory), serverOf(t, "test", nil, memory, memory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	var at [4]uint64
	contexts := []uint64{0x101, 0x102, 0x103, 0x104}
	for d, x := range contexts {
		c.beginContext(x, int32(d))
		at[d] = c.alloc(2 * backend.Granule)
		c.must("cuMemsetD8_v2", at[d], uint8(1+d%2), uint64(2*backend.Granule))
		c.must("cuCtxSynchronize")
	}
	folder := Folder(t.TempDir())
	replaceServer(t, s, saveJob(t, s, folder, SaveOptions{}), folder, next)
	for d, want := range []int{0, 1, 0, 1} {
		if next.devices[d].Place().TimeSlices != next.machine.timeSlices[want] {
			t.Errorf("device %d is not on device %d", d, want)
		}
	}
	for i, d := range next.Status().Sharing {
		if d.Alike != backend.Granule { // both blocks of a device are the same
			t.Errorf("device %d: %d bytes were alike", i, d.Alike)
		}
		// Two blocks of two devices each are the same.
		if d.Common != backend.Granule || d.Saved != 3*backend.Granule || d.Private != 0 || d.Unshared != 0 || d.Rung != RungAlias {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	for d, x := range contexts {
		c.context = x
		if got := c.readBytes(at[d], 64); !bytes.Equal(got, bytes.Repeat([]byte{byte(1 + d%2)}, 64)) {
			t.Errorf("device %d has %v", d, got[:4])
		}
	}
	// A device that writes gets bytes of its own, and the other device keeps its bytes.
	c.context = contexts[0]
	c.must("cuMemsetD8_v2", at[0]+5, uint8(9), uint64(1))
	c.must("cuCtxSynchronize")
	for d, want := range [][]byte{{1, 9, 1}, {2, 2, 2}, {1, 1, 1}, {2, 2, 2}} {
		c.context = contexts[d]
		if got := c.readBytes(at[d]+4, 3); !bytes.Equal(got, want) {
			t.Errorf("device %d has %v, want %v", d, got, want)
		}
	}
	for i, want := range []uint64{backend.Granule, 0} {
		if d := next.Status().Sharing[i]; d.Unshared != want || d.Private != want {
			t.Errorf("device %d: %+v", i, d)
		}
	}
}

// TestRung: a device's rung is that of the dearest of the recent events.
func TestRung(t *testing.T) {
	for _, tc := range []struct {
		spaces                  int
		saved                   uint64
		swapped, spliced, alike bool
		want                    string
	}{
		{1, 0, true, true, true, ""},
		{2, 0, false, false, false, RungResident},
		{2, 1, false, false, false, RungAlias},
		{2, 0, false, false, true, RungAlias},
		{2, 1, false, true, true, RungSplice},
		{2, 1, true, true, true, RungSwap},
	} {
		s := &SharingStatus{Spaces: tc.spaces, Saved: tc.saved}
		if got := s.describeRung(tc.swapped, tc.spliced, tc.alike); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc, got, tc.want)
		}
	}
}

// TestRungRecent: a device has the rung of its last turns. Two processes that do not fit swap, though a part of their
// memory is alike; they climb when memory is freed, and fall when memory is allocated again.
func TestRungRecent(t *testing.T) {
	const size = 24 << 20 // alike in both processes, or each process's own: three such parts do not fit
	s := newServer(t, 1)
	type rank struct {
		*client
		alike, own, few uint64
	}
	var ranks []*rank
	for range 2 {
		_, cs := attachProcess(t, s, 1)
		r := &rank{client: cs[0]}
		r.beginContext(ctxA, 0)
		r.alike, r.own, r.few = r.alloc(size), r.alloc(size), r.alloc(16)
		r.must("cuMemsetD8_v2", r.alike, uint8(7), uint64(size))
		ranks = append(ranks, r)
	}
	// takeTurns has both processes write until the device has a rung, and bytes that are there once, or none.
	takeTurns := func(when, want string, once bool) {
		t.Helper()
		var got SharingStatus
		for range 4 * backend.RecentTurns {
			for i, r := range ranks {
				if r.own != 0 {
					r.must("cuMemsetD8_v2", r.own, uint8(i+1), uint64(16))
				}
				r.must("cuMemsetD8_v2", r.few, uint8(i+1), uint64(16)) // work, for which the process gets a turn
				r.must("cuCtxSynchronize")
			}
			if got = s.Status().Sharing[0]; got.Rung == want && (got.Saved > 0) == once {
				return
			}
		}
		t.Errorf("%s: the rung is not %q, with bytes there once: %v: %+v", when, want, once, got)
	}
	free := func(r *rank, at *uint64) {
		r.must("cuMemFree_v2", *at)
		*at = 0
	}
	takeTurns("too large", RungSwap, true)
	free(ranks[0], &ranks[0].own)
	takeTurns("a part is freed", RungAlias, true)
	free(ranks[0], &ranks[0].alike)
	takeTurns("nothing is alike", RungResident, false)
	ranks[0].own = ranks[0].alloc(2 * size)
	takeTurns("too large again", RungSwap, false)
}

// TestRungOfTheLastSharing: when the processes are gone, as when "proxyd run --status" writes its file, the status still has the
// rung on which they shared the device.
func TestRungOfTheLastSharing(t *testing.T) {
	s := newServer(t, 1)
	var all []*process
	for range 2 {
		p, cs := attachProcess(t, s, 1)
		cs[0].beginContext(ctxA, 0)
		all = append(all, p)
	}
	for _, p := range all {
		p.endProcess("the test ends it")
		<-p.gone
	}
	if d := s.Status().Sharing[0]; d.Spaces != 0 || d.Rung != RungResident {
		t.Errorf("%d spaces, rung %q, want none and %q", d.Spaces, d.Rung, RungResident)
	}
}

// TestArranged: a running job comes to fewer devices. Processes with memory that was alike at the last save share a device, as
// after a restore; before the first save, neighbours share. Then the job comes back to a device for each, with its bytes.
func TestArranged(t *testing.T) {
	const memory = 64 << 20
	s := serverOf(t, "test", nil, memory, memory, memory, memory)
	_, cs := attachProcess(t, s, 1)
	c := cs[0]
	var at [4]uint64
	contexts := []uint64{0x101, 0x102, 0x103, 0x104}
	for d, x := range contexts {
		c.beginContext(x, int32(d))
		at[d] = c.alloc(2 * backend.Granule)
		c.must("cuMemsetD8_v2", at[d], uint8(1+d%2), uint64(2*backend.Granule))
		c.must("cuCtxSynchronize")
	}
	arrange := func(what string, order, want []int) {
		t.Helper()
		if err := s.Arrange(t.Context(), order); err != nil {
			t.Fatalf("%s: Arrange failed: %v", what, err)
		}
		checkPlaced(t, s, want)
	}
	arrange("no save yet", []int{0, 0, 2, 2}, []int{0, 0, 2, 2})
	arrange("each its own", []int{0, 1, 2, 3}, []int{0, 1, 2, 3})
	saveJob(t, s, Folder(t.TempDir()), SaveOptions{})
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	arrange("alike", []int{0, 0, 2, 2}, []int{0, 2, 0, 2})
	arrange("one more", []int{0, 0, 1, 2}, []int{0, 1, 0, 2})
	arrange("all on one", []int{3, 3, 3, 3}, []int{3, 3, 3, 3})
	if err := s.Arrange(t.Context(), []int{0, 0, 4, 4}); !errors.Is(err, ErrNotPlaced) {
		t.Errorf("on a device that is not there: %v", err)
	}
	checkPlaced(t, s, []int{3, 3, 3, 3})
	if err := s.Place(t.Context(), []int{0, 0, 2, 2}); err != nil {
		t.Fatal(err)
	}
	checkPlaced(t, s, []int{0, 0, 2, 2}) // an order is kept
	for d, x := range contexts {
		c.context = x
		if got := c.readBytes(at[d], 64); !bytes.Equal(got, bytes.Repeat([]byte{byte(1 + d%2)}, 64)) {
			t.Errorf("device %d has %v", d, got[:4])
		}
	}
}
