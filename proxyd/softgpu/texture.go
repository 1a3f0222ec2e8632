// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package softgpu

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
)

var _ backend.TextureWriter = (*space)(nil)

// The attributes that say how large a texture may be, by its form: of width, height, and depth or layers.
var (
	rowLimits    = [3]backend.Attribute{21}
	planeLimits  = [3]backend.Attribute{22, 23}
	solidLimits  = [3]backend.Attribute{24, 25, 26}
	layerLimits  = [3]backend.Attribute{27, 28, 29} // layers of planes
	rowsLimits   = [3]backend.Attribute{42, 0, 43}  // layers of rows
	bufferLimits = [3]backend.Attribute{69}
)

// textureLimits are the attributes for a texture.
func textureLimits(t *backend.Texture) [3]backend.Attribute {
	switch {
	case t.Buffer:
		return bufferLimits
	case t.Layers > 0 && t.Height > 0:
		return layerLimits
	case t.Layers > 0:
		return rowsLimits
	case t.Depth > 0:
		return solidLimits
	case t.Height > 0:
		return planeLimits
	}
	return rowLimits
}

// WriteTexture implements backend.TextureWriter.
func (s *space) WriteTexture(at backend.Addr, t *backend.Texture) error {
	d := texture.Descriptor{
		Base: uint64(t.Base), Pitch: t.Pitch, Slice: t.Slice, Width: t.Width, Height: t.Height, Depth: t.Depth, Layers: t.Layers,
		Format: texture.Format(t.Format), Channels: t.Channels, Border: t.Border,
		Filter: t.Filter, Integers: t.Integers, Normalized: t.Normalized, Buffer: t.Buffer, Surface: t.Surface,
	}
	for k, mode := range t.Address {
		d.Address[k] = texture.AddressMode(mode)
	}
	if err := d.Check(); err != nil {
		return fmt.Errorf("texture: %w: %w", backend.InvalidValue, err)
	}
	if size := uint64(d.TexelSize()); d.Base%size != 0 || d.Pitch%size != 0 || d.Slice%size != 0 {
		return fmt.Errorf("texture at %#x: rows that are not aligned to texels: %w", d.Base, backend.InvalidValue)
	}
	extents := [3]uint32{d.Width, d.Height, max(d.Depth, d.Layers)}
	for k, a := range textureLimits(t) {
		if a != 0 && uint64(extents[k]) > uint64(s.device.info.Attributes[a]) {
			return fmt.Errorf("texture of %d x %d x %d texels: %w", extents[0], extents[1], extents[2], backend.InvalidValue)
		}
	}
	if at == 0 {
		return nil
	}
	b, err := s.table.viewBytes(at, texture.Size)
	if err != nil || len(b) != 1 {
		return fmt.Errorf("descriptor at %#x: %w", uint64(at), backend.InvalidValue)
	}
	encoded := d.Encode()
	if !s.guardBytes(func() { copy(b[0], encoded[:]) }) {
		return errClosed
	}
	return nil
}
