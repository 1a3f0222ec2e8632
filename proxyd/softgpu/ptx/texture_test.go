// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
)

// Where the tests have a descriptor, and texels.
const (
	testObject = 0x40_0000_0000
	testTexels = 0x50_0000_0000
)

// textureKernel stores %r of each thread by an object %o. The thread's number is %t and %f.
func textureKernel(body string) string {
	return header + `
.visible .entry k(.param .u64 out, .param .u64 object)
{
	.reg .b64 %out, %off, %o;
	.reg .b32 %t, %r, %x<9>;
	.reg .b16 %h<5>;
	.reg .f32 %f, %g<9>;
	ld.param.u64 %out, [out];
	ld.param.u64 %o, [object];
	mov.u32 %t, %tid.x;
	mov.u32 %r, 0;
	cvt.rn.f32.u32 %f, %t;
` + body + `
	mul.wide.u32 %off, %t, 4;
	add.s64 %out, %out, %off;
	st.global.u32 [%out], %r;
	ret;
}`
}

// textureMachine has texels and their descriptor.
func textureMachine(t *testing.T, body string, d texture.Descriptor, texels []byte) (m *machine, out []byte) {
	t.Helper()
	m = bootMachine(t, textureKernel(body))
	d.Base = testTexels
	b := d.Encode()
	m.mapAt(testObject, b[:])
	m.mapAt(testTexels, texels)
	return m, m.mapAt(testOut, make([]byte, 4*32))
}

func countingBytes(n int) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(i)))
	}
	return b
}

// TestTextures: each form of the instructions, by threads 0 to 31.
func TestTextures(t *testing.T) {
	f := math.Float32bits
	clamp := [3]texture.AddressMode{texture.Clamp, texture.Clamp, texture.Clamp}
	flat := texture.Descriptor{Width: 8, Height: 4, Pitch: 32, Format: texture.Float32, Channels: 1, Address: clamp}
	solid := texture.Descriptor{Width: 4, Height: 2, Depth: 4, Pitch: 16, Slice: 32, Format: texture.Float32, Channels: 1, Address: clamp}
	layers, smooth, surface := flat, flat, flat
	layers.Height, layers.Layers, layers.Slice = 2, 2, 64
	smooth.Filter, surface.Surface = true, true
	for _, c := range []struct {
		name, body string
		d          texture.Descriptor
		want       func(t uint32) uint32
	}{
		{"tex.1d.s32", "add.s32 %t, %t, -1; tex.1d.v4.f32.s32 {%g1, %g2, %g3, %g4}, [%o, {%t}]; mov.b32 %r, %g1; add.s32 %t, %t, 1;",
			texture.Descriptor{Width: 20, Format: texture.Float32, Channels: 1, Buffer: true},
			func(t uint32) uint32 {
				if t == 0 || t > 20 {
					return 0
				}
				return f(float32(t - 1))
			}},
		{"tex.1d.f32", "tex.1d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f}]; mov.b32 %r, %g1;", texture.Descriptor{Width: 10, Format: texture.Float32, Channels: 1, Address: clamp},
			func(t uint32) uint32 { return f(float32(min(t, 9))) }},
		{"tex.2d", "tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, 0f40000000}]; mov.b32 %r, %g1;", flat,
			func(t uint32) uint32 { return f(float32(16 + min(t, 7))) }},
		{"tex.2d, filtered", "tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, 0f40000000}]; mov.b32 %r, %g1;", smooth,
			func(t uint32) uint32 { return f(12 + min(max(float32(t), 0.5), 7.5) - 0.5) }},
		{"tex.level.2d", "tex.level.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, %f}], %f; mov.b32 %r, %g1;", flat,
			func(t uint32) uint32 { return f(float32(8*min(t, 3) + min(t, 7))) }},
		{"guarded", "{ .reg .pred p; setp.lt.u32 p, %t, 5; @p tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, 0f3f800000}]; @p mov.b32 %r, %g1; }", flat,
			func(t uint32) uint32 {
				if t < 5 {
					return f(float32(8 + t))
				}
				return 0
			}},
		{"tex.3d", "tex.3d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {0f40000000, 0f3f800000, %f, %f}]; mov.b32 %r, %g1;", solid,
			func(t uint32) uint32 { return f(float32(2 + 4 + 8*min(t, 3))) }},
		{"tex.a2d", "and.b32 %x1, %t, 3; tex.a2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%x1, %f, %f, %f}]; mov.b32 %r, %g1;", layers,
			func(t uint32) uint32 { return f(float32(16*min(t&3, 1) + 8*min(t, 1) + min(t, 7))) }},
		{"txq", "txq.width.b32 %r, [%o]; txq.height.b32 %x1, [%o]; txq.depth.b32 %x2, [%o]; mad.lo.u32 %r, %r, 100, %x1; mad.lo.u32 %r, %r, 100, %x2;", solid,
			func(uint32) uint32 { return 40204 }},
		{"suq", "suq.width.b32 %r, [%o]; suq.height.b32 %x1, [%o]; mad.lo.u32 %r, %r, 100, %x1;", surface, func(uint32) uint32 { return 804 }},
		{"suld and sust", `shl.b32 %x1, %t, 2; and.b32 %x1, %x1, 28; shr.u32 %x2, %t, 3; suld.b.2d.b32.trap {%r}, [%o, {%x1, %x2}];
			mov.u32 %x3, 77; sust.b.2d.b32.trap [%o, {%x1, %x2}], {%x3}; suld.b.2d.v2.b16.trap {%h1, %h2}, [%o, {%x1, %x2}];
			cvt.u32.u16 %x4, %h1; add.u32 %r, %r, %x4;`, surface, func(t uint32) uint32 { return f(float32(t)) + 77 }},
		{"outside of a surface", "shl.b32 %x1, %t, 2; suld.b.2d.b32.zero {%r}, [%o, {%x1, 1}]; suld.b.2d.b32.clamp {%x2}, [%o, {%x1, -3}]; xor.b32 %r, %r, %x2;", surface,
			func(t uint32) uint32 {
				if t < 8 {
					return f(float32(8+t)) ^ f(float32(t))
				}
				return f(7)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, out := textureMachine(t, c.body, c.d, countingBytes(32))
			m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut, testObject)
			for i, got := range readWords(out)[:32] {
				if want := c.want(uint32(i)); got != want {
					t.Errorf("thread %d: %#x, want %#x", i, got, want)
				}
			}
		})
	}
}

// TestTextureIntegers: the texels of each thread may be of another texture, and integers stay integers.
func TestTextureIntegers(t *testing.T) {
	m, out := textureMachine(t, `{ .reg .pred p; setp.ge.u32 p, %t, 16; @p add.s64 %o, %o, 128; }
		tex.2d.v4.u32.f32 {%r, %x1, %x2, %x3}, [%o, {%f, 0f00000000}]; shl.b32 %x1, %x1, 8; or.b32 %r, %r, %x1;`,
		texture.Descriptor{Width: 40, Height: 1, Pitch: 80, Format: texture.Unsigned8, Channels: 2, Integers: true}, countingBytes(32))
	for i := range 128 {
		m.mapped[1][i] = byte(i)
	}
	other := texture.Descriptor{Base: testTexels, Width: 40, Height: 1, Pitch: 40, Format: texture.Signed8, Channels: 1, Integers: true}
	b := other.Encode()
	m.mapped[0] = append(m.mapped[0], b[:]...)
	if err := m.mem.Unmap(testObject); err != nil {
		t.Fatal(err)
	}
	if err := m.mem.Map(testObject, slices.Clone(m.mapped[0]), true); err != nil {
		t.Fatal(err)
	}
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut, testObject)
	for i, got := range readWords(out)[:32] {
		want := uint32(2*i | (2*i+1)<<8)
		if i >= 16 {
			want = uint32(i)
		}
		if got != want {
			t.Errorf("thread %d: %#x, want %#x", i, got, want)
		}
	}
}

// TestTextureFaults: an object that is no texture, or a texture of another form, ends the kernel.
func TestTextureFaults(t *testing.T) {
	flat := texture.Descriptor{Width: 8, Height: 4, Pitch: 32, Format: texture.Float32, Channels: 1}
	surface := flat
	surface.Surface = true
	for _, c := range []struct {
		name, body string
		d          texture.Descriptor
		kind       FaultKind
		words      string
	}{
		{"a form", "tex.1d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f}];", flat, IllegalInstruction, "of another form"},
		{"integer coordinates", "tex.2d.v4.f32.s32 {%g1, _, _, _}, [%o, {%t, %t}];", flat, IllegalInstruction, "of another form"},
		{"a surface", "tex.2d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f, %f}];", surface, IllegalAddress, "no texture"},
		{"no descriptor", "add.s64 %o, %o, 8; tex.2d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f, %f}];", flat, IllegalAddress, "no texture"},
		{"no memory", "mov.u64 %o, 0; tex.2d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f, %f}];", flat, IllegalAddress, "no texture"},
		{"outside of a surface", "suld.b.2d.b32.trap {%r}, [%o, {32, 0}];", surface, IllegalAddress, "outside"},
		{"texels that are gone", "tex.2d.v4.f32.f32 {%g1, _, _, _}, [%o, {0f00000000, 0f41000000}];",
			texture.Descriptor{Width: 8, Height: 9, Pitch: 32, Format: texture.Float32, Channels: 1}, IllegalAddress, ""},
	} {
		m, _ := textureMachine(t, c.body, c.d, countingBytes(32))
		err := m.launchKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut, testObject)
		var fault *Fault
		if !errors.As(err, &fault) || fault.Kind != c.kind || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("launch with %s: %v", c.name, err)
		}
	}
}

// TestTextureTouched: a launch reports the memory that it reads of textures, the descriptor too.
func TestTextureTouched(t *testing.T) {
	m, _ := textureMachine(t, "tex.2d.v4.f32.f32 {%g1, _, _, _}, [%o, {%f, %f}];", texture.Descriptor{Width: 8, Height: 4, Pitch: 32, Format: texture.Float32, Channels: 1}, countingBytes(32))
	m.cfg.Touched = &memory.TouchedRanges{}
	m.runKernel("k", Dim3{1, 1, 1}, Dim3{32, 1, 1}, testOut, testObject)
	var bases []uint64
	for _, r := range m.cfg.Touched.Ranges() {
		bases = append(bases, r.Base)
	}
	if want := []uint64{testOut, testObject, testTexels}; !slices.Equal(bases, want) {
		t.Errorf("touched %#x, want %#x", bases, want)
	}
}

// TestTexturesRefused: forms that are not supported are refused by name.
func TestTexturesRefused(t *testing.T) {
	for _, body := range []string{
		"tex.cube.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, %f, %f, %f}];",
		"tex.grad.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, %f}], {%f, %f}, {%f, %f};",
		"tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, %o, {%f, %f}];",
		"tex.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, %f}], {%t, %t};",
		"tld4.r.2d.v4.f32.f32 {%g1, %g2, %g3, %g4}, [%o, {%f, %f}];",
		"sust.p.2d.b32.trap [%o, {%t, %t}], {%r};",
		"txq.num_samples.b32 %r, [%o];",
	} {
		err := bootMachine(t, textureKernel(body)).launchKernel("k", Dim3{1, 1, 1}, Dim3{1, 1, 1}, 0, 0)
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.HasPrefix(body, refused.Opcode) {
			t.Errorf("launch of %s: %v, want a RefusedError that names the form", body, err)
		}
	}
}
