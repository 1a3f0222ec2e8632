// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

const (
	warpSize = 32
	fullMask = 1<<warpSize - 1

	bytes32 = warpSize * 4 // of a 32-bit register
	bytes64 = warpSize * 8
)

// bank points at the registers of the running frame and at the constants. A ref's bit 0
// chooses, the rest is a byte offset that assign.go computed to be inside.
type bank [2]unsafe.Pointer

func (w *warp) u32(r ref) *[warpSize]uint32 {
	return (*[warpSize]uint32)(unsafe.Add(w.bank32[r&1], uintptr(r&^1)))
}

func (w *warp) f32(r ref) *[warpSize]float32 {
	return (*[warpSize]float32)(unsafe.Add(w.bank32[r&1], uintptr(r&^1)))
}

func (w *warp) u64(r ref) *[warpSize]uint64 {
	return (*[warpSize]uint64)(unsafe.Add(w.bank64[r&1], uintptr(r&^1)))
}

func (w *warp) f64(r ref) *[warpSize]float64 {
	return (*[warpSize]float64)(unsafe.Add(w.bank64[r&1], uintptr(r&^1)))
}

// pred returns a predicate's lanes.
func (w *warp) pred(r ref) uint32 { return w.preds[w.basePred+int(r>>1)] ^ -uint32(r&1) }

// setBits writes the lanes m of a predicate.
func (w *warp) setBits(r ref, m, v uint32) {
	p := &w.preds[w.basePred+int(r>>1)]
	*p = *p&^m | v&m
}

// setPred ends a setp: r is the comparison's outcome. in.imm holds, from bit 0, the boolean operator that combines r
// with c (0: no operator), and whether e takes the complement.
func (w *warp) setPred(in *inst, m, r uint32) {
	if in.imm == 0 {
		w.setBits(in.d, m, r)
		return
	}
	q := ^r
	c := w.pred(in.c)
	switch in.imm & 3 {
	case 1:
		r, q = r&c, q&c
	case 2:
		r, q = r|c, q|c
	case 3:
		r, q = r^c, q^c
	}
	w.setBits(in.d, m, r)
	if in.imm&4 != 0 {
		w.setBits(in.e, m, q)
	}
}

// readLane reads a lane of an operand of any class, zero-extended.
func (w *warp) readLane(o opnd, r ref, i int) uint64 {
	switch o.registerClass() {
	case types.Class64:
		return w.u64(r)[i]
	case types.ClassPred:
		return uint64(w.pred(r) >> i & 1)
	default:
		return uint64(w.u32(r)[i])
	}
}

// setLane writes a lane of an operand of any class.
func (w *warp) setLane(o opnd, r ref, i int, v uint64) {
	switch o.registerClass() {
	case types.Class64:
		w.u64(r)[i] = v
	case types.ClassPred:
		w.setBits(r, 1<<i, uint32(v)<<i)
	default:
		w.u32(r)[i] = uint32(v)
	}
}

// enterFrame makes refs mean a frame's registers, and makes room for them; and for another register, so that a frame
// without registers does not begin behind the end of a file: a pointer there would belong to the allocator's next
// object.
func (w *warp) enterFrame(f *frame, c *code) {
	if w.entered == f {
		return
	}
	w.entered = f
	if need := (f.base32 + c.n32 + 1) * warpSize; need > len(w.file32) {
		w.file32 = append(w.file32, make([]uint32, need-len(w.file32)+len(w.file32)/2)...)
	}
	if need := (f.base64 + c.n64 + 1) * warpSize; need > len(w.file64) {
		w.file64 = append(w.file64, make([]uint64, need-len(w.file64)+len(w.file64)/2)...)
	}
	if need := f.basePred + c.np; need > len(w.preds) {
		w.preds = append(w.preds, make([]uint32, need-len(w.preds)+len(w.preds)/2)...)
	}
	w.bank32[0] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.file32)), f.base32*bytes32)
	w.bank64[0] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.file64)), f.base64*bytes64)
	w.basePred = f.basePred
}

// setConstants makes refs mean the kernel's constants.
func (w *warp) setConstants(c32 []uint32, c64 []uint64) {
	w.bank32[1] = unsafe.Pointer(unsafe.SliceData(c32))
	w.bank64[1] = unsafe.Pointer(unsafe.SliceData(c64))
}
