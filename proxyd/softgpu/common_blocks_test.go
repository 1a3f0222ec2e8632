// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// sameBlock is a block of each tenant, at the same place of their memory.
func sameBlock(all []*tenant, n int) (out []backend.SpaceBlock) {
	for _, x := range all {
		out = append(out, backend.SpaceBlock{Space: x.space, ID: backend.BlockID{Base: x.at + backend.Addr(n*backend.Granule)}})
	}
	return out
}

// noiseBlock is a block's bytes.
func noiseBlock(seed uint64) []byte {
	out, r := make([]byte, backend.Granule), rand.New(rand.NewPCG(seed, 5))
	for i := 0; i < len(out); i += 8 {
		binary.LittleEndian.PutUint64(out[i:], r.Uint64())
	}
	return out
}

// readBlock reads the n-th block of a tenant's memory.
func (x *tenant) readBlock(t *testing.T, n int) []byte {
	t.Helper()
	p := make([]byte, backend.Granule)
	if _, err := x.ReadBlock(backend.BlockID{Base: x.at + backend.Addr(n*backend.Granule)}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantCommon compares the byte counts of a device.
func wantCommon(t *testing.T, d *device, when string, shared, saved, unshared uint64) {
	t.Helper()
	const g = backend.Granule
	if c := d.Common(); c.Shared != shared*g || c.Saved != saved*g || c.Unshared != unshared*g {
		t.Errorf("%s: %d blocks are common, %d saved, %d unshared, want %d, %d and %d", when, c.Shared/g, c.Saved/g, c.Unshared/g, shared, saved, unshared)
	}
}

// TestWriteBlocks: equal blocks of a restore are there once; a space that writes has bytes of its own, and the other
// spaces keep theirs.
func TestWriteBlocks(t *testing.T) {
	d, all := makeTenants(t, 3)
	want := noiseBlock(1)
	if err := all[0].Map(); err != nil { // as the first space of a restored device is
		t.Fatal(err)
	}
	for n := range 2 {
		if err := d.WriteBlocks(sameBlock(all, n), nil, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := all[0].Unmap(); err != nil {
		t.Fatal(err)
	}
	wantCommon(t, d, "at first", 2, 4, 0)
	all[1].takeTurn(t, func() {
		if err := all[1].cu.Legacy().Fill(backend.Fill{Addr: all[1].at + 77, Value: 5, Element: 1, Width: 1}); err != nil {
			t.Fatal(err)
		}
	})
	changed := bytes.Clone(want)
	changed[77] = 5
	for i, x := range all {
		is := want
		if i == 1 {
			is = changed
		}
		if !bytes.Equal(x.readBlock(t, 0), is) || !bytes.Equal(x.readBlock(t, 1), want) {
			t.Errorf("space %d does not have the bytes that were written to it", i)
		}
	}
	wantCommon(t, d, "a space has written a byte", 2, 3, 1)
	// A block that was wiped is zero in its own space only. Memory that is freed is zero for the next owner.
	if err := all[0].WriteBlock(sameBlock(all, 1)[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := all[2].cu.Free(all[2].at); err != nil {
		t.Fatal(err)
	}
	at, err := all[2].cu.Alloc(tenantSize)
	if err != nil || at != all[2].at {
		t.Fatalf("Alloc after Free = %#x, %v, want the freed address", uint64(at), err)
	}
	zero := make([]byte, backend.Granule)
	if !bytes.Equal(all[0].readBlock(t, 1), zero) || !bytes.Equal(all[2].readBlock(t, 0), zero) || !bytes.Equal(all[2].readBlock(t, 1), zero) {
		t.Error("memory that was wiped or freed is not zero")
	}
	if !bytes.Equal(all[0].readBlock(t, 0), want) || !bytes.Equal(all[1].readBlock(t, 1), want) {
		t.Error("a block has changed that was not touched")
	}
	wantCommon(t, d, "two spaces have given back", 2, 0, 1)
	// A space that is alone with its bytes shares them with no other space.
	if err := d.WriteBlocks([]backend.SpaceBlock{sameBlock(all, 2)[0], sameBlock(all, 3)[0]}, nil, want); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all[0].readBlock(t, 2), want) || !bytes.Equal(all[0].readBlock(t, 3), want) {
		t.Error("a space does not have its bytes twice")
	}
	wantCommon(t, d, "equal blocks of a single space", 2, 0, 1)
	for i, err := range []error{
		d.WriteBlocks([]backend.SpaceBlock{sameBlock(all, 0)[0], {Space: all[1].space, ID: backend.BlockID{Base: 512}}}, nil, want),
		d.WriteBlocks(sameBlock(all, 0), nil, want[1:]),
	} {
		if backend.ResultOf(err) != backend.InvalidValue {
			t.Errorf("WriteBlocks, case %d: %v, want InvalidValue", i, err)
		}
	}
}

// TestWriteBlocksAlike: a block that is written later joins the blocks that hold the same bytes already, and leaves the
// blocks with other bytes as they are.
func TestWriteBlocksAlike(t *testing.T) {
	d, all := makeTenants(t, 4)
	want, others := noiseBlock(1), noiseBlock(2)
	if err := all[0].Map(); err != nil {
		t.Fatal(err)
	}
	first := sameBlock(all, 0)
	write := func(n int, p []byte) {
		t.Helper()
		if err := d.WriteBlocks(first[n:n+1], first[:n], p); err != nil {
			t.Fatal(err)
		}
	}
	write(0, want)
	wantCommon(t, d, "a single space", 0, 0, 0)
	write(1, want)
	wantCommon(t, d, "two spaces", 1, 1, 0)
	write(2, others)
	wantCommon(t, d, "a third with other bytes", 1, 1, 0)
	if err := all[1].Close(); err != nil { // as a process that ends before its job goes on
		t.Fatal(err)
	}
	write(3, want)
	wantCommon(t, d, "a space is gone, and another comes", 1, 1, 0)
	for i, is := range [][]byte{want, nil, others, want} {
		if is != nil && !bytes.Equal(all[i].readBlock(t, 0), is) {
			t.Errorf("space %d does not have the bytes that were written to it", i)
		}
	}
}

// TestWriteBlocksLimited: a user's limit for the size of files does not end the process, it ends the sharing.
func TestWriteBlocksLimited(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	less := limit
	less.Cur = backend.Granule
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &less); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}()
	d, all := makeTenants(t, 2)
	for n := range 3 {
		if err := d.WriteBlocks(sameBlock(all, n), nil, noiseBlock(uint64(n))); err != nil {
			t.Fatal(err)
		}
	}
	wantCommon(t, d, "at first", 1, 1, 0)
	for n := range 3 {
		for i, x := range all {
			if !bytes.Equal(x.readBlock(t, n), noiseBlock(uint64(n))) {
				t.Errorf("space %d does not have block %d", i, n)
			}
		}
	}
}

// TestSwapByContent: spaces that change alike leave a device with room for one. Changed bytes are moved once for all.
func TestSwapByContent(t *testing.T) {
	for _, k := range []int{2, 3, 4} {
		d, all := makeTenants(t, k)
		for round := range 4 {
			before, compared := d.Swapped(), d.Common().Compared
			for _, x := range all {
				x.takeTurn(t, func() { x.fillMemory(t, uint32(1+round)) })
			}
			after := d.Swapped()
			if n := d.Common().Compared - compared; round > 0 && n < 2*tenantSize {
				t.Errorf("%d spaces, round %d: %d bytes were compared, want those of two spaces at least", k, round, n)
			}
			if out, in := after.Out-before.Out, after.In-before.In; round > 0 && (out != tenantSize || in != 0) {
				t.Errorf("%d spaces, round %d: %d bytes out and %d in, want %d out", k, round, out, in, tenantSize)
			}
			for _, x := range all {
				x.checkMemory(t, byte(1+round))
			}
		}
	}
}

// twins are the same spaces on a device that has memory in common, and on another that has not.
type twins struct {
	*testing.T
	d   [2]*device
	all [2][]*tenant
}

func newTwins(t *testing.T, spaces int) *twins {
	w := &twins{T: t}
	for i := range w.d {
		b, err := New(Config{Memory: []uint64{deviceSize}, Separate: i == 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		w.d[i] = b.Devices()[0].(*device)
		w.all[i] = tenantsOf(t, w.d[i], spaces)
	}
	return w
}

// callBoth calls do for both, and compares the errors.
func (w *twins) callBoth(what string, do func(d *device, all []*tenant) error) {
	w.Helper()
	a, b := do(w.d[0], w.all[0]), do(w.d[1], w.all[1])
	if fmt.Sprint(a) != fmt.Sprint(b) {
		w.Fatalf("%s: %v with common memory, %v without", what, a, b)
	}
}

// hashBlocks returns the hashes of all blocks of a tenant.
func (x *tenant) hashBlocks(t *testing.T, key byte) map[backend.BlockID]backend.Hash {
	t.Helper()
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

// TestCommonIsUnseen: after any operations, each space finds the bytes that it would find without memory in common.
func TestCommonIsUnseen(t *testing.T) {
	const spaces, blocks = 3, tenantSize / backend.Granule
	saved := uint64(0)
	for seed := range uint64(3) {
		w, r := newTwins(t, spaces), rand.New(rand.NewPCG(seed, 9))
		small := map[int]backend.Addr{}
		for range 60 {
			i, n, v, from := r.IntN(spaces), r.IntN(blocks), r.Uint32N(3), r.Uint64N(backend.Granule-64)
			op := r.IntN(8)
			w.callBoth(fmt.Sprint("operation ", op), func(d *device, all []*tenant) (err error) {
				x := all[i]
				at := x.at + backend.Addr(n*backend.Granule)
				switch op {
				case 0: // all spaces change alike, each in its turn
					for _, x := range all {
						at := x.at + backend.Addr(n*backend.Granule)
						x.takeTurn(t, func() {
							err = x.cu.Legacy().Fill(backend.Fill{Addr: at, Value: v, Element: 4, Width: backend.Granule / 4})
						})
					}
				case 1:
					x.takeTurn(t, func() {
						err = x.cu.Legacy().Fill(backend.Fill{Addr: at + backend.Addr(from), Value: v, Element: 1, Width: 1 + from%64})
					})
				case 2:
					x.takeTurn(t, func() {
						err = x.cu.Legacy().Copy(backend.Copy{Src: backend.CopySide{Addr: uint64(x.at) + from}, Dst: backend.CopySide{Addr: uint64(at)}, Width: 1 << 20})
					})
				case 3:
					err = d.WriteBlocks(sameBlock(all, n), nil, noiseBlock(uint64(v)))
				case 4:
					err = x.WriteBlock(backend.BlockID{Base: at}, nil)
				case 5:
					err = x.WriteBlock(backend.BlockID{Base: at}, noiseBlock(uint64(v)))
				case 6: // several small allocations in a block, some of which are freed
					x.takeTurn(t, func() {
						if a := small[i]; a != 0 {
							err = x.cu.Free(a)
						} else if a, err = x.cu.Alloc(400000); err == nil {
							err = x.cu.Legacy().Fill(backend.Fill{Addr: a, Value: v, Element: 1, Width: 400000})
						}
					})
				case 7:
					x.takeTurn(t, func() {})
				}
				return err
			})
			if op == 6 && small[i] != 0 {
				delete(small, i)
			} else if op == 6 {
				for _, a := range w.all[0][i].State().Allocations {
					if a.Size == 400000 {
						small[i] = a.Base
					}
				}
			}
			saved = max(saved, w.d[0].Common().Saved)
			for i := range spaces {
				if a, b := w.all[0][i].hashBlocks(t, 1), w.all[1][i].hashBlocks(t, 1); !maps.Equal(a, b) {
					t.Fatalf("seed %d: after operation %d space %d has %v, and without common memory %v", seed, op, i, a, b)
				}
			}
			if a, b := w.all[0][i].readBlock(t, n), w.all[1][i].readBlock(t, n); !bytes.Equal(a, b) {
				t.Fatalf("seed %d: after operation %d block %d of space %d is different", seed, op, n, i)
			}
		}
		if free := w.d[0].Swapped(); free.Most > deviceSize && w.d[1].Swapped().Most <= deviceSize {
			t.Errorf("%d bytes were on a device of %d", free.Most, deviceSize)
		}
	}
	if saved < backend.Granule {
		t.Error("no memory was ever common")
	}
}

// TestCommonIsGone: when the spaces are closed, the device holds no common memory.
func TestCommonIsGone(t *testing.T) {
	d, all := makeTenants(t, 3)
	for n := range tenantSize / backend.Granule {
		if err := d.WriteBlocks(sameBlock(all, n), nil, noiseBlock(uint64(n))); err != nil {
			t.Fatal(err)
		}
	}
	all[0].takeTurn(t, func() {})
	all[1].takeTurn(t, func() { all[1].fillMemory(t, 1) })
	all[0].takeTurn(t, func() {})
	for _, x := range all {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if c := d.Common(); c.Shared+c.Saved+c.Private != 0 {
		t.Errorf("after Close of all spaces, Common() = %+v, want 0 bytes", c)
	}
	if n := d.common.Blocks(); n != 0 {
		t.Errorf("the pool has %d blocks, want 0", n)
	}
}

// TestCommonMoves: a space that goes to another device keeps its bytes, and its memory in common with spaces that stay.
func TestCommonMoves(t *testing.T) {
	b, err := New(Config{Memory: []uint64{deviceSize, deviceSize}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	from, to := b.Devices()[0].(*device), b.Devices()[1].(*device)
	all := tenantsOf(t, from, 4)
	const blocks = tenantSize / backend.Granule
	for n := range blocks {
		if err := from.WriteBlocks(sameBlock(all, n), nil, noiseBlock(uint64(n))); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range all {
		x.takeTurn(t, func() {})
	}
	for _, x := range all[2:] {
		if err := x.Move(to); err != nil {
			t.Fatal(err)
		}
	}
	wantCommon(t, from, "the spaces that stay", blocks, blocks, 0)
	wantCommon(t, to, "the spaces that have moved", blocks, blocks, 0)
	for round := range 2 {
		for i, x := range all {
			x.takeTurn(t, func() {
				at := x.at + backend.Addr(i*backend.Granule)
				if err := x.cu.Legacy().Fill(backend.Fill{Addr: at, Value: uint32(i + 1), Element: 1, Width: backend.Granule}); err != nil {
					t.Fatal(err)
				}
			})
		}
		for i, x := range all {
			for n := range blocks {
				want := noiseBlock(uint64(n))
				if n == i {
					want = bytes.Repeat([]byte{byte(i + 1)}, backend.Granule)
				}
				if !bytes.Equal(x.readBlock(t, n), want) {
					t.Errorf("round %d: space %d does not have block %d", round, i, n)
				}
			}
		}
	}
	// The blocks became common on the first device, which counts them.
	wantCommon(t, from, "each space has written a block", blocks, blocks-2, 4)
	wantCommon(t, to, "each space has written a block", blocks, blocks-2, 0)
	for _, x := range all {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := from.common.Blocks() + to.common.Blocks(); n != 0 {
		t.Errorf("the pool has %d blocks, want 0", n)
	}
}
