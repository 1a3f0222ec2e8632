// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package texture

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// memoryOf is a Reader of bytes that begin at an address.
func memoryOf(base uint64, b []byte) Reader {
	return func(addr uint64, n uint32) []byte { return b[addr-base:][:n] }
}

func floatBytes(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// rowTexture is a texture of a single dimension with the texels 10, 20, 30, 40.
func rowTexture(change func(*Descriptor)) *Descriptor {
	d := &Descriptor{Base: 0x1000, Width: 4, Format: Float32, Channels: 1, Address: [3]AddressMode{Clamp, Clamp, Clamp}}
	change(d)
	return d
}

// TestAddressModes: the texel that a coordinate reads, by mode.
func TestAddressModes(t *testing.T) {
	mode := func(m AddressMode, normalized, filter bool) func(*Descriptor) {
		return func(d *Descriptor) {
			d.Address[0], d.Normalized, d.Filter = m, normalized, filter
			if m == Border {
				d.Border[0] = -8
			}
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name     string
		change   func(*Descriptor)
		at, want []float32
	}{
		{"clamp", mode(Clamp, false, false), []float32{-5, -0.25, 0, 0.99, 1, 3.5, 4, 99, nan, inf, -inf}, []float32{10, 10, 10, 10, 20, 40, 40, 40, 10, 40, 10}},
		{"wrap is clamp without normalized coordinates", mode(Wrap, false, false), []float32{-1, 1, 5}, []float32{10, 20, 40}},
		{"normalized clamp", mode(Clamp, true, false), []float32{-1, 0, 0.25, 0.74, 0.99, 1, 2}, []float32{10, 10, 20, 30, 40, 40, 40}},
		{"wrap", mode(Wrap, true, false), []float32{-0.25, -1, 0.5, 1, 1.25, 7.75, nan, inf}, []float32{40, 10, 30, 10, 20, 40, 10, 10}},
		{"mirror", mode(Mirror, true, false), []float32{-0.125, -0.375, 0.125, 1, 1.125, 1.375, 2.125}, []float32{10, 20, 10, 40, 40, 30, 10}},
		{"border", mode(Border, true, false), []float32{-0.001, 0, 0.999, 1}, []float32{-8, 10, 40, -8}},
		{"filter", mode(Clamp, false, true), []float32{0, 0.5, 1, 1.25, 3.5, 4}, []float32{10, 10, 15, 17.5, 40, 40}},
		{"filter with weights of 1/256", mode(Clamp, false, true), []float32{0.5 + 1.0/512, 0.5 + 0.9/512}, []float32{10 + 10.0/256, 10}},
		{"filter and wrap", mode(Wrap, true, true), []float32{0, 1, 0.125}, []float32{25, 25, 10}},
		{"filter and mirror", mode(Mirror, true, true), []float32{0, 1, 1.125, -0.25}, []float32{10, 40, 40, 15}},
		{"filter and border", mode(Border, true, true), []float32{0, 1}, []float32{1, 16}},
	} {
		d := rowTexture(c.change)
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		read := memoryOf(d.Base, floatBytes(10, 20, 30, 40))
		for i, x := range c.at {
			got := math.Float32frombits(d.Sample([3]float32{x}, 0, read)[0])
			if got != c.want[i] {
				t.Errorf("%s: at %g: %g, want %g", c.name, x, got, c.want[i])
			}
		}
	}
}

// TestFormats: the value that the bytes of a channel become.
func TestFormats(t *testing.T) {
	f := math.Float32bits
	for _, c := range []struct {
		format   Format
		integers bool
		bytes    []byte
		want     uint32
	}{
		{Unsigned8, true, []byte{200}, 200},
		{Unsigned8, false, []byte{51}, f(0.2)},
		{Signed8, true, []byte{0xff}, 0xffffffff},
		{Signed8, false, []byte{0x80}, f(-1)},
		{Signed8, false, []byte{0x7f}, f(1)},
		{Unsigned16, true, []byte{1, 2}, 513},
		{Unsigned16, false, []byte{0xff, 0xff}, f(1)},
		{Signed16, true, []byte{0, 0x80}, 0xffff8000},
		{Signed16, false, []byte{1, 0x80}, f(-1)},
		{Unsigned32, false, []byte{1, 2, 3, 4}, 0x04030201},
		{Signed32, true, []byte{1, 2, 3, 0x84}, 0x84030201},
		{Float16, true, []byte{0, 0x3c}, f(1)},
		{Float32, true, floatBytes(2.5), f(2.5)},
	} {
		d := rowTexture(func(d *Descriptor) { d.Format, d.Integers, d.Width = c.format, c.integers, 1 })
		if got := d.Sample([3]float32{}, 0, memoryOf(d.Base, c.bytes)); got != (Texel{c.want}) {
			t.Errorf("format %d of %x: %x, want %x", c.format, c.bytes, got, c.want)
		}
	}
}

// TestInterpolation compares two and three dimensions with a computation in rational numbers.
func TestInterpolation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		d := &Descriptor{
			Base: 1 << 40, Width: 1 + r.Uint32N(5), Height: 1 + r.Uint32N(5), Format: Float32, Channels: []uint32{1, 2, 4}[r.IntN(3)], Filter: true,
			Normalized: r.IntN(2) == 0,
		}
		if r.IntN(2) == 0 {
			d.Depth = 1 + r.Uint32N(4)
		} else if r.IntN(2) == 0 {
			d.Layers = 1 + r.Uint32N(3)
		}
		for k := range d.Address {
			d.Address[k] = AddressMode(r.IntN(4))
		}
		d.Border = [4]float32{1, -2, 3, 0.5}
		d.Pitch = uint64(d.Width*d.TexelSize()) + 16*r.Uint64N(3)
		d.Slice = d.Pitch*uint64(d.Height) + 32*r.Uint64N(2)
		mem := make([]byte, d.Slice*uint64(max(d.Depth, d.Layers, 1)))
		for i := 0; i < len(mem); i += 4 {
			binary.LittleEndian.PutUint32(mem[i:], math.Float32bits(float32(r.NormFloat64())))
		}
		at := [3]float32{float32(r.NormFloat64() * 3), float32(r.NormFloat64() * 3), float32(r.NormFloat64() * 3)}
		layer := r.Uint32N(4)
		got := d.Sample(at, layer, memoryOf(d.Base, mem))
		if want := weighTexels(d, at, layer, mem); got != want {
			t.Fatalf("%+v at %v: %x, want %x", *d, at, got, want)
		}
	}
}

// weighTexels repeats the package's arithmetic in rational numbers, over all texels of an unrolled texture.
func weighTexels(d *Descriptor, at [3]float32, layer uint32, mem []byte) Texel {
	n := d.Dimensions()
	extent := []uint32{d.Width, d.Height, d.Depth}
	type weighed struct {
		index  [3]int // -1: the border
		weight *big.Rat
	}
	all := []weighed{{weight: big.NewRat(1, 1)}}
	for k := range n {
		x, size := new(big.Rat).SetFloat64(float64(at[k])), new(big.Rat).SetInt64(int64(extent[k]))
		wraps, mirrors := d.Normalized && d.Address[k] == Wrap, d.Normalized && d.Address[k] == Mirror
		if wraps || mirrors {
			whole := new(big.Int).Div(x.Num(), x.Denom())
			odd := whole.Bit(0) != 0
			x.Sub(x, new(big.Rat).SetInt(whole))
			if mirrors && odd {
				x.Sub(big.NewRat(1, 1), x)
			}
		}
		if d.Normalized {
			x.Mul(x, size)
		}
		x.Sub(x, big.NewRat(1, 2))
		low := new(big.Int).Div(x.Num(), x.Denom())
		x.Sub(x, new(big.Rat).SetInt(low))
		x.Mul(x, big.NewRat(256, 1)).Add(x, big.NewRat(1, 2))
		upper := new(big.Rat).SetFrac(new(big.Int).Div(x.Num(), x.Denom()), big.NewInt(256))
		place := func(i int) int {
			switch {
			case i >= 0 && i < int(extent[k]):
				return i
			case d.Address[k] == Border:
				return -1
			case wraps:
				return ((i % int(extent[k])) + int(extent[k])) % int(extent[k])
			case i < 0:
				return 0
			}
			return int(extent[k]) - 1
		}
		var next []weighed
		for _, w := range all {
			for step, f := range []*big.Rat{new(big.Rat).Sub(big.NewRat(1, 1), upper), upper} {
				one := weighed{w.index, new(big.Rat).Mul(w.weight, f)}
				one.index[k] = place(int(low.Int64()) + step)
				next = append(next, one)
			}
		}
		all = next
	}
	var out Texel
	for c := range d.Channels {
		sum := new(big.Rat)
		for _, w := range all {
			v := d.Border[c]
			if w.index[0] >= 0 && w.index[1] >= 0 && w.index[2] >= 0 {
				where := uint64(w.index[0])*uint64(d.TexelSize()) + uint64(w.index[1])*d.Pitch + uint64(w.index[2])*d.Slice + uint64(c)*4
				if d.Layers > 0 {
					where += uint64(min(layer, d.Layers-1)) * d.Slice
				}
				v = math.Float32frombits(binary.LittleEndian.Uint32(mem[where:]))
			}
			sum.Add(sum, new(big.Rat).Mul(w.weight, new(big.Rat).SetFloat64(float64(v))))
		}
		f, _ := sum.Float64()
		out[c] = math.Float32bits(float32(f))
	}
	return out
}

// TestFetch: linear memory is 0 outside.
func TestFetch(t *testing.T) {
	d := rowTexture(func(d *Descriptor) { d.Buffer = true })
	read := memoryOf(d.Base, floatBytes(10, 20, 30, 40))
	for i, want := range map[int32]float32{-1: 0, 0: 10, 3: 40, 4: 0, math.MaxInt32: 0, math.MinInt32: 0} {
		if got := d.FetchTexel(i, read); got != (Texel{math.Float32bits(want)}) {
			t.Errorf("texel %d: %x, want %g", i, got, want)
		}
	}
}

// TestPlace: where a surface's bytes are.
func TestPlace(t *testing.T) {
	d := &Descriptor{Base: 1000, Pitch: 64, Slice: 640, Width: 4, Height: 10, Layers: 2, Format: Unsigned16, Channels: 2, Surface: true}
	for _, c := range []struct {
		x, y     int32
		layer, n uint32
		mode     SurfaceMode
		addr     uint64
		inside   bool
	}{
		{0, 0, 0, 4, SurfaceTrap, 1000, true},
		{12, 9, 1, 4, SurfaceTrap, 1000 + 12 + 9*64 + 640, true},
		{14, 0, 0, 4, SurfaceTrap, 0, false},
		{14, 0, 0, 4, SurfaceClamp, 1012, true},
		{-4, 10, 7, 4, SurfaceClamp, 1000 + 9*64 + 640, true},
		{-4, 0, 0, 4, SurfaceZero, 0, false},
		{0, 10, 0, 4, SurfaceZero, 0, false},
		{0, 0, 2, 4, SurfaceZero, 0, false},
		{0, 0, 0, 32, SurfaceClamp, 0, false},
	} {
		addr, inside := d.PlaceAccess(c.x, c.y, 0, c.layer, c.n, c.mode)
		if addr != c.addr || inside != c.inside {
			t.Errorf("PlaceAccess of %+v = %d, %v", c, addr, inside)
		}
	}
}

// TestEncode: a descriptor comes back from its bytes, and bytes that are no descriptor are refused.
func TestEncode(t *testing.T) {
	d := Descriptor{
		Base: 1 << 45, Pitch: 512, Slice: 4096, Width: 7, Height: 8, Depth: 9, Format: Signed16, Channels: 2,
		Address: [3]AddressMode{Wrap, Mirror, Clamp}, Border: [4]float32{1, 2, 3, 4}, Filter: true, Normalized: true,
	}
	b := d.Encode()
	if got, err := Decode(b[:]); err != nil || got != d {
		t.Errorf("Decode of an encoded descriptor = %+v, %v", got, err)
	}
	d.Integers = true
	b = d.Encode()
	if _, err := Decode(b[:]); err == nil {
		t.Error("Decode of a texture that filters integers: no error")
	}
	if _, err := Decode(make([]byte, Size)); err == nil {
		t.Error("Decode of zeros: no error")
	}
}

// FuzzDecode: with any bytes in the place of a descriptor, only the memory that the descriptor names is read.
func FuzzDecode(f *testing.F) {
	d := Descriptor{Base: 512, Width: 3, Height: 2, Pitch: 64, Format: Float32, Channels: 4, Filter: true}
	b := d.Encode()
	f.Add(b[:], float32(1), float32(2), float32(3), uint32(0))
	f.Fuzz(func(_ *testing.T, b []byte, x, y, z float32, layer uint32) {
		d, err := Decode(b)
		if err != nil {
			return
		}
		d.Sample([3]float32{x, y, z}, layer, func(_ uint64, n uint32) []byte { return make([]byte, n) })
		d.PlaceAccess(int32(x), int32(y), int32(z), layer, 4, SurfaceClamp)
	})
}

// BenchmarkSample samples two dimensions.
func BenchmarkSample(b *testing.B) {
	d := Descriptor{Base: 0, Width: 64, Height: 64, Pitch: 256, Format: Float32, Channels: 1, Address: [3]AddressMode{Clamp, Clamp, Clamp}}
	mem := make([]byte, 64*256)
	read := memoryOf(0, mem)
	for _, filter := range []bool{false, true} {
		d.Filter = filter
		name := "nearest"
		if filter {
			name = "linear"
		}
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				d.Sample([3]float32{float32(i & 63), float32(i >> 6 & 63)}, 0, read)
			}
		})
	}
}

// TestPoints: FindPoint, FindSquare and ReadPoint give the same texels as Sample.
func TestPoints(t *testing.T) {
	texels := make([]byte, 4096)
	for i := range texels {
		texels[i] = byte(i*7) &^ 0x40 // no infinity or NaN
	}
	read := func(addr uint64, n uint32) []byte { return texels[addr-4096:][:n] }
	nan := float32(math.NaN())
	places := []float32{0, 0.5, 1, 1.99, 2, 6.5, 7, 8, -0.5, -1, -1e30, 1e30, nan, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1))}
	points := 0
	for _, d := range []Descriptor{
		{Format: Unsigned8, Integers: true}, {Format: Unsigned16, Integers: true}, {Format: Unsigned32}, {Format: Signed32}, {Format: Float32},
		{Format: Unsigned8}, {Format: Signed8, Integers: true}, {Format: Float16}, {Format: Float32, Filter: true}, {Format: Float32, Normalized: true},
		{Format: Float32, Channels: 2}, {Format: Unsigned8, Channels: 4, Integers: true}, {Format: Float32, Layers: 2}, {Format: Float32, Address: [3]AddressMode{Clamp, Border}},
		{Format: Float32, Address: [3]AddressMode{Clamp, Mirror}},
	} {
		d.Base, d.Pitch, d.Width, d.Height, d.Channels = 4096, 64, 8, 7, max(d.Channels, 1)
		if !d.HasPoints() || d.Normalized {
			continue
		}
		points++
		for _, x := range places {
			for _, y := range places {
				var got Texel
				if d.Filter {
					sum := 0.0
					at, weights := d.FindSquare(x, y)
					for i, a := range at {
						sum += weights[i] * float64(math.Float32frombits(d.ReadPoint(read(a, 4))))
					}
					got[0] = math.Float32bits(float32(sum))
				} else {
					for c := range d.Channels {
						got[c] = d.ReadPoint(read(d.FindPoint(x, y), d.TexelSize())[c*d.TexelSize()/d.Channels:])
					}
				}
				if want := d.Sample([3]float32{x, y}, 0, read); got != want {
					t.Errorf("%+v at %g, %g: %#x, want %#x", d, x, y, got, want)
				}
			}
		}
	}
	if points != 9 {
		t.Errorf("HasPoints is true for %d textures, want 9", points)
	}
}
