// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"crypto/cipher"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/backendtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/pages"
)

// needWatcher skips a test where the kernel is older than 6.7.
func needWatcher(t *testing.T) {
	t.Helper()
	if pages.Watching() != nil {
		return
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if release := unix.ByteSliceToString(name.Release[:]); release[0] >= '7' || release[:2] == "6." && release[2] >= '7' {
		t.Fatalf("Linux %s does not tell which pages were written", release)
	}
	t.Skip("Linux does not tell which pages were written before 6.7")
}

// counter counts the bytes that are hashed.
type counter struct {
	cipher.AEAD
	n int
}

func (c *counter) Seal(dst, nonce, text, data []byte) []byte {
	c.n++
	return c.AEAD.Seal(dst, nonce, text, data)
}

// TestWatched: a block that was the same twice is hashed again when it was written, and only then.
func TestWatched(t *testing.T) {
	needWatcher(t)
	a, err := makeArena(4 * backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	defer a.freeBytes()
	h, err := newHasher(&[32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{AEAD: h.gcm}
	h.gcm = c
	look := func(name string, want ...int) {
		t.Helper()
		for i := range 4 {
			b := a.bytes[i*backend.Granule:][:backend.Granule]
			c.n = 0
			got := a.sumBlock(h, b)
			hashed := c.n
			if fresh := h.hashBlock(b); got != fresh {
				t.Errorf("%s: block %d has the hash %x, not %x", name, i, got, fresh)
			}
			if hashed != want[i] {
				t.Errorf("%s: block %d was hashed %d times, not %d", name, i, hashed, want[i])
			}
		}
	}
	for i := range a.bytes[backend.Granule:] {
		a.bytes[backend.Granule+i] = byte(i*5) ^ byte(i>>9)
	}
	look("at first", 0, 1, 1, 1)
	look("they are the same", 1, 1, 1, 1) // look has read the first block, which counts as touched now
	look("they are watched", 1, 0, 0, 0)
	a.bytes[2*backend.Granule]++
	look("the first byte of a block", 0, 0, 1, 0)
	a.bytes[4*backend.Granule-1]++
	look("the last byte of a block", 0, 0, 1, 1)
	look("changed bytes are as before again", 0, 0, 0, 1)
	a.bytes[5] = 1
	look("and watched", 1, 0, 0, 0)
	a.wipeRange(a.bytes[backend.Granule+16*pageSize:][:32*pageSize]) // whole pages: the kernel drops them
	look("a part that was given back", 1, 1, 0, 0)
	look("watched again", 0, 1, 0, 0)
	a.bytes[3*backend.Granule]++
	if n, _ := a.swapOut(); n == 0 {
		t.Error("swapOut = 0, want the bytes of the written blocks")
	}
	a.swapIn()
	look("there and back, and one was written before", 0, 0, 0, 1)
	look("there and back", 0, 0, 0, 1)
	a.swapOut()
	a.swapIn()
	a.bytes[backend.Granule]++
	look("there and back, and one was written then", 0, 1, 0, 0)
	if h, err = newHasher(&[32]byte{2}); err != nil {
		t.Fatal(err)
	}
	c.AEAD, h.gcm = h.gcm, c
	look("another key", 1, 1, 1, 1)
}

// TestWatchedWork: after any kind of work that writes memory, the hashes fit the bytes that are there.
func TestWatchedWork(t *testing.T) {
	needWatcher(t)
	_, all := makeTenants(t, 2)
	x := all[0]
	if err := x.Map(); err != nil {
		t.Fatal(err)
	}
	m, _, err := x.cu.Load([]byte(backendtest.Kernels), backend.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	add, err := m.Function("add")
	if err != nil {
		t.Fatal(err)
	}
	hashes := func(key byte) map[backend.BlockID]backend.Hash {
		var mu sync.Mutex
		out := map[backend.BlockID]backend.Hash{}
		if err := x.Blocks(&[32]byte{key}, func(id backend.BlockID, h backend.Hash) bool {
			mu.Lock()
			defer mu.Unlock()
			out[id] = h
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	r := rand.New(rand.NewPCG(3, 3))
	st := x.cu.Legacy()
	at := func() backend.Addr { return x.at + backend.Addr(r.Uint64N(tenantSize/4-64)*4) }
	var small []backend.Addr
	for step := range 60 {
		switch r.IntN(6) {
		case 0:
			err = st.Fill(backend.Fill{Addr: at(), Value: r.Uint32(), Element: 4, Width: 1 + r.Uint64N(16)})
		case 1:
			err = st.Copy(backend.Copy{Src: backend.CopySide{Addr: uint64(at())}, Dst: backend.CopySide{Addr: uint64(at())}, Width: 64})
		case 2:
			err = st.Launch(backend.Launch{
				Function: add, Grid: backend.Dim{X: 1, Y: 1, Z: 1}, Block: backend.Dim{X: 1, Y: 1, Z: 1},
				Params: kernelParams(at(), r.Uint32()),
			})
		case 3:
			var a backend.Addr
			if a, err = x.cu.Alloc(300000); err == nil {
				small = append(small, a)
				err = st.Fill(backend.Fill{Addr: a, Value: 1, Element: 1, Width: 300000})
			}
		case 4:
			if len(small) > 0 {
				err = x.cu.Free(small[0])
				small = small[1:]
			}
		case 5:
			if err = x.Drain(t.Context()); err == nil {
				err = x.Unmap()
			}
			all[1].takeTurn(t, func() { all[1].fillMemory(t, 1) })
			if err == nil {
				err = x.Map()
			}
		}
		if err == nil {
			err = x.Drain(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if step%3 > 0 {
			continue
		}
		got := hashes(1)
		hashes(2) // forgets these blocks
		if want := hashes(1); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: remembered hashes %v, want the fresh ones %v", step, got, want)
		}
		hashes(1) // watches them
	}
}

// kernelParams is a kernel's block of an address and a word.
func kernelParams(a backend.Addr, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(a)), v)
}
