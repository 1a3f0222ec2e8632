// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package ptx

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/simd"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
)

// planeKernel samples at coordinates that lie in memory, in every warp but the first from memory that the instruction has
// accessed before. The last warp is not full, and a third of the lanes do not take part.
const planeKernel = header + `
.visible .entry k(.param .u64 out, .param .u64 object, .param .u64 coordinates)
{
	.reg .b64 %a<9>;
	.reg .b32 %t, %u;
	.reg .f32 %x, %y, %g<5>;
	.reg .pred %p;
	ld.param.u64 %a1, [out];
	ld.param.u64 %a2, [object];
	ld.param.u64 %a3, [coordinates];
	mov.u32 %t, %tid.x;
	mul.wide.u32 %a4, %t, 8;
	add.s64 %a3, %a3, %a4;
	add.s64 %a1, %a1, %a4;
	add.s64 %a1, %a1, %a4;
	ld.global.v2.f32 {%x, %y}, [%a3];
	mov.f32 %g1, 0f3f800000;
	mov.f32 %g2, %g1;
	mov.f32 %g3, %g1;
	mov.f32 %g4, %g1;
	rem.u32 %u, %t, 3;
	setp.ne.u32 %p, %u, 0;
	@%p tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%a2, {%x, %y}];
	st.global.v4.f32 [%a1], {%g1, %g2, %g3, %g4};
	ret;
}`

// TestTexturesOfWarps: the processor's vector instructions and the loop over the lanes read the same of a texture.
func TestTexturesOfWarps(t *testing.T) {
	if !simd.Textures {
		t.Skip("needs AVX-512")
	}
	defer func() { simd.Textures = true }()
	const threads = 250
	r := rand.New(rand.NewPCG(1, 2))
	odd := []uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00001, 0xffa00003, 0x7f7fffff, 1, 0x3f000000, 0x3f800000, 0x53000000, 0xd3000000}
	formats := []texture.Format{
		texture.Unsigned8, texture.Unsigned16, texture.Unsigned32, texture.Signed8, texture.Signed16, texture.Signed32, texture.Float16, texture.Float32,
	}
	for n := range 600 {
		d := texture.Descriptor{
			Base: testTexels + 64, Width: 1 + r.Uint32N(40), Height: 1 + r.Uint32N(9), Pitch: 640, Format: formats[r.IntN(len(formats))],
			Channels: 1 << r.IntN(3), Integers: r.IntN(2) == 0, Normalized: r.IntN(2) == 0, Filter: r.IntN(2) == 0,
		}
		if d.Filter && r.IntN(2) == 0 {
			d.Format, d.Channels = texture.Float32, 1
		}
		for k := range d.Address {
			d.Address[k] = texture.AddressMode(r.IntN(4))
		}
		if d.Check() != nil {
			continue
		}
		texels := operandBytes(r, 64+640*10)
		if r.IntN(2) == 0 { // ordinary numbers
			for i := 0; i < len(texels); i += 4 {
				binary.LittleEndian.PutUint32(texels[i:], math.Float32bits(r.Float32()*8-4))
			}
		}
		var places []byte
		for range threads {
			for _, extent := range []uint32{d.Width, d.Height} {
				v := math.Float32bits((r.Float32()*3 - 1) * float32(extent))
				switch r.IntN(6) {
				case 0:
					v = odd[r.IntN(len(odd))]
				case 1:
					v = math.Float32bits(r.Float32()*6 - 3)
				}
				places = binary.LittleEndian.AppendUint32(places, v)
			}
		}
		sample := func() []byte {
			m := bootMachine(t, planeKernel)
			b := d.Encode()
			m.mapAt(testObject, b[:])
			m.mapAt(testTexels, slices.Clone(texels))
			m.mapAt(testTexels+1<<32, slices.Clone(places))
			out := m.mapAt(testOut, make([]byte, 16*threads))
			m.runKernel("k", Dim3{1, 1, 1}, Dim3{threads, 1, 1}, testOut, testObject, testTexels+1<<32)
			return out
		}
		simd.Textures = true
		fast := sample()
		simd.Textures = false
		slow := sample()
		simd.Textures = true
		for i := 0; i < len(fast); i += 4 {
			if a, b := binary.LittleEndian.Uint32(fast[i:]), binary.LittleEndian.Uint32(slow[i:]); a != b {
				t.Fatalf("texture %d, %+v: thread %d at %x: channel %d is %#x, and lane by lane %#x", n, d, i/16, places[i/16*8:][:8], i/4%4, a, b)
			}
		}
	}
}
