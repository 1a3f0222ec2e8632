// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math"
	"math/bits"
	"strings"
)

// special finds a special register: it is read into a fresh register.
func (l *lowerer) special(o operand) (ref, Type, bool) {
	name := o.name
	if o.sel != "" {
		name += "." + o.sel
	}
	s, ok := specials[name]
	if !ok && strings.HasPrefix(name, "%envreg") {
		n := 0
		for _, c := range name[len("%envreg"):] {
			n = n*10 + int(c-'0')
		}
		if n < 0 || n > 31 {
			l.fail("%s is not declared", name)
		}
		s, ok = special{U32, func(w *warp, d *[warpSize]uint64) { fill(d, uint64(w.block.run.cfg.Env[n])) }}, true
	}
	if !ok {
		if strings.HasPrefix(name, "%pm") {
			l.refuse("performance counters are not supported")
		}
		return 0, NoType, false
	}
	if strings.Contains(name, "clock") || strings.Contains(name, "timer") {
		l.b.spins = true
		l.emit(opSpin, shape{}, 0, 0, 0, 0, 0)
	}
	c := s.typ.class()
	d := l.newReg(c)
	// It is read in all lanes that are active, whatever the guard.
	was := l.guard
	l.guard = 0
	m := l.emit(opSpecial, shape{d: def(c)}, d, 0, 0, 0, 0)
	l.guard = was
	m.ext = &ext{special: s.read, opnds: []opnd{def(c)}}
	return d, s.typ, true
}

// special is a special register: how all lanes read it.
type special struct {
	typ  Type
	read func(w *warp, d *[warpSize]uint64)
}

func opSpecial(w *warp, in *inst, m uint32) {
	var v [warpSize]uint64
	in.ext.special(w, &v)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		w.setLane(in.ext.opnds[0], in.d, i, v[i])
	}
}

func fill(d *[warpSize]uint64, v uint64) {
	for i := range d {
		d[i] = v
	}
}

func uniform(f func(w *warp) uint64) special {
	return special{U32, func(w *warp, d *[warpSize]uint64) { fill(d, f(w)) }}
}

func perLane(f func(w *warp, lane int) uint64) special {
	return special{U32, func(w *warp, d *[warpSize]uint64) {
		for i := range d {
			d[i] = f(w, i)
		}
	}}
}

// specials are the special registers, those with components by component.
var specials = func() map[string]special {
	m := map[string]special{
		"%laneid":  perLane(func(_ *warp, i int) uint64 { return uint64(i) }),
		"%warpid":  uniform(func(w *warp) uint64 { return uint64(w.id) }),
		"%nwarpid": uniform(func(*warp) uint64 { return 64 }),
		"%smid":    uniform(func(w *warp) uint64 { return w.block.index % uint64(w.block.run.cfg.SMs) }),
		"%nsmid":   uniform(func(w *warp) uint64 { return uint64(w.block.run.cfg.SMs) }),

		"%lanemask_eq": perLane(func(_ *warp, i int) uint64 { return 1 << i }),
		"%lanemask_lt": perLane(func(_ *warp, i int) uint64 { return 1<<i - 1 }),
		"%lanemask_le": perLane(func(_ *warp, i int) uint64 { return 2<<i - 1 }),
		"%lanemask_gt": perLane(func(_ *warp, i int) uint64 { return uint64(uint32(math.MaxUint32 << (i + 1))) }),
		"%lanemask_ge": perLane(func(_ *warp, i int) uint64 { return uint64(uint32(math.MaxUint32 << i)) }),

		"%clock":             uniform(func(w *warp) uint64 { return uint64(uint32(w.clock())) }),
		"%clock_hi":          uniform(func(w *warp) uint64 { return w.clock() >> 32 }),
		"%clock64":           {U64, func(w *warp, d *[warpSize]uint64) { fill(d, w.clock()) }},
		"%globaltimer":       {U64, func(w *warp, d *[warpSize]uint64) { fill(d, w.clock()) }},
		"%globaltimer_lo":    uniform(func(w *warp) uint64 { return uint64(uint32(w.clock())) }),
		"%globaltimer_hi":    uniform(func(w *warp) uint64 { return w.clock() >> 32 }),
		"%gridid":            {U64, func(w *warp, d *[warpSize]uint64) { fill(d, w.block.run.cfg.GridID) }},
		"%total_smem_size":   uniform(func(w *warp) uint64 { return uint64(w.block.run.sharedSize()) }),
		"%aggr_smem_size":    uniform(func(w *warp) uint64 { return uint64(w.block.run.sharedSize()) }),
		"%dynamic_smem_size": uniform(func(w *warp) uint64 { return uint64(w.block.run.cfg.Shared) }),

		// A block is a cluster of its own.
		"%cluster_ctarank":     uniform(func(*warp) uint64 { return 0 }),
		"%cluster_nctarank":    uniform(func(*warp) uint64 { return 1 }),
		"%current_graph_exec":  {U64, func(_ *warp, d *[warpSize]uint64) { fill(d, 0) }},
		"%is_explicit_cluster": {Pred, func(_ *warp, d *[warpSize]uint64) { fill(d, 0) }},
	}
	axis := func(d Dim3, k int) uint64 { return uint64([...]uint32{d.X, d.Y, d.Z, 0}[k]) }
	for k, c := range []string{"x", "y", "z", "w"} {
		m["%tid."+c] = special{U32, func(w *warp, d *[warpSize]uint64) {
			for i := range d {
				d[i] = axis(w.block.run.cfg.Block.at(uint64(w.id*warpSize+i)), k)
			}
		}}
		m["%ntid."+c] = uniform(func(w *warp) uint64 { return axis(w.block.run.cfg.Block, k) })
		m["%ctaid."+c] = uniform(func(w *warp) uint64 { return axis(w.block.pos, k) })
		m["%nctaid."+c] = uniform(func(w *warp) uint64 { return axis(w.block.run.cfg.Grid, k) })
		m["%clusterid."+c] = m["%ctaid."+c]
		m["%nclusterid."+c] = m["%nctaid."+c]
		m["%cluster_ctaid."+c] = uniform(func(*warp) uint64 { return 0 })
		m["%cluster_nctaid."+c] = uniform(func(*warp) uint64 { return 1 })
	}
	return m
}()

// clock is the warp's own time: it passes with what the warp executes, so that a program
// which looks at it gives the same result everywhere.
func (w *warp) clock() uint64 {
	w.ticks += 4
	return w.ticks
}
