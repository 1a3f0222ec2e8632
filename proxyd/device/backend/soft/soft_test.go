// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b, err := New(Config{Memory: []uint64{80 << 30, 256 << 20}, Seed: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// FuzzRestore: what a state says is checked before it is believed, whatever file it comes from.
func FuzzRestore(f *testing.F) {
	for _, s := range []backend.State{
		{Base: backend.DefaultBase, Memory: 64 << 20},
		{
			Base: backend.DefaultBase, Memory: 64 << 20, NextMemory: 1, NextPool: 1, NextContext: 1,
			Allocations: []backend.Allocation{
				{Base: backend.DefaultBase, Size: 100, Kind: backend.Plain, Context: 1, Access: true},
				{Base: backend.DefaultBase + 512, Size: 1000, Kind: backend.Pooled, Pool: 1, Access: true},
				{Base: backend.DefaultBase + 4<<20, Size: 3 << 20, Kind: backend.Globals, Context: 1, Access: true},
				{Base: backend.DefaultBase + 10<<20, Size: 2 << 20, Kind: backend.Mapped, Memory: 1, Access: true},
			},
			Reservations: []backend.Range{{Base: backend.DefaultBase + 8<<20, Size: 8 << 20}},
			Memories:     []backend.MemoryState{{ID: 1, Size: 2 << 20, Refs: 1}},
			Pools:        []backend.PoolState{{ID: 0}, {ID: 1, MaxSize: 5000}},
		},
	} {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	b, err := New(Config{Memory: []uint64{64 << 20}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var st backend.State
		if json.Unmarshal(text, &st) != nil {
			t.Skip()
		}
		s, err := b.Devices()[0].NewSpace(backend.SpaceConfig{State: &st})
		if err != nil {
			if backend.ResultOf(err) == backend.Unknown {
				t.Errorf("an error without a number: %v", err)
			}
			return
		}
		if free, total := s.Info(); free > total {
			t.Errorf("%d of %d bytes are free", free, total)
		}
		// It is a space as any other.
		again, err := b.Devices()[0].NewSpace(backend.SpaceConfig{State: s.State()})
		if err != nil {
			t.Fatalf("its own state: %v", err)
		}
		if !reflect.DeepEqual(again.State(), s.State()) {
			t.Errorf("%+v, want %+v", again.State(), s.State())
		}
		for _, x := range []backend.Space{again, s} {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
