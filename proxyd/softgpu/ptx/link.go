// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"sort"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/memory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/syntax"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Module is a text with checked syntax, scopes and signatures.
type Module = syntax.Module

// SyntaxError is a text that is not PTX, or not valid PTX.
type SyntaxError = syntax.Error

// Parse reads a text and checks its syntax, scopes and signatures. name is used in
// errors. Opcodes are checked when a kernel that reaches them is asked for. The error is
// a *SyntaxError.
func Parse(name, text string) (*Module, error) { return syntax.Parse(name, text) }

// ParseDeclarations is Parse without the bodies of functions: the syntax of a body is checked when a kernel that reaches
// the body is asked for, and Program.Kernel returns the error. ParseDeclarations is for long texts,
// when a program uses few of their kernels.
func ParseDeclarations(name, text string) (*Module, error) {
	return syntax.ParseDeclarations(name, text)
}

// Program is a set of modules that is linked and, after Place, has addresses. Its methods
// may be called concurrently, but Place once and first.
type Program struct {
	mods   []*Module
	funcs  map[string]*syntax.Function // seen by all modules
	vars   map[string]*syntax.Variable
	order  []*syntax.Variable // of the image
	size   uint64
	align  uint64
	consts [2]uint64 // first and last address of constants
	base   uint64
	placed bool
	apart  *managedMemory // nil: variables that are declared managed lie among the others, and kernels that use them are refused
	index  map[*syntax.Function]uint64
	offset map[*syntax.Variable]uint64

	kernels map[string]*Kernel
}

// lowering guards the syntax trees, which programs share: registers are numbered in them.
var lowering sync.Mutex

// Global is a variable of a program that its user can find by name.
type Global struct {
	Name   string
	Space  types.Space // GlobalSpace or ConstSpace
	Offset uint64      // in the image; in the managed memory of PlaceManaged if Managed is set
	Size   uint64

	Managed bool // declared managed, and in the managed memory
}

// Link makes a program of modules. A name that is .extern in a module is found in another; a .weak definition gives way
// to another definition. The error is a *LinkError.
func Link(mods ...*Module) (*Program, error) {
	p := &Program{mods: mods, funcs: map[string]*syntax.Function{}, vars: map[string]*syntax.Variable{}, kernels: map[string]*Kernel{}, align: 256, index: map[*syntax.Function]uint64{}, offset: map[*syntax.Variable]uint64{}}
	for _, m := range mods {
		for _, f := range m.Order {
			if err := p.addFunction(f); err != nil {
				return nil, err
			}
		}
		for _, v := range m.Variables {
			if err := p.addVariable(v); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range mods {
		for _, f := range m.Order {
			if !f.Declared {
				p.index[f] = uint64(len(p.index) + 1)
			}
		}
	}
	for _, m := range mods {
		for _, v := range m.Variables {
			if v.Link == syntax.Extern && v.Space != types.SharedSpace && p.vars[v.Name] == nil {
				return nil, &LinkError{v.Name, "the variable is nowhere defined"}
			}
		}
	}
	p.layoutVariables()
	return p, nil
}

func (p *Program) addFunction(f *syntax.Function) error {
	if f.Declared || f.Link == syntax.Internal && !f.Entry {
		return nil
	}
	old := p.funcs[f.Name]
	switch {
	case old == nil || old.Link == syntax.Weak && f.Link != syntax.Weak:
		p.funcs[f.Name] = f
	case f.Link == syntax.Weak:
	default:
		return &LinkError{f.Name, fmt.Sprintf("the function is defined in %s and in %s", old.Module.Name, f.Module.Name)}
	}
	return nil
}

func (p *Program) addVariable(v *syntax.Variable) error {
	if v.Link == syntax.Extern || v.Space != types.GlobalSpace && v.Space != types.ConstSpace {
		return nil
	}
	if v.Link == syntax.Internal {
		p.order = append(p.order, v)
		return nil
	}
	old := p.vars[v.Name]
	switch {
	case old == nil:
		p.order = append(p.order, v)
		p.vars[v.Name] = v
	case v.Link == syntax.Weak:
	case v.Link == syntax.Common && old.ByteSize() >= v.ByteSize():
	case old.Link == syntax.Weak || old.Link == syntax.Common:
		for i, o := range p.order {
			if o == old {
				p.order[i] = v
			}
		}
		p.vars[v.Name] = v
	default:
		return &LinkError{v.Name, fmt.Sprintf("the variable is defined in %s and in %s", old.Module.Name, v.Module.Name)}
	}
	return nil
}

// layoutVariables gives the variables their offsets: constants first, so that a single comparison tells them
// from the rest.
func (p *Program) layoutVariables() {
	sort.SliceStable(p.order, func(i, j int) bool {
		return p.order[i].Space == types.ConstSpace && p.order[j].Space != types.ConstSpace
	})
	for _, v := range p.order {
		if p.isApart(v) {
			continue
		}
		a := uint64(max(v.Align, 1))
		p.align = max(p.align, a)
		p.size = alignUp(p.size, a)
		p.offset[v] = p.size
		p.size += uint64(v.ByteSize())
		if v.Space == types.ConstSpace {
			p.consts[1] = p.size
		}
	}
}

// Size is the number of bytes that Place returns.
func (p *Program) Size() uint64 { return p.size }

// Align is the alignment of the address given to Place.
func (p *Program) Align() uint64 { return p.align }

// Place gives the program's variables the addresses from base on and returns their initial
// bytes. The caller maps them there before the first launch.
func (p *Program) Place(base uint64) ([]byte, error) {
	if base%p.align != 0 || base < memory.MinAddress {
		return nil, &LinkError{"place", fmt.Sprintf("%#x is not an address for variables", base)}
	}
	p.base, p.placed = base, true
	p.consts[0] += base
	p.consts[1] += base
	return p.initialBytes(false, p.size)
}

// initialBytes returns the initial bytes of the variables that lie apart, or of the others.
func (p *Program) initialBytes(apart bool, n uint64) ([]byte, error) {
	image := make([]byte, n)
	for _, v := range p.order {
		if p.isApart(v) != apart {
			continue
		}
		for _, iv := range v.Init {
			n, err := p.elementValue(v, iv)
			if err != nil {
				return nil, err
			}
			size := v.Type.Size()
			writeBytes(image[p.offset[v]+uint64(iv.Index)*uint64(size):][:min(size, 8)], n)
		}
	}
	return image, nil
}

// elementValue is the value of an element of an initialiser.
func (p *Program) elementValue(v *syntax.Variable, iv syntax.InitValue) (uint64, error) {
	if iv.Symbol == "" {
		return iv.Num, nil
	}
	n := iv.Num
	if f := p.findFunction(v.Module, iv.Symbol); f != nil {
		n += p.addressOf(f)
	} else if o := p.findVariable(v.Module, iv.Symbol); o != nil && (o.Space == types.GlobalSpace || o.Space == types.ConstSpace) {
		n += p.variableAddress(o)
	} else {
		return 0, &LinkError{iv.Symbol, "the initialiser of " + v.Name + " needs it, and it is not defined"}
	}
	if iv.Mask != 0 {
		n &= iv.Mask
		for m := iv.Mask; m&1 == 0; m >>= 1 {
			n >>= 1
		}
	}
	return n, nil
}

// Globals lists the variables that have names for other modules.
func (p *Program) Globals() []Global {
	var out []Global
	for _, v := range p.order {
		out = append(out, Global{Name: v.Name, Space: v.Space, Offset: p.offset[v], Size: uint64(v.ByteSize()), Managed: p.isApart(v)})
	}
	return out
}

// managedMemory is memory that the host and the devices use by the same addresses. A program's variables that are declared
// managed lie there.
type managedMemory struct{ base, size uint64 }

// isApart tells whether a variable lies in managed memory.
func (p *Program) isApart(v *syntax.Variable) bool { return v.Managed && p.apart != nil }

// ManagedNames lists the variables that are declared managed.
func (p *Program) ManagedNames() []string {
	var out []string
	for _, v := range p.order {
		if v.Managed {
			out = append(out, v.Name)
		}
	}
	return out
}

// ManagedSpace is the size of all variables that are declared managed, 0 if there is none, and the alignment of their address.
func (p *Program) ManagedSpace() (size, align uint64) {
	align = 1
	for _, v := range p.order {
		if v.Managed {
			align = max(align, uint64(v.Align))
			size = alignUp(size, uint64(max(v.Align, 1))) + uint64(v.ByteSize())
		}
	}
	return size, align
}

// PlaceManaged gives the variables that are declared managed the addresses from base on, apart from all other variables. PlaceManaged
// is called before Size and Place, or not at all: kernels that use such a variable are refused then.
func (p *Program) PlaceManaged(base uint64) {
	p.apart = &managedMemory{base: base}
	for _, v := range p.order {
		if v.Managed {
			p.offset[v] = alignUp(p.apart.size, uint64(max(v.Align, 1)))
			p.apart.size = p.offset[v] + uint64(v.ByteSize())
		}
	}
	p.size, p.consts = 0, [2]uint64{}
	p.layoutVariables()
}

// ManagedBytes returns the initial bytes of the variables that PlaceManaged has placed. ManagedBytes is called after Place.
func (p *Program) ManagedBytes() ([]byte, error) { return p.initialBytes(true, p.apart.size) }

// alignUp is the first multiple of a, a power of two, from n on.
func alignUp(n, a uint64) uint64 { return (n + a - 1) &^ (a - 1) }

// Kernels lists the names of the program's entries.
func (p *Program) Kernels() []string {
	var out []string
	for _, m := range p.mods {
		for _, f := range m.Order {
			if f.Entry && !f.Declared && p.funcs[f.Name] == f {
				out = append(out, f.Name)
			}
		}
	}
	return out
}

// entryPoint is a kernel as a thread launches it.
type entryPoint struct {
	name   string
	params uint32 // bytes
}

// listEntries lists the kernels by their addresses.
func (p *Program) listEntries() map[uint64]entryPoint {
	out := map[uint64]entryPoint{}
	for _, f := range p.funcs {
		if !f.Entry {
			continue
		}
		size := uint32(0)
		for _, x := range f.Prototype.Params {
			if v := x.Variable; v != nil {
				size = (size+v.Align-1)&^(v.Align-1) + v.ByteSize()
			}
		}
		out[p.addressOf(f)] = entryPoint{f.Name, size}
	}
	return out
}

func (p *Program) variableAddress(v *syntax.Variable) uint64 {
	if p.isApart(v) {
		return p.apart.base + p.offset[v]
	}
	return p.base + p.offset[v]
}

func (p *Program) constantRange() [2]uint64 { return p.consts }

// addressOf is the value of a pointer to the function.
func (p *Program) addressOf(f *syntax.Function) uint64 { return memory.FunctionWindow + 16*p.index[f] }

// findFunction finds the function of a name in a module: its own definition, or another module's. A declaration without
// a definition is returned as such.
func (p *Program) findFunction(m *Module, name string) *syntax.Function {
	own := m.Functions[name]
	if own != nil && own.Alias != "" {
		own = m.Functions[own.Alias]
		name = own.Name
	}
	if own != nil && !own.Declared && (own.Link == syntax.Internal || own.Link == syntax.Visible) {
		return own
	}
	if f := p.funcs[name]; f != nil && own != nil {
		return f
	}
	return own
}

// findVariable finds the variable of a name in a module.
func (p *Program) findVariable(m *Module, name string) *syntax.Variable {
	own := m.Globals[name]
	if own == nil || own.Link == syntax.Internal || own.Space == types.SharedSpace {
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
