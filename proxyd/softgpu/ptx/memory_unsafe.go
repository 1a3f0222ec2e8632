// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Accesses go through an access site's last range: a single comparison per lane. An access outside of that range takes
// the slow way, which finds another range, or a window, or faults.

// word is a type that an access reads or writes.
type word interface {
	uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32
}

// accessLimit is the first offset at which an access of n bytes does not fit into size bytes.
func accessLimit(size, n uint64) uint64 {
	if size < n {
		return 0
	}
	return size - n + 1
}

// resolveAddress resolves the n bytes at a generic address for a lane, or faults.
func (w *warp) resolveAddress(in *inst, addr, n uint64, lane int, store bool) unsafe.Pointer {
	if addr&(n-1) != 0 {
		w.raiseFault(MisalignedAddress, in, lane, addr, "")
	}
	if addr < memory.MinAddress {
		at := addr % (1 << 32)
		switch {
		case addr>>32 == memory.SharedWindow>>32 && at < accessLimit(uint64(len(w.block.shared)), n):
			return unsafe.Pointer(&w.block.shared[at])
		case addr>>32 == memory.LocalWindow>>32 && at < accessLimit(uint64(w.local.Size), n):
			return unsafe.Pointer(unsafe.SliceData(w.local.LaneBytes(lane, uint32(at), uint32(n))))
		case addr>>32 == memory.ParamWindow>>32 && at < accessLimit(uint64(len(w.block.params)), n) && !store:
			return unsafe.Pointer(&w.block.params[at])
		}
		w.raiseFault(IllegalAddress, in, lane, addr, "")
	}
	if in.site >= 0 {
		// The range was checked and noted when the site came to it: a site either loads or stores.
		if r := w.sites[in.site]; addr-r.Base < accessLimit(r.Size, n) {
			return unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.Bytes)), addr-r.Base)
		}
	}
	r := w.block.run.memory.FindRange(addr, n)
	if r == nil {
		w.raiseFault(IllegalAddress, in, lane, addr, "")
	}
	if store && r.ReadOnly {
		w.raiseFault(IllegalAddress, in, lane, addr, "write to read-only memory")
	}
	w.block.recordAccess(r, store)
	if in.site >= 0 {
		w.sites[in.site] = r
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.Bytes)), addr-r.Base)
}

// sharedAt returns the place of n bytes of shared memory, or raises a fault.
func (w *warp) sharedAt(in *inst, addr uint32, n uint32, lane int) unsafe.Pointer {
	if addr&(n-1) != 0 {
		w.raiseFault(MisalignedAddress, in, lane, uint64(addr), "shared memory")
	}
	if uint64(addr) >= accessLimit(uint64(len(w.block.shared)), uint64(n)) {
		w.raiseFault(IllegalAddress, in, lane, uint64(addr), "shared memory")
	}
	return unsafe.Pointer(&w.block.shared[addr])
}

func (w *warp) localAt(in *inst, addr uint32, n uint32, lane int) unsafe.Pointer {
	if addr&(n-1) != 0 {
		w.raiseFault(MisalignedAddress, in, lane, uint64(addr), "local memory")
	}
	if uint64(addr) >= accessLimit(uint64(w.local.Size), uint64(n)) {
		w.raiseFault(IllegalAddress, in, lane, uint64(addr), "local memory")
	}
	return unsafe.Pointer(unsafe.SliceData(w.local.LaneBytes(lane, addr, n)))
}

func (w *warp) paramAt(in *inst, addr uint32, n uint32, lane int) unsafe.Pointer {
	if addr&(n-1) != 0 {
		w.raiseFault(MisalignedAddress, in, lane, uint64(addr), "parameters")
	}
	if uint64(addr) >= accessLimit(uint64(len(w.block.params)), uint64(n)) {
		w.raiseFault(IllegalAddress, in, lane, uint64(addr), "parameters")
	}
	return unsafe.Pointer(&w.block.params[addr])
}

// resolveOperand resolves operand a plus in.imm, in the space that in.b names, for a lane.
func (w *warp) resolveOperand(in *inst, n uint32, lane int, store bool) unsafe.Pointer {
	switch types.Space(in.b) {
	case types.SharedSpace:
		return w.sharedAt(in, w.u32(in.a)[lane]+uint32(in.imm), n, lane)
	case types.LocalSpace:
		return w.localAt(in, w.u32(in.a)[lane]+uint32(in.imm), n, lane)
	case types.ParamSpace:
		return w.paramAt(in, w.u32(in.a)[lane]+uint32(in.imm), n, lane)
	default:
		return w.resolveAddress(in, w.u64(in.a)[lane]+in.imm, uint64(n), lane, store)
	}
}

// loadGlobal reads a word per lane into d.
func loadGlobal[D word, R uint32 | uint64](w *warp, in *inst, m uint32, d *[warpSize]R) {
	n := uint64(unsafe.Sizeof(D(0)))
	a, off := w.u64(in.a), in.imm
	r := w.sites[in.site]
	base, lim, p := r.Base, accessLimit(r.Size, n), unsafe.Pointer(unsafe.SliceData(r.Bytes))
	if m == fullMask {
		for i := range a {
			addr := a[i] + off
			if o := addr - base; o < lim && addr&(n-1) == 0 {
				d[i] = R(*(*D)(unsafe.Add(p, o)))
				continue
			}
			d[i] = R(*(*D)(w.resolveAddress(in, addr, n, i, false)))
			r = w.sites[in.site]
			base, lim, p = r.Base, accessLimit(r.Size, n), unsafe.Pointer(unsafe.SliceData(r.Bytes))
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := a[i] + off
		if o := addr - base; o < lim && addr&(n-1) == 0 {
			d[i] = R(*(*D)(unsafe.Add(p, o)))
			continue
		}
		d[i] = R(*(*D)(w.resolveAddress(in, addr, n, i, false)))
		r = w.sites[in.site]
		base, lim, p = r.Base, accessLimit(r.Size, n), unsafe.Pointer(unsafe.SliceData(r.Bytes))
	}
}

// storeGlobal writes a word per lane from s.
func storeGlobal[D word, R uint32 | uint64](w *warp, in *inst, m uint32, s *[warpSize]R) {
	n := uint64(unsafe.Sizeof(D(0)))
	a, off := w.u64(in.a), in.imm
	r := w.sites[in.site]
	base, lim, p := r.Base, accessLimit(r.Size, n), unsafe.Pointer(unsafe.SliceData(r.Bytes))
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := a[i] + off
		if o := addr - base; o < lim && addr&(n-1) == 0 {
			*(*D)(unsafe.Add(p, o)) = D(s[i])
			continue
		}
		*(*D)(w.resolveAddress(in, addr, n, i, true)) = D(s[i])
		r = w.sites[in.site]
		base, lim, p = r.Base, accessLimit(r.Size, n), unsafe.Pointer(unsafe.SliceData(r.Bytes))
	}
}

// loadShared reads a word per lane from the block's shared memory.
func loadShared[D word, R uint32 | uint64](w *warp, in *inst, m uint32, d *[warpSize]R) {
	n := uint32(unsafe.Sizeof(D(0)))
	a, off := w.u32(in.a), uint32(in.imm)
	lim, p := uint32(accessLimit(uint64(len(w.block.shared)), uint64(n))), unsafe.Pointer(unsafe.SliceData(w.block.shared))
	if m == fullMask {
		for i := range a {
			o := a[i] + off
			if o >= lim || o&(n-1) != 0 {
				w.sharedAt(in, o, n, i)
			}
			d[i] = R(*(*D)(unsafe.Add(p, o)))
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		o := a[i] + off
		if o >= lim || o&(n-1) != 0 {
			w.sharedAt(in, o, n, i)
		}
		d[i] = R(*(*D)(unsafe.Add(p, o)))
	}
}

// storeShared writes a word per lane to the block's shared memory.
func storeShared[D word, R uint32 | uint64](w *warp, in *inst, m uint32, s *[warpSize]R) {
	n := uint32(unsafe.Sizeof(D(0)))
	a, off := w.u32(in.a), uint32(in.imm)
	lim, p := uint32(accessLimit(uint64(len(w.block.shared)), uint64(n))), unsafe.Pointer(unsafe.SliceData(w.block.shared))
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		o := a[i] + off
		if o >= lim || o&(n-1) != 0 {
			w.sharedAt(in, o, n, i)
		}
		*(*D)(unsafe.Add(p, o)) = D(s[i])
	}
}

// loadLocal reads a word per lane from the threads' own memory.
func loadLocal[D word, R uint32 | uint64](w *warp, in *inst, m uint32, d *[warpSize]R) {
	n := uint32(unsafe.Sizeof(D(0)))
	a, off, stride := w.u32(in.a), uint32(in.imm), uint64(w.local.Size)
	lim, p := accessLimit(stride, uint64(n)), unsafe.Pointer(unsafe.SliceData(w.local.Data))
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		o := a[i] + off
		if uint64(o) >= lim || o&(n-1) != 0 {
			w.localAt(in, o, n, i)
		}
		d[i] = R(*(*D)(unsafe.Add(p, uint64(i)*stride+uint64(o))))
	}
}

// storeLocal writes a word per lane to the threads' own memory.
func storeLocal[D word, R uint32 | uint64](w *warp, in *inst, m uint32, s *[warpSize]R) {
	n := uint32(unsafe.Sizeof(D(0)))
	a, off, stride := w.u32(in.a), uint32(in.imm), uint64(w.local.Size)
	lim, p := accessLimit(stride, uint64(n)), unsafe.Pointer(unsafe.SliceData(w.local.Data))
	w.local.Used = true
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		o := a[i] + off
		if uint64(o) >= lim || o&(n-1) != 0 {
			w.localAt(in, o, n, i)
		}
		*(*D)(unsafe.Add(p, uint64(i)*stride+uint64(o))) = D(s[i])
	}
}

// loadSlow and storeSlow serve the other spaces.
func loadSlow[D word, R uint32 | uint64](w *warp, in *inst, m uint32, d *[warpSize]R) {
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		d[i] = R(*(*D)(w.resolveOperand(in, uint32(unsafe.Sizeof(D(0))), i, false)))
	}
}

func storeSlow[D word, R uint32 | uint64](w *warp, in *inst, m uint32, s *[warpSize]R) {
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		*(*D)(w.resolveOperand(in, uint32(unsafe.Sizeof(D(0))), i, true)) = D(s[i])
	}
}

func loadOp[D word, R uint32 | uint64](space types.Space, reg func(w *warp, r ref) *[warpSize]R) opFunc {
	switch space {
	case types.Generic, types.GlobalSpace, types.ConstSpace:
		return func(w *warp, in *inst, m uint32) { loadGlobal[D](w, in, m, reg(w, in.d)) }
	case types.SharedSpace:
		return func(w *warp, in *inst, m uint32) { loadShared[D](w, in, m, reg(w, in.d)) }
	case types.LocalSpace:
		return func(w *warp, in *inst, m uint32) { loadLocal[D](w, in, m, reg(w, in.d)) }
	default:
		return func(w *warp, in *inst, m uint32) { loadSlow[D](w, in, m, reg(w, in.d)) }
	}
}

func storeOp[D word, R uint32 | uint64](space types.Space, reg func(w *warp, r ref) *[warpSize]R) opFunc {
	switch space {
	case types.Generic, types.GlobalSpace, types.ConstSpace:
		return func(w *warp, in *inst, m uint32) { storeGlobal[D](w, in, m, reg(w, in.c)) }
	case types.SharedSpace:
		return func(w *warp, in *inst, m uint32) { storeShared[D](w, in, m, reg(w, in.c)) }
	case types.LocalSpace:
		return func(w *warp, in *inst, m uint32) { storeLocal[D](w, in, m, reg(w, in.c)) }
	default:
		return func(w *warp, in *inst, m uint32) { storeSlow[D](w, in, m, reg(w, in.c)) }
	}
}

// bytesAt returns the n bytes at p, which resolveAddress, resolveOperand or sharedAt has found.
func (w *warp) bytesAt(p unsafe.Pointer, n uint32) []byte { return unsafe.Slice((*byte)(p), n) }

// anyRange finds the range of n bytes at a generic address that is aligned well enough.
func (w *warp) anyRange(in *inst, addr, n uint64, lane int) *memory.Range {
	r := w.block.run.memory.FindRange(addr, n)
	if r == nil {
		w.raiseFault(IllegalAddress, in, lane, addr, "")
	}
	w.block.recordAccess(r, false)
	w.sites[in.site] = r
	return r
}

// genericBytes returns the n bytes at a generic address, or nil; for the reads of the package's own functions.
func (w *warp) genericBytes(addr, n uint64, lane int) []byte {
	at := addr % (1 << 32)
	switch {
	case addr >= memory.MinAddress:
		return w.block.run.memory.Bytes(addr, n)
	case addr>>32 == memory.SharedWindow>>32 && at < accessLimit(uint64(len(w.block.shared)), n):
		return w.block.shared[at:][:n]
	case addr>>32 == memory.LocalWindow>>32 && at < accessLimit(uint64(w.local.Size), n):
		return w.local.LaneBytes(lane, uint32(at), uint32(n))
	}
	return nil
}
