// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"slices"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Dim3 is an extent or a position in a grid or a block.
type Dim3 struct{ X, Y, Z uint32 }

// Count is the number of positions within the extent.
func (d Dim3) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// positionAt returns the position with the given index, x running fastest.
func (d Dim3) positionAt(i uint64) Dim3 {
	return Dim3{X: uint32(i % uint64(d.X)), Y: uint32(i / uint64(d.X) % uint64(d.Y)), Z: uint32(i / uint64(d.X) / uint64(d.Y))}
}

// Param is a parameter of a kernel in its block of parameters.
type Param struct {
	Name   string
	Type   types.Type
	Offset uint32
	Size   uint32
	Align  uint32
}

// Kernel is an entry that is ready to be launched. A Kernel does not change and must not be copied.
type Kernel struct {
	Name       string
	Line       int
	Params     []Param
	ParamSize  uint32
	SharedSize uint32   // static
	LocalSize  uint32   // of a thread; the least need if Recursive
	ConstSize  uint32   // of the constants of its module
	Operations int      // micro-operations of all its functions
	Registers  uint32   // 32-bit registers of a thread, as many as are needed at once
	MaxThreads uint32   // of .maxntid or .reqntid, 0: no bound
	ReqThreads Dim3     // of .reqntid, zero: any
	MinBlocks  uint32   // of .minnctapersm
	MaxRegs    uint32   // of .maxnreg
	Recursive  bool     // the depth of its stack has no bound
	Ordered    bool     // its blocks run in ascending order, on a single core
	CallsHooks bool     // its threads may call Hooks
	Launches   bool     // its threads may launch work: Hooks.LaunchKernel
	Targets    []string // kernels that have their addresses in its code
	Module     string
	Version    int // of its module's PTX, 10*major+minor
	Target     string

	main        *code
	dynamicBase uint32    // of shared memory
	reserved    bool      // blocks have reserved shared memory
	blocks      sync.Pool // of *block
	const32     []uint32
	const64     []uint64
	sites       int
	byAddress   map[uint64]*code
	entries     map[uint64]entryPoint // of the program, by address; nil unless Launches
	machine     machineCode
}

// stackSize is the size of a thread's local memory.
func (k *Kernel) stackSize(limit uint32) uint32 {
	if !k.Recursive {
		return k.LocalSize
	}
	if limit == 0 {
		limit = DefaultStackSize
	}
	return max(limit, k.LocalSize)
}

// builder lowers a kernel with all functions that may be called.
type builder struct {
	prog     *Program
	owner    map[*syntax.Register]*lowerer
	inMemory map[*syntax.Function]map[*syntax.Variable]bool
	codes    map[*syntax.Function]*code
	queue    []*syntax.Function
	taken    map[*syntax.Function]bool // their address is known to the kernel

	index32 map[uint32]ref
	index64 map[uint64]ref
	const32 []uint32
	const64 []uint64
	sites   int

	shared     map[*syntax.Variable]uint32
	sharedSize uint32
	paramSize  uint32
	dynamic    []dynamicConstant
	dynAlign   uint32

	targets    []string // kernels with addresses that the kernel knows
	launches   bool     // a thread may launch work
	ordered    bool     // the order of blocks can be seen
	callsHooks bool
	spins      bool
	reserved   bool // the place of reserved shared memory is asked for
	indirect   bool
	unbounded  bool
}

// Kernel returns an entry, lowered on first use. The error is a *LinkError if there is no entry of that name, a
// *SyntaxError or a *RefusedError.
func (p *Program) Kernel(name string) (*Kernel, error) {
	lowering.Lock()
	defer lowering.Unlock()
	if k := p.kernels[name]; k != nil {
		return k, nil
	}
	f := p.funcs[name]
	if f == nil || !f.Entry {
		return nil, &LinkError{name, "there is no such kernel"}
	}
	if !p.placed {
		return nil, &LinkError{name, "the program has not been placed"}
	}
	k, err := newBuilder(p).buildKernel(f)
	if err != nil {
		return nil, err
	}
	p.kernels[name] = k
	return k, nil
}

func newBuilder(p *Program) *builder {
	return &builder{
		prog: p, owner: map[*syntax.Register]*lowerer{}, inMemory: map[*syntax.Function]map[*syntax.Variable]bool{}, codes: map[*syntax.Function]*code{},
		taken: map[*syntax.Function]bool{}, index32: map[uint32]ref{}, index64: map[uint64]ref{}, shared: map[*syntax.Variable]uint32{},
	}
}

func (b *builder) buildKernel(f *syntax.Function) (*Kernel, error) {
	k := &Kernel{
		Name: f.Name, Line: f.Line, MinBlocks: f.MinBlocks, MaxRegs: f.MaxRegisters, Module: f.Module.Name,
		Version: 10*f.Module.Major + f.Module.Minor, Target: f.Module.Target,
	}
	if f.Clusters {
		return nil, &RefusedError{Module: f.Module.Name, Line: f.Line, Opcode: ".reqnctapercluster", Reason: noCluster}
	}
	maxThreads, reqThreads := extentOf(f.MaxThreads), extentOf(f.ReqThreads)
	if n := maxThreads.Count(); n != 0 {
		k.MaxThreads = uint32(min(n, MaxThreads))
	}
	if n := reqThreads.Count(); n != 0 {
		k.MaxThreads, k.ReqThreads = uint32(min(n, MaxThreads)), reqThreads
	}
	if err := k.placeParams(f); err != nil {
		return nil, err
	}
	b.paramSize = k.ParamSize
	b.queueFunction(f)
	for len(b.queue) > 0 {
		next := b.queue[0]
		b.queue = b.queue[1:]
		c, err := lowerFunction(b, next)
		if err != nil {
			return nil, err
		}
		b.codes[next] = c
		if b.indirect && len(b.queue) == 0 {
			// Any function may be called if the program holds its address.
			for _, g := range b.prog.listPointed() {
				b.noteAddress(g)
			}
			for g := range b.taken {
				b.queueFunction(g)
			}
		}
	}
	b.linkKernel(k, f)
	if k.LocalSize > maxLocal {
		return nil, &RefusedError{Module: f.Module.Name, Line: f.Line, Opcode: f.Name, Reason: tooMuchLocal}
	}
	for _, v := range b.prog.order {
		if v.Space == types.ConstSpace && v.Module == f.Module {
			k.ConstSize += v.ByteSize()
		}
	}
	k.main, k.const32, k.const64, k.sites = b.codes[f], b.const32, b.const64, b.sites
	k.Ordered, k.CallsHooks, k.reserved = b.ordered, b.callsHooks, b.reserved
	if k.Launches, k.Targets = b.launches, b.targets; k.Launches {
		k.entries = b.prog.listEntries()
	}
	for _, c := range b.codes {
		k.machine.codes = append(k.machine.codes, c)
		k.Operations += len(c.insts)
	}
	return k, nil
}

// maxParams is how many bytes of parameters a kernel may have.
const maxParams = 32764

// placeParams lays out the kernel's parameters, which f declares.
func (k *Kernel) placeParams(f *syntax.Function) error {
	for _, p := range f.Prototype.Params {
		if p.Variable == nil {
			return &SyntaxError{Module: f.Module.Name, Line: f.Line, Msg: "an entry's parameters are in the space param"}
		}
		at := (k.ParamSize + p.Variable.Align - 1) &^ (p.Variable.Align - 1)
		p.Variable.Offset = at
		k.Params = append(k.Params, Param{p.Variable.Name, p.Variable.Type, at, p.Variable.ByteSize(), p.Variable.Align})
		if uint64(at)+uint64(p.Variable.ByteSize()) > maxParams {
			return &SyntaxError{Module: f.Module.Name, Line: f.Line, Msg: fmt.Sprintf("more than %d bytes of parameters", maxParams)}
		}
		k.ParamSize = at + p.Variable.ByteSize()
	}
	return nil
}

// extentOf returns the extent of a directive such as .maxntid.
func extentOf(size [3]uint32) Dim3 { return Dim3{X: size[0], Y: size[1], Z: size[2]} }

// linkKernel resolves calls, lays out dynamic shared memory, and bounds the stack.
func (b *builder) linkKernel(k *Kernel, f *syntax.Function) {
	k.byAddress = map[uint64]*code{}
	for g, c := range b.codes {
		if g.Entry {
			continue
		}
		k.byAddress[b.prog.addressOf(g)] = c
	}
	for _, c := range b.codes {
		for i := range c.insts {
			if x := c.insts[i].ext; x != nil && x.call != nil && x.call.fn != nil && x.call.builtin == nil {
				x.call.code = b.codes[x.call.fn]
			}
		}
	}
	need := b.addDemand(f, map[*syntax.Function]*demand{})
	k.Recursive = !need.bounded || b.unbounded || b.indirect
	k.LocalSize = need.local
	k.Registers = uint32(need.regs)
	// Dynamic shared memory begins where the static ends; all variables of it begin there.
	k.SharedSize, k.dynamicBase = b.sharedSize, b.sharedSize
	if b.dynAlign > 0 {
		k.dynamicBase = (b.sharedSize + b.dynAlign - 1) &^ (b.dynAlign - 1)
	}
	for _, d := range b.dynamic {
		at := d.ref >> 1 << 1
		for i := range ref(warpSize) {
			if d.class == types.Class64 {
				b.const64[at/8+i] = uint64(k.dynamicBase) + d.off
			} else {
				b.const32[at/4+i] = k.dynamicBase + uint32(d.off)
			}
		}
	}
}

// maxLocal is the local memory that a thread may have.
const (
	maxLocal     = 512 << 10
	tooMuchLocal = "more than 512 KiB of local memory"
)

// demand is the stack and the registers of a function with its callees.
type demand struct {
	local   uint32
	regs    int
	bounded bool
	open    bool // being computed: met again, the function is recursive
}

// addDemand adds up the stack and registers of a function and its callees. known holds the sums that have been found.
func (b *builder) addDemand(f *syntax.Function, known map[*syntax.Function]*demand) demand {
	if d := known[f]; d != nil {
		if d.open {
			return demand{}
		}
		return *d
	}
	d := &demand{bounded: true, open: true}
	known[f] = d
	c := b.codes[f]
	for i := range c.insts {
		x := c.insts[i].ext
		if x == nil || x.call == nil || x.call.code == nil {
			continue
		}
		e := b.addDemand(x.call.fn, known)
		d.local, d.regs, d.bounded = max(d.local, e.local), max(d.regs, e.regs), d.bounded && e.bounded
	}
	d.local = min(d.local+(c.local+15)&^15, 2*maxLocal)
	d.regs += c.n32 + 2*c.n64
	d.open = false
	return *d
}

// queueFunction queues a function to be lowered.
func (b *builder) queueFunction(f *syntax.Function) {
	if _, ok := b.codes[f]; !ok {
		b.codes[f] = nil
		b.queue = append(b.queue, f)
	}
}

// noteAddress notes that the kernel has the function's address.
func (b *builder) noteAddress(f *syntax.Function) {
	switch {
	case f.Declared:
	case !f.Entry:
		b.taken[f] = true
		b.queueFunction(f)
	case !slices.Contains(b.targets, f.Name):
		b.targets = append(b.targets, f.Name)
	}
}

// listPointed lists the functions in the initialisers of variables.
func (p *Program) listPointed() []*syntax.Function {
	var out []*syntax.Function
	for _, v := range p.order {
		for _, iv := range v.Init {
			if iv.Symbol == "" {
				continue
			}
			if f := p.findFunction(v.Module, iv.Symbol); f != nil && !f.Declared && !f.Entry {
				out = append(out, f)
			}
		}
	}
	return out
}

func (b *builder) addConstant32(v uint32) ref {
	r, ok := b.index32[v]
	if !ok {
		r = ref(len(b.const32))*4 | 1
		for range warpSize {
			b.const32 = append(b.const32, v)
		}
		b.index32[v] = r
	}
	return r
}

func (b *builder) addConstant64(v uint64) ref {
	r, ok := b.index64[v]
	if !ok {
		r = ref(len(b.const64))*8 | 1
		for range warpSize {
			b.const64 = append(b.const64, v)
		}
		b.index64[v] = r
	}
	return r
}

// dynamicConstant is an address in dynamic shared memory: known when all static shared memory is placed.
type dynamicConstant struct {
	class types.Class
	ref   ref
	off   uint64
}

// dynamicAddress returns a constant for the start of dynamic shared memory plus off.
func (b *builder) dynamicAddress(v *syntax.Variable, c types.Class, off uint64) ref {
	b.dynAlign = max(b.dynAlign, v.Align, 16)
	d := dynamicConstant{class: c, off: off}
	if c == types.Class64 {
		d.ref = ref(len(b.const64))*8 | 1
		b.const64 = append(b.const64, make([]uint64, warpSize)...)
	} else {
		d.ref = ref(len(b.const32))*4 | 1
		b.const32 = append(b.const32, make([]uint32, warpSize)...)
	}
	b.dynamic = append(b.dynamic, d)
	return d.ref
}

// sharedOffset places a shared variable in the block's memory.
func (b *builder) sharedOffset(v *syntax.Variable) uint32 {
	if at, ok := b.shared[v]; ok {
		return at
	}
	at := (b.sharedSize + v.Align - 1) &^ (v.Align - 1)
	if uint64(at)+uint64(v.ByteSize()) > MaxShared {
		panic(&SyntaxError{Module: v.Module.Name, Line: v.Line, Msg: fmt.Sprintf("%s: more than %d bytes of shared memory", v.Name, MaxShared)})
	}
	b.shared[v] = at
	b.sharedSize = at + v.ByteSize()
	return at
}
