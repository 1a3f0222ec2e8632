// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"math"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// operandPart is a part of a register or a constant that fills a vector register: 16 lanes of a Word, 8 of a Long.
type operandPart struct {
	class Class
	ref   Ref
	part  int
}

// slot is a vector register that keeps an operandPart.
type slot struct {
	at     operandPart
	full   bool
	dirty  bool  // memory is older
	pinned bool  // the present instruction needs it
	since  int32 // the instruction with this result; -1: the value was read from memory
}

// usage is the instructions of a block that use a register, ascending.
type usage struct {
	noted int // cache.noted when the block was noted
	at    []int32
	reads []bool // the instruction reads the old value; else it writes all lanes that run
}

// cache keeps operandParts in vector registers within a block. A slot that is newer than memory is written back when the slot
// is needed, or where other code may read the operandPart.
type cache struct {
	routines
	slots [slots]slot
	uses  [2][2][]usage // of a Word and a Long, of a register and a constant, by their numbers
	noted int           // how often a block was noted: a usage of an earlier block has another number
}

func slotVec(i int) amd64.Vec { return amd64.Vec(firstSlot + i) }

// usesOf returns the list of the uses of a kind of register, and a register's place in the list.
func (e *cache) usesOf(c Class, r Ref) (all *[]usage, at int) {
	size := Ref(wordBytes)
	if c == Long {
		size = longBytes
	}
	return &e.uses[c][r&1], int(r / size)
}

// findUsage returns the uses of a register in the block, or nil if the block does not use it.
func (e *cache) findUsage(c Class, r Ref) *usage {
	all, at := e.usesOf(c, r)
	if at >= len(*all) || (*all)[at].noted != e.noted {
		return nil
	}
	return &(*all)[at]
}

// noteUses notes the registers that a block's instructions use.
func (e *cache) noteUses(b block) {
	e.noted++
	for i := b.from; i < b.to; i++ {
		in := &e.insts[i]
		for _, a := range in.Accesses {
			if a.Class == Flag {
				continue
			}
			all, at := e.usesOf(a.Class, a.Ref)
			for at >= len(*all) {
				*all = append(*all, usage{})
			}
			u := &(*all)[at]
			if u.noted != e.noted {
				u.noted, u.at, u.reads = e.noted, u.at[:0], u.reads[:0]
			}
			reads := !a.Write || in.Guard != 0
			if n := len(u.at); n > 0 && u.at[n-1] == i {
				u.reads[n-1] = u.reads[n-1] || reads
				continue
			}
			u.at, u.reads = append(u.at, i), append(u.reads, reads)
		}
	}
}

// never is a use that does not come.
const never = math.MaxInt32

// nextUse is the first instruction from pos on that reads a register's present value; never if no instruction of the
// block reads it before it is overwritten.
func (e *cache) nextUse(p operandPart, pos int32) int32 {
	u := e.findUsage(p.class, p.ref)
	if u == nil {
		return never
	}
	i, _ := slices.BinarySearch(u.at, pos)
	if i == len(u.at) || !u.reads[i] {
		return never
	}
	return u.at[i]
}

// isDead reports whether no instruction reads a register's present value, from pos on.
func (e *cache) isDead(p operandPart, pos int32) bool {
	if u := e.findUsage(p.class, p.ref); u != nil {
		if i, _ := slices.BinarySearch(u.at, pos); i < len(u.at) {
			return !u.reads[i]
		}
	}
	return !e.live.isLiveOut(e.block, p.class, p.ref)
}

func (e *cache) findSlot(p operandPart) int {
	for i := range e.slots {
		if s := &e.slots[i]; s.full && s.at == p {
			return i
		}
	}
	return -1
}

// memoryOf is the address of an operandPart in memory.
func (e *cache) memoryOf(p operandPart) amd64.Mem {
	base := [2][2]amd64.Reg{{regFile32, regConst32}, {regFile64, regConst64}}[p.class][p.ref&1]
	return amd64.At(base, int32(p.ref&^1)+int32(p.part)*partBytes)
}

// partSource is an operandPart as an operand: its slot, or memory. An operandPart that the block reads again gets a slot,
// if a slot is free.
func (e *cache) partSource(p operandPart) amd64.Source {
	if i := e.findSlot(p); i >= 0 {
		e.slots[i].pinned = true
		return amd64.Register(slotVec(i))
	}
	if next := e.nextUse(p, e.pos+1); next != never {
		if i := e.makeRoom(next); i >= 0 {
			e.a.Op2(amd64.VMOVDQU32, slotVec(i), amd64.Memory(e.memoryOf(p)), amd64.Options{})
			e.slots[i] = slot{at: p, full: true, pinned: true, since: -1}
			return amd64.Register(slotVec(i))
		}
	}
	return amd64.Memory(e.memoryOf(p))
}

// partVector is an operandPart in a vector register: its slot, or tmp.
func (e *cache) partVector(p operandPart, tmp amd64.Vec) amd64.Vec {
	s := e.partSource(p)
	if !s.Memory {
		return s.Vec
	}
	e.a.Op2(amd64.VMOVDQU32, tmp, s, amd64.Options{})
	return tmp
}

// makeRoom returns an empty slot, or -1 if all slots are used before next. With never, there always is an
// empty slot.
func (e *cache) makeRoom(next int32) int {
	best, bestNext := -1, int32(-1)
	for i := range e.slots {
		s := &e.slots[i]
		switch {
		case s.pinned:
			continue
		case !s.full:
			return i
		}
		n := e.nextUse(s.at, e.valueFrom(s))
		if n > bestNext || n == bestNext && !s.dirty && e.slots[best].dirty {
			best, bestNext = i, n
		}
	}
	if best < 0 || next != never && bestNext <= next {
		return -1
	}
	e.writeBack(best, e.valueFrom(&e.slots[best]))
	e.slots[best] = slot{}
	return best
}

// valueFrom is the instruction from which on a slot's value matters: the present one, if the value is not its result.
func (e *cache) valueFrom(s *slot) int32 {
	if s.since == e.pos {
		return e.pos + 1
	}
	return e.pos
}

// forceRoom is makeRoom for a value that must have a slot.
func (e *cache) forceRoom() int {
	i := e.makeRoom(never)
	if i < 0 {
		panic("native: an instruction needs more vector registers than there are")
	}
	return i
}

// writeBack brings memory up to date with a slot, if the value is read from pos on.
func (e *cache) writeBack(i int, pos int32) {
	s := &e.slots[i]
	if s.full && s.dirty && !e.isDead(s.at, pos) {
		e.a.Store(amd64.VMOVDQU32Store, e.memoryOf(s.at), slotVec(i), amd64.Options{})
	}
	s.dirty = false
}

// flushSlots writes back the slots that are read from pos on, and empties all slots.
func (e *cache) flushSlots(pos int32) {
	for i := range e.slots {
		e.writeBack(i, pos)
		e.slots[i] = slot{}
	}
}

// newResult is a vector register for a part of a result. The operandPart keeps its old value until commitResult.
func (e *cache) newResult() amd64.Vec {
	i := e.forceRoom()
	e.slots[i] = slot{pinned: true}
	return slotVec(i)
}

// commitResult makes a vector register that newResult returned the value of an operandPart, in the lanes that run.
func (e *cache) commitResult(p operandPart, v amd64.Vec) {
	if old := e.findSlot(p); e.merges {
		from := amd64.Memory(e.memoryOf(p))
		if old >= 0 {
			from = amd64.Register(slotVec(old))
		}
		e.a.Op2(moveOf(p.class), v, from, amd64.Options{Mask: e.idleMask(p)})
	}
	e.fillSlot(p, v)
}

// fillSlot is commitResult of a value that is complete.
func (e *cache) fillSlot(p operandPart, v amd64.Vec) {
	if old := e.findSlot(p); old >= 0 {
		e.slots[old] = slot{}
	}
	e.slots[v-firstSlot] = slot{at: p, full: true, dirty: true, pinned: true, since: e.pos}
}

// keepOld makes a vector register the present value of an operandPart, if some lanes will keep it.
func (e *cache) keepOld(p operandPart, v amd64.Vec) {
	if !e.merges {
		return
	}
	from := amd64.Memory(e.memoryOf(p))
	if i := e.findSlot(p); i >= 0 {
		from = amd64.Register(slotVec(i))
	}
	e.a.Op2(amd64.VMOVDQU32, v, from, amd64.Options{})
}

func moveOf(c Class) amd64.Op {
	if c == Long {
		return amd64.VMOVDQU64
	}
	return amd64.VMOVDQU32
}

func (e *cache) unpinSlots() {
	for i := range e.slots {
		e.slots[i].pinned = false
	}
}
