// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package texture

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/simd"
)

// Reader returns the n bytes at an address, which are only read.
type Reader func(addr uint64, n uint32) []byte

// Texel is the result of a read: bits of 32-bit integers or floating point.
type Texel [4]uint32

// FetchTexel reads texel i of linear memory; outside, all channels are 0.
func (d *Descriptor) FetchTexel(i int32, read Reader) Texel {
	if i < 0 || uint32(i) >= d.Width {
		return Texel{}
	}
	return d.texelAt([3]int64{int64(i)}, 0, read)
}

// Sample reads a texture at coordinates, of which there are Dimensions.
func (d *Descriptor) Sample(at [3]float32, layer uint32, read Reader) Texel {
	if !d.Filter && !d.Normalized && d.Height > 0 && d.Depth == 0 && at[0] >= 0 && at[1] >= 0 {
		// The usual case, a texel within the extent, needs no addressing mode.
		if i, j := uint64(min(at[0], 1<<30)), uint64(min(at[1], 1<<30)); i < uint64(d.Width) && j < uint64(d.Height) {
			size := d.TexelSize()
			slice := uint64(min(layer, max(d.Layers, 1)-1))
			return d.decodeTexel(read(d.Base+i*uint64(size)+j*d.Pitch+slice*d.Slice, size))
		}
	}
	n := d.Dimensions()
	extents := [3]uint32{d.Width, d.Height, d.Depth}
	var u [3]float64
	for k := range n {
		u[k] = d.scaleCoordinate(k, at[k], extents[k])
	}
	layer = min(layer, max(d.Layers, 1)-1)
	if !d.Filter {
		var i [3]int64
		for k := range n {
			i[k] = floorInt(u[k])
		}
		return d.texelAt(i, layer, read)
	}
	return d.interpolateTexels(u, n, layer, read)
}

// HasPoints reports whether channels of the texture, which has two dimensions, are read as they are, from texels within
// it or the nearest: then FindPlane can be used. If coordinates are not normalized, so can FindPoint and ReadPoint, or
// FindSquare if the texture filters, which then has a single channel.
func (d *Descriptor) HasPoints() bool {
	if d.Layers > 0 || d.Dimensions() != 2 {
		return false
	}
	for _, m := range d.Address[:2] {
		if m == Border || m == Wrap && d.Normalized {
			return false
		}
	}
	if d.Filter {
		return d.Format == Float32 && d.Channels == 1
	}
	switch d.Format {
	case Unsigned8, Unsigned16:
		return d.Integers
	case Unsigned32, Signed32, Float32:
		return true
	}
	return false
}

// FindPlane describes the texels of a texture that HasPoints, without their address: they begin offset bytes behind
// base, in memory of size bytes. It reports false if not all of them are within it, or are not aligned.
func (d *Descriptor) FindPlane(base, size uint64) (p simd.Plane, offset uint64, ok bool) {
	p = simd.Plane{Pitch: d.Pitch, LastX: int64(d.Width) - 1, LastY: int64(d.Height) - 1, Size: uint64(d.TexelSize())}
	offset = d.Base - base
	high, rows := bits.Mul64(uint64(p.LastY), d.Pitch)
	row := uint64(d.Width) * p.Size
	ok = (d.Base|d.Pitch)&(p.Size-1) == 0 && high == 0 && offset <= size && rows <= size-offset && row <= size-offset-rows
	return p, offset, ok
}

// FindPoint is the address of the texel at a coordinate.
func (d *Descriptor) FindPoint(x, y float32) uint64 {
	return d.Base + clampPoint(x, d.Width)*uint64(d.TexelSize()) + clampPoint(y, d.Height)*d.Pitch
}

// clampPoint is the number of the texel at a coordinate, of n.
func clampPoint(x float32, n uint32) uint64 {
	switch {
	case !(x > 0): // or no number
		return 0
	case float64(x) >= float64(n):
		return uint64(n - 1)
	}
	return uint64(x)
}

// FindSquare finds the four texels around a place, and their weights.
func (d *Descriptor) FindSquare(x, y float32) (at [4]uint64, weights [4]float64) {
	left, right, w := weighPair(x, d.Width)
	above, below, h := weighPair(y, d.Height)
	size := uint64(d.TexelSize())
	rows := [2]uint64{d.Base + above*d.Pitch, d.Base + below*d.Pitch}
	at = [4]uint64{rows[0] + left*size, rows[0] + right*size, rows[1] + left*size, rows[1] + right*size}
	return at, [4]float64{(1 - w) * (1 - h), w * (1 - h), (1 - w) * h, w * h}
}

// weighPair are the numbers of the two texels at a coordinate, of n, and the weight of the second.
func weighPair(x float32, n uint32) (low, high uint64, weight float64) {
	const most = 1 << 40
	u := float64(x)
	if u != u {
		u = 0
	}
	v := max(-most, min(u-0.5, most))
	whole := math.Floor(v)
	i, last := int64(whole), int64(n)-1
	return uint64(max(0, min(i, last))), uint64(max(0, min(i+1, last))), math.Floor((v-whole)*256+0.5) / 256
}

// ReadPoint is the channel that b begins with.
func (d *Descriptor) ReadPoint(b []byte) uint32 {
	switch d.Format {
	case Unsigned8:
		return uint32(b[0])
	case Unsigned16:
		return uint32(binary.LittleEndian.Uint16(b))
	}
	return binary.LittleEndian.Uint32(b)
}

// scaleCoordinate takes a coordinate to a dimension of n texels.
func (d *Descriptor) scaleCoordinate(k int, coordinate float32, n uint32) float64 {
	x := float64(coordinate)
	if math.IsNaN(x) {
		x = 0
	}
	if !d.Normalized {
		return x
	}
	switch whole := math.Floor(x); d.Address[k] {
	case Wrap, Mirror:
		if math.IsInf(x, 0) {
			return 0
		}
		if d.Address[k] == Mirror && math.Mod(whole, 2) != 0 {
			return (1 - (x - whole)) * float64(n)
		}
		return (x - whole) * float64(n)
	}
	return x * float64(n)
}

// floorInt is the whole number below, limited to a range that contains every texture.
func floorInt(u float64) int64 {
	const most = 1 << 40
	return int64(math.Floor(max(-most, min(u, most))))
}

// interpolateTexels weighs the two, four or eight texels around a place in n dimensions.
func (d *Descriptor) interpolateTexels(u [3]float64, n int, layer uint32, read Reader) Texel {
	var low [3]int64
	var high [3]float64 // weights of the upper texels
	for k := range n {
		const most = 1 << 40
		v := max(-most, min(u[k]-0.5, most))
		low[k] = int64(math.Floor(v))
		high[k] = math.Floor((v-math.Floor(v))*256+0.5) / 256
	}
	var sum [4]float64
	for corner := range 1 << n {
		weight, at := 1.0, low
		for k := range n {
			if corner>>k&1 != 0 {
				at[k]++
				weight *= high[k]
			} else {
				weight *= 1 - high[k]
			}
		}
		if weight == 0 {
			continue // 0 times an infinite texel would be a NaN
		}
		t := d.texelAt(at, layer, read)
		for c := range d.Channels {
			sum[c] += weight * float64(math.Float32frombits(t[c]))
		}
	}
	var out Texel
	for c := range d.Channels {
		out[c] = RoundSum(sum[c])
	}
	return out
}

// RoundSum is the sum of weighed texels as a channel.
func RoundSum(sum float64) uint32 {
	if math.IsNaN(sum) {
		return math.Float32bits(float.NaN32) // which of several NaNs remains would depend on the order of operands
	}
	return math.Float32bits(float32(sum))
}

// texelAt reads a texel, or the texel or border in its place outside of the texture.
func (d *Descriptor) texelAt(i [3]int64, layer uint32, read Reader) Texel {
	extents := [3]uint32{d.Width, max(d.Height, 1), max(d.Depth, 1)}
	for k, n := range extents {
		if i[k] >= 0 && i[k] < int64(n) {
			continue
		}
		switch mode := d.Address[k]; {
		case mode == Border:
			var t Texel
			for c := range d.Channels {
				t[c] = math.Float32bits(d.Border[c]) // +0 for integers
			}
			return t
		case mode == Wrap && d.Normalized:
			i[k] = (i[k]%int64(n) + int64(n)) % int64(n)
		default:
			i[k] = max(0, min(i[k], int64(n)-1))
		}
	}
	size := d.TexelSize()
	at := d.Base + uint64(i[0])*uint64(size) + uint64(i[1])*d.Pitch + (uint64(i[2])+uint64(layer))*d.Slice
	return d.decodeTexel(read(at, size))
}

// decodeTexel reads the channels of a texel.
func (d *Descriptor) decodeTexel(b []byte) Texel {
	var t Texel
	n := d.Format.channelSize()
	if n == 4 && d.Channels == 1 {
		t[0] = binary.LittleEndian.Uint32(b)
		return t
	}
	for c := range d.Channels {
		t[c] = d.decodeChannel(b[c*n:])
	}
	return t
}

func (d *Descriptor) decodeChannel(b []byte) uint32 {
	le := binary.LittleEndian
	switch d.Format {
	case Unsigned8:
		return d.integerOr(int32(b[0]), 255)
	case Signed8:
		return d.integerOr(int32(int8(b[0])), 127)
	case Unsigned16:
		return d.integerOr(int32(le.Uint16(b)), 65535)
	case Signed16:
		return d.integerOr(int32(int16(le.Uint16(b))), 32767)
	case Float16:
		return math.Float32bits(float.F16To32(le.Uint16(b)))
	}
	return le.Uint32(b)
}

// integerOr is an integer, or its quotient by the largest integer of its type.
func (d *Descriptor) integerOr(v, most int32) uint32 {
	if d.Integers {
		return uint32(v)
	}
	return math.Float32bits(max(-1, float32(float64(v)/float64(most))))
}

// SurfaceMode is the handling of an access outside of a surface.
type SurfaceMode uint8

// The modes.
const (
	SurfaceTrap  SurfaceMode = iota // ends the kernel
	SurfaceClamp                    // is made at the nearest place inside
	SurfaceZero                     // reads 0, and does not write
)

// PlaceAccess finds the address of n bytes of a surface: x counts bytes, y and z rows and slices. inside is false if no
// byte is to be read or written there, or if the kernel is to end, with SurfaceTrap.
func (d *Descriptor) PlaceAccess(x, y, z int32, layer, n uint32, mode SurfaceMode) (addr uint64, inside bool) {
	rows, slices := int64(max(d.Height, 1)), int64(max(d.Depth, 1))
	width := int64(d.Width) * int64(d.TexelSize())
	at := [3]int64{int64(x), int64(y), int64(z)}
	last := [3]int64{width - int64(n), rows - 1, slices - 1}
	for k := range at {
		if at[k] >= 0 && at[k] <= last[k] {
			continue
		}
		if mode != SurfaceClamp || last[k] < 0 {
			return 0, false
		}
		at[k] = max(0, min(at[k], last[k]))
	}
	if d.Layers > 0 && layer >= d.Layers {
		if mode != SurfaceClamp {
			return 0, false
		}
		layer = d.Layers - 1
	}
	return d.Base + uint64(at[0]) + uint64(at[1])*d.Pitch + (uint64(at[2])+uint64(layer))*d.Slice, true
}
