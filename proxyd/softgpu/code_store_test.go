// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/codecache"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx"
)

// countedStore is a cache that counts how often it has the code.
type countedStore struct {
	*codecache.Cache
	taken int
}

func (s *countedStore) Load(key [sha256.Size]byte) []byte {
	data := s.Cache.Load(key)
	if data != nil {
		s.taken++
	}
	return data
}

// runKept runs a kernel of longCode on a backend of its own, and returns the memory that the kernel has written, and how
// often code was taken from the folder.
func runKept(t *testing.T, folder string) (memory []byte, taken int) {
	t.Helper()
	cache, err := codecache.Open(folder, "test", codecache.DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	store := &countedStore{Cache: cache}
	_, s, c := makeContext(t, Config{Memory: []uint64{64 << 20}, Compiled: store})
	stream, err := c.NewStream(backend.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := c.Load([]byte(longCode()), backend.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("k7")
	if err != nil {
		t.Fatal(err)
	}
	at, err := c.Alloc(backend.Granule)
	if err == nil {
		err = stream.Fill(backend.Fill{Addr: at, Value: 0x3fc00000, Element: 4, Width: 100})
	}
	if err == nil {
		err = stream.Launch(backend.Launch{
			Function: f, Grid: backend.Dim{X: 1, Y: 1, Z: 1}, Block: backend.Dim{X: 32, Y: 1, Z: 1}, Params: binary.LittleEndian.AppendUint64(nil, uint64(at)),
		})
	}
	if err == nil {
		err = stream.Synchronize(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	memory = make([]byte, backend.Granule)
	if _, err := s.ReadBlock(backend.BlockID{Base: at}, memory); err != nil {
		t.Fatal(err)
	}
	return memory, store.taken
}

// TestCompiledKept: a backend runs machine code that an earlier one has left in a folder, with the same results, and
// makes its own where the folder is empty or its files are damaged.
func TestCompiledKept(t *testing.T) {
	if err := ptx.Native(); err != nil {
		t.Skip(err)
	}
	folder := filepath.Join(t.TempDir(), "code")
	first, _ := runKept(t, folder)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("a single kernel was launched, and the folder has %q, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 4
	for _, tc := range []struct {
		name  string
		file  []byte // nil: there is none
		taken int
	}{{"as it was left", whole, 1}, {"damaged", damaged, 0}, {"cut short", whole[:len(whole)/2], 0}, {"gone", nil, 0}} {
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		if tc.file != nil {
			if err := os.WriteFile(files[0], tc.file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, taken := runKept(t, folder)
		if !bytes.Equal(got, first) || taken != tc.taken {
			t.Errorf("%s: the same results: %v; taken from the folder: %d times, want %d", tc.name, bytes.Equal(got, first), taken, tc.taken)
		}
	}
}
