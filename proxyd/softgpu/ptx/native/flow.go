// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// emitProlog emits the code before and after a function's: at offset 0 the code for an entry, then for an entry after
// an exit, then for an exit that saves slots.
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
	e.emitArrival()
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
	e.setIdleMasks()
}

// setIdleMasks makes the masks of the lanes that do not run, from the lanes that run in RAX, which it changes.
func (e *writer) setIdleMasks() {
	e.a.Not32(amd64.RAX)
	e.a.MaskFrom(idleMasks[0], amd64.RAX)
	for part := 1; part < 4; part++ {
		e.a.MaskShift(idleMasks[part], idleMasks[0], uint8(8*part))
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

// leaveLater returns a label at which the code leaves at the present instruction. All slots are in memory.
func (e *emitter) leaveLater() amd64.Label {
	x, l := e.newExit(e.pos, false), e.a.NewLabel()
	e.cold = append(e.cold, func() {
		e.a.Bind(l)
		e.leaveTo(x, false)
	})
	return l
}
