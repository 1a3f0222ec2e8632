// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"sync/atomic"
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

// loadKey chooses a load: by its size and its sign.
type loadKey struct {
	size   uint32
	signed bool
}

func lanesOf32(w *warp, r ref) *[warpSize]uint32 { return w.u32(r) }
func lanesOf64(w *warp, r ref) *[warpSize]uint64 { return w.u64(r) }

// loads and stores of a single element, by space.
var loads = func() map[loadKey]func(types.Space) opFunc {
	m := map[loadKey]func(types.Space) opFunc{}
	for _, signed := range []bool{false, true} {
		m[loadKey{4, signed}] = func(s types.Space) opFunc { return loadOp[uint32](s, lanesOf32) }
		m[loadKey{8, signed}] = func(s types.Space) opFunc { return loadOp[uint64](s, lanesOf64) }
	}
	m[loadKey{1, false}] = func(s types.Space) opFunc { return loadOp[uint8](s, lanesOf32) }
	m[loadKey{1, true}] = func(s types.Space) opFunc { return loadOp[int8](s, lanesOf32) }
	m[loadKey{2, false}] = func(s types.Space) opFunc { return loadOp[uint16](s, lanesOf32) }
	m[loadKey{2, true}] = func(s types.Space) opFunc { return loadOp[int16](s, lanesOf32) }
	return m
}()

var stores = map[uint32]func(types.Space) opFunc{
	1: func(s types.Space) opFunc { return storeOp[uint8](s, lanesOf32) },
	2: func(s types.Space) opFunc { return storeOp[uint16](s, lanesOf32) },
	4: func(s types.Space) opFunc { return storeOp[uint32](s, lanesOf32) },
	8: func(s types.Space) opFunc { return storeOp[uint64](s, lanesOf64) },
}

// vectorLoad returns the operation that loads a vector; the usual sizes have loops of their own.
func vectorLoad(s types.Space, size uint32, os []opnd) opFunc {
	if size == 4 && areAllWords(os) && (len(os) == 4 || len(os) == 2) {
		switch s {
		case types.SharedSpace:
			return loadVector32Shared
		case types.GlobalSpace, types.Generic, types.ConstSpace:
			return loadVector32Global
		}
	}
	return loadVector
}

func vectorStore(s types.Space, size uint32, os []opnd) opFunc {
	if size == 4 && areAllWords(os) && (len(os) == 4 || len(os) == 2) {
		switch s {
		case types.GlobalSpace, types.Generic, types.ConstSpace:
			return storeVector32Global
		}
	}
	return storeVector
}

func areAllWords(os []opnd) bool {
	for _, o := range os {
		if o.registerClass() != types.Class32 {
			return false
		}
	}
	return true
}

// vectorRegs are the registers of a vector of two or four; of two, the last two are spare.
func (w *warp) vectorRegs(in *inst) (r [4]*[warpSize]uint32) {
	for k, f := range in.ext.refs {
		r[k] = w.u32(f)
	}
	return r
}

func loadVector32Shared(w *warp, in *inst, m uint32) {
	a, off, n := w.u32(in.a), uint32(in.imm), uint32(4*len(in.ext.refs))
	lim, p := accessLimit(uint64(len(w.block.shared)), uint64(n)), unsafe.Pointer(unsafe.SliceData(w.block.shared))
	r := w.vectorRegs(in)
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		o := a[i] + off
		if uint64(o) >= lim || o&(n-1) != 0 {
			w.sharedAt(in, o, n, i)
		}
		q := unsafe.Add(p, o)
		if n == 16 {
			v := (*[4]uint32)(q)
			r[0][i], r[1][i], r[2][i], r[3][i] = v[0], v[1], v[2], v[3]
		} else {
			v := (*[2]uint32)(q)
			r[0][i], r[1][i] = v[0], v[1]
		}
	}
}

func loadVector32Global(w *warp, in *inst, m uint32) {
	a, off, n := w.u64(in.a), in.imm, uint64(4*len(in.ext.refs))
	s := w.sites[in.site]
	base, lim, p := s.Base, accessLimit(s.Size, n), unsafe.Pointer(unsafe.SliceData(s.Bytes))
	r := w.vectorRegs(in)
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		addr := a[i] + off
		q := unsafe.Pointer(nil)
		if o := addr - base; o < lim && addr&(n-1) == 0 {
			q = unsafe.Add(p, o)
		} else {
			q = w.resolveAddress(in, addr, n, i, false)
			s = w.sites[in.site]
			base, lim, p = s.Base, accessLimit(s.Size, n), unsafe.Pointer(unsafe.SliceData(s.Bytes))
		}
		if n == 16 {
			v := (*[4]uint32)(q)
			r[0][i], r[1][i], r[2][i], r[3][i] = v[0], v[1], v[2], v[3]
		} else {
			v := (*[2]uint32)(q)
			r[0][i], r[1][i] = v[0], v[1]
		}
	}
}

func storeVector32Global(w *warp, in *inst, m uint32) {
	a, off, n := w.u64(in.a), in.imm, uint64(4*len(in.ext.refs))
	s := w.sites[in.site]
	base, lim, p := s.Base, accessLimit(s.Size, n), unsafe.Pointer(unsafe.SliceData(s.Bytes))
	r := w.vectorRegs(in)
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		addr := a[i] + off
		q := unsafe.Pointer(nil)
		if o := addr - base; o < lim && addr&(n-1) == 0 {
			q = unsafe.Add(p, o)
		} else {
			q = w.resolveAddress(in, addr, n, i, true)
			s = w.sites[in.site]
			base, lim, p = s.Base, accessLimit(s.Size, n), unsafe.Pointer(unsafe.SliceData(s.Bytes))
		}
		if n == 16 {
			*(*[4]uint32)(q) = [4]uint32{r[0][i], r[1][i], r[2][i], r[3][i]}
		} else {
			*(*[2]uint32)(q) = [2]uint32{r[0][i], r[1][i]}
		}
	}
}

// loadElement reads an element of n bytes, extended to 32 bits if narrower.
func loadElement(p unsafe.Pointer, n uint32, signed bool) uint64 {
	switch {
	case n == 1 && signed:
		return uint64(uint32(*(*int8)(p)))
	case n == 1:
		return uint64(*(*uint8)(p))
	case n == 2 && signed:
		return uint64(uint32(*(*int16)(p)))
	case n == 2:
		return uint64(*(*uint16)(p))
	case n == 4:
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

func storeElement(p unsafe.Pointer, n uint32, v uint64) {
	switch n {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 4:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}

// loadVector reads len(ext.refs) elements of in.c bytes, signed if in.e is 1.
func loadVector(w *warp, in *inst, m uint32) {
	n := uint32(in.c)
	refs := in.ext.refs
	all := n * uint32(len(refs))
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		p := w.resolveOperand(in, all, i, false)
		for k, r := range refs {
			w.setLane(in.ext.opnds[k], r, i, loadElement(unsafe.Add(p, uint32(k)*n), n, in.e == 1))
		}
	}
}

// storeVector writes len(ext.refs) elements of in.c bytes.
func storeVector(w *warp, in *inst, m uint32) {
	n := uint32(in.c)
	refs := in.ext.refs
	all := n * uint32(len(refs))
	for ; m != 0; m &= m - 1 {
		i := lowestLane(m)
		p := w.resolveOperand(in, all, i, true)
		for k, r := range refs {
			storeElement(unsafe.Add(p, uint32(k)*n), n, w.readLane(in.ext.opnds[k], r, i))
		}
	}
}

// updateBytes replaces the n bytes at p, which are aligned, by f of them, atomically with
// regard to all other cores. updateBytes returns the old value.
func updateBytes(p unsafe.Pointer, n uint32, f func(old uint64) uint64) uint64 {
	switch n {
	case 8:
		q := (*uint64)(p)
		for {
			old := atomic.LoadUint64(q)
			if atomic.CompareAndSwapUint64(q, old, f(old)) {
				return old
			}
		}
	case 4:
		q := (*uint32)(p)
		for {
			old := atomic.LoadUint32(q)
			if atomic.CompareAndSwapUint32(q, old, uint32(f(uint64(old)))) {
				return uint64(old)
			}
		}
	default:
		// Within the aligned word; the hosts are little-endian.
		shift := uintptr(p) & 2 * 8
		q := (*uint32)(unsafe.Add(p, -int(uintptr(p)&2)))
		for {
			word := atomic.LoadUint32(q)
			old := uint64(word >> shift & 0xffff)
			if atomic.CompareAndSwapUint32(q, word, word&^(0xffff<<shift)|uint32(f(old)&0xffff)<<shift) {
				return old
			}
		}
	}
}
