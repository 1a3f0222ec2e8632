// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// accessRoutine is a routine that loads or stores for 16 lanes. V0 has the numbers of their elements, RAX the address
// of the first element, K1 the lanes, if not all run. V4 to V7 are the results of a load and the operands of a store.
// V2 is not changed, nor are the slots.
//
// Most accesses are to elements that follow each other, or all to the same: the routine checks for both, and needs no
// gather or scatter then.
type accessRoutine struct {
	where       space
	size, count uint8 // bytes of an element, and elements of a vector
	signed      bool
	store       bool
	masked      bool
}

// routines are the helpers of a function.
type routines struct {
	writer
	helpers map[accessRoutine]amd64.Label
	wanted  []accessRoutine // in the order in which they were asked for

	functions map[string]amd64.Label
	emits     []func() // of the functions
}

// functionLabel is a routine that f emits.
func (e *routines) functionLabel(name string, f func(e *routines)) amd64.Label {
	if e.functions == nil {
		e.functions = map[string]amd64.Label{}
	}
	l, ok := e.functions[name]
	if !ok {
		l = e.a.NewLabel()
		e.functions[name] = l
		e.emits = append(e.emits, func() {
			e.a.Align(16)
			e.a.Bind(l)
			f(e)
		})
	}
	return l
}

func (e *routines) helperLabel(h accessRoutine) amd64.Label {
	if e.helpers == nil {
		e.helpers = map[accessRoutine]amd64.Label{}
	}
	l, ok := e.helpers[h]
	if !ok {
		l = e.a.NewLabel()
		e.helpers[h] = l
		e.wanted = append(e.wanted, h)
	}
	return l
}

func (e *routines) emitHelpers() {
	for _, h := range e.wanted {
		e.a.Align(16)
		e.a.Bind(e.helpers[h])
		if h.store {
			e.emitStore(h)
		} else {
			e.emitLoad(h)
		}
	}
	for _, f := range e.emits {
		f()
	}
}

// laneOptions are the options of an instruction for the lanes that run.
func (h accessRoutine) laneOptions() amd64.Options {
	if h.masked {
		return amd64.Options{Mask: maskTmp}
	}
	return amd64.Options{}
}

// laneStride is the bytes from a lane's first element to the next lane's.
func (h accessRoutine) laneStride() uint8 { return h.size * h.count }

// elementAt is the place of element n of the lane with the number in RCX. Of strides of 16, RCX has twice the number.
func (h accessRoutine) elementAt(n int) amd64.Mem {
	return amd64.Mem{Base: amd64.RAX, Index: amd64.RCX, Scale: min(h.laneStride(), 8), Disp: int32(n)}
}

// ifEqual goes to a label if V3 has the same number in all lanes that run, in RCX then.
func (e *routines) ifEqual(h accessRoutine, v amd64.Vec, l amd64.Label) {
	a := e.a
	first := v
	if h.masked {
		a.NarrowTo(amd64.VPCOMPRESSD, 1, v, nil, amd64.Options{Mask: maskTmp, Zero: true})
		first = 1
	}
	a.MoveLow32(amd64.RCX, first)
	a.Op2(amd64.VPBROADCASTD, 1, amd64.Register(first), amd64.Options{})
	if h.masked {
		a.Compare(amd64.VPCMPD, maskPart, v, amd64.Register(1), amd64.NEQ, amd64.Options{Mask: maskTmp})
	} else {
		a.Compare(amd64.VPCMPD, maskPart, v, amd64.Register(1), amd64.NEQ, amd64.Options{})
	}
	a.SignExtend32(amd64.RCX, amd64.RCX)
	if h.laneStride() == 16 {
		a.ShiftLeft64(amd64.RCX, 1)
	}
	a.TestMasks16(maskPart, maskPart)
	a.JumpIf(amd64.Equal, l)
}

// ifFollowing goes to a label if the elements follow each other, with the number of the first in RCX.
func (e *routines) ifFollowing(h accessRoutine, l amd64.Label) {
	e.a.Op3(amd64.VPSUBD, 3, 0, amd64.Memory(e.tableAt(tableCount)), amd64.Options{})
	e.ifEqual(h, 3, l)
}

// copyMask makes K6 the lanes of a gather or a scatter, from lane on.
func (e *routines) copyMask(h accessRoutine, lane uint8) {
	switch {
	case !h.masked:
		e.a.Const32(amd64.RDX, 0xffff)
		e.a.MaskFrom(maskPart, amd64.RDX)
	case lane == 0:
		e.a.MaskMove(maskPart, maskTmp)
	default:
		e.a.MaskShift(maskPart, maskTmp, lane)
	}
}

func (e *routines) emitLoad(h accessRoutine) {
	a, following, same := e.a, e.a.NewLabel(), e.a.NewLabel()
	tests := []func(){
		func() { e.ifFollowing(h, following) },
		func() { e.ifEqual(h, 0, same) },
	}
	if h.where == shared {
		slices.Reverse(tests) // more often the same
	}
	for _, f := range tests {
		f()
	}
	gather := a.NewLabel()
	a.Bind(gather)
	e.emitGather(h)
	a.Return()
	a.Bind(same)
	e.loadSame(h)
	a.Return()
	a.Bind(following)
	if h.count > 1 && h.masked {
		// Vectors are taken apart as a whole.
		a.MaskTo(amd64.RDX, maskTmp)
		a.ZeroExtend16(amd64.RDX, amd64.RDX)
		a.Not32(amd64.RDX)
		a.ShiftLeft64(amd64.RDX, 48)
		a.JumpIf(amd64.NotEqual, gather)
	}
	e.loadFollowing(h)
	a.Return()
}

// loadFollowing loads elements that follow each other.
func (e *routines) loadFollowing(h accessRoutine) {
	a, opts := e.a, h.laneOptions()
	load := func(op amd64.Op, d amd64.Vec, disp int, opts amd64.Options) {
		a.Op2(op, d, amd64.Memory(h.elementAt(disp)), opts)
	}
	switch {
	case h.count == 1 && h.size == 4:
		load(amd64.VMOVDQU32, 4, 0, opts)
	case h.count == 1 && h.size == 8:
		load(amd64.VMOVDQU64, 4, 0, opts)
		if h.masked {
			a.MaskShift(maskPart, maskTmp, 8)
			opts.Mask = maskPart
		}
		load(amd64.VMOVDQU64, 5, partBytes, opts)
	case h.count == 1:
		load(map[accessRoutine]amd64.Op{
			{size: 1}: amd64.VPMOVZXBD, {size: 1, signed: true}: amd64.VPMOVSXBD,
			{size: 2}: amd64.VPMOVZXWD, {size: 2, signed: true}: amd64.VPMOVSXWD,
		}[accessRoutine{size: h.size, signed: h.signed}], 4, 0, opts)
	case h.size == 4 && h.count == 2:
		load(amd64.VMOVDQU32, 4, 0, amd64.Options{})
		load(amd64.VMOVDQU32, 1, partBytes, amd64.Options{})
		a.Op2(amd64.VMOVDQU32, 5, amd64.Register(4), amd64.Options{})
		a.Op3(amd64.VPERMT2D, 4, constIndex, amd64.Register(1), amd64.Options{})
		a.Op2(amd64.VMOVDQU32, 3, amd64.Memory(e.tableAt(tableOdd)), amd64.Options{})
		a.Op3(amd64.VPERMT2D, 5, 3, amd64.Register(1), amd64.Options{})
	case h.size == 4:
		e.loadFours(h)
	default:
		for i := range 2 {
			d := amd64.Vec(4 + i)
			load(amd64.VMOVDQU32, d, 2*i*partBytes, amd64.Options{})
			load(amd64.VMOVDQU32, 1, (2*i+1)*partBytes, amd64.Options{})
			a.Op2(amd64.VMOVDQU32, d+2, amd64.Register(d), amd64.Options{})
			a.Op2(amd64.VMOVDQU32, 3, amd64.Memory(e.tableAt(tableEvenLong)), amd64.Options{})
			a.Op3(amd64.VPERMT2Q, d, 3, amd64.Register(1), amd64.Options{})
			a.Op2(amd64.VMOVDQU32, 3, amd64.Memory(e.tableAt(tableOddLong)), amd64.Options{})
			a.Op3(amd64.VPERMT2Q, d+2, 3, amd64.Register(1), amd64.Options{})
		}
	}
}

// loadFours loads vectors of four words that follow each other.
func (e *routines) loadFours(h accessRoutine) {
	a := e.a
	for i, t := range []int{tableQuarters, tableHalves} {
		a.Op2(amd64.VMOVDQU32, 3, amd64.Memory(e.tableAt(t)), amd64.Options{})
		x, y := amd64.Vec(8), amd64.Vec(9)
		a.Op2(amd64.VMOVDQU32, x, amd64.Memory(h.elementAt(0)), amd64.Options{})
		a.Op3(amd64.VPERMT2D, x, 3, amd64.Memory(h.elementAt(partBytes)), amd64.Options{})
		a.Op2(amd64.VMOVDQU32, y, amd64.Memory(h.elementAt(2*partBytes)), amd64.Options{})
		a.Op3(amd64.VPERMT2D, y, 3, amd64.Memory(h.elementAt(3*partBytes)), amd64.Options{})
		a.Op3Imm(amd64.VSHUFI64X2, amd64.Vec(4+2*i), x, amd64.Register(y), 0x44, amd64.Options{})
		a.Op3Imm(amd64.VSHUFI64X2, amd64.Vec(5+2*i), x, amd64.Register(y), 0xee, amd64.Options{})
	}
}

// loadSame loads the same element for all lanes.
func (e *routines) loadSame(h accessRoutine) {
	a, opts := e.a, h.laneOptions()
	switch h.size {
	case 8:
		for i := range int(h.count) {
			a.Op2(amd64.VPBROADCASTQ, amd64.Vec(4+2*i), amd64.Memory(h.elementAt(8*i)), opts)
		}
		if h.masked {
			a.MaskShift(maskPart, maskTmp, 8)
			opts.Mask = maskPart
		}
		for i := range int(h.count) {
			a.Op2(amd64.VPBROADCASTQ, amd64.Vec(5+2*i), amd64.Memory(h.elementAt(8*i)), opts)
		}
	case 4:
		for i := range int(h.count) {
			a.Op2(amd64.VPBROADCASTD, amd64.Vec(4+i), amd64.Memory(h.elementAt(4*i)), opts)
		}
	default:
		a.LoadNarrow(amd64.RDX, h.elementAt(0), int(h.size), h.signed)
		a.BroadcastReg(amd64.VPBROADCASTDReg, 4, amd64.RDX, opts)
	}
}

// emitGather loads elements from anywhere.
func (e *routines) emitGather(h accessRoutine) {
	a := e.a
	index := amd64.Vec(0)
	if h.laneStride() == 16 {
		a.ShiftImm(amd64.VPSLLD, 1, amd64.Register(0), 1, amd64.Options{})
		index = 1
	}
	at := func(disp int) amd64.Source {
		return amd64.Memory(amd64.Mem{Base: amd64.RAX, Vector: index, Scale: min(h.laneStride(), 8), Disp: int32(disp), Indexed: true})
	}
	switch h.size {
	case 8:
		for part := range 2 {
			if part == 1 {
				a.NarrowTo(amd64.VEXTRACTI64, 1, index, []byte{1}, amd64.Options{})
				index = 1
			}
			for i := range int(h.count) {
				e.copyMask(h, uint8(8*part))
				a.Op2(amd64.VPGATHERDQ, amd64.Vec(4+2*i+part), at(8*i), amd64.Options{Mask: maskPart})
			}
		}
	case 4:
		for i := range int(h.count) {
			e.copyMask(h, 0)
			a.Op2(amd64.VPGATHERDD, amd64.Vec(4+i), at(4*i), amd64.Options{Mask: maskPart})
		}
	default:
		e.gatherNarrow(h)
	}
}

// gatherNarrow loads bytes or halves of words, by the words in which they lie. Words are aligned, and so within the page.
func (e *routines) gatherNarrow(h accessRoutine) {
	a, opts := e.a, h.laneOptions()
	sh := logTwo(int(h.size)) // of bytes in a number
	a.ShiftImm(amd64.VPSRLD, 1, amd64.Register(0), 2-sh, amd64.Options{})
	e.copyMask(h, 0)
	words := amd64.Mem{Base: amd64.RAX, Vector: 1, Scale: 4, Indexed: true}
	a.Op2(amd64.VPGATHERDD, 8, amd64.Memory(words), amd64.Options{Mask: maskPart})
	// The bits below: 32 - 8*size*(1 + number within the word) leaves the element at the top.
	a.ShiftImm(amd64.VPSLLD, 3, amd64.Register(0), 3+sh, amd64.Options{})
	a.Const32(amd64.RDX, 31)
	a.BroadcastReg(amd64.VPBROADCASTDReg, 1, amd64.RDX, amd64.Options{})
	a.Op3(amd64.VPANDD, 3, 3, amd64.Register(1), amd64.Options{})
	a.Op3(amd64.VPSRLVD, 8, 8, amd64.Register(3), amd64.Options{})
	a.ShiftImm(amd64.VPSLLD, 8, amd64.Register(8), 32-8*h.size, amd64.Options{})
	if h.signed {
		a.ShiftImm(amd64.VPSRAD, 4, amd64.Register(8), 32-8*h.size, opts)
	} else {
		a.ShiftImm(amd64.VPSRLD, 4, amd64.Register(8), 32-8*h.size, opts)
	}
}
