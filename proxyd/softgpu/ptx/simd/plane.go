// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simd

// Plane is the texels of a texture of two dimensions.
type Plane struct {
	Texels       *byte  // the first
	Pitch        uint64 // bytes from row to row
	LastX, LastY int64  // numbers of the last texel of a row, and of the last row
	Size         uint64 // bytes of a texel
}
