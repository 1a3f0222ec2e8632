// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Instructions at which lanes of a warp meet and exchange values. They are compiled for warps in which all lanes run:
// there no lane waits for another, with any member masks. Other warps are left to the interpreter.

func init() {
	addMeeting("warp", func(e *emitter, _ *Inst) { e.countInsts(0, 1) })
	for mode, find := range map[string]func(e *emitter){
		"up":   func(e *emitter) { e.findLaneBy(amd64.VPSUBD, amd64.NLT) },
		"down": func(e *emitter) { e.findLaneBy(amd64.VPADDD, amd64.LE) },
		"bfly": func(e *emitter) { e.findLaneBy(amd64.VPXORD, amd64.LE) },
		"idx":  (*emitter).findLaneOfSegment,
	} {
		addMeeting("shfl."+mode, func(e *emitter, in *Inst) { e.emitShuffle(in, find) })
	}
	addMeeting("vote.ballot", func(e *emitter, in *Inst) {
		x := e.readVotes(in)
		e.eachWordPart(in.D, func(_ int, d amd64.Vec) {
			e.a.BroadcastReg(amd64.VPBROADCASTDReg, d, amd64.RAX, amd64.Options{})
		})
		e.resumeAfterVote(x)
	})
	for mode, decide := range map[string]func(a *amd64.Assembler, yes amd64.Label){
		"all": func(a *amd64.Assembler, yes amd64.Label) {
			a.CompareRegs32(amd64.RAX, amd64.RDX)
			a.JumpIf(amd64.Equal, yes)
		},
		"any": func(a *amd64.Assembler, yes amd64.Label) {
			a.Test32(amd64.RAX, amd64.RAX)
			a.JumpIf(amd64.NotEqual, yes)
		},
		"uni": func(a *amd64.Assembler, yes amd64.Label) {
			a.Test32(amd64.RAX, amd64.RAX)
			a.JumpIf(amd64.Equal, yes)
			a.CompareRegs32(amd64.RAX, amd64.RDX)
			a.JumpIf(amd64.Equal, yes)
		},
	} {
		addMeeting("vote."+mode, func(e *emitter, in *Inst) {
			x := e.readVotes(in)
			yes, done := e.a.NewLabel(), e.a.NewLabel()
			decide(e.a, yes)
			e.a.Const32(amd64.RAX, 0)
			e.a.Jump(done)
			e.a.Bind(yes)
			e.a.Const32(amd64.RAX, allLanes)
			e.a.Bind(done)
			e.setFlag(in.D, 0)
			e.resumeAfterVote(x)
		})
	}
}

// addMeeting adds an operation that is compiled for warps in which all lanes run. It counts as a branch does: emit counts that.
func addMeeting(key string, emit func(e *emitter, in *Inst)) {
	operations[key] = operation{emit: emit, fullOnly: true}
}

// emitShuffle emits a shfl. find compares: see findLaneBy.
func (e *emitter) emitShuffle(in *Inst, find func(e *emitter)) {
	a := e.a
	e.countInsts(0, 1)
	values := [2]amd64.Vec{e.wordIn(in.A, 0, 0), e.wordIn(in.A, 1, 1)}
	results := [2]amd64.Vec{e.newResult(), e.newResult()}
	for p, d := range results {
		// V2 is the distance or the lane, V4 the clamp, V5 the bits of a segment's number, V7 the own lane, V6 the limit.
		e.emitOp3(amd64.VPANDD, 2, e.wordIn(in.B, p, 2), e.tableSource(tableLastLane))
		limits := e.wordIn(in.C, p, 3)
		e.emitOp3(amd64.VPANDD, 4, limits, e.tableSource(tableLastLane))
		e.emitShift(amd64.VPSRLD, 5, amd64.Register(limits), 8)
		e.emitOp3(amd64.VPANDD, 5, 5, e.tableSource(tableLastLane))
		e.emitOp2(amd64.VMOVDQU32, 7, e.tableSource(tableCount+p))
		e.emitOp2(amd64.VMOVDQU32, 6, amd64.Register(5))
		a.Op3Imm(amd64.VPTERNLOGD, 6, 7, amd64.Register(4), selectBits, amd64.Options{})
		find(e)
		// A lane without a source keeps its own value.
		a.Op3(amd64.VPBLENDMD, 8, 7, amd64.Register(8), amd64.Options{Mask: maskTmp})
		e.emitOp2(amd64.VMOVDQU32, d, amd64.Register(values[0]))
		e.emitOp3(amd64.VPERMT2D, d, 8, amd64.Register(values[1]))
		if in.Imm == 0 {
			continue
		}
		if p == 0 {
			a.MaskTo(amd64.RAX, maskTmp)
			continue
		}
		a.MaskTo(amd64.RCX, maskTmp)
		a.ShiftLeft64(amd64.RCX, 16)
		a.Or32(amd64.RAX, amd64.RCX)
	}
	for p, d := range results {
		e.commitResult(operandPart{Word, in.D, p}, d)
	}
	if in.Imm != 0 {
		e.setFlag(in.E, 0)
	}
}

// selectBits is the truth table of VPTERNLOG for d = d ? x : y, bit by bit.
const selectBits = 0xca

// findLaneBy makes V8 = V7 op V2, and K1 the lanes in which V8 compares with V6 as predicate says.
func (e *emitter) findLaneBy(op amd64.Op, predicate byte) {
	e.emitOp3(op, 8, 7, amd64.Register(2))
	e.a.Compare(amd64.VPCMPD, maskTmp, 8, amd64.Register(6), predicate, amd64.Options{})
}

// findLaneOfSegment makes V8 the lane V2 of the own segment, and K1 the lanes in which V8 is not beyond V6.
func (e *emitter) findLaneOfSegment() {
	e.emitOp2(amd64.VMOVDQU32, 8, amd64.Register(5))
	e.a.Op3Imm(amd64.VPTERNLOGD, 8, 7, amd64.Register(2), selectBits, amd64.Options{})
	e.a.Compare(amd64.VPCMPD, maskTmp, 8, amd64.Register(6), amd64.LE, amd64.Options{})
}

// noBail is the exit of a vote that is never left to the interpreter.
const noBail = -1

// readVotes makes RDX the members of a vote, and RAX those that vote yes. A vote of several groups is left to the
// interpreter, by the exit that readVotes returns.
func (e *emitter) readVotes(in *Inst) int {
	a, members, exit := e.a, in.List[0], noBail
	if members.IsConst() {
		a.Load32(amd64.RDX, e.memoryOf(operandPart{Word, members, 0}))
	} else {
		from := [2]amd64.Source{e.wordPart(members, 0), e.wordPart(members, 1)}
		var bail amd64.Label
		bail, exit = e.newBail()
		e.emitOp2(amd64.VPBROADCASTD, 2, from[0])
		e.emitOp3(amd64.VPXORD, 3, 2, from[0])
		a.Op3Imm(amd64.VPTERNLOGD, 3, 2, from[1], 0xf6, amd64.Options{}) // V3 | V2 ^ from
		a.TestLanes(amd64.VPTESTMD, maskTmp, 3, amd64.Register(3), amd64.Options{})
		a.TestMasks16(maskTmp, maskTmp)
		a.JumpIf(amd64.NotEqual, bail)
		a.MoveLow32(amd64.RDX, 2)
	}
	e.countInsts(0, 1)
	e.flagTo(amd64.RAX, in.A)
	a.And32(amd64.RAX, amd64.RDX)
	return exit
}

func (e *emitter) resumeAfterVote(exit int) {
	if exit != noBail {
		e.resumeAfter(exit)
	}
}
