// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"
)

// The general registers that machine code keeps. RAX, RCX, RDX, R12 and R15 are temporary; R14, RBP and RSP are Go's.
const (
	regState   = amd64.RDI
	regFile32  = amd64.RSI
	regFile64  = amd64.R8
	regConst32 = amd64.R9
	regConst64 = amd64.R10
	regFlags   = amd64.R11
	regSites   = amd64.RBX
	regTables  = amd64.R13 // constants of the code itself
	regTarget  = amd64.R15 // where to begin, on entry
)

// The mask registers. K2 to K5 keep the lanes that do not run, for the four parts of a Long and the two of a Word. K7
// has the lanes in which the guard of the present instruction does not hold, or which a memory access is for. K0, K1
// and K6 are temporary.
const (
	maskTmp   = amd64.Mask(1)
	maskPart  = amd64.Mask(6)
	maskGuard = amd64.Mask(7)
)

// idleMasks are the mask registers of the lanes that do not run, by the part of a Long.
var idleMasks = [4]amd64.Mask{2, 4, 3, 5}

// writer is the output of all parts of the compiler, and the state of the present instruction that they share.
type writer struct {
	a       *amd64.Assembler
	tables  tables
	insts   []Inst
	live    *liveness
	masked  bool // some lanes do not run
	merges  bool // some lanes do not take part in the present instruction
	guarded bool
	block   int
	pos     int32
}

// emitter compiles a function, for warps in which all lanes run and for the rest. It embeds a cache, which embeds
// routines, which embed a writer: each adds its own state.
type emitter struct {
	cache
	blocks      []block
	start       int32            // the first instruction that is not counted yet
	blockStarts [2][]amd64.Label // where the code of each block begins: for full warps, and for the rest
	arrive      amd64.Label      // see emitArrival
	entries     []entry
	exits       []exit
	cold        []func() // emit code that seldom runs, behind the rest
	spill       amd64.Label
	resume      int // offset of the entry after an exit
	windows     [windows]window
}

// entry is an instruction at which code can be entered.
type entry struct {
	pc     int32
	masked bool
	label  amd64.Label
}

// savedSlot is a slot at an exit.
type savedSlot struct {
	at    operandPart
	vec   uint8
	dirty bool
}

// exit is a place at which code returns.
type exit struct {
	pc     int32
	issued uint32      // instructions that are not counted yet
	before []savedSlot // slots that are newer than memory
	// After some exits the code goes on when the interpreter has executed the instruction at pc, with the slots of after.
	resumes bool
	label   amd64.Label
	after   []savedSlot
}

// errTooLarge refuses functions that would make too much machine code.
var errTooLarge = errors.New("the function is too large to compile")

// maxInsts bounds the functions that are compiled.
const maxInsts = 200_000

// compileFunction makes the machine code of a function.
func compileFunction(insts []Inst) (*emitter, []byte, error) {
	if len(insts) > maxInsts {
		return nil, nil, errTooLarge
	}
	e := &emitter{blocks: blocksOf(insts)}
	e.a, e.insts = new(amd64.Assembler), insts
	e.live = newLiveness(insts, e.blocks)
	for i := range e.blockStarts {
		e.blockStarts[i] = make([]amd64.Label, len(e.blocks))
		for b := range e.blocks {
			e.blockStarts[i][b] = e.a.NewLabel()
		}
	}
	e.emitProlog()
	for _, masked := range []bool{false, true} {
		e.masked = masked
		for b := range e.blocks {
			if b == 0 && !masked {
				e.emitBeginning()
				continue
			}
			e.emitBlock(b, false, false)
		}
		for len(e.cold) > 0 {
			f := e.cold[0]
			e.cold = e.cold[1:]
			f()
		}
	}
	e.emitHelpers()
	e.emitTables()
	code, err := e.a.Finish()
	return e, code, err
}

// blocksOf cuts instructions into blocks.
func blocksOf(insts []Inst) []block {
	leader := make([]bool, len(insts)+1)
	leader[0] = true
	for i := range insts {
		in := &insts[i]
		switch in.Flow {
		case Branch:
			leader[in.Target], leader[i+1] = true, true
		case Join:
			leader[i], leader[i+1] = true, true
		case Elsewhere:
			leader[i+1] = true
		}
		for _, t := range in.Targets {
			leader[t] = true
		}
	}
	var out []block
	for i := range insts {
		if leader[i] {
			out = append(out, block{from: int32(i)})
		}
		out[len(out)-1].to = int32(i + 1)
	}
	return out
}

// maxBeginning bounds the blocks of emitBeginning.
const maxBeginning = 4

// emitBeginning emits the first block and those that are reached behind its branch when no lane jumps. They keep their
// slots: values that a kernel computes before it knows that its element exists. But for the first, these blocks are
// emitted again.
func (e *emitter) emitBeginning() {
	b, more := 0, true
	for more {
		last := &e.insts[e.blocks[b].to-1]
		more = b+1 < min(len(e.blocks), maxBeginning) && last.Flow == Branch && last.Guard != 0 && last.Target >= e.blocks[b].to &&
			e.insts[e.blocks[b].to].Flow != Join
		e.emitBlock(b, b > 0, more)
		b++
	}
	if b < len(e.blocks) {
		e.a.Jump(e.startOf(e.blocks[b].from, false))
	}
}

// emitBlock emits a block. A continued block begins with the slots of the block before; a block that goes on leaves its
// slots to the next.
func (e *emitter) emitBlock(b int, continued, goesOn bool) {
	k := e.blocks[b]
	e.block, e.start = b, k.from
	e.noteUses(k)
	closeWindows(e)
	if !continued {
		e.a.Bind(e.startOf(k.from, e.masked))
		if e.isCompiled(&e.insts[k.from]) {
			e.enterAt(k.from)
		}
	}
	for e.pos = k.from; e.pos < k.to; e.pos++ {
		in := &e.insts[e.pos]
		switch {
		case in.Flow == Branch && goesOn:
			e.emitSideExit(in)
			return
		case in.Flow == Branch:
			e.flushSlots(e.pos)
			e.emitBranch(in)
			return
		case in.Flow == Join:
			e.emitJoin()
			return
		case in.Flow == Elsewhere:
			e.flushSlots(e.pos)
			e.leaveCode(e.pos)
			return
		case e.isCompiled(in):
			e.emitInst(in)
		default:
			e.flushSlots(e.pos)
			e.leaveCode(e.pos)
			e.start = e.pos + 1
			if e.pos+1 < k.to && e.isCompiled(&e.insts[e.pos+1]) {
				e.enterAt(e.pos + 1)
			}
		}
	}
	e.flushSlots(k.to)
	if b+1 == len(e.blocks) {
		return // not reached: the last instruction of a function leaves it
	}
	e.countInsts(k.to-e.start, 0)
}

// startOf is the label of the block that begins at an instruction.
func (e *emitter) startOf(pc int32, masked bool) amd64.Label {
	if masked {
		return e.blockStarts[1][e.live.at[pc]]
	}
	return e.blockStarts[0][e.live.at[pc]]
}

// isCompiled reports whether an instruction is compiled.
func (e *emitter) isCompiled(in *Inst) bool {
	return in.Flow == Branch || in.Flow == Join || in.Flow == Next && e.canCompile(in)
}

func (e *emitter) canCompile(in *Inst) bool {
	op, ok := operations[in.Key]
	return ok && (!op.fullOnly || !e.masked) && (op.fits == nil || op.fits(in))
}

// emitInst emits an instruction that neither branches nor leaves.
func (e *emitter) emitInst(in *Inst) {
	op := operations[in.Key]
	e.guarded = in.Guard != 0
	e.merges = e.masked || e.guarded
	if e.guarded && !op.ownMask {
		// K7 = the lanes that keep their old values.
		e.flagTo(amd64.RAX, in.Guard^1)
		if e.masked {
			e.a.Load32(amd64.RCX, amd64.At(regState, atMask))
			e.a.Not32(amd64.RCX)
			e.a.Or32(amd64.RAX, amd64.RCX)
		}
		e.a.MaskFrom(maskGuard, amd64.RAX)
	}
	op.emit(e, in)
	e.unpinSlots()
}

// idleMask returns a mask register with the lanes of a place that keep their old values.
func (e *writer) idleMask(p operandPart) amd64.Mask {
	part := p.part
	if p.class == Word {
		part *= 2
	}
	switch {
	case !e.guarded:
		return idleMasks[part]
	case part == 0:
		return maskGuard
	}
	e.a.MaskShift(maskPart, maskGuard, uint8(8*part))
	return maskPart
}

// countInsts counts instructions, and joins and branches among them.
func (e *emitter) countInsts(insts int32, flows int32) {
	if insts != 0 {
		e.a.AddMemory64(amd64.At(regState, atIssued), insts)
	}
	if flows != 0 {
		e.a.AddMemory64(amd64.At(regState, atTicks), 16*flows)
	}
}

// enterAt makes the code that follows an entry. No slot is full.
func (e *emitter) enterAt(pc int32) {
	l := e.a.NewLabel()
	e.a.Bind(l)
	e.entries = append(e.entries, entry{pc, e.masked, l})
}

// leaveCode returns to the interpreter, at an instruction before which all slots are in memory.
func (e *emitter) leaveCode(pc int32) { e.leaveTo(e.newExit(pc, false), false) }

// newExit makes an exit at an instruction.
func (e *emitter) newExit(pc int32, resumes bool) int {
	x := exit{pc: pc, issued: uint32(pc - e.start)}
	if resumes {
		x.resumes, x.label = true, e.a.NewLabel()
	}
	for _, s := range e.fullSlots() {
		if s.dirty {
			x.before = append(x.before, s)
		}
	}
	e.exits = append(e.exits, x)
	return len(e.exits) - 1
}

func (e *emitter) leaveTo(x int, spills bool) {
	e.a.StoreConst32(amd64.At(regState, atExit), uint32(x))
	if spills {
		e.a.Jump(e.spill)
		return
	}
	e.a.Return()
}

// newBail returns a label at which the present instruction is left to the interpreter, and the exit. The code goes on
// where resumeAfter is called. At a jump to the label, the instruction must not yet have changed a register, nor a slot
// since newBail.
func (e *emitter) newBail() (amd64.Label, int) {
	x := e.newExit(e.pos, true)
	l := e.a.NewLabel()
	e.cold = append(e.cold, func() {
		e.a.Bind(l)
		e.leaveTo(x, true)
	})
	return l, x
}

// resumeAfter emits the point at which the code goes on after an exit, with the slots that are full now.
func (e *emitter) resumeAfter(x int) {
	e.a.Bind(e.exits[x].label)
	e.exits[x].after = e.fullSlots()
}

func (e *emitter) fullSlots() []savedSlot {
	var out []savedSlot
	for i := range e.slots {
		if s := &e.slots[i]; s.full {
			out = append(out, savedSlot{s.at, uint8(slotVec(i)), s.dirty})
		}
	}
	return out
}
