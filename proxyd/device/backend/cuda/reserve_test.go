// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// As driver/reserve.c has them.
const (
	reserveBase  = uint64(100) << 40
	reserveSize  = uint64(32) << 30
	reserveAlign = uint64(2) << 20
)

// TestReserve: the driver's reservations get addresses of the range that we chose, one behind the other.
func TestReserve(t *testing.T) {
	l := newFakeLibrary(t)
	b := openBackend(t, l)
	first := l.Reserve(4 << 20)
	if first < reserveBase || first >= reserveBase+reserveSize {
		t.Errorf("without an owner: %#x, want it within %d bytes of %#x", first, reserveSize, reserveBase)
	}
	if at := l.Reserve(4 << 20); at <= first || at-first > 3*reserveAlign || at%reserveAlign != 0 {
		t.Errorf("the next reservation: %#x, want it right behind %#x", at, first)
	}
	if at := l.Reserve(64 << 10); at >= reserveBase && at < reserveBase+reserveSize {
		t.Errorf("a small reservation: %#x", at)
	}
	other, err := unix.MmapPtr(-1, 0, nil, 4<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if at := uint64(uintptr(other)); err != nil || at >= reserveBase && at < reserveBase+reserveSize {
		t.Errorf("a mapping of another library: %#x, %v", at, err)
	}

	// Owners that make contexts in turns have addresses as if they were alone.
	var places [2][]uint64
	var spaces [2]backend.Space
	makeContexts := func() {
		t.Helper()
		for i := range places {
			owner := uint64(500 + i)
			if spaces[i] == nil {
				s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{Memory: 64 << 20, Owner: owner})
				if err != nil {
					t.Fatal(err)
				}
				spaces[i] = s
			}
			if err := spaces[i].Map(); err != nil {
				t.Fatal(err)
			}
			if _, err := spaces[i].NewContext(0); err != nil {
				t.Fatal(err)
			}
			if err := spaces[i].Unmap(); err != nil {
				t.Fatal(err)
			}
			places[i] = append(places[i], l.LastReserved()-reserveBase-owner*reserveSize)
		}
	}
	for range 3 {
		makeContexts()
	}
	for i := range places[0] {
		if a, b := places[0][i], places[1][i]; a != b || a >= reserveSize || i > 0 && a <= places[0][i-1] {
			t.Errorf("context %d: %#x and %#x in the owners' ranges, %v", i, a, b, places)
		}
	}

	// The place of a space that has ended is as if it had not been used.
	if err := spaces[1].Close(); err != nil {
		t.Fatal(err)
	}
	spaces[1] = nil
	makeContexts()
	if a, b := places[0][3], places[1][3]; b != places[1][0] || a <= places[0][2] {
		t.Errorf("%#x after a space of the owner has ended, want %#x; and %#x beside a space that lives, of %v", b, places[1][0], a, places)
	}
	for _, s := range spaces {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
