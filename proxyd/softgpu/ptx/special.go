// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
	"math/bits"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// specialRegister finds a special register and reads its value into a fresh register.
func (l *lowerer) specialRegister(o syntax.Operand) (ref, types.Type, bool) {
	name := o.Name
	if o.Sel != "" {
		name += "." + o.Sel
	}
	s, ok := specials[name]
	if !ok && strings.HasPrefix(name, "%envreg") {
		n := 0
		for _, c := range name[len("%envreg"):] {
			n = n*10 + int(c-'0')
		}
		if n < 0 || n > 31 {
			l.failSyntax("%s is not declared", name)
		}
		s, ok = uniformSpecial(func(w *warp) uint64 { return uint64(w.block.run.cfg.Env[n]) }), true
	}
	if !ok {
		if strings.HasPrefix(name, "%pm") {
			l.refuseInstruction("performance counters are not supported")
		}
		return 0, types.NoType, false
	}
	if strings.HasPrefix(name, "%reserved_smem_offset") {
		l.b.reserved = true
	}
	if strings.Contains(name, "clock") || strings.Contains(name, "timer") {
		l.b.spins = true
		emitSpin(l)
	}
	c := s.typ.Class()
	d := l.newReg(c)
	// The register is read in all active lanes, with any guard.
	was := l.guard
	l.guard = 0
	m := l.emitMicro(opSpecial, shape{d: defOperand(c)}, d, 0, 0, 0, 0)
	l.guard = was
	m.ext = &ext{special: &s}
	m.key, m.imm = specialKeys[name].key, specialKeys[name].imm
	return d, s.typ, true
}

// specialRegister is a special register: its value in all lanes, or lane by lane.
type specialRegister struct {
	typ   types.Type
	value func(w *warp) uint64
	lane  func(w *warp, i int) uint64
}

func opSpecial(w *warp, in *inst, m uint32) {
	s := in.ext.special
	switch {
	case s.lane != nil:
		d := w.u32(in.d)
		for ; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			d[i] = uint32(s.lane(w, i))
		}
	case s.typ == types.Pred:
		w.setBits(in.d, m, uint32(s.value(w)))
	case s.typ.Class() == types.Class64:
		d, v := w.u64(in.d), s.value(w)
		for ; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&31] = v
		}
	default:
		d, v := w.u32(in.d), uint32(s.value(w))
		for ; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&31] = v
		}
	}
}

func uniformSpecial(f func(w *warp) uint64) specialRegister {
	return specialRegister{typ: types.U32, value: f}
}

func uniformLong(f func(w *warp) uint64) specialRegister {
	return specialRegister{typ: types.U64, value: f}
}

func perLane(f func(w *warp, lane int) uint64) specialRegister {
	return specialRegister{typ: types.U32, lane: f}
}

// specials are the special registers; a register with components has an entry for each component.
var specials = func() map[string]specialRegister {
	m := map[string]specialRegister{
		"%laneid":  perLane(func(_ *warp, i int) uint64 { return uint64(i) }),
		"%warpid":  uniformSpecial(func(w *warp) uint64 { return uint64(w.id) }),
		"%nwarpid": uniformSpecial(func(*warp) uint64 { return 64 }),
		"%smid":    uniformSpecial(func(w *warp) uint64 { return w.block.index % uint64(w.block.run.cfg.SMs) }),
		"%nsmid":   uniformSpecial(func(w *warp) uint64 { return uint64(w.block.run.cfg.SMs) }),

		"%lanemask_eq": perLane(func(_ *warp, i int) uint64 { return 1 << i }),
		"%lanemask_lt": perLane(func(_ *warp, i int) uint64 { return 1<<i - 1 }),
		"%lanemask_le": perLane(func(_ *warp, i int) uint64 { return 2<<i - 1 }),
		"%lanemask_gt": perLane(func(_ *warp, i int) uint64 { return uint64(uint32(math.MaxUint32 << (i + 1))) }),
		"%lanemask_ge": perLane(func(_ *warp, i int) uint64 { return uint64(uint32(math.MaxUint32 << i)) }),

		"%clock":             uniformSpecial(func(w *warp) uint64 { return uint64(uint32(w.warpTime())) }),
		"%clock_hi":          uniformSpecial(func(w *warp) uint64 { return w.warpTime() >> 32 }),
		"%clock64":           uniformLong((*warp).warpTime),
		"%globaltimer":       uniformLong((*warp).warpTime),
		"%globaltimer_lo":    uniformSpecial(func(w *warp) uint64 { return uint64(uint32(w.warpTime())) }),
		"%globaltimer_hi":    uniformSpecial(func(w *warp) uint64 { return w.warpTime() >> 32 }),
		"%gridid":            uniformLong(func(w *warp) uint64 { return w.block.run.cfg.GridID }),
		"%total_smem_size":   uniformSpecial(func(w *warp) uint64 { return uint64(w.block.run.sharedSize()) }),
		"%aggr_smem_size":    uniformSpecial(func(w *warp) uint64 { return uint64(w.block.run.sharedSize()) }),
		"%dynamic_smem_size": uniformSpecial(func(w *warp) uint64 { return uint64(w.block.run.cfg.Shared) }),

		"%reserved_smem_offset_begin": uniformSpecial(reservedShared),
		"%reserved_smem_offset_cap":   uniformSpecial(reservedShared),
		"%reserved_smem_offset_0":     uniformSpecial(reservedShared),
		"%reserved_smem_offset_1":     uniformSpecial(reservedShared),
		"%reserved_smem_offset_end":   uniformSpecial(func(w *warp) uint64 { return reservedShared(w) + reservedSize }),

		// A block is a cluster of its own.
		"%cluster_ctarank":     uniformSpecial(func(*warp) uint64 { return 0 }),
		"%cluster_nctarank":    uniformSpecial(func(*warp) uint64 { return 1 }),
		"%current_graph_exec":  uniformLong(func(*warp) uint64 { return 0 }),
		"%is_explicit_cluster": {typ: types.Pred, value: func(*warp) uint64 { return 0 }},
	}
	axis := func(d Dim3, k int) uint64 { return uint64([...]uint32{d.X, d.Y, d.Z, 0}[k]) }
	for k, c := range []string{"x", "y", "z", "w"} {
		m["%tid."+c] = perLane(func(w *warp, i int) uint64 { return uint64(w.tid[k][i]) })
		m["%ntid."+c] = uniformSpecial(func(w *warp) uint64 { return axis(w.block.run.cfg.Block, k) })
		m["%ctaid."+c] = uniformSpecial(func(w *warp) uint64 { return axis(w.block.pos, k) })
		m["%nctaid."+c] = uniformSpecial(func(w *warp) uint64 { return axis(w.block.run.cfg.Grid, k) })
		m["%clusterid."+c] = m["%ctaid."+c]
		m["%nclusterid."+c] = m["%nctaid."+c]
		m["%cluster_ctaid."+c] = uniformSpecial(func(*warp) uint64 { return 0 })
		m["%cluster_nctaid."+c] = uniformSpecial(func(*warp) uint64 { return 1 })
	}
	return m
}()

// reservedSize is the shared memory of a block that is reserved for the system: libraries keep values there that the
// warps of a cooperative group exchange. The memory follows the block's own memory, and only kernels that ask for its
// place have it.
const reservedSize = 1024

func reservedShared(w *warp) uint64 { return uint64(w.block.run.reservedAt()) }

// warpTime is the warp's own time: the time passes with the instructions that the warp executes, so that a program
// which looks at the clock gives the same result everywhere. A read takes a prime number of ticks: a program that waits
// for a round number of ticks then sees that more have passed, as on a device.
func (w *warp) warpTime() uint64 {
	w.ticks += 7
	return w.ticks
}
