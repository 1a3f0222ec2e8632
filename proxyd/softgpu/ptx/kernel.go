// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"sync"
)

// Param is a parameter of a kernel in its block of parameters.
type Param struct {
	Name   string
	Type   Type
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
	SharedSize uint32 // static
	LocalSize  uint32 // of a thread; the least need if Recursive
	ConstSize  uint32 // of the constants of its module
	Registers  uint32 // 32-bit registers of a thread, as many as are needed at once
	MaxThreads uint32 // of .maxntid or .reqntid, 0: no bound
	ReqThreads Dim3   // of .reqntid, zero: any
	MinBlocks  uint32 // of .minnctapersm
	MaxRegs    uint32 // of .maxnreg
	Recursive  bool   // the depth of its stack has no bound
	Ordered    bool   // its blocks run in ascending order, on a single core
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
	owner    map[*register]*lowerer
	inMemory map[*function]map[*variable]bool
	codes    map[*function]*code
	queue    []*function
	taken    map[*function]bool // their address is known to the kernel

	index32 map[uint32]ref
	index64 map[uint64]ref
	const32 []uint32
	const64 []uint64
	sites   int

	shared     map[*variable]uint32
	sharedSize uint32
	paramSize  uint32
	dynamic    []dynamicConstant
	dynAlign   uint32

	ordered   bool // the order of blocks can be seen
	spins     bool
	reserved  bool // the place of reserved shared memory is asked for
	indirect  bool
	unbounded bool
}

// Kernel returns an entry, lowered on first use. The error is a *LinkError if there is
// none of that name, a *SyntaxError or a *RefusedError.
func (p *Program) Kernel(name string) (*Kernel, error) {
	lowering.Lock()
	defer lowering.Unlock()
	if k := p.kernels[name]; k != nil {
		return k, nil
	}
	f := p.funcs[name]
	if f == nil || !f.entry {
		return nil, &LinkError{name, "there is no such kernel"}
	}
	if !p.placed {
		return nil, &LinkError{name, "the program has not been placed"}
	}
	b := &builder{
		prog: p, owner: map[*register]*lowerer{}, inMemory: map[*function]map[*variable]bool{}, codes: map[*function]*code{},
		taken: map[*function]bool{}, index32: map[uint32]ref{}, index64: map[uint64]ref{}, shared: map[*variable]uint32{},
	}
	k, err := b.buildKernel(f)
	if err != nil {
		return nil, err
	}
	p.kernels[name] = k
	return k, nil
}

func (b *builder) buildKernel(f *function) (*Kernel, error) {
	k := &Kernel{
		Name: f.name, Line: f.line, MinBlocks: f.minnctapersm, MaxRegs: f.maxnreg, Module: f.mod.Name,
		Version: 10*f.mod.Major + f.mod.Minor, Target: f.mod.Target,
	}
	if f.nctapercluster {
		return nil, &RefusedError{Module: f.mod.Name, Line: f.line, Opcode: ".reqnctapercluster", Reason: "clusters are not supported"}
	}
	if n := f.maxntid.Count(); n != 0 {
		k.MaxThreads = uint32(min(n, MaxThreads))
	}
	if n := f.reqntid.Count(); n != 0 {
		k.MaxThreads, k.ReqThreads = uint32(min(n, MaxThreads)), f.reqntid
	}
	for _, p := range f.proto.params {
		if p.v == nil {
			return nil, &SyntaxError{Module: f.mod.Name, Line: f.line, Msg: "an entry's parameters are in the space param"}
		}
		at := (k.ParamSize + p.v.align - 1) &^ (p.v.align - 1)
		p.v.offset = at
		k.Params = append(k.Params, Param{p.v.name, p.v.typ, at, p.v.byteSize(), p.v.align})
		if uint64(at)+uint64(p.v.byteSize()) > 32764 {
			return nil, &SyntaxError{Module: f.mod.Name, Line: f.line, Msg: "more than 32764 bytes of parameters"}
		}
		k.ParamSize = at + p.v.byteSize()
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
		return nil, &RefusedError{Module: f.mod.Name, Line: f.line, Opcode: f.name, Reason: tooMuchLocal}
	}
	for _, v := range b.prog.order {
		if v.space == ConstSpace && v.mod == f.mod {
			k.ConstSize += v.byteSize()
		}
	}
	k.main, k.const32, k.const64, k.sites = b.codes[f], b.const32, b.const64, b.sites
	k.Ordered, k.reserved = b.ordered, b.reserved
	return k, nil
}

// linkKernel resolves calls, lays out what is dynamic, and bounds the stack.
func (b *builder) linkKernel(k *Kernel, f *function) {
	k.byAddress = map[uint64]*code{}
	for g, c := range b.codes {
		if g.entry {
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
	need := b.addDemand(f, map[*function]*demand{})
	k.Recursive = !need.bounded || b.unbounded || b.indirect
	k.LocalSize = need.local
	k.Registers = uint32(need.regs)
	// Dynamic shared memory begins where the static ends; all its names mean that place.
	k.SharedSize, k.dynamicBase = b.sharedSize, b.sharedSize
	if b.dynAlign > 0 {
		k.dynamicBase = (b.sharedSize + b.dynAlign - 1) &^ (b.dynAlign - 1)
	}
	for _, d := range b.dynamic {
		at := d.ref >> 1 << 1
		for i := range ref(warpSize) {
			if d.class == class64 {
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

// addDemand adds up what a function needs. known holds what has been found.
func (b *builder) addDemand(f *function, known map[*function]*demand) demand {
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
func (b *builder) queueFunction(f *function) {
	if _, ok := b.codes[f]; !ok {
		b.codes[f] = nil
		b.queue = append(b.queue, f)
	}
}

// noteAddress notes that the kernel has the function's address.
func (b *builder) noteAddress(f *function) {
	if !f.decl && !f.entry {
		b.taken[f] = true
		b.queueFunction(f)
	}
}

// listPointed lists the functions in the initialisers of variables.
func (p *Program) listPointed() []*function {
	var out []*function
	for _, v := range p.order {
		for _, iv := range v.init {
			if iv.symbol == "" {
				continue
			}
			if f := p.findFunction(v.mod, iv.symbol); f != nil && !f.decl {
				out = append(out, f)
			}
		}
	}
	return out
}

func (b *builder) constant32(v uint32) ref {
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

func (b *builder) constant64(v uint64) ref {
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

// dynamicConstant is an address in dynamic shared memory: known when all static is.
type dynamicConstant struct {
	class class
	ref   ref
	off   uint64
}

// dynamicAddress returns a constant for the start of dynamic shared memory plus off.
func (b *builder) dynamicAddress(v *variable, c class, off uint64) ref {
	b.dynAlign = max(b.dynAlign, v.align, 16)
	d := dynamicConstant{class: c, off: off}
	if c == class64 {
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
func (b *builder) sharedOffset(v *variable) uint32 {
	if at, ok := b.shared[v]; ok {
		return at
	}
	at := (b.sharedSize + v.align - 1) &^ (v.align - 1)
	if uint64(at)+uint64(v.byteSize()) > MaxShared {
		panic(&SyntaxError{Module: v.mod.Name, Line: v.line, Msg: fmt.Sprintf("%s: more than %d bytes of shared memory", v.name, MaxShared)})
	}
	b.shared[v] = at
	b.sharedSize = at + v.byteSize()
	return at
}
