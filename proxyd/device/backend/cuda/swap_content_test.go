// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/fakecuda"
)

// makeTwins makes two tenants of which the second is on the device and the first in the host's memory. Their bytes
// differ.
func makeTwins(t *testing.T) (*fakecuda.Library, *device, []*tenant) {
	t.Helper()
	d, all := makeTenants(t, 2)
	for i, x := range all {
		x.takeTurn(t, func() { x.fillMemory(t, uint32(1+i)) })
	}
	return fakes[""], d, all
}

// TestTakeoverFails: whatever call of the driver fails while a memory takes its twin's place, both keep their bytes, and
// the next turn has them.
func TestTakeoverFails(t *testing.T) {
	for _, tc := range []struct {
		call  string
		times int
		fails bool // Map fails, else another way is taken
	}{
		{"cuModuleLoadDataEx", 1, false},
		{"cuModuleGetGlobal_v2", 1, false},
		{"cuModuleGetFunction", 1, false},
		{"cuLaunchKernel", 1, false},
		{"cuMemHostAlloc", 1, false},
		{"cuMemcpyDtoHAsync_v2", 5, true},
		{"cuMemcpyHtoDAsync_v2", 5, true},
		{"cuEventRecord", 1, false},
	} {
		for n := 1; n <= tc.times; n++ {
			t.Run(fmt.Sprint(tc.call, " ", n), func(t *testing.T) {
				l, d, all := makeTwins(t)
				d.sums.tried = d.sums.tried && !strings.Contains(tc.call, "Module") // is loaded again
				if tc.call == "cuMemHostAlloc" {
					if err := d.backend.pinned.freeBuffers(); err != nil {
						t.Fatal(err)
					}
					d.backend.pinned.closed = false
				}
				l.Fail(tc.call, n, int(backend.Unknown))
				err := all[0].Map()
				if !l.Failed() {
					t.Fatal("the call was not made")
				}
				if (err != nil) != tc.fails {
					t.Errorf("map: %v, want failed: %v", err, tc.fails)
				}
				if err == nil {
					if err := all[0].Unmap(); err != nil {
						t.Fatal(err)
					}
				}
				for _, x := range all {
					x.checkMemory(t, x.fillValue())
				}
				for _, x := range all {
					x.takeTurn(t, func() {})
					x.checkMemory(t, x.fillValue())
				}
			})
		}
	}
}

// fillValue is the value with which makeTwins has filled the tenant's memory.
func (x *tenant) fillValue() byte { return byte(1 + (x.cfg.Base-backend.DefaultBase)>>40) }

// TestTakeoverLost: if the device fails, and does not take the twin's bytes back either, then these are lost, and all
// that needs them says so. The bytes that were to come are still there.
func TestTakeoverLost(t *testing.T) {
	l, _, all := makeTwins(t)
	l.FailFrom("cuMemcpyHtoDAsync_v2", 2, int(backend.Unknown))
	if err := all[0].Map(); backend.ResultOf(err) != backend.Unknown {
		t.Fatalf("map: %v, want the failure", err)
	}
	l.Fail("none", 1, 0)
	if err := all[1].Map(); backend.ResultOf(err) != backend.Unknown {
		t.Errorf("map of a space with lost bytes: %v, want the failure", err)
	}
	if _, err := all[1].ReadBlock(backend.BlockID{Base: all[1].at}, make([]byte, backend.Granule)); backend.ResultOf(err) != backend.Unknown {
		t.Errorf("read of lost bytes: %v, want the failure", err)
	}
	all[0].checkMemory(t, all[0].fillValue())
	if err := all[1].Close(); err != nil {
		t.Error(err)
	}
	all[0].takeTurn(t, func() {})
	all[0].checkMemory(t, all[0].fillValue())
}

// TestTakeoverBothWays: all blocks of a twin leave while a block that comes is still on its way.
func TestTakeoverBothWays(t *testing.T) {
	l, _, all := makeTwins(t)
	log := filepath.Join(t.TempDir(), "calls")
	l.Reset(log, deviceSize)
	l.Halt("cuMemcpyHtoDAsync_v2", 1)
	t.Cleanup(l.Resume) // of a test that failed
	mapped := make(chan error, 1)
	go func() { mapped <- all[0].Map() }()
	for left := 0; left < tenantSize/backend.Granule || !l.Halted(); runtime.Gosched() {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		left = strings.Count(string(text), "cuMemcpyDtoHAsync_v2")
		select {
		case err := <-mapped:
			t.Fatalf("Map has ended, with %v, and %d blocks have left", err, left)
		default:
		}
	}
	l.Resume()
	if err := <-mapped; err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		x.checkMemory(t, x.fillValue())
	}
}

// TestTakeoverKept: memory that a pool keeps makes room for its twin without its bytes being moved.
func TestTakeoverKept(t *testing.T) {
	d, all := makeTenants(t, 2)
	for i, x := range all {
		if err := x.cu.Free(x.at); err != nil {
			t.Fatal(err)
		}
		x.takeTurn(t, func() {
			var err error
			if x.at, err = x.cu.Legacy().AllocAsync(0, tenantSize); err != nil {
				t.Fatal(err)
			}
			x.fillMemory(t, uint32(1+i))
		})
	}
	all[1].takeTurn(t, func() {
		if err := all[1].cu.Legacy().FreeAsync(all[1].at); err != nil {
			t.Fatal(err)
		}
	})
	before := d.Swapped()
	all[0].takeTurn(t, func() {})
	if s := d.Swapped(); s.Out != before.Out || s.In != before.In+tenantSize {
		t.Errorf("%d bytes out and %d in, want none and %d", s.Out-before.Out, s.In-before.In, tenantSize)
	}
	all[0].checkMemory(t, 1)
}

// TestHostStore: the host has equal blocks once, and bytes that one memory's copy gets are not seen by another copy.
func TestHostStore(t *testing.T) {
	s := newHostStore()
	a, b := s.newCopy(2*backend.Granule), s.newCopy(2*backend.Granule)
	sum := blockSum{1, 2}
	if err := a.keepBytes(1, sum, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if !b.takeKnown(1, sum) || b.blocks[1] != a.blocks[1] {
		t.Fatal("the store does not have the block")
	}
	read := func(c *hostCopy) byte {
		p := make([]byte, 1)
		c.readAt(backend.Granule+1, p)
		return p[0]
	}
	if err := b.writeAt(backend.Granule+1, []byte{9}); err != nil {
		t.Fatal(err)
	}
	if read(a) != 2 || read(b) != 9 {
		t.Errorf("a has %d and b %d, want 2 and 9", read(a), read(b))
	}
	if err := a.clearRange(backend.Granule+1, 1); err != nil {
		t.Fatal(err)
	}
	if c := s.newCopy(backend.Granule); c.takeKnown(0, sum) || read(a) != 0 {
		t.Errorf("bytes that were changed are known by their old sum, or are %d, want 0", read(a))
	}
	a.freeBlocks()
	b.freeBlocks()
	if len(s.known) > 0 || len(s.slabs) != 1 || len(s.free) != slabSize/backend.Granule {
		t.Errorf("%d blocks are known, and %d of %d slabs are free; want none known, and one slab free", len(s.known), len(s.free), len(s.slabs))
	}
	// A block that is used again is zeros.
	if err := a.writeAt(5, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if p := a.blocks[0].bytes; p[5] != 1 || bytes.Count(p, []byte{0}) != backend.Granule-1 {
		t.Errorf("a new block has %d bytes that are zero, want all but one", bytes.Count(p, []byte{0}))
	}
	a.freeBlocks()
	if err := s.unmapSlabs(); err != nil {
		t.Error(err)
	}
}
