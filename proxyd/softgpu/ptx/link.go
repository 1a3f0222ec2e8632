// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"sort"
	"sync"
)

// Program is a set of modules that is linked and, after Place, has addresses. Its methods
// may be called concurrently, but Place once and first.
type Program struct {
	mods   []*Module
	funcs  map[string]*function // seen by all modules
	vars   map[string]*variable
	order  []*variable // of the image
	size   uint64
	align  uint64
	consts [2]uint64 // first and last address of constants
	base   uint64
	placed bool
	index  map[*function]uint64
	offset map[*variable]uint64

	kernels map[string]*Kernel
}

// lowering guards the syntax trees, which programs share: registers are numbered in them.
var lowering sync.Mutex

// Global is a variable of a program that its user can find by name.
type Global struct {
	Name   string
	Space  Space  // GlobalSpace or ConstSpace
	Offset uint64 // in the image
	Size   uint64
}

// Link makes a program of modules. What is .extern in a module is found in another; a .weak
// definition gives way to another definition. The error is a *LinkError.
func Link(mods ...*Module) (*Program, error) {
	p := &Program{mods: mods, funcs: map[string]*function{}, vars: map[string]*variable{}, kernels: map[string]*Kernel{}, align: 256, index: map[*function]uint64{}, offset: map[*variable]uint64{}}
	for _, m := range mods {
		for _, f := range m.order {
			if err := p.addFunction(f); err != nil {
				return nil, err
			}
		}
		for _, v := range m.vars {
			if err := p.addVariable(v); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range mods {
		for _, f := range m.order {
			if !f.decl {
				p.index[f] = uint64(len(p.index) + 1)
			}
		}
	}
	for _, m := range mods {
		for _, v := range m.vars {
			if v.link == linkExtern && v.space != SharedSpace && p.vars[v.name] == nil {
				return nil, &LinkError{v.name, "the variable is nowhere defined"}
			}
		}
	}
	p.layoutVariables()
	return p, nil
}

func (p *Program) addFunction(f *function) error {
	if f.decl || f.link == linkInternal && !f.entry {
		return nil
	}
	old := p.funcs[f.name]
	switch {
	case old == nil || old.link == linkWeak && f.link != linkWeak:
		p.funcs[f.name] = f
	case f.link == linkWeak:
	default:
		return &LinkError{f.name, fmt.Sprintf("the function is defined in %s and in %s", old.mod.Name, f.mod.Name)}
	}
	return nil
}

func (p *Program) addVariable(v *variable) error {
	if v.link == linkExtern || v.space != GlobalSpace && v.space != ConstSpace {
		return nil
	}
	if v.link == linkInternal {
		p.order = append(p.order, v)
		return nil
	}
	old := p.vars[v.name]
	switch {
	case old == nil:
		p.order = append(p.order, v)
		p.vars[v.name] = v
	case v.link == linkWeak:
	case v.link == linkCommon && old.byteSize() >= v.byteSize():
	case old.link == linkWeak || old.link == linkCommon:
		for i, o := range p.order {
			if o == old {
				p.order[i] = v
			}
		}
		p.vars[v.name] = v
	default:
		return &LinkError{v.name, fmt.Sprintf("the variable is defined in %s and in %s", old.mod.Name, v.mod.Name)}
	}
	return nil
}

// layoutVariables gives the variables their offsets: constants first, so that a single comparison tells them
// from the rest.
func (p *Program) layoutVariables() {
	sort.SliceStable(p.order, func(i, j int) bool {
		return p.order[i].space == ConstSpace && p.order[j].space != ConstSpace
	})
	for _, v := range p.order {
		a := uint64(max(v.align, 1))
		p.align = max(p.align, a)
		p.size = (p.size + a - 1) &^ (a - 1)
		p.offset[v] = p.size
		p.size += uint64(v.byteSize())
		if v.space == ConstSpace {
			p.consts[1] = p.size
		}
	}
}

// Size is the number of bytes that Place returns, and Align what its address must be a
// multiple of.
func (p *Program) Size() uint64 { return p.size }

// Align is the alignment of the address given to Place.
func (p *Program) Align() uint64 { return p.align }

// Place gives the program's variables the addresses from base on and returns their initial
// bytes. The caller maps them there before the first launch.
func (p *Program) Place(base uint64) ([]byte, error) {
	if base%p.align != 0 || base < MinAddress {
		return nil, &LinkError{"place", fmt.Sprintf("%#x is not an address for variables", base)}
	}
	p.base, p.placed = base, true
	p.consts[0] += base
	p.consts[1] += base
	image := make([]byte, p.size)
	for _, v := range p.order {
		for _, iv := range v.init {
			n, err := p.elementValue(v, iv)
			if err != nil {
				return nil, err
			}
			size := v.typ.Size()
			writeBytes(image[p.offset[v]+uint64(iv.index)*uint64(size):][:min(size, 8)], n)
		}
	}
	return image, nil
}

// elementValue is the value of an element of an initialiser.
func (p *Program) elementValue(v *variable, iv initValue) (uint64, error) {
	if iv.symbol == "" {
		return iv.num, nil
	}
	n := iv.num
	if f := p.findFunction(v.mod, iv.symbol); f != nil {
		n += p.addressOf(f)
	} else if o := p.findVariable(v.mod, iv.symbol); o != nil && (o.space == GlobalSpace || o.space == ConstSpace) {
		n += p.variableAddress(o)
	} else {
		return 0, &LinkError{iv.symbol, "the initialiser of " + v.name + " needs it, and it is not defined"}
	}
	if iv.mask != 0 {
		n &= iv.mask
		for m := iv.mask; m&1 == 0; m >>= 1 {
			n >>= 1
		}
	}
	return n, nil
}

// Globals lists the variables that have names for other modules.
func (p *Program) Globals() []Global {
	var out []Global
	for _, v := range p.order {
		out = append(out, Global{Name: v.name, Space: v.space, Offset: p.offset[v], Size: uint64(v.byteSize())})
	}
	return out
}

// Kernels lists the names of the program's entries.
func (p *Program) Kernels() []string {
	var out []string
	for _, m := range p.mods {
		for _, f := range m.order {
			if f.entry && !f.decl && p.funcs[f.name] == f {
				out = append(out, f.name)
			}
		}
	}
	return out
}

func (p *Program) variableAddress(v *variable) uint64 { return p.base + p.offset[v] }

func (p *Program) constants() [2]uint64 { return p.consts }

// addressOf is what a pointer to the function holds.
func (p *Program) addressOf(f *function) uint64 { return functionWindow + 16*p.index[f] }

// findFunction finds what a name means in a module: its own definition, or another's. A
// declaration without any is returned as such.
func (p *Program) findFunction(m *Module, name string) *function {
	own := m.funcs[name]
	if own != nil && own.alias != "" {
		own = m.funcs[own.alias]
		name = own.name
	}
	if own != nil && !own.decl && (own.link == linkInternal || own.link == linkVisible) {
		return own
	}
	if f := p.funcs[name]; f != nil && own != nil {
		return f
	}
	return own
}

// findVariable finds what a name means in a module.
func (p *Program) findVariable(m *Module, name string) *variable {
	own := m.globals[name]
	if own == nil || own.link == linkInternal || own.space == SharedSpace {
		return own
	}
	if v := p.vars[name]; v != nil {
		return v
	}
	return own
}

// Check lowers all kernels and returns the errors of the kernels that cannot run, joined by name.
func (p *Program) Check() map[string]error {
	bad := map[string]error{}
	for _, name := range p.Kernels() {
		if _, err := p.Kernel(name); err != nil {
			bad[name] = err
		}
	}
	return bad
}
