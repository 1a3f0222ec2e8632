// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

// Texture is memory that kernels read as a texture, or read and write as a surface.
type Texture struct {
	Base                         Addr   // of the first texel
	Pitch, Slice                 uint64 // bytes from row to row, and from slice to slice or layer to layer
	Width, Height, Depth, Layers uint32 // in texels; 0 where there is no such dimension
	Format                       int32  // of a channel, as the driver numbers them
	Channels                     uint32
	Address                      [3]int32 // the mode for coordinates outside, as the driver numbers the modes
	Border                       [4]float32
	Filter                       bool // linear
	Integers                     bool // 8 and 16 bits are read as integers
	Normalized                   bool // coordinates are normalized
	Buffer                       bool // linear memory, read by the number of a texel
	Surface                      bool
}

// TextureDescriptorSize is how many bytes the descriptor of a texture has.
const TextureDescriptorSize = 128

// TextureWriter is a Space in which kernels read textures by descriptors in the space's memory: the object that a program gives
// to a kernel is the descriptor's address.
type TextureWriter interface {
	// WriteTexture writes a descriptor into allocated memory at once, although work may be under way: no work knows the
	// descriptor yet. At address 0 WriteTexture only checks. InvalidValue for a texture that the device does not have.
	WriteTexture(at Addr, t *Texture) error
}
