// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/simd"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
)

// samplePoints samples a texture of two dimensions for lanes that all have its object, if its channels are read as they
// are. For other lanes, textures or coordinates it reports false, and sets no result.
func samplePoints(w *warp, in *inst, m uint32) bool {
	g, refs, handles := in.ext.texture, in.ext.refs, w.u64(in.a)
	first := lowestLane(m)
	differ := uint64(0)
	for i := range handles {
		differ |= (handles[i] ^ handles[first]) * uint64(m>>i&1)
	}
	if differ != 0 {
		return false
	}
	d := readDescriptor(w, in, first)
	checkGeometry(w, in, first, d)
	if g.integer || g.layered || !d.HasPoints() {
		return false
	}
	if samplePlane(w, in, m, d) {
		return true
	}
	if d.Normalized {
		return false
	}
	xs, ys, results := w.f32(refs[g.results]), w.f32(refs[g.results+1]), refs[:g.results]
	size := d.TexelSize()
	step := size / d.Channels
	for left := m; left != 0; left &= left - 1 {
		i := lowestLane(left)
		var t texture.Texel
		if d.Filter {
			t[0] = weighPoints(w, in, d, xs[i], ys[i], i)
		} else {
			b := findTexel(w, in, d.FindPoint(xs[i], ys[i]), size, i, false)
			for c := range d.Channels {
				t[c] = d.ReadPoint(b[c*step:])
			}
		}
		for k, r := range results {
			w.u32(r)[i] = t[k]
		}
	}
	return true
}

// samplePlane is samplePoints in vector instructions. It reports false unless the processor has these, and the
// instruction has accessed the memory in which the whole texture lies: then no lane can fault.
func samplePlane(w *warp, in *inst, m uint32, d *texture.Descriptor) bool {
	if !simd.Textures {
		return false
	}
	r := w.sites[in.site]
	p, at, ok := d.FindPlane(r.Base, r.Size)
	if !ok || d.Filter && d.Width < 2 {
		return false
	}
	g, refs := in.ext.texture, in.ext.refs
	texels := r.Bytes[at:]
	p.Texels = &texels[0]
	var u [2][warpSize]float64
	for k, n := range [2]uint32{d.Width, d.Height} {
		switch x := w.f32(refs[g.results+k]); {
		case !d.Normalized:
			simd.ScaleCoordinates(&u[k], x, 1)
		case d.Address[k] == texture.Mirror:
			simd.MirrorCoordinates(&u[k], x, float64(n))
		default:
			simd.ScaleCoordinates(&u[k], x, float64(n))
		}
	}
	if d.Filter {
		var sums [warpSize]float32
		simd.WeighTexels(&sums, &u[0], &u[1], &p)
		if to := w.f32(refs[0]); m == fullMask {
			*to = sums
		} else {
			for left := m; left != 0; left &= left - 1 {
				i := lowestLane(left)
				to[i] = sums[i]
			}
		}
	} else {
		var offsets [warpSize]uint64
		simd.FindTexels(&offsets, &u[0], &u[1], &p)
		step := p.Size / uint64(d.Channels)
		for c := range int(d.Channels) {
			readChannel(w.u32(refs[c]), m, texels, &offsets, uint64(c)*step, step)
		}
	}
	for _, r := range refs[d.Channels:g.results] {
		if to := w.u32(r); m == fullMask {
			*to = [warpSize]uint32{}
		} else {
			for left := m; left != 0; left &= left - 1 {
				to[lowestLane(left)] = 0
			}
		}
	}
	return true
}

// readChannel reads n bytes of each lane's texel, from byte at on.
func readChannel(to *[warpSize]uint32, m uint32, texels []byte, offsets *[warpSize]uint64, at, n uint64) {
	for left := m; left != 0; left &= left - 1 {
		i := lowestLane(left)
		switch o := offsets[i] + at; n {
		case 1:
			to[i] = uint32(texels[o])
		case 2:
			to[i] = uint32(binary.LittleEndian.Uint16(texels[o:]))
		default:
			to[i] = binary.LittleEndian.Uint32(texels[o:])
		}
	}
}

// weighPoints is the sum of four weighed texels. A texel of weight 0 is not read.
func weighPoints(w *warp, in *inst, d *texture.Descriptor, x, y float32, lane int) uint32 {
	sum := 0.0
	at, weights := d.FindSquare(x, y)
	for k, a := range at {
		if weights[k] != 0 {
			sum += weights[k] * float64(math.Float32frombits(d.ReadPoint(findTexel(w, in, a, 4, lane, false))))
		}
	}
	return texture.RoundSum(sum)
}
