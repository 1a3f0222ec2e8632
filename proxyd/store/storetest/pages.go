// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/binary"
	"math/rand/v2"
)

// PageSize is the size of a page of Image.
const PageSize = 4096

// Image is a made-up pages-N.img.
type Image [][]byte

// NewImage returns n pages as a process of a training job has them: zero pages, pages of
// pointers and small numbers, text, and floating point numbers that hardly compress.
func NewImage(seed uint64, n int) Image {
	r := rand.New(rand.NewPCG(seed, 1))
	im := make(Image, n)
	for i := range im {
		im[i] = newPage(r, r.IntN(100))
	}
	return im
}

// Noise returns n pages that do not compress.
func Noise(seed uint64, n int) Image {
	r := rand.New(rand.NewPCG(seed, 2))
	im := make(Image, n)
	for i := range im {
		im[i] = newPage(r, 99)
	}
	return im
}

func newPage(r *rand.Rand, kind int) []byte {
	p := make([]byte, PageSize)
	switch {
	case kind < 15: // zeros
	case kind < 50: // structs: pointers into a heap, small numbers, flags
		base := 0x7f0000000000 | r.Uint64N(1<<24)<<12
		for i := 0; i < PageSize; i += 32 {
			binary.LittleEndian.PutUint64(p[i:], base+r.Uint64N(1<<12)*16)
			binary.LittleEndian.PutUint64(p[i+8:], r.Uint64N(64))
			binary.LittleEndian.PutUint32(p[i+24:], uint32(r.Uint64N(4)))
		}
	case kind < 80: // text and code: words from a small vocabulary
		for i := 0; i < PageSize; {
			w := words[r.IntN(len(words))]
			i += copy(p[i:], w)
		}
	case kind < 92: // a buffer that is used in part
		for i := range r.IntN(PageSize) {
			p[i] = byte(r.Uint32())
		}
	default: // weights
		for i := 0; i < PageSize; i += 8 {
			binary.LittleEndian.PutUint64(p[i:], r.Uint64())
		}
	}
	return p
}

var words = []string{
	"torch.nn.functional", "\x48\x89\xe5\x48", "0x00000000", "def forward(self, ", "\x00\x00\x00\x00\x00\x00\x00\x00",
	"__pycache__/", "import ", "\xe8\x00\x00\x00\x00\x48\x83", "return ", "libstdc++.so.6", "weight", "bias", "optimizer.step()",
}

// Bytes returns the pages one after the other.
func (im Image) Bytes() []byte {
	b := make([]byte, 0, len(im)*PageSize)
	for _, p := range im {
		b = append(b, p...)
	}
	return b
}

// Touch returns im with k random pages changed a little, as by an idle job.
func (im Image) Touch(seed uint64, k int) Image {
	r := rand.New(rand.NewPCG(seed, 3))
	out := append(Image(nil), im...)
	for range k {
		i := r.IntN(len(out))
		out[i] = append([]byte(nil), out[i]...)
		binary.LittleEndian.PutUint64(out[i][r.IntN(PageSize/8)*8:], r.Uint64())
	}
	return out
}

// Insert returns im with k new pages at random places; Drop with k pages fewer.
func (im Image) Insert(seed uint64, k int) Image {
	r := rand.New(rand.NewPCG(seed, 4))
	out := append(Image(nil), im...)
	for range k {
		i := r.IntN(len(out) + 1)
		out = append(out[:i], append(Image{newPage(r, 20+r.IntN(80))}, out[i:]...)...)
	}
	return out
}

// Drop returns im without k random pages.
func (im Image) Drop(seed uint64, k int) Image {
	r := rand.New(rand.NewPCG(seed, 5))
	out := append(Image(nil), im...)
	for range min(k, len(out)) {
		i := r.IntN(len(out))
		out = append(out[:i], out[i+1:]...)
	}
	return out
}
