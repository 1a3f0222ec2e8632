// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Where several lanes store to the same place, the highest lane's value remains, as in the interpreter: a scatter writes in
// the order of lanes.

func (e *routines) emitStore(h accessRoutine) {
	a, following, scatter := e.a, e.a.NewLabel(), e.a.NewLabel()
	e.ifFollowing(h, following)
	a.Bind(scatter)
	if h.size < 4 {
		e.scatterNarrow(h)
	} else {
		e.emitScatter(h)
	}
	a.Return()
	a.Bind(following)
	if h.count > 1 {
		if h.size == 8 {
			a.Jump(scatter)
			return
		}
		if h.masked {
			a.MaskTo(amd64.RDX, maskTmp)
			a.ZeroExtend16(amd64.RDX, amd64.RDX)
			a.Not32(amd64.RDX)
			a.ShiftLeft64(amd64.RDX, 48)
			a.JumpIf(amd64.NotEqual, scatter)
		}
	}
	e.storeFollowing(h)
	a.Return()
}

// storeFollowing stores elements that follow each other.
func (e *routines) storeFollowing(h accessRoutine) {
	a, opts := e.a, h.laneOptions()
	switch {
	case h.count == 1 && h.size == 1:
		a.Store(amd64.VPMOVDB, h.elementAt(0), 4, opts)
	case h.count == 1 && h.size == 2:
		a.Store(amd64.VPMOVDW, h.elementAt(0), 4, opts)
	case h.count == 1 && h.size == 4:
		a.Store(amd64.VMOVDQU32Store, h.elementAt(0), 4, opts)
	case h.count == 1:
		a.Store(amd64.VMOVDQU64Store, h.elementAt(0), 4, opts)
		if h.masked {
			a.MaskShift(maskPart, maskTmp, 8)
			opts.Mask = maskPart
		}
		a.Store(amd64.VMOVDQU64Store, h.elementAt(partBytes), 5, opts)
	case h.count == 2:
		// Of lanes 4g and 4g+1, and of 4g+2 and 4g+3.
		a.Op3(amd64.VPUNPCKLDQ, 1, 4, amd64.Register(5), amd64.Options{})
		a.Op3(amd64.VPUNPCKHDQ, 3, 4, amd64.Register(5), amd64.Options{})
		for i, t := range []int{tablePairsLow, tablePairsHigh} {
			a.Op2(amd64.VMOVDQU32, 8, amd64.Memory(e.tableAt(t)), amd64.Options{})
			a.Op2(amd64.VMOVDQU32, 9, amd64.Register(1), amd64.Options{})
			a.Op3(amd64.VPERMT2Q, 9, 8, amd64.Register(3), amd64.Options{})
			a.Store(amd64.VMOVDQU32Store, h.elementAt(i*partBytes), 9, amd64.Options{})
		}
	default:
		e.storeFours(h)
	}
}

// storeFours stores vectors of four words that follow each other.
func (e *routines) storeFours(h accessRoutine) {
	a, none := e.a, amd64.Options{}
	reg := amd64.Register
	a.Op3(amd64.VPUNPCKLDQ, 1, 4, reg(5), none)
	a.Op3(amd64.VPUNPCKLDQ, 3, 6, reg(7), none)
	a.Op3(amd64.VPUNPCKHDQ, 4, 4, reg(5), none)
	a.Op3(amd64.VPUNPCKHDQ, 6, 6, reg(7), none)
	// The vectors of lanes 4g in V8, 4g+1 in V9, 4g+2 in V5, 4g+3 in V7.
	a.Op3(amd64.VPUNPCKLQDQ, 8, 1, reg(3), none)
	a.Op3(amd64.VPUNPCKHQDQ, 9, 1, reg(3), none)
	a.Op3(amd64.VPUNPCKLQDQ, 5, 4, reg(6), none)
	a.Op3(amd64.VPUNPCKHQDQ, 7, 4, reg(6), none)
	for i, half := range []byte{0x44, 0xee} {
		a.Op3Imm(amd64.VSHUFI32X4, 1, 8, reg(9), half, none)
		a.Op3Imm(amd64.VSHUFI32X4, 3, 5, reg(7), half, none)
		for j, pick := range []byte{0x88, 0xdd} {
			a.Op3Imm(amd64.VSHUFI32X4, 4, 1, reg(3), pick, none)
			a.Store(amd64.VMOVDQU32Store, h.elementAt((2*i+j)*partBytes), 4, none)
		}
	}
}

// emitScatter stores elements anywhere.
func (e *routines) emitScatter(h accessRoutine) {
	a := e.a
	index := amd64.Vec(0)
	if h.laneStride() == 16 {
		a.ShiftImm(amd64.VPSLLD, 1, amd64.Register(0), 1, amd64.Options{})
		index = 1
	}
	at := func(disp int) amd64.Mem {
		return amd64.Mem{Base: amd64.RAX, Vector: index, Scale: min(h.laneStride(), 8), Disp: int32(disp), Indexed: true}
	}
	if h.size == 4 {
		for i := range int(h.count) {
			e.copyMask(h, 0)
			a.Store(amd64.VPSCATTERDD, at(4*i), amd64.Vec(4+i), amd64.Options{Mask: maskPart})
		}
		return
	}
	for part := range 2 {
		if part == 1 {
			a.NarrowTo(amd64.VEXTRACTI64, 1, index, []byte{1}, amd64.Options{})
			index = 1
		}
		for i := range int(h.count) {
			e.copyMask(h, uint8(8*part))
			a.Store(amd64.VPSCATTERDQ, at(8*i), amd64.Vec(4+2*i+part), amd64.Options{Mask: maskPart})
		}
	}
}

// scatterNarrow stores bytes or halves of words anywhere, lane by lane.
func (e *routines) scatterNarrow(h accessRoutine) {
	a := e.a
	save := amd64.At(regState, atSave)
	values := amd64.At(regState, atSave+partBytes)
	a.Store(amd64.VMOVDQU32Store, save, 0, amd64.Options{})
	a.Store(amd64.VMOVDQU32Store, values, 4, amd64.Options{})
	if h.masked {
		a.MaskTo(amd64.RDX, maskTmp)
		a.ZeroExtend16(amd64.RDX, amd64.RDX)
	} else {
		a.Const32(amd64.RDX, 0xffff)
	}
	next, end := a.NewLabel(), a.NewLabel()
	a.Bind(next)
	a.Test32(amd64.RDX, amd64.RDX)
	a.JumpIf(amd64.Equal, end)
	a.TrailingZeros32(amd64.RCX, amd64.RDX)
	lane := amd64.Mem{Base: regState, Index: amd64.RCX, Scale: 4}
	lane.Disp = save.Disp
	a.Load32(amd64.R15, lane)
	lane.Disp = values.Disp
	a.Load32(amd64.R12, lane)
	a.StoreNarrow(amd64.Mem{Base: amd64.RAX, Index: amd64.R15, Scale: h.size}, amd64.R12, int(h.size))
	a.DropLowest32(amd64.RDX, amd64.RDX)
	a.Jump(next)
	a.Bind(end)
}
