// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "slices"

// liveness knows which Words and Longs a block's successors may read before they write them.
type liveness struct {
	insts   []Inst
	blocks  []block
	at      []int32 // block of each instruction
	bits    int     // registers
	longs   int     // number of the first Long
	out     [][]uint64
	atStart bool // registers may be read that were never written
	all     bool // the function is too large to analyse: every register may be read
}

// block is instructions from to to-1 that follow each other.
type block struct{ from, to int32 }

// maxLiveWords bounds the memory for the sets of live registers.
const maxLiveWords = 1 << 22

func newLiveness(insts []Inst, blocks []block) *liveness {
	l := &liveness{insts: insts, blocks: blocks, at: make([]int32, len(insts))}
	for b, k := range blocks {
		for i := k.from; i < k.to; i++ {
			l.at[i] = int32(b)
		}
	}
	for i := range insts {
		for _, a := range insts[i].Accesses {
			switch {
			case a.Ref.IsConst():
			case a.Class == Word:
				l.longs = max(l.longs, int(a.Ref/wordBytes)+1)
			case a.Class == Long:
				l.bits = max(l.bits, int(a.Ref/longBytes)+1)
			}
		}
	}
	l.bits += l.longs
	words := (l.bits + 63) / 64
	if words*len(blocks) > maxLiveWords {
		l.all, l.atStart = true, true
		return l
	}
	l.out = make([][]uint64, len(blocks))
	in := make([][]uint64, len(blocks))
	for b := range blocks {
		l.out[b], in[b] = make([]uint64, words), make([]uint64, words)
	}
	set := make([]uint64, words)
	for changed := true; changed; {
		changed = false
		for b := len(blocks) - 1; b >= 0; b-- {
			l.eachNext(b, func(s int32) {
				for i, w := range in[s] {
					l.out[b][i] |= w
				}
			})
			copy(set, l.out[b])
			l.goToStart(b, set)
			for i, w := range set {
				if in[b][i] != w {
					in[b][i] = w
					changed = true
				}
			}
		}
	}
	l.atStart = slices.ContainsFunc(in[0], func(w uint64) bool { return w != 0 })
	return l
}

// eachNext calls f for the blocks that may follow a block.
func (l *liveness) eachNext(b int, f func(s int32)) {
	last := &l.insts[l.blocks[b].to-1]
	if last.Flow == Branch {
		f(l.at[last.Target])
	}
	for _, t := range last.Targets {
		f(l.at[t])
	}
	stops := last.Stops || last.Flow == Branch && last.Guard == 0
	if !stops && b+1 < len(l.blocks) {
		f(int32(b + 1))
	}
}

// goToStart turns the set of registers alive at a block's end into the set alive at its start.
func (l *liveness) goToStart(b int, set []uint64) {
	for i := l.blocks[b].to - 1; i >= l.blocks[b].from; i-- {
		in := &l.insts[i]
		for _, a := range in.Accesses {
			if n, ok := l.registerNumber(a.Class, a.Ref); ok && a.Write && in.Guard == 0 {
				set[n>>6] &^= 1 << (n & 63)
			}
		}
		for _, a := range in.Accesses {
			if n, ok := l.registerNumber(a.Class, a.Ref); ok && !a.Write {
				set[n>>6] |= 1 << (n & 63)
			}
		}
	}
}

// registerNumber numbers registers; constants and flags have no number.
func (l *liveness) registerNumber(c Class, r Ref) (int, bool) {
	switch {
	case r.IsConst() || c == Flag:
		return 0, false
	case c == Word:
		return int(r / wordBytes), true
	}
	return l.longs + int(r/longBytes), true
}

// isLiveOut reports whether a register may be read after a block.
func (l *liveness) isLiveOut(b int, c Class, r Ref) bool {
	if l.all {
		return true
	}
	n, ok := l.registerNumber(c, r)
	return ok && l.out[b][n>>6]>>(n&63)&1 != 0
}
