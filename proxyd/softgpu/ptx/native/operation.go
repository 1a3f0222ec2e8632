// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"maps"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// operation is how an operation of the interpreter is compiled. Each gives the same bits as the function of its key in
// package ptx.
type operation struct {
	emit     func(e *emitter, in *Inst)
	fits     func(in *Inst) bool // whether a form of it is compiled; nil: all are
	ownMask  bool                // emit finds out itself which lanes take part
	fullOnly bool                // compiled for warps in which all lanes run
}

// operations are the compiled operations, by keys. The files that emit them add theirs.
var operations = map[string]operation{}

// Operations lists the keys of the operations that are compiled.
func Operations() []string { return slices.Sorted(maps.Keys(operations)) }

func addOperation(key string, emit func(e *emitter, in *Inst)) {
	operations[key] = operation{emit: emit}
}

// emitOp3 emits an instruction without options, as the methods after it do.
func (e *writer) emitOp3(o amd64.Op, d, x amd64.Vec, y amd64.Source) {
	e.a.Op3(o, d, x, y, amd64.Options{})
}

func (e *writer) emitOp2(o amd64.Op, d amd64.Vec, y amd64.Source) { e.a.Op2(o, d, y, amd64.Options{}) }

func (e *writer) emitShift(o amd64.Op, d amd64.Vec, y amd64.Source, n uint8) {
	e.a.ShiftImm(o, d, y, n, amd64.Options{})
}

func (e *writer) tableSource(n int) amd64.Source { return amd64.Memory(e.tableAt(n)) }

// eachWordPart makes a Word, 16 lanes at a time.
func (e *emitter) eachWordPart(d Ref, f func(p int, d amd64.Vec)) { e.eachPart(Word, d, 2, f) }

// eachLongPart makes a Long, 8 lanes at a time.
func (e *emitter) eachLongPart(d Ref, f func(p int, d amd64.Vec)) { e.eachPart(Long, d, 4, f) }

func (e *emitter) eachPart(c Class, d Ref, n int, f func(p int, d amd64.Vec)) {
	for p := range n {
		v := e.newResult()
		f(p, v)
		e.commitResult(operandPart{c, d, p}, v)
		e.unpinSlots()
	}
}

func (e *emitter) wordPart(r Ref, p int) amd64.Source { return e.partSource(operandPart{Word, r, p}) }

func (e *emitter) longPart(r Ref, p int) amd64.Source { return e.partSource(operandPart{Long, r, p}) }

// wordIn and longIn are parts in registers: their slots, or tmp.
func (e *emitter) wordIn(r Ref, p int, tmp amd64.Vec) amd64.Vec {
	return e.partVector(operandPart{Word, r, p}, tmp)
}

func (e *emitter) longIn(r Ref, p int, tmp amd64.Vec) amd64.Vec {
	return e.partVector(operandPart{Long, r, p}, tmp)
}

// halfPart is 8 lanes of a Word, as 256 bits: the operand for 8 lanes of a Long. tmp may be used for it.
func (e *emitter) halfPart(r Ref, q int, tmp amd64.Vec) amd64.Source {
	p := operandPart{Word, r, q / 2}
	i := e.findSlot(p)
	if i < 0 {
		m := e.memoryOf(p)
		m.Disp += int32(q%2) * partBytes / 2
		return amd64.Memory(m)
	}
	e.slots[i].pinned = true
	if q%2 == 0 {
		return amd64.Register(slotVec(i))
	}
	e.a.NarrowTo(amd64.VEXTRACTI64, tmp, slotVec(i), []byte{1}, amd64.Options{})
	return amd64.Register(tmp)
}

// narrowLong makes 16 lanes of the low halves of a Long.
func (e *emitter) narrowLong(d amd64.Vec, r Ref, p int) {
	e.emitOp2(amd64.VMOVDQU32, d, e.longPart(r, 2*p))
	e.emitOp3(amd64.VPERMT2D, d, constIndex, e.longPart(r, 2*p+1))
}

// joinHalves makes 16 lanes of two halves of 8 lanes, which f makes in 256 bits each.
func (e *emitter) joinHalves(d amd64.Vec, p int, f func(q int, d amd64.Vec)) {
	f(2*p, d)
	f(2*p+1, 1)
	e.a.Op3Imm(amd64.VINSERTI64, d, d, amd64.Register(1), 1, amd64.Options{})
}

// addWords adds operations that are an instruction: d = a op b.
func addWords(key string, o amd64.Op) {
	addOperation(key, func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) { e.emitOp3(o, d, e.wordIn(in.A, p, 0), e.wordPart(in.B, p)) })
	})
}

func addLongs(key string, o amd64.Op) {
	addOperation(key, func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) { e.emitOp3(o, d, e.longIn(in.A, p, 0), e.longPart(in.B, p)) })
	})
}

// addWord1 and addLong1 add operations that are an instruction of a single operand.
func addWord1(key string, o amd64.Op) {
	addOperation(key, func(e *emitter, in *Inst) {
		e.eachWordPart(in.D, func(p int, d amd64.Vec) { e.emitOp2(o, d, e.wordPart(in.A, p)) })
	})
}

func addLong1(key string, o amd64.Op) {
	addOperation(key, func(e *emitter, in *Inst) {
		e.eachLongPart(in.D, func(p int, d amd64.Vec) { e.emitOp2(o, d, e.longPart(in.A, p)) })
	})
}
