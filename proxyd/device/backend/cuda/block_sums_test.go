// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// sumOf is a block's sum by its definition, in numbers of any size.
func (k *sumKeys) sumOf(block []byte) (out blockSum) {
	number := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	prime := number(sumPrime)
	for j := range out {
		whole := new(big.Int)
		for piece := range sumPieces {
			of := block[piece*sumPiece:][:sumPiece]
			joined := new(big.Int)
			for thread := range sumThreads {
				sum := new(big.Int)
				for at := 16 * thread; at < sumPiece; at += 16 * sumThreads {
					for word := range 4 {
						sum.Mul(sum, number(k.Rule[j]))
						sum.Add(sum, number(uint64(binary.LittleEndian.Uint32(of[at+4*word:]))))
						sum.Mod(sum, prime)
					}
				}
				joined.Add(joined, sum.Mul(sum, number(k.Threads[thread][j])))
			}
			whole.Add(whole, joined.Mul(joined.Mod(joined, prime), number(k.Pieces[piece][j])))
		}
		out[j] = whole.Mod(whole, prime).Uint64()
	}
	return out
}

// sumSamples are blocks: random, without a byte that is zero, zeros, and with a single bit.
func sumSamples() map[string][]byte {
	random := make([]byte, backend.Granule)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random) // never fails
	last := make([]byte, backend.Granule)
	last[len(last)-1] = 0x80
	return map[string][]byte{"random": random, "full": bytes.Repeat([]byte{0xff}, backend.Granule), "zeros": make([]byte, backend.Granule), "last bit": last}
}

// TestSumKernel: the kernel in PTX, as the software GPU executes it, makes the sums of the definition.
func TestSumKernel(t *testing.T) {
	b, err := softgpu.New(softgpu.Config{Memory: []uint64{64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, cu := mappedSpaceOf(t, b)
	defer s.Close()
	k := newSumKeys()
	k.Rule[0], k.Threads[3][1] = sumPrime-1, sumPrime-1 // the largest
	m, log, err := cu.Load([]byte(sumKernel()), backend.LoadConfig{})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.Error)
	}
	keys, err := m.Global("keys")
	if err != nil || keys.Size != uint64(len(k.ofKernel())) {
		t.Fatalf("the keys: %d bytes, %v", keys.Size, err)
	}
	f, err := m.Function("sum_pieces")
	if err != nil {
		t.Fatal(err)
	}
	copyBytes := func(x backend.Copy) {
		t.Helper()
		if err := cu.Legacy().Copy(x); err != nil {
			t.Fatal(err)
		}
		if err := cu.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ofHost := func(p []byte) backend.CopySide { return backend.CopySide{Host: bytesOfHost(p)} }
	copyBytes(backend.Copy{Src: ofHost(k.ofKernel()), Dst: placeAt(keys.Addr), Width: keys.Size})
	from, err := cu.Alloc(backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 * sumPieces
	to, err := cu.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range sumSamples() {
		copyBytes(backend.Copy{Src: ofHost(block), Dst: placeAt(from), Width: backend.Granule})
		params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(from)), uint64(to))
		if err := cu.Legacy().Launch(backend.Launch{Function: f, Grid: dimOf(sumPieces), Block: dimOf(sumThreads), Params: params}); err != nil {
			t.Fatal(err)
		}
		pieces := make([]byte, size)
		copyBytes(backend.Copy{Src: placeAt(to), Dst: ofHost(pieces), Width: size})
		if got, want := k.joinPieces(pieces), k.sumOf(block); got != want || want == zeroSum != (name == "zeros") {
			t.Errorf("%s: the kernel's sum is %x, want %x", name, got, want)
		}
	}
}

// TestSumBlocks: the backend makes the sums of blocks by the kernel, in memory of any number of blocks.
func TestSumBlocks(t *testing.T) {
	b := openBackend(t, newFakeLibrary(t))
	d := b.Devices()[0].(*device)
	s, cu := mappedSpace(t, b)
	defer s.Close()
	samples := sumSamples()
	at, err := cu.Alloc(uint64(len(samples)) * backend.Granule)
	if err != nil {
		t.Fatal(err)
	}
	m, _, _ := s.(*space).view.findWindow(at)
	var want []blockSum
	for _, block := range samples {
		if err := m.writeAt(uint64(len(want))*backend.Granule, block); err != nil {
			t.Fatal(err)
		}
		want = append(want, b.sumKeys.sumOf(block))
	}
	got, err := d.sumBlocks(m.at, m.size)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d sums, %v, want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the sum of block %d is %x, want %x", i, got[i], want[i])
		}
	}
}
