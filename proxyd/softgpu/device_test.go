// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"slices"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// TestLargeDevice: a device of 80 GiB costs nothing until it is touched.
func TestLargeDevice(t *testing.T) {
	b, err := New(Config{Memory: []uint64{80 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Map(); err != nil {
		t.Fatal(err)
	}
	c, err := s.NewContext(0)
	if err != nil {
		t.Fatal(err)
	}
	const size = 20 << 30
	a, err := c.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Legacy().Fill(backend.Fill{Addr: a + size/2, Value: 1, Element: 1, Width: 10}); err != nil {
		t.Fatal(err)
	}
	if err := c.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	hashes := map[backend.Hash]int{}
	if err := s.Blocks(&[32]byte{}, func(_ backend.BlockID, h backend.Hash) bool {
		mu.Lock()
		defer mu.Unlock()
		hashes[h]++
		return true
	}); err != nil {
		t.Fatal(err)
	}
	counts := []int{}
	for _, n := range hashes {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{1, size/backend.Granule - 1}) {
		t.Errorf("blocks by hash: %v", counts)
	}
}

func TestBadConfig(t *testing.T) {
	for _, n := range []uint64{0, 12345, 1 << 41} {
		if _, err := New(Config{Memory: []uint64{1 << 30, n}}); backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("memory of %d bytes: %v", n, err)
		}
	}
}

func TestSeedMakesUUIDs(t *testing.T) {
	uuid := func(seed string) [16]byte {
		b, err := New(Config{Memory: []uint64{1 << 30}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return b.Devices()[0].Info().UUID
	}
	if first, again, other := uuid("a"), uuid("a"), uuid("b"); first != again || first == other {
		t.Error("the seed does not make the UUID")
	}
}
