// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// TextureWrite implements dispatch.Backend: the descriptor of a texture or surface is written into memory of the current
// context's device. NOT_SUPPORTED where descriptors are the vendor's.
func (p *DeviceCalls) TextureWrite(c *dispatch.Call, at dispatch.Devptr, s dispatch.Textureshape) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	w, ok := x.Space.Space.(backend.TextureWriter)
	if !ok {
		return dispatch.ResultNotSupported
	}
	t := &backend.Texture{
		Base: backend.Addr(s.Base), Pitch: s.Pitch, Slice: s.Slice, Width: s.Width, Height: s.Height, Depth: s.Depth, Layers: s.Layers,
		Format: s.Format, Channels: s.Channels, Address: s.Address,
		Filter: s.Flags&1 != 0, Integers: s.Flags&2 != 0, Normalized: s.Flags&4 != 0, Buffer: s.Flags&8 != 0, Surface: s.Flags&16 != 0,
	}
	for i, bits := range s.Border {
		t.Border[i] = math.Float32frombits(bits)
	}
	return p.Result(w.WriteTexture(backend.Addr(at), t))
}
