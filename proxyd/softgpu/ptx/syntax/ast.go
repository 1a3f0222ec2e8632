// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package syntax reads PTX: Parse makes a Module of a text. The syntax, scopes and signatures of
// the text are checked. Which opcodes exist is for package ptx, which lowers the functions of a Module.
//
//	lex.go     text → tokens
//	parse*.go  tokens → the tree of ast.go; parse_body.go puts off the bodies of functions
//
// The only error is *Error.
package syntax

import (
	"strconv"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// Linkage says which other modules see a name.
type Linkage uint8

// The linkages: .visible and so on; Internal is a name without a directive.
const (
	Internal Linkage = iota
	Visible
	Extern
	Weak
	Common
)

// Variable is a declaration in any space but reg.
type Variable struct {
	Name    string
	Line    int
	Space   types.Space
	Link    Linkage
	Type    types.Type
	Vec     uint32 // elements of a vector type, else 1
	Align   uint32
	Count   uint32 // elements of the array, 1 for a scalar
	Open    bool   // declared with [] and without initialiser: extern .shared
	Init    []InitValue
	Managed bool
	Opaque  string // "texref", "samplerref", "surfref"

	Offset uint32 // of an entry's parameter
	Module *Module
}

// ByteSize is the size of all elements.
func (v *Variable) ByteSize() uint32 { return v.Type.Size() * v.Vec * v.Count }

// InitValue is an element of an initialiser: a number or a symbol's address.
type InitValue struct {
	Index   uint32 // of the element
	Num     uint64 // bits of the element's type; for a symbol, the number that is added to its address
	Symbol  string
	Generic bool   // generic(symbol)
	Mask    uint64 // 0xFF(symbol): the byte chosen, shifted down; 0: the whole address
	Line    int
}

// Register is a declared register, or a parameter of a function in the space reg.
type Register struct {
	Name string
	Type types.Type
	Vec  uint32
	ID   int // of its first virtual register; set when its function is lowered
}

// registerRange is .reg .b32 %r<10>.
type registerRange struct {
	count uint64
	typ   types.Type
	vec   uint32
}

// Prototype is a .callprototype, or the signature of a function.
type Prototype struct {
	Results, Params []Param
	NoReturn        bool
}

// Param is a formal parameter: a variable in the space param, or a register.
type Param struct {
	Variable *Variable
	Register *Register
}

// Scope is a function's body or a block within.
type Scope struct {
	outer   *Scope
	regs    map[string]*Register
	ranges  map[string]registerRange
	Vars    map[string]*Variable
	labels  map[string]int // index of the statement that follows
	targets map[string][]string
	protos  map[string]*Prototype
}

func newScope(outer *Scope) *Scope {
	return &Scope{
		outer: outer, regs: map[string]*Register{}, ranges: map[string]registerRange{}, Vars: map[string]*Variable{},
		labels: map[string]int{}, targets: map[string][]string{}, protos: map[string]*Prototype{},
	}
}

// FindRegister finds a register, or returns nil. A register of a range is made when first named.
func (s *Scope) FindRegister(name string) *Register {
	stem := len(name)
	for stem > 0 && isDigit(name[stem-1]) {
		stem--
	}
	for ; s != nil; s = s.outer {
		if r := s.regs[name]; r != nil {
			return r
		}
		// %r007 is not of the range, and %a1<3> declares %a10 to %a12.
		for i := stem; i < len(name); i++ {
			r, ok := s.ranges[name[:i]]
			if !ok || name[i] == '0' && i+1 < len(name) {
				continue
			}
			n, err := strconv.ParseUint(name[i:], 10, 32)
			if err == nil && n < r.count {
				reg := &Register{Name: name, Type: r.typ, Vec: r.vec, ID: -1}
				s.regs[name] = reg
				return reg
			}
		}
	}
	return nil
}

// FindVariable finds a variable, in the scope or around it, or returns nil.
func (s *Scope) FindVariable(name string) *Variable {
	for ; s != nil; s = s.outer {
		if v := s.Vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// FindLabel returns the index of the statement that follows a label.
func (s *Scope) FindLabel(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if at, ok := s.labels[name]; ok {
			return at, true
		}
	}
	return 0, false
}

// FindTargets returns the list of a .branchtargets or .calltargets.
func (s *Scope) FindTargets(name string) ([]string, bool) {
	for ; s != nil; s = s.outer {
		if t, ok := s.targets[name]; ok {
			return t, true
		}
	}
	return nil, false
}

// FindPrototype finds a .callprototype, or returns nil.
func (s *Scope) FindPrototype(name string) *Prototype {
	for ; s != nil; s = s.outer {
		if p := s.protos[name]; p != nil {
			return p
		}
	}
	return nil
}

// OperandKind is the syntactic form of an operand.
type OperandKind uint8

// The kinds of operands.
const (
	ArgName   OperandKind = iota // register, label, variable, function, special register
	ArgInt                       // Num, negative values in two's complement
	ArgFloat                     // Num: bits of a float64, or of a float32 if F32
	ArgAddr                      // [base+off]
	ArgVector                    // {a, b}
	ArgList                      // (a, b) of a call
	ArgSink                      // _
)

// Operand is an argument of an instruction as written.
type Operand struct {
	Kind OperandKind
	Name string // ArgName; of an ArgAddr, when its base is a name
	Sel  string // component behind a name: x, y, r, b0, h1
	Not  bool   // !p
	Neg  bool   // -%r, of the video instructions
	F32  bool
	Num  uint64 // value; of an ArgAddr the offset
	List []Operand
	Pair *Operand // p|q
}

// Instruction is a statement as written.
type Instruction struct {
	Line  int
	Guard string // predicate, or ""
	Not   bool   // @!p
	Op    string
	Mods  []string
	Args  []Operand
	Scope *Scope
}

// FullName is the opcode with its modifiers.
func (in *Instruction) FullName() string {
	s := in.Op
	for _, m := range in.Mods {
		s += "." + m
	}
	return s
}

// HasModifier reports whether the instruction bears a modifier.
func (in *Instruction) HasModifier(mod string) bool {
	for _, m := range in.Mods {
		if m == mod {
			return true
		}
	}
	return false
}

// Function is an entry or a function as written.
type Function struct {
	Name      string
	Line      int
	Link      Linkage
	Entry     bool
	Body      []*Instruction
	later     *unparsedBody // of a body that has not been needed yet
	Declared  bool          // no body
	Prototype Prototype
	Scope     *Scope // with the parameters; the body's is within
	Module    *Module

	MaxThreads   [3]uint32 // .maxntid, zero: not given
	ReqThreads   [3]uint32 // .reqntid, zero: not given
	MinBlocks    uint32    // .minnctapersm
	MaxRegisters uint32    // .maxnreg
	Clusters     bool      // .reqnctapercluster asks for clusters of several blocks
	Alias        string    // name of the function that stands in for this function
}

// IsParam reports whether v is a parameter of an entry, not of a call.
func (f *Function) IsParam(v *Variable) bool {
	for _, p := range f.Prototype.Params {
		if f.Entry && p.Variable == v {
			return true
		}
	}
	return false
}
