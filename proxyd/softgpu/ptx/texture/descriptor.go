// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package texture implements texture and surface instructions: the descriptor of a texture, which is 128 bytes in the
// device's memory, and the arithmetic by which texels become a result. The address of the descriptor is the program's
// texture object.
//
// # Arithmetic
//
// The result depends on the operands alone:
//
//   - A coordinate x is taken to the extent of N texels. Normalized coordinates: u = N·x if they are clamped or have a border,
//     u = N·frac(x) if they wrap, and if they are mirrored too where floor(x) is even, else u = N·(1 - frac(x)). Other
//     coordinates: u = x, and wrap and mirror mean clamp. A coordinate that is no number is 0.
//   - Without filtering the result is the texel floor(u). With, i = floor(u - ½), the weight of texel i+1 is
//     a = frac(u - ½), rounded to a multiple of 1/256 (halves upwards), and that of texel i is 1 - a. In two and three
//     dimensions the weights are multiplied.
//   - In the place of a texel outside of the extent is the nearest texel within; if the texture wraps, the texel at the
//     other end; if there is a border, the border's colour.
//   - 8 and 16 bits that are not read as integers are divided by their largest value: 255, 65535, 127, 32767 (the quotient
//     is rounded to 32 bits, and not below -1). 16-bit floating point is widened.
//   - The weighted texels are added in 64-bit floating point, and the sum is rounded to 32 bits; a sum that is no
//     number is 0x7fffffff. Channels that the texture lacks are 0.
//   - The number of a layer is taken into the range of layers.
package texture

import (
	"encoding/binary"
	"errors"
	"math"
)

// Size is how many bytes a descriptor has.
const Size = 128

// magic begins each descriptor.
const magic = 0x3130_7865_742d_7773 // "sw-tex01"

// Format is the type of a texel's channels.
type Format uint32

// The formats, as CUDA's driver numbers them.
const (
	Unsigned8  Format = 1
	Unsigned16 Format = 2
	Unsigned32 Format = 3
	Signed8    Format = 8
	Signed16   Format = 9
	Signed32   Format = 10
	Float16    Format = 16
	Float32    Format = 32
)

// channelSize is the size of a channel, 0 for other formats.
func (f Format) channelSize() uint32 {
	switch f {
	case Unsigned8, Signed8:
		return 1
	case Unsigned16, Signed16, Float16:
		return 2
	case Unsigned32, Signed32, Float32:
		return 4
	}
	return 0
}

// AddressMode chooses the texel for a coordinate outside of a texture.
type AddressMode uint32

// The modes, as CUDA's driver numbers them.
const (
	Wrap AddressMode = iota
	Clamp
	Mirror
	Border
)

// Descriptor describes a texture or a surface.
type Descriptor struct {
	Base                 uint64 // address of the first texel
	Pitch, Slice         uint64 // bytes from row to row, and from slice to slice or layer to layer
	Width, Height, Depth uint32 // in texels; Height and Depth are 0 where there is no such dimension
	Layers               uint32 // 0: there are no layers
	Format               Format
	Channels             uint32
	Address              [3]AddressMode
	Border               [4]float32
	Filter               bool // linear
	Integers             bool // channels of 8 and 16 bits are read as integers
	Normalized           bool // coordinates are normalized
	Buffer               bool // linear memory, read by the number of the texel
	Surface              bool
}

// The flags of an encoded descriptor.
const (
	flagFilter = 1 << iota
	flagIntegers
	flagNormalized
	flagBuffer
	flagSurface
)

// ErrDescriptor is the error for bytes that are no descriptor.
var ErrDescriptor = errors.New("no texture or surface is there")

// Encode returns the descriptor's bytes.
func (d *Descriptor) Encode() [Size]byte {
	var b [Size]byte
	le := binary.LittleEndian
	for i, v := range []uint64{magic, d.Base, d.Pitch, d.Slice} {
		le.PutUint64(b[8*i:], v)
	}
	flags := uint32(0)
	for i, on := range []bool{d.Filter, d.Integers, d.Normalized, d.Buffer, d.Surface} {
		if on {
			flags |= 1 << i
		}
	}
	words := []uint32{
		d.Width, d.Height, d.Depth, d.Layers, uint32(d.Format), d.Channels, uint32(d.Address[0]), uint32(d.Address[1]), uint32(d.Address[2]), flags,
	}
	for _, v := range d.Border {
		words = append(words, math.Float32bits(v))
	}
	for i, v := range words {
		le.PutUint32(b[32+4*i:], v)
	}
	return b
}

// Decode is the reverse of Encode. A program may have written any bytes there: the descriptor that Decode returns can
// be sampled.
func Decode(b []byte) (Descriptor, error) {
	le := binary.LittleEndian
	if len(b) < Size || le.Uint64(b) != magic {
		return Descriptor{}, ErrDescriptor
	}
	w := func(i int) uint32 { return le.Uint32(b[32+4*i:]) }
	flags := w(9)
	d := Descriptor{
		Base: le.Uint64(b[8:]), Pitch: le.Uint64(b[16:]), Slice: le.Uint64(b[24:]),
		Width: w(0), Height: w(1), Depth: w(2), Layers: w(3), Format: Format(w(4)), Channels: w(5),
		Address: [3]AddressMode{AddressMode(w(6)), AddressMode(w(7)), AddressMode(w(8))},
		Filter:  flags&flagFilter != 0, Integers: flags&flagIntegers != 0, Normalized: flags&flagNormalized != 0,
		Buffer: flags&flagBuffer != 0, Surface: flags&flagSurface != 0,
	}
	for i := range d.Border {
		d.Border[i] = math.Float32frombits(w(10 + i))
	}
	if d.Check() != nil {
		return Descriptor{}, ErrDescriptor
	}
	return d, nil
}

// Check returns an error that tells the fault of a descriptor, or nil.
func (d *Descriptor) Check() error {
	switch {
	case d.Format.channelSize() == 0:
		return errors.New("a format of channels that textures do not have here")
	case d.Channels != 1 && d.Channels != 2 && d.Channels != 4:
		return errors.New("texels have one, two or four channels")
	case d.Width == 0 || d.Depth > 0 && d.Height == 0 || d.Depth > 0 && d.Layers > 0:
		return errors.New("dimensions that no texture has")
	case d.Filter && !d.IsFloat() && !d.Buffer:
		return errors.New("integers cannot be filtered")
	}
	for _, m := range d.Address {
		if m > Border {
			return errors.New("an unknown mode of addresses")
		}
		if m == Border && !d.IsFloat() && d.Border != [4]float32{} {
			return errors.New("a border's colour for integers")
		}
	}
	return nil
}

// TexelSize is the size of a texel in bytes.
func (d *Descriptor) TexelSize() uint32 { return d.Format.channelSize() * d.Channels }

// Dimensions is how many coordinates a texel has beside its layer.
func (d *Descriptor) Dimensions() int {
	switch {
	case d.Height == 0:
		return 1
	case d.Depth == 0:
		return 2
	}
	return 3
}

// IsFloat tells whether texels are read as floating point.
func (d *Descriptor) IsFloat() bool {
	switch d.Format {
	case Float16, Float32:
		return true
	case Unsigned32, Signed32:
		return false
	}
	return !d.Integers
}
