// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

// Class is the kind of register that holds a value.
type Class uint8

// The classes. A Word is 32 lanes of 32 bits, a Long 32 lanes of 64 bits, a Flag a bit for each lane.
const (
	Word Class = iota
	Long
	Flag
)

// Ref names a register or a constant. Bit 0 means a constant, or of a Flag its negation. The rest is an offset in bytes
// into the registers of the frame or the constants, or the number of a Flag. Flag 0 is false always.
type Ref uint32

// IsConst reports whether a Word or a Long is a constant.
func (r Ref) IsConst() bool { return r&1 != 0 }

// Access is a register that an instruction reads or writes.
type Access struct {
	Class Class
	Ref   Ref
	Write bool
}

// Flow is the effect of an instruction on the flow of control.
type Flow uint8

// The flows. Lanes meet at a Join. An instruction with Elsewhere is for the interpreter, which knows where lanes go
// from there.
const (
	Next Flow = iota
	Branch
	Join
	Elsewhere
)

// Inst is a micro-operation of the interpreter as the compiler sees it.
type Inst struct {
	Key         string // the operation; an operation that the compiler does not know is left to the interpreter
	D, E        Ref    // results
	A, B, C     Ref    // operands
	Guard       Ref    // lanes that take part; 0: all
	Imm         uint64
	Site        int32 // of a memory access: which of State.Sites
	List        []Ref // elements of a vector
	Flow        Flow
	Target      int32   // of a branch
	Meet        int32   // of a branch: the Join where lanes that part meet; -1: they do not meet
	Targets     []int32 // where Elsewhere may lead within the function
	Stops       bool    // no instruction follows
	Accesses    []Access
	Size, Count uint8 // of a memory access: bytes of an element, number of elements
}
