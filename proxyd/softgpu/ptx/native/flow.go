// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// emitProlog emits what runs before code: at offset 0 on entry, behind that on entry after an exit, and what runs at such an
// exit.
func (e *emitter) emitProlog() {
	a := e.a
	e.emitSetup()
	a.JumpTo(regTarget)
	a.Align(16)
	e.resume = a.Len()
	e.emitSetup()
	for i := range slots {
		a.Op2(amd64.VMOVDQU32, slotVec(i), amd64.Memory(saveOf(i)), amd64.Options{})
	}
	a.JumpTo(regTarget)
	a.Align(16)
	e.spill = a.NewLabel()
	a.Bind(e.spill)
	for i := range slots {
		a.Store(amd64.VMOVDQU32Store, saveOf(i), slotVec(i), amd64.Options{})
	}
	a.Return()
	a.Align(16)
}

func saveOf(slot int) amd64.Mem {
	return amd64.At(regState, atSave+int32(slotVec(slot))*partBytes)
}

// emitSetup loads the registers that code keeps.
func (e *emitter) emitSetup() {
	a := e.a
	for _, x := range [...]struct {
		reg amd64.Reg
		at  int32
	}{
		{regFile32, atFile32}, {regFile64, atFile64}, {regConst32, atConst32}, {regConst64, atConst64}, {regFlags, atFlags}, {regSites, atSites},
	} {
		a.Load64(x.reg, amd64.At(regState, x.at))
	}
	a.AddressOf(regTables, e.tables.tableLabel(a))
	a.Op2(amd64.VMOVDQU32, constIndex, amd64.Memory(e.tableAt(tableEven)), amd64.Options{})
	a.Op2(amd64.VMOVDQU32, constNaN, amd64.Memory(e.tableAt(tableNaN)), amd64.Options{})
	a.Load32(amd64.RAX, amd64.At(regState, atMask))
	a.Not32(amd64.RAX)
	a.MaskFrom(idleMasks[0], amd64.RAX)
	for part := 1; part < 4; part++ {
		a.MaskShift(idleMasks[part], idleMasks[0], uint8(8*part))
	}
}

// flagTo reads a flag, or its negation.
func (e *writer) flagTo(d amd64.Reg, r Ref) {
	if r>>1 == 0 {
		e.a.Const32(d, -uint32(r&1))
		return
	}
	e.a.Load32(d, flagAt(r))
	if r&1 != 0 {
		e.a.Not32(d)
	}
}

func flagAt(r Ref) amd64.Mem { return amd64.At(regFlags, int32(r>>1)*4) }

// runningLanes reads the lanes that execute an instruction.
func (e *writer) runningLanes(d amd64.Reg, guard Ref) {
	switch {
	case guard == 0 && e.masked:
		e.a.Load32(d, amd64.At(regState, atMask))
	case guard == 0:
		e.a.Const32(d, ^uint32(0))
	default:
		e.flagTo(d, guard)
		if e.masked {
			e.a.AndMemory32(d, amd64.At(regState, atMask))
		}
	}
}

// setFlag writes RAX into a flag, in the lanes that run. It changes RCX and RDX.
func (e *writer) setFlag(d, guard Ref) {
	if e.merges {
		e.runningLanes(amd64.RDX, guard)
		e.a.Load32(amd64.RCX, flagAt(d))
		e.a.Xor32(amd64.RAX, amd64.RCX)
		e.a.And32(amd64.RAX, amd64.RDX)
		e.a.Xor32(amd64.RAX, amd64.RCX)
	}
	e.a.Store32(flagAt(d), amd64.RAX)
}

// emitJoin emits a meeting point: the lanes that wait for each other here leave.
func (e *emitter) emitJoin() {
	e.a.CompareMemory32(amd64.At(regState, atMeet), uint32(e.pos))
	e.a.JumpIf(amd64.Equal, e.leaveLater())
	e.countInsts(e.pos-e.start+1, 1)
}

// leaveLater returns a label at which the code leaves at the present instruction. All is in memory.
func (e *emitter) leaveLater() amd64.Label {
	x, l := e.newExit(e.pos, false), e.a.NewLabel()
	e.cold = append(e.cold, func() {
		e.a.Bind(l)
		e.leaveTo(x, false)
	})
	return l
}

// emitBranch emits a branch. Where lanes part, and where the warp's turn ends, it is left to the interpreter.
func (e *emitter) emitBranch(in *Inst) {
	a, leave, stays := e.a, e.leaveLater(), e.a.NewLabel()
	if in.Guard != 0 {
		e.flagTo(amd64.RAX, in.Guard)
		if e.masked {
			a.AndMemory32(amd64.RAX, amd64.At(regState, atMask))
		}
		a.Test32(amd64.RAX, amd64.RAX)
		a.JumpIf(amd64.Equal, stays)
		if e.masked {
			a.CompareRegMemory32(amd64.RAX, amd64.At(regState, atMask))
		} else {
			a.Compare32(amd64.RAX, -1)
		}
		a.JumpIf(amd64.NotEqual, leave)
	}
	if in.Target <= e.pos {
		a.CompareMemory64(amd64.At(regState, atBudget), 1)
		a.JumpIf(amd64.LessOrEqual, leave)
		a.CompareMemory8(amd64.At(regState, atSpinning), 0)
		a.JumpIf(amd64.NotEqual, leave)
	}
	e.countBranch()
	a.Jump(e.starts[e.live.at[in.Target]])
	a.Bind(stays)
	if in.Guard != 0 {
		e.countBranch()
	}
}

func (e *emitter) countBranch() {
	e.a.AddMemory64(amd64.At(regState, atBudget), -1)
	e.countInsts(e.pos-e.start+1, 1)
}
