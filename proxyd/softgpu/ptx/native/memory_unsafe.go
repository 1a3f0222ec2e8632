// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
)

// Where the fields of a memory.Range are.
const (
	atBase  = int32(unsafe.Offsetof(memory.Range{}.Base))
	atSize  = int32(unsafe.Offsetof(memory.Range{}.Size))
	atBytes = int32(unsafe.Offsetof(memory.Range{}.Bytes))
)

// space is the memory that an access goes to.
type space uint8

const (
	global space = iota
	shared
	local
)

// warpLanes is the number of lanes in a warp.
const warpLanes = 32

// maxElements bounds the elements of a range that machine code accesses: numbers of elements, times 2, must fit into 31 bits.
const maxElements = 1<<30 - 1

// emitAccess emits a load or a store: the numbers of the accessed elements, a check that all lie within the memory and are
// aligned, else it bails, and then a helper for each half of the warp.
func (e *emitter) emitAccess(in *Inst, where space, h accessRoutine) {
	if !e.merges && h.count == 1 && where != local {
		if n := openWindow(e, in); n >= 0 {
			loadByWindow(e, in, n)
			return
		}
		e.emitStraight(in, h)
		return
	}
	h.masked = e.merges
	shift := logTwo(int(h.size) * int(h.count))
	if e.merges {
		e.runningLanes(amd64.RAX, in.Guard)
		e.a.MaskFrom(maskGuard, amd64.RAX)
	}
	var from []amd64.Source
	if where == global {
		for q := range 4 {
			from = append(from, e.partSource(operandPart{Long, in.A, q}))
		}
	} else {
		for half := range 2 {
			from = append(from, e.partSource(operandPart{Word, in.A, half}))
		}
	}
	bail, x := e.newBail()
	if where == global {
		e.indexGlobal(in, shift, from, bail)
	} else {
		e.indexWindow(in, where, shift, from, bail)
	}
	if where == local && h.store {
		e.a.StoreConst8(amd64.At(regState, atLocalUsed), 1)
	}
	for half := range 2 {
		if half == 1 {
			e.a.Op2(amd64.VMOVDQU32, 0, amd64.Register(2), amd64.Options{})
		}
		if e.merges {
			e.a.MaskShift(maskTmp, maskGuard, uint8(16*half))
		}
		if h.store {
			e.storeHalf(in, h, half)
		} else {
			e.loadHalf(in, h, half)
		}
	}
	e.resumeAfter(x)
}

func logTwo(n int) uint8 {
	s := uint8(0)
	for 1<<s < n {
		s++
	}
	return s
}

// indexGlobal makes the numbers of elements within the site's range, in V0 and V2 for the halves of the warp, and the
// address of the range in RAX. It goes to bail if not all lie within.
func (e *emitter) indexGlobal(in *Inst, shift uint8, from []amd64.Source, bail amd64.Label) {
	a := e.a
	a.Load64(amd64.RAX, amd64.At(regSites, in.Site*8))
	a.Const64(amd64.RCX, in.Imm)
	a.SubMemory64(amd64.RCX, amd64.At(amd64.RAX, atBase))
	a.Load64(amd64.RDX, amd64.At(amd64.RAX, atSize))
	a.ShiftRight64(amd64.RDX, shift)
	a.Load64(amd64.RAX, amd64.At(amd64.RAX, atBytes))
	a.BroadcastReg(amd64.VPBROADCASTQReg, 5, amd64.RCX, amd64.Options{})
	a.Const32(amd64.RCX, maxElements)
	a.CompareRegs64(amd64.RDX, amd64.RCX)
	a.MoveIfAbove64(amd64.RDX, amd64.RCX)
	a.BroadcastReg(amd64.VPBROADCASTQReg, 4, amd64.RDX, amd64.Options{})
	for q := range 4 {
		v := amd64.Vec(q)
		a.Op3(amd64.VPADDQ, v, 5, from[q], amd64.Options{})
		// An address that is not aligned becomes too large.
		opts := amd64.Options{}
		if e.merges {
			a.MaskShift(maskTmp, maskGuard, uint8(8*q))
			opts = amd64.Options{Mask: maskTmp, Zero: true}
		}
		if shift != 0 || e.merges {
			a.ShiftImm(amd64.VPRORQ, v, amd64.Register(v), shift, opts)
		}
	}
	a.Op3(amd64.VPMAXUQ, 6, 0, amd64.Register(1), amd64.Options{})
	a.Op3(amd64.VPMAXUQ, 7, 2, amd64.Register(3), amd64.Options{})
	a.Op3(amd64.VPMAXUQ, 6, 6, amd64.Register(7), amd64.Options{})
	a.Compare(amd64.VPCMPUQ, maskTmp, 6, amd64.Register(4), amd64.NLT, amd64.Options{})
	a.TestMasks8(maskTmp, maskTmp)
	a.JumpIf(amd64.NotEqual, bail)
	a.Op3(amd64.VPERMT2D, 0, constIndex, amd64.Register(1), amd64.Options{})
	a.Op3(amd64.VPERMT2D, 2, constIndex, amd64.Register(3), amd64.Options{})
}

// indexWindow is indexGlobal for shared and local memory, where addresses have 32 bits.
func (e *emitter) indexWindow(in *Inst, where space, shift uint8, from []amd64.Source, bail amd64.Label) {
	a := e.a
	size, base := atSharedSize, atShared
	if where == local {
		size, base = atLocalSize, atLocal
	}
	a.Load64(amd64.RAX, amd64.At(regState, base))
	a.Load32(amd64.RDX, amd64.At(regState, size))
	a.ShiftRight32(amd64.RDX, shift)
	a.BroadcastReg(amd64.VPBROADCASTDReg, 4, amd64.RDX, amd64.Options{})
	if uint32(in.Imm) != 0 {
		a.Const32(amd64.RCX, uint32(in.Imm))
		a.BroadcastReg(amd64.VPBROADCASTDReg, 5, amd64.RCX, amd64.Options{})
	}
	for half, v := range []amd64.Vec{0, 2} {
		from := from[half]
		if uint32(in.Imm) != 0 {
			a.Op3(amd64.VPADDD, v, 5, from, amd64.Options{})
			from = amd64.Register(v)
		}
		opts := amd64.Options{}
		if e.merges {
			a.MaskShift(maskTmp, maskGuard, uint8(16*half))
			opts = amd64.Options{Mask: maskTmp, Zero: true}
		}
		a.ShiftImm(amd64.VPRORD, v, from, shift, opts)
	}
	a.Op3(amd64.VPMAXUD, 6, 0, amd64.Register(2), amd64.Options{})
	a.Compare(amd64.VPCMPUD, maskTmp, 6, amd64.Register(4), amd64.NLT, amd64.Options{})
	a.TestMasks16(maskTmp, maskTmp)
	a.JumpIf(amd64.NotEqual, bail)
	if where == local {
		// The memory of a thread is behind that of the thread before.
		for half, v := range []amd64.Vec{0, 2} {
			a.Op3(amd64.VPMULLD, 5, 4, amd64.Memory(e.tableAt(tableCount+half)), amd64.Options{})
			a.Op3(amd64.VPADDD, v, v, amd64.Register(5), amd64.Options{})
		}
	}
}

// listElements lists the parts of the registers that a half of the warp loads or stores, in the order in which helpers have them
// in V4 to V7.
func listElements(in *Inst, h accessRoutine, half int, one Ref) []operandPart {
	refs := []Ref{one}
	if h.count > 1 {
		refs = in.List
	}
	var out []operandPart
	for _, r := range refs {
		if h.size == 8 {
			out = append(out, operandPart{Long, r, 2 * half}, operandPart{Long, r, 2*half + 1})
		} else {
			out = append(out, operandPart{Word, r, half})
		}
	}
	return out
}

func (e *emitter) loadHalf(in *Inst, h accessRoutine, half int) {
	list := listElements(in, h, half, in.D)
	for i, p := range list {
		e.keepOld(p, amd64.Vec(4+i))
	}
	e.a.Call(e.helperLabel(h))
	for i, p := range list {
		v := e.newResult()
		e.a.Op2(amd64.VMOVDQU32, v, amd64.Register(amd64.Vec(4+i)), amd64.Options{})
		e.fillSlot(p, v)
	}
}

func (e *emitter) storeHalf(in *Inst, h accessRoutine, half int) {
	for i, p := range listElements(in, h, half, in.C) {
		e.a.Op2(amd64.VMOVDQU32, amd64.Vec(4+i), e.partSource(p), amd64.Options{})
	}
	e.a.Call(e.helperLabel(h))
}

func init() {
	for name, where := range map[string]space{"global": global, "shared": shared, "local": local} {
		for _, size := range []uint8{1, 2, 4, 8} {
			ld, st := "ld."+name+"."+string('0'+rune(size)), "st."+name+"."+string('0'+rune(size))
			addAccess := func(key string, h accessRoutine) {
				h.where = where
				operations[key] = operation{ownMask: true, fits: accessFits, emit: func(e *emitter, in *Inst) { e.emitAccess(in, where, h) }}
			}
			addAccess(ld, accessRoutine{size: size, count: 1})
			addAccess(st, accessRoutine{size: size, count: 1, store: true})
			if size < 4 {
				addAccess(ld+"s", accessRoutine{size: size, count: 1, signed: true})
				continue
			}
			for _, n := range []uint8{2, 4} {
				if size*n <= 16 {
					v := ".v" + string('0'+rune(n))
					addAccess(ld+v, accessRoutine{size: size, count: n})
					addAccess(st+v, accessRoutine{size: size, count: n, store: true})
				}
			}
		}
	}
}

func accessFits(in *Inst) bool { return in.Site >= 0 && in.Site < math.MaxInt32/8 }
