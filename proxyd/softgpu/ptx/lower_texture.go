// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"bytes"
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/texture"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// A texture object is the address of a descriptor, which package texture knows. All of these instructions are
// interpreted; texture_plane.go is for the usual textures of two dimensions.

// textureSite is a tex, suld or sust.
type textureSite struct {
	dims    int
	layered bool
	surface bool // else a texture
	query   bool // of an extent, dims
	integer bool // coordinates
	mode    texture.SurfaceMode
	results int // the first of ext.refs; a layer, coordinates, and values to be stored follow
	size    uint32
}

// geometries are the forms of textures, by modifier.
var geometries = map[string]textureSite{
	"1d": {dims: 1}, "2d": {dims: 2}, "3d": {dims: 3}, "a1d": {dims: 1, layered: true}, "a2d": {dims: 2, layered: true},
}

// textureGeometry finds the form that the instruction names.
func textureGeometry(l *lowerer) textureSite {
	for _, m := range l.in.Mods {
		if g, ok := geometries[m]; ok {
			return g
		}
	}
	l.refuseInstruction("textures and surfaces have one, two or three dimensions, or layers of one or two")
	return textureSite{}
}

// refuseTextureModifiers refuses forms that have a modifier which is neither a type nor among those that are known.
func refuseTextureModifiers(l *lowerer, known ...string) {
	for _, m := range l.in.Mods {
		ok := types.ByName[m] != types.NoType || geometries[m].dims > 0
		for _, k := range known {
			ok = ok || m == k
		}
		if !ok {
			l.refuseInstruction("textures and surfaces do not support ." + m)
		}
	}
}

// readCoordinates are a layer and coordinates of type t: of [object, {a, b}].
func readCoordinates(l *lowerer, o syntax.Operand, g textureSite, t types.Type) (refs []ref, os []opnd) {
	if len(o.List) != 1 {
		l.refuseInstruction("samplers apart from textures are not supported")
	}
	list := []syntax.Operand{o.List[0]}
	if v := l.spreadVector(o.List[0]); v.Kind == syntax.ArgVector {
		list = v.List
	}
	need := g.dims
	if g.layered {
		need++
	}
	if len(list) < need {
		l.failSyntax("%d coordinates", len(list))
	}
	for i, c := range list[:need] { // with three dimensions a fourth coordinate follows, which is ignored
		ct := t
		if g.layered && i == 0 {
			ct = types.U32
		}
		refs, os = append(refs, l.operandRef(c, ct)), append(os, use32)
	}
	return refs, os
}

func lowerTex(l *lowerer) {
	refuseTextureModifiers(l, "v4", "level")
	g, ts := textureGeometry(l), typesOf(l.in)
	if len(ts) != 2 || !l.hasModifier("v4") || l.in.Args[0].Pair != nil || ts[1] != types.F32 && ts[1] != types.S32 {
		l.refuseInstruction("no such form of textures is supported")
	}
	if l.hasModifier("level") {
		l.checkArgs(3) // textures have a single level here
	} else if l.checkArgs(2, 3, 4); len(l.in.Args) != 2 {
		l.refuseInstruction("offsets and comparison of depths are not supported")
	}
	if ts[0] != types.F32 && ts[0] != types.S32 && ts[0] != types.U32 {
		l.refuseInstruction("textures give 32 bits")
	}
	refs, os, _ := l.listElements(0, ts[0], 4, true)
	more, moreOs := readCoordinates(l, l.in.Args[1], g, ts[1])
	g.integer, g.results = ts[1] == types.S32, len(refs)
	emitTexture(l, opTex, 1, g, append(refs, more...), append(os, moreOs...))
}

// emitTexture emits an access by the object in operand i.
func emitTexture(l *lowerer, fn opFunc, i int, g textureSite, refs []ref, os []opnd) {
	a := l.readAddress(i, types.GlobalSpace)
	m := l.numberSite(l.emitMicro(fn, shape{a: use64}, 0, 0, a.base, 0, 0))
	m.imm, m.ext = a.off, &ext{refs: refs, opnds: os, texture: &g}
}

// readSurfaceForm is the form of a suld or sust, and of its elements.
func readSurfaceForm(l *lowerer) (g textureSite, t types.Type, n int) {
	refuseTextureModifiers(l, "b", "v2", "v4", "trap", "clamp", "zero", "cop", "ca", "cg", "cs", "cv", "wb", "wt")
	g, t, n = textureGeometry(l), l.lastType(), vectorLength(l.in)
	g.surface = true
	if !l.hasModifier("b") || t != types.B8 && t != types.B16 && t != types.B32 && t != types.B64 {
		l.refuseInstruction("surfaces are accessed as bytes only")
	}
	switch {
	case l.hasModifier("clamp"):
		g.mode = texture.SurfaceClamp
	case l.hasModifier("zero"):
		g.mode = texture.SurfaceZero
	}
	l.checkArgs(2)
	l.loose = true
	g.size = t.Size()
	return g, t, n
}

func lowerSuld(l *lowerer) {
	g, t, n := readSurfaceForm(l)
	refs, os, _ := l.listElements(0, t, n, true)
	g.results = len(refs)
	more, moreOs := readCoordinates(l, l.in.Args[1], g, types.S32)
	emitTexture(l, opSuld, 1, g, append(refs, more...), append(os, moreOs...))
}

func lowerSust(l *lowerer) {
	g, t, n := readSurfaceForm(l)
	refs, os := readCoordinates(l, l.in.Args[0], g, types.S32)
	more, moreOs, _ := l.listElements(1, t, n, false)
	emitTexture(l, opSust, 0, g, append(refs, more...), append(os, moreOs...))
}

// lowerTxq is txq and suq: the extents of a texture.
func lowerTxq(l *lowerer) {
	refuseTextureModifiers(l, "width", "height", "depth")
	l.checkArgs(2)
	g := textureSite{results: 1, query: true, surface: l.in.Op == "suq"}
	switch {
	case l.hasModifier("height"):
		g.dims = 1
	case l.hasModifier("depth"):
		g.dims = 2
	}
	t := l.lastType()
	if t.Size() != 4 {
		l.failSyntax("no such form")
	}
	emitTexture(l, opTxq, 1, g, []ref{l.resultRef(t)}, []opnd{def32})
}

// readDescriptor reads the descriptor of a lane's object.
func readDescriptor(w *warp, in *inst, lane int) *texture.Descriptor {
	at := w.u64(in.a)[lane] + in.imm
	r := w.block.run.memory.FindRange(at, texture.Size)
	if r == nil {
		w.raiseFault(IllegalAddress, in, lane, at, texture.ErrDescriptor.Error())
	}
	w.block.recordAccess(r, false)
	d, err := w.block.texture.decodeDescriptor(r.Bytes[at-r.Base:][:texture.Size])
	if err != nil || d.Surface != in.ext.texture.surface {
		w.raiseFault(IllegalAddress, in, lane, at, texture.ErrDescriptor.Error())
	}
	return d
}

// descriptorCache is the descriptor that a block has decoded last.
type descriptorCache struct {
	bytes [texture.Size]byte
	known *texture.Descriptor
}

// decodeDescriptor is texture.Decode. The returned descriptor does not change.
func (c *descriptorCache) decodeDescriptor(b []byte) (*texture.Descriptor, error) {
	if c.known != nil && bytes.Equal(b, c.bytes[:]) {
		return c.known, nil
	}
	d, err := texture.Decode(b)
	if err != nil {
		return nil, err
	}
	copy(c.bytes[:], b)
	c.known = &d
	return &d, nil
}

// eachDescriptor calls f for each lane of m, with the descriptor of the lane's object.
func eachDescriptor(w *warp, in *inst, m uint32, f func(d *texture.Descriptor, lane int)) {
	var d *texture.Descriptor
	handles := w.u64(in.a)
	for last := -1; m != 0; m &= m - 1 {
		i := lowestLane(m)
		if last < 0 || handles[i] != handles[last] {
			d = readDescriptor(w, in, i)
			checkGeometry(w, in, i, d)
		}
		last = i
		f(d, i)
	}
}

// checkGeometry faults if a texture is not of the form that the instruction is for.
func checkGeometry(w *warp, in *inst, lane int, d *texture.Descriptor) {
	g := in.ext.texture
	if !g.query && (d.Dimensions() != g.dims || d.Layers > 0 != g.layered || !g.surface && g.integer != d.Buffer) {
		w.raiseFault(IllegalInstruction, in, lane, w.u64(in.a)[lane], "the texture or surface is of another form")
	}
}

// findTexel finds n bytes of a texture or surface, which are aligned.
func findTexel(w *warp, in *inst, addr uint64, n uint32, lane int, store bool) []byte {
	r := w.sites[in.site]
	if o := addr - r.Base; o < accessLimit(r.Size, uint64(n)) && addr&uint64(n-1) == 0 {
		return r.Bytes[o:][:n]
	}
	return w.bytesAt(w.resolveAddress(in, addr, uint64(n), lane, store), n)
}

func opTex(w *warp, in *inst, m uint32) {
	g, refs := in.ext.texture, in.ext.refs
	if g.dims == 2 && samplePoints(w, in, m) {
		return
	}
	lane := 0
	read := func(addr uint64, n uint32) []byte {
		return findTexel(w, in, addr, n, lane, false)
	}
	eachDescriptor(w, in, m, func(d *texture.Descriptor, i int) {
		lane = i
		at := refs[g.results:]
		var t texture.Texel
		if g.integer {
			t = d.FetchTexel(int32(w.u32(at[0])[i]), read)
		} else {
			layer := uint32(0)
			if g.layered {
				layer, at = w.u32(at[0])[i], at[1:]
			}
			var x [3]float32
			for k, r := range at {
				x[k] = math.Float32frombits(w.u32(r)[i])
			}
			t = d.Sample(x, layer, read)
		}
		for k, r := range refs[:g.results] {
			w.u32(r)[i] = t[k]
		}
	})
}

// findSurfacePlace finds the place of an access to a surface by a lane, of n bytes; false if the place is outside and
// the access is left out.
func findSurfacePlace(w *warp, in *inst, d *texture.Descriptor, at []ref, n uint32, lane int) (uint64, bool) {
	g := in.ext.texture
	layer := uint32(0)
	if g.layered {
		layer, at = w.u32(at[0])[lane], at[1:]
	}
	var x [3]int32
	for k := range g.dims {
		x[k] = int32(w.u32(at[k])[lane])
	}
	addr, inside := d.PlaceAccess(x[0], x[1], x[2], layer, n, g.mode)
	if !inside && g.mode == texture.SurfaceTrap {
		w.raiseFault(IllegalAddress, in, lane, w.u64(in.a)[lane], "outside of a surface")
	}
	return addr, inside
}

func opSuld(w *warp, in *inst, m uint32) {
	g, refs := in.ext.texture, in.ext.refs
	n := g.size * uint32(g.results)
	eachDescriptor(w, in, m, func(d *texture.Descriptor, i int) {
		addr, inside := findSurfacePlace(w, in, d, refs[g.results:], n, i)
		var b []byte
		if inside {
			b = findTexel(w, in, addr, n, i, false)
		} else {
			b = make([]byte, n)
		}
		for k, r := range refs[:g.results] {
			w.setLane(in.ext.opnds[k], r, i, readBytes(b[uint32(k)*g.size:][:g.size]))
		}
	})
}

func opSust(w *warp, in *inst, m uint32) {
	g, refs := in.ext.texture, in.ext.refs
	first := g.dims
	if g.layered {
		first++
	}
	n := g.size * uint32(len(refs)-first)
	eachDescriptor(w, in, m, func(d *texture.Descriptor, i int) {
		addr, inside := findSurfacePlace(w, in, d, refs, n, i)
		if !inside {
			return
		}
		b := findTexel(w, in, addr, n, i, true)
		for k, r := range refs[first:] {
			writeBytes(b[uint32(k)*g.size:][:g.size], w.readLane(in.ext.opnds[first+k], r, i))
		}
	})
}

func opTxq(w *warp, in *inst, m uint32) {
	eachDescriptor(w, in, m, func(d *texture.Descriptor, i int) {
		w.u32(in.ext.refs[0])[i] = [3]uint32{d.Width, d.Height, d.Depth}[in.ext.texture.dims]
	})
}
