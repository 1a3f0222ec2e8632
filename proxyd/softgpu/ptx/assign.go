// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"container/heap"
	"math/bits"
	"sort"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Compilers write PTX with a register for each value. If each register had a place of its own, those of an unrolled
// loop would not fit into a core's first cache; so values that are never alive together share a place. Lanes are
// independent: whether a value is alive depends on a single thread, and not on the places where other lanes stand.

// eachOperand calls f for each register and constant of a micro-operation.
func (m *microOperation) eachOperand(f func(o opnd, r *ref)) {
	s := m.shape
	for _, x := range [...]struct {
		o opnd
		r *ref
	}{{s.d, &m.d}, {s.e, &m.e}, {s.a, &m.a}, {s.b, &m.b}, {s.c, &m.c}} {
		if x.o != 0 {
			f(x.o, x.r)
		}
	}
	if m.guard != 0 {
		f(usePred, &m.guard)
	}
	if m.ext == nil {
		return
	}
	for i := range m.ext.refs {
		f(m.ext.opnds[i], &m.ext.refs[i])
	}
	if c := m.ext.call; c != nil {
		for i := range c.args {
			if !c.args[i].inMemory {
				f(useOperand(c.args[i].class), &c.args[i].ref)
			}
		}
		for i := range c.rets {
			if !c.rets[i].inMemory {
				f(defOperand(c.rets[i].class), &c.rets[i].ref)
			}
		}
	}
}

// virtualRegister returns the virtual register that an operand names, or 0.
func virtualRegister(o opnd, r ref) int {
	if o.registerClass() != types.ClassPred && r&1 != 0 {
		return 0
	}
	return int(r >> 1)
}

// maxLiveWords bounds the memory for the sets of registers that are alive at each block.
const maxLiveWords = 1 << 26

type bitset []uint64

func (b bitset) setBit(i int)   { b[i>>6] |= 1 << (i & 63) }
func (b bitset) clearBit(i int) { b[i>>6] &^= 1 << (i & 63) }

// span is the range of places at which a virtual register is alive; reads are at even places, writes at odd.
type span struct{ reg, from, to int }

// assignRegisters gives each virtual register its place and rewrites all refs.
func assignRegisters(g *graph) {
	v := newLiveness(g)
	v.propagateLiveness()
	numberSpans(g.l, v.findSpans())
}

// liveness is the places at which the virtual registers of a function are alive.
type liveness struct {
	*graph
	code    []microOperation
	results map[int]bool // registers that a return reads: they are written all over the function, and alive at its end
	// crossing lists the registers that a block may read before it writes them: only these registers can be alive between
	// blocks. number holds their places in the list, from 1.
	crossing []int
	number   []int
	live     []bitset // of crossing, at the start of each block
	set      bitset   // of crossing, at the place that is looked at
}

// newLiveness knows which registers matter, and not yet where they are alive.
func newLiveness(g *graph) *liveness {
	l := g.l
	v := &liveness{graph: g, code: l.code, results: map[int]bool{}}
	for _, a := range l.out.rets {
		if !a.inMemory {
			v.results[int(a.ref>>1)] = true
		}
	}
	v.listCrossing()
	words := (len(v.crossing) + 63) / 64
	if uint64(words)*uint64(len(g.blocks)) > maxLiveWords {
		l.in = &syntax.Instruction{Line: l.f.Line, Op: l.f.Name}
		l.refuseInstruction("too many registers are alive over too many branches")
	}
	v.live = make([]bitset, len(g.blocks))
	for b := range v.live {
		v.live[b] = make(bitset, words)
	}
	v.set = make(bitset, words)
	return v
}

// goToEnd sets the place to the end of a block.
func (v *liveness) goToEnd(b int) {
	clear(v.set)
	for _, s := range v.blocks[b].next {
		if s != exitBlock {
			for i, word := range v.live[s] {
				v.set[i] |= word
			}
		}
	}
}

// goToStart moves the place from a block's end to its start. seen, if not nil, gets each write and each read on the way.
func (v *liveness) goToStart(b int, seen func(i int, o opnd, reg int)) {
	for i := v.blocks[b].to - 1; i >= v.blocks[b].from; i-- {
		m := &v.code[i]
		if m.flow == flowReturn {
			for r := range v.results {
				v.set.setBit(v.number[r] - 1)
			}
		}
		m.eachOperand(func(o opnd, r *ref) {
			if reg := virtualRegister(o, *r); reg != 0 && o&opndDef != 0 {
				if seen != nil {
					seen(i, o, reg)
				}
				if m.guard == 0 && o&opndUse == 0 && v.number[reg] > 0 {
					v.set.clearBit(v.number[reg] - 1)
				}
			}
		})
		m.eachOperand(func(o opnd, r *ref) {
			if reg := virtualRegister(o, *r); reg != 0 && o&opndUse != 0 {
				if seen != nil {
					seen(i, opndUse, reg)
				}
				if v.number[reg] > 0 {
					v.set.setBit(v.number[reg] - 1)
				}
			}
		})
	}
}

// propagateLiveness finds the registers that are alive at the start of each block.
func (v *liveness) propagateLiveness() {
	for changed := true; changed; {
		changed = false
		for b := len(v.blocks) - 1; b >= 0; b-- {
			v.l.countEffort(2*len(v.set)*(1+len(v.blocks[b].next)) + 16*(v.blocks[b].to-v.blocks[b].from))
			v.goToEnd(b)
			v.goToStart(b, nil)
			for i, word := range v.set {
				if v.live[b][i] != word {
					v.live[b][i] = word
					changed = true
				}
			}
		}
	}
}

// listCrossing fills crossing and number.
func (v *liveness) listCrossing() {
	v.number = make([]int, len(v.l.classes))
	add := func(reg int) {
		if v.number[reg] == 0 {
			v.crossing = append(v.crossing, reg)
			v.number[reg] = len(v.crossing)
		}
	}
	for r := range v.results {
		add(r)
	}
	written := make([]int, len(v.l.classes)) // in which block last, from 1
	for b := range v.blocks {
		for i := v.blocks[b].from; i < v.blocks[b].to; i++ {
			m := &v.code[i]
			m.eachOperand(func(o opnd, r *ref) {
				if reg := virtualRegister(o, *r); reg != 0 && o&opndUse != 0 && written[reg] != b+1 {
					add(reg)
				}
			})
			m.eachOperand(func(o opnd, r *ref) {
				if reg := virtualRegister(o, *r); reg != 0 && o&opndUse == 0 && m.guard == 0 {
					written[reg] = b + 1
				}
			})
		}
	}
}

// findSpans finds where each register is alive, from its first to its last place.
func (v *liveness) findSpans() []span {
	at := make([]span, len(v.l.classes))
	for i := range at {
		at[i] = span{reg: i, from: -1, to: -1}
	}
	touch := func(reg, place int) {
		s := &at[reg]
		if s.from < 0 || place < s.from {
			s.from = place
		}
		s.to = max(s.to, place)
	}
	each := func(b bitset, f func(reg int)) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				f(v.crossing[i<<6+bits.TrailingZeros64(word)])
			}
		}
	}
	for b := range v.blocks {
		v.goToEnd(b)
		each(v.set, func(reg int) { touch(reg, 2*v.blocks[b].to) })
		each(v.live[b], func(reg int) { touch(reg, 2*v.blocks[b].from) })
		v.goToStart(b, func(i int, o opnd, reg int) {
			if o&opndDef != 0 {
				touch(reg, 2*i+1)
			}
			if o&opndUse != 0 {
				touch(reg, 2*i)
			}
		})
	}
	// Parameters are written by the call, results read by the return.
	end := 2 * len(v.code)
	for _, a := range v.l.out.formals {
		if !a.inMemory {
			touch(int(a.ref>>1), 0)
		}
	}
	for _, a := range v.l.out.rets {
		if !a.inMemory {
			touch(int(a.ref>>1), 0)
			touch(int(a.ref>>1), end)
		}
	}
	var spans []span
	for _, s := range at[1:] {
		if s.from >= 0 {
			spans = append(spans, s)
		}
	}
	sort.Slice(spans, func(i, j int) bool {
		if spans[i].from != spans[j].from {
			return spans[i].from < spans[j].from
		}
		return spans[i].reg < spans[j].reg
	})
	return spans
}

// places is a heap of free places, lowest first; busy is a heap of spans, earliest end first.
type places []int

func (p places) Len() int           { return len(p) }
func (p places) Less(i, j int) bool { return p[i] < p[j] }
func (p places) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *places) Push(x any)        { *p = append(*p, x.(int)) }
func (p *places) Pop() any {
	x := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return x
}

type takenRegister struct{ to, place int }

type takenRegisters []takenRegister

func (b takenRegisters) Len() int           { return len(b) }
func (b takenRegisters) Less(i, j int) bool { return b[i].to < b[j].to }
func (b takenRegisters) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *takenRegisters) Push(x any)        { *b = append(*b, x.(takenRegister)) }
func (b *takenRegisters) Pop() any {
	x := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return x
}

// numberSpans assigns places to spans and rewrites the refs. Predicate 0 is not changed.
func numberSpans(l *lowerer, spans []span) {
	var free [3]places
	var used [3]takenRegisters
	var count [3]int
	count[types.ClassPred] = 1
	place := make([]ref, len(l.classes))
	for _, s := range spans {
		c := l.classes[s.reg]
		for len(used[c]) > 0 && used[c][0].to < s.from {
			heap.Push(&free[c], heap.Pop(&used[c]).(takenRegister).place)
		}
		p := count[c]
		if len(free[c]) > 0 {
			p = heap.Pop(&free[c]).(int)
		} else {
			count[c]++
		}
		place[s.reg] = ref(p)
		heap.Push(&used[c], takenRegister{s.to, p})
	}
	l.out.n32, l.out.n64, l.out.np = count[types.Class32], count[types.Class64], count[types.ClassPred]
	rewrite := func(o opnd, r *ref) {
		v := virtualRegister(o, *r)
		switch {
		case o.registerClass() == types.ClassPred:
			*r = place[v]<<1 | *r&1
		case v == 0:
		case o.registerClass() == types.Class64:
			*r = place[v] * bytes64
		default:
			*r = place[v] * bytes32
		}
	}
	for i := range l.code {
		l.code[i].eachOperand(rewrite)
	}
	for _, as := range [][]argument{l.out.formals, l.out.rets} {
		for i := range as {
			if !as[i].inMemory {
				rewrite(defOperand(as[i].class), &as[i].ref)
			}
		}
	}
}
