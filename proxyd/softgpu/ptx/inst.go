// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

//go:generate go run ./gen

// opFunc executes a micro-operation in the lanes of m, which is not 0.
type opFunc func(w *warp, in *inst, m uint32)

// ref names a register or a constant as an operand of a micro-operation. Bit 0 of a
// 32-bit or 64-bit ref means a constant; of a predicate, negation. The rest is a number of a
// virtual register while a function is lowered, and afterwards a byte offset, or an index for
// predicates. Predicate 0 is false always.
type ref uint32

const (
	alwaysFalse ref = 0
	alwaysTrue  ref = 1
)

// opnd is the class of an operand field and whether the field is read or written; 0 when the field is not used, or not
// as a ref.
type opnd uint8

const (
	opndUse opnd = 4
	opndDef opnd = 8

	use32   = opnd(types.Class32) | opndUse
	use64   = opnd(types.Class64) | opndUse
	usePred = opnd(types.ClassPred) | opndUse
	def32   = opnd(types.Class32) | opndDef
	def64   = opnd(types.Class64) | opndDef
	defPred = opnd(types.ClassPred) | opndDef
	modPred = usePred | defPred
)

func (o opnd) registerClass() types.Class { return types.Class(o & 3) }

func useOperand(c types.Class) opnd { return opnd(c) | opndUse }
func defOperand(c types.Class) opnd { return opnd(c) | opndDef }

// shape is the use of the five operand fields.
type shape struct{ d, e, a, b, c opnd }

// aluOp is an operation of the generated tables.
type aluOp struct {
	fn    opFunc
	shape shape
}

// flow is how the warp's loop handles a micro-operation. Only flowNone, flowBranch and flowExit may be guarded.
type flow uint8

const (
	flowNone   flow = iota // run fn
	flowBranch             // to target where the guard holds
	flowIndex              // brx.idx: a is the index, ext.targets the labels
	flowJoin               // a meeting point: fragments that diverged wait here for each other
	flowCall               // ext.call
	flowReturn
	flowExit
	flowBarrier // ext.bar
	flowSync    // shfl.sync and its like: wait until the lanes of mask ext.refs[0] are here
	flowYield   // nanosleep: let other fragments run
)

// inst is a micro-operation.
type inst struct {
	fn            opFunc
	ext           *ext
	imm           uint64
	d, e, a, b, c ref
	guard         ref // 0: always
	target        int32
	join          int32 // of a branch: where its lanes meet again, or -1
	line          int32
	site          int32 // number of a memory access
	flow          flow
}

// ext is the operands and data of the few micro-operations that need more than inst has.
type ext struct {
	refs    []ref // operands beyond the five; opnds has their classes
	opnds   []opnd
	targets []int32
	call    *callSite
	bar     *barrierSite
	sync    *syncSite
	f       func(a, b, c uint64) uint64
	mma     *mmaPlan
	wmma    *wmmaSite
	special *specialRegister
	atom    *atomSite
	bulk    *bulkCopy
	texture *textureSite
	param   types.Type
	text    string
}

// microOperation is an inst while its function is lowered.
type microOperation struct {
	inst
	shape shape
	label string // target before labels are resolved
	key   string // the operation, for machine code
}

// code is a lowered function.
type code struct {
	fn            *syntax.Function
	insts         []inst
	n32, n64, np  int    // registers of a frame
	local         uint32 // bytes of a frame's local memory
	formals, rets []argument
	plan          []native.Inst // until machine code is made of it
	native        *native.Code  // nil: interpreted
}

// argument is a formal or an actual parameter of a call: a register, or bytes of the
// frame's local memory.
type argument struct {
	inMemory bool
	ref      ref
	offset   uint32
	size     uint32
	class    types.Class
}

// callSite is a call. fn is nil for an indirect call, which has the address in operand a.
type callSite struct {
	fn         *syntax.Function
	code       *code // set when all functions are lowered
	builtin    builtin
	args, rets []argument
	noreturn   bool
}
