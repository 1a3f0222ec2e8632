// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Machine code takes the place of the interpreter from an entry on, until an instruction that is left to the
// interpreter. Registers, counters and sites are the same for both.

// Native says why kernels are only interpreted; nil if they are compiled to machine code at their first launch.
func Native() error { return native.Check() }

// machineCode is the machine code of a kernel's functions, made at its first launch.
type machineCode struct {
	once  sync.Once
	codes []*code // functions that are not compiled yet

	several bool // the kernel calls functions
}

// CodeStore keeps machine code for later processes.
type CodeStore = native.Store

// compileNative makes machine code of a kernel's functions, or takes the code from a store, which may be nil. A function
// that cannot be compiled is interpreted.
func (k *Kernel) compileNative(s CodeStore) {
	k.machine.once.Do(func() {
		compile := native.Compile
		if s != nil {
			compile = func(insts []native.Inst) (*native.Code, error) { return native.CompileStored(insts, s) }
		}
		for _, c := range k.machine.codes {
			// An error means that the function is too large, or that the system gives no memory for its code.
			c.native, _ = compile(c.plan)
			c.plan = nil
		}
		k.machine.several = len(k.machine.codes) > 1
		k.machine.codes = nil
	})
}

// readsUnwritten reports whether a thread of the kernel may read a register that it has not written.
func (k *Kernel) readsUnwritten() bool {
	m := k.main.native
	return m == nil || m.NeedsZeros() || k.machine.several
}

// describeInst describes a micro-operation to the compiler. rets are the results of its function.
func (m *microOperation) describeInst(rets []argument) native.Inst {
	in := native.Inst{
		Key: m.key, D: native.Ref(m.d), E: native.Ref(m.e), A: native.Ref(m.a), B: native.Ref(m.b), C: native.Ref(m.c),
		Guard: native.Ref(m.guard), Imm: m.imm, Site: m.site, Target: m.target, Meet: m.join,
	}
	note := func(o opnd, r ref) {
		a := native.Access{Class: native.Word, Ref: native.Ref(r)}
		switch o.registerClass() {
		case types.Class64:
			a.Class = native.Long
		case types.ClassPred:
			a.Class = native.Flag
		}
		if o&opndUse != 0 {
			in.Accesses = append(in.Accesses, a)
		}
		if a.Write = true; o&opndDef != 0 {
			in.Accesses = append(in.Accesses, a)
		}
	}
	m.eachOperand(func(o opnd, r *ref) { note(o, *r) })
	if m.ext != nil {
		for _, r := range m.ext.refs {
			in.List = append(in.List, native.Ref(r))
		}
		in.Targets = m.ext.targets
	}
	switch m.flow {
	case flowNone:
	case flowBranch:
		in.Flow = native.Branch
	case flowSync:
		in.Key = m.ext.sync.key // in a warp in which all lanes run, the next instruction follows
	default:
		in.Flow, in.Stops = native.Elsewhere, m.endsFlow()
	}
	if m.flow == flowReturn {
		for _, r := range rets {
			if !r.inMemory {
				note(useOperand(r.class), r.ref)
			}
		}
	}
	return in
}

// Special registers that are the same in all lanes, as machine code finds them.
const (
	uniformBlock = 0 // %ctaid
	uniformSize  = 3 // %ntid, and behind it
	uniformGrid  = 6 // %nctaid
	uniformWarp  = 9 // %warpid
)

// specialKeys are the operations that read special registers.
var specialKeys = func() map[string]microOperation {
	m := map[string]microOperation{"%laneid": {key: "lane"}, "%warpid": {key: "uniform", inst: inst{imm: uniformWarp}}}
	for k, axis := range []string{"x", "y", "z"} {
		m["%tid."+axis] = microOperation{key: "thread", inst: inst{imm: uint64(k)}}
		for name, at := range map[string]int{"%ctaid.": uniformBlock, "%ntid.": uniformSize, "%nctaid.": uniformGrid} {
			m[name+axis] = microOperation{key: "uniform", inst: inst{imm: uint64(at + k)}}
		}
	}
	return m
}()

// startNative sets the parts of the machine code's state that do not change while a warp runs its block.
func (w *warp) startNative() {
	s, r, at := &w.machine, w.block.run, w.block.pos
	s.Uniform[uniformBlock], s.Uniform[uniformBlock+1], s.Uniform[uniformBlock+2] = at.X, at.Y, at.Z
	if w.machineKnows {
		return
	}
	w.machineKnows = true
	size, grid := r.cfg.Block, r.cfg.Grid
	for i, v := range []uint32{size.X, size.Y, size.Z, grid.X, grid.Y, grid.Z, uint32(w.id)} {
		s.Uniform[uniformSize+i] = v
	}
	s.Sites = unsafe.Pointer(unsafe.SliceData(w.sites))
	s.Shared, s.SharedSize = unsafe.Pointer(unsafe.SliceData(w.block.shared)), uint32(len(w.block.shared))
	s.Local, s.LocalSize = unsafe.Pointer(unsafe.SliceData(w.local.Data)), w.local.Size
	s.Params = unsafe.Pointer(unsafe.SliceData(w.block.params))
	s.Threads = unsafe.Pointer(&w.tid)
	s.Const32, s.Const64 = w.bank32[1], w.bank64[1]
}

// nativeTurn is the number of branches after which machine code returns, so that Go can stop the goroutine there.
const nativeTurn = 512

// runNative runs machine code from where the current fragment stands, or on after an instruction that the interpreter has
// executed for the code. It returns the instruction at which the code has left off, which is to be interpreted next.
func (w *warp) runNative(c *native.Code, after native.Exit, budget *int) native.Exit {
	s, f := &w.machine, w.cur
	s.Mask, s.Meet, s.Frame = f.mask, -1, f.frame.local
	if f.join != nil && f.join.frame == f.frame {
		s.Meet = f.join.pc
	}
	turn := enterNative(w, *budget)
	if after.Resumes() {
		after = c.Resume(s, after)
	} else {
		after = c.Run(s, f.pc)
	}
	countNative(w, budget, turn)
	f.pc = after.PC
	if s.HasParted() {
		addNativeSplits(w, f)
	}
	return after
}

// enterNative hands the warp's state to machine code, and returns the number of branches that the code may take.
func enterNative(w *warp, budget int) int {
	s := &w.machine
	s.File32, s.File64 = w.bank32[0], w.bank64[0]
	s.Flags = unsafe.Pointer(&w.preds[w.basePred])
	s.Spinning, s.LocalUsed = w.spinning, w.local.Used
	turn := min(budget, nativeTurn)
	s.Budget, s.Issued, s.Ticks = int64(turn), 0, 0
	return turn
}

// countNative takes the counts of machine code.
func countNative(w *warp, budget *int, turn int) {
	s := &w.machine
	*budget -= turn - int(s.Budget)
	w.issued += s.Issued
	w.ticks += s.Ticks
	w.spinning, w.local.Used = s.Spinning, s.LocalUsed
}

// runStart runs the kernel of a fresh warp from its beginning, until the machine code leaves off for the first time.
// Many warps are done then, and never have a fragment: runStart reports that. Any other warp gets a fragment then, and
// goes on with it.
func (w *warp) runStart(budget *int) bool {
	s, k, mask := &w.machine, w.block.run.kernel, w.live
	w.fresh = false
	s.Mask, s.Meet, s.Frame = mask, -1, w.top.local
	turn := enterNative(w, *budget)
	at := k.main.native.Run(s, 0)
	countNative(w, budget, turn)
	if k.endsStraight(s, at, mask) {
		w.issued++
		w.live = 0
		w.block.live -= bits.OnesCount32(mask)
		w.block.exited, w.straight = true, true
		return true
	}
	w.makeFragment(at)
	return false
}

// endsStraight reports whether machine code that has run from the kernel's beginning, in the lanes of mask, has come to
// the end of all of them, without parting them.
func (k *Kernel) endsStraight(s *native.State, at native.Exit, mask uint32) bool {
	in := &k.main.insts[at.PC]
	return in.flow == flowExit && in.guard == 0 && s.Mask == mask && !s.HasParted()
}

// makeFragment makes the fragments of a warp that had none: of the lanes that run where machine code has left off, and of
// those that have parted from them.
func (w *warp) makeFragment(at native.Exit) {
	w.straight, w.bailed = false, at
	w.cur = w.newFrag(frag{mask: w.live, pc: at.PC, frame: w.top})
	w.frags = append(w.frags, w.cur)
	addNativeSplits(w, w.cur)
}

// addNativeSplits makes fragments and joins of the lanes that have parted in machine code: those that the interpreter
// would have made.
func addNativeSplits(w *warp, f *frag) {
	splits, moved := w.machine.Parted()
	if moved {
		moveToEnd(w.frags, f)
	}
	for i := range splits {
		p := &splits[i]
		if !p.Same {
			j := &join{pc: p.Join, frame: f.frame, expected: p.Union, arrived: p.Union, parent: f.join}
			k := i
			for do := true; do; do = k < len(splits) && splits[k].Same {
				j.arrived &^= splits[k].Pending
				k++
			}
			if k < len(splits) {
				j.arrived &^= splits[k].Union
			} else {
				j.arrived &^= w.machine.Mask
			}
			if j.arrived != 0 {
				w.joins = append(w.joins, j)
			}
			f.join = j
		}
		if p.Pending != 0 {
			w.frags = append(w.frags, w.newFrag(frag{mask: p.Pending, pc: p.PC, frame: f.frame, join: f.join}))
		}
		if p.Moved {
			moveToEnd(w.frags, f)
		}
	}
	f.mask = w.machine.Mask
}

// moveToEnd makes a fragment the youngest.
func moveToEnd(frags []*frag, f *frag) {
	i := slices.Index(frags, f)
	copy(frags[i:], frags[i+1:])
	frags[len(frags)-1] = f
}
