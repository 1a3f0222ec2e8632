// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/amd64"

// Most accesses of a full warp are to elements that follow each other. The code checks that first: it compares all
// lanes' addresses with addresses that follow each other, and the first and the last element with the memory. The code
// for all other accesses, among them accesses to a single element, is emitted behind the block.

// fullWarpAccess is an access of a full warp to an element for each lane.
type fullWarpAccess struct {
	accessRoutine
	in   *Inst
	from []amd64.Source // addresses
	list []operandPart  // results of a load, operands of a store
	data []amd64.Source // operands of a store
	regs []amd64.Vec    // results of a load
	bail amd64.Label
}

func (e *emitter) emitStraight(in *Inst, h accessRoutine) {
	s := &fullWarpAccess{accessRoutine: h, in: in, list: append(listElements(in, h, 0, in.D), listElements(in, h, 1, in.D)...)}
	if h.store {
		s.list = append(listElements(in, h, 0, in.C), listElements(in, h, 1, in.C)...)
		for _, p := range s.list {
			s.data = append(s.data, e.partSource(p))
		}
	}
	class, parts := Long, 4
	if h.where != global {
		class, parts = Word, 2
	}
	for q := range parts {
		s.from = append(s.from, e.partSource(operandPart{class, in.A, q}))
	}
	if !h.store {
		for range s.list {
			s.regs = append(s.regs, e.newResult())
		}
	}
	bail, x := e.newBail()
	s.bail = bail
	other, done := e.a.NewLabel(), e.a.NewLabel()
	e.compareAddresses(s, e.stepTable(s), other)
	e.checkRange(s, int32(warpLanes)*int32(h.size), other)
	e.accessFollowing(s)
	e.a.Bind(done)
	e.cold = append(e.cold, func() {
		e.a.Bind(other)
		e.merges, e.guarded = false, false
		e.emitOther(s)
		e.a.Jump(done)
	})
	for i, p := range s.list {
		if !h.store {
			e.fillSlot(p, s.regs[i])
		}
	}
	e.resumeAfter(x)
}

// stepTable is the first of the tables of the distances from the first lane's address to each lane's.
func (e *emitter) stepTable(s *fullWarpAccess) int {
	if s.where == global {
		return tableLongSteps + 4*int(logTwo(int(s.size)))
	}
	return tableWordSteps + 2*int(logTwo(int(s.size)))
}

// compareAddresses goes to other if the addresses differ from the first lane's by other distances than a table's;
// without a table (-1), if they differ at all. V4 has the first lane's address in all lanes then, RCX that address.
func (e *emitter) compareAddresses(s *fullWarpAccess, table int, other amd64.Label) {
	a := e.a
	add, broadcast := amd64.VPADDQ, amd64.VPBROADCASTQ
	if s.where != global {
		add, broadcast = amd64.VPADDD, amd64.VPBROADCASTD
	}
	a.Op2(broadcast, 4, s.from[0], amd64.Options{})
	for q, from := range s.from {
		want := amd64.Vec(4)
		if table >= 0 {
			want = 5
			a.Op3(add, 5, 4, e.tableSource(table+q), amd64.Options{})
		}
		if q == 0 {
			a.Op3(amd64.VPXORQ, 6, want, from, amd64.Options{})
			continue
		}
		a.Op3Imm(amd64.VPTERNLOGQ, 6, want, from, 0xf6, amd64.Options{}) // V6 | want ^ from
	}
	a.TestLanes(amd64.VPTESTMD, maskTmp, 6, amd64.Register(6), amd64.Options{})
	switch {
	case s.where != global && s.from[0].Memory:
		a.Load32(amd64.RCX, s.from[0].Mem)
	case s.where != global:
		a.MoveLow32(amd64.RCX, s.from[0].Vec)
	case s.from[0].Memory:
		a.Load64(amd64.RCX, s.from[0].Mem)
	default:
		a.MoveLow64(amd64.RCX, s.from[0].Vec)
	}
	a.TestMasks16(maskTmp, maskTmp)
	a.JumpIf(amd64.NotEqual, other)
}

// checkRange goes to other unless n bytes from the address in RCX on are within the memory and aligned. RCX becomes their
// offset, and RAX the address of the memory.
func (e *emitter) checkRange(s *fullWarpAccess, n int32, other amd64.Label) {
	a := e.a
	if s.where == global {
		a.Load64(amd64.RAX, amd64.At(regSites, s.in.Site*8))
		if s.in.Imm != 0 {
			a.Const64(amd64.RDX, s.in.Imm)
			a.Add64(amd64.RCX, amd64.RDX)
		}
		a.SubMemory64(amd64.RCX, amd64.At(amd64.RAX, atBase))
		a.Load64(amd64.RDX, amd64.At(amd64.RAX, atSize))
		a.CompareRegs64(amd64.RDX, amd64.RCX)
		a.JumpIf(amd64.Below, other)
		a.Load64(amd64.RAX, amd64.At(amd64.RAX, atBytes))
	} else {
		if uint32(s.in.Imm) != 0 {
			a.Const32(amd64.RDX, uint32(s.in.Imm))
			a.Add64(amd64.RCX, amd64.RDX)
			a.Move32(amd64.RCX, amd64.RCX) // of 32 bits
		}
		a.Load32(amd64.RDX, amd64.At(regState, atSharedSize))
		a.Load64(amd64.RAX, amd64.At(regState, atShared))
	}
	a.Address(amd64.R12, amd64.At(amd64.RCX, n))
	a.CompareRegs64(amd64.RDX, amd64.R12)
	a.JumpIf(amd64.Below, other)
	if s.size > 1 {
		a.Const32(amd64.RDX, uint32(s.size-1))
		a.And32(amd64.RDX, amd64.RCX)
		a.JumpIf(amd64.NotEqual, other)
	}
}

// accessFollowing loads or stores at RAX + RCX and behind that.
func (e *emitter) accessFollowing(s *fullWarpAccess) {
	a := e.a
	step := int32(partBytes)
	if s.size < 4 {
		step = 16 * int32(s.size)
	}
	load, store := amd64.VMOVDQU32, amd64.VMOVDQU32Store
	switch s.size {
	case 1:
		load, store = amd64.VPMOVZXBD, amd64.VPMOVDB
		if s.signed {
			load = amd64.VPMOVSXBD
		}
	case 2:
		load, store = amd64.VPMOVZXWD, amd64.VPMOVDW
		if s.signed {
			load = amd64.VPMOVSXWD
		}
	}
	for i := range s.list {
		at := amd64.Mem{Base: amd64.RAX, Index: amd64.RCX, Scale: 1, Disp: int32(i) * step}
		if !s.store {
			a.Op2(load, s.regs[i], amd64.Memory(at), amd64.Options{})
			continue
		}
		v := s.data[i].Vec
		if s.data[i].Memory {
			v = 0
			a.Op2(amd64.VMOVDQU32, v, s.data[i], amd64.Options{})
		}
		a.Store(store, at, v, amd64.Options{})
	}
}

// emitOther accesses elements that do not follow each other, or not within the memory.
func (e *emitter) emitOther(s *fullWarpAccess) {
	a := e.a
	if !s.store {
		anywhere := a.NewLabel()
		e.compareAddresses(s, -1, anywhere)
		e.checkRange(s, int32(s.size), s.bail)
		e.loadOne(s)
		done := a.NewLabel()
		a.Jump(done)
		a.Bind(anywhere)
		defer a.Bind(done)
	}
	shift := logTwo(int(s.size))
	if s.where == global {
		e.indexGlobal(s.in, shift, s.from, s.bail)
	} else {
		e.indexWindow(s.in, s.where, shift, s.from, s.bail)
	}
	n := len(s.list) / 2
	for half := range 2 {
		if half == 1 {
			a.Op2(amd64.VMOVDQU32, 0, amd64.Register(2), amd64.Options{})
		}
		for i := range n {
			if s.store {
				a.Op2(amd64.VMOVDQU32, amd64.Vec(4+i), s.data[half*n+i], amd64.Options{})
			}
		}
		a.Call(e.helperLabel(s.accessRoutine))
		for i := range n {
			if !s.store {
				a.Op2(amd64.VMOVDQU32, s.regs[half*n+i], amd64.Register(amd64.Vec(4+i)), amd64.Options{})
			}
		}
	}
}

// loadOne loads the element at RAX + RCX for all lanes.
func (e *emitter) loadOne(s *fullWarpAccess) {
	a := e.a
	at := amd64.Mem{Base: amd64.RAX, Index: amd64.RCX, Scale: 1}
	switch s.size {
	case 8:
		a.Op2(amd64.VPBROADCASTQ, s.regs[0], amd64.Memory(at), amd64.Options{})
	case 4:
		a.Op2(amd64.VPBROADCASTD, s.regs[0], amd64.Memory(at), amd64.Options{})
	default:
		a.LoadNarrow(amd64.RDX, at, int(s.size), s.signed)
		a.BroadcastReg(amd64.VPBROADCASTDReg, s.regs[0], amd64.RDX, amd64.Options{})
	}
	for _, v := range s.regs[1:] {
		a.Op2(amd64.VMOVDQU32, v, amd64.Register(s.regs[0]), amd64.Options{})
	}
}
