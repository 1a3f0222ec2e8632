// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "strconv"

// linkage says which other modules see a name.
type linkage uint8

const (
	linkInternal linkage = iota
	linkVisible
	linkExtern
	linkWeak
	linkCommon
)

// variable is a declaration in any space but reg.
type variable struct {
	name    string
	line    int
	space   Space
	link    linkage
	typ     Type
	vec     uint32 // elements of a vector type, else 1
	align   uint32
	count   uint32 // elements of the array, 1 for a scalar
	open    bool   // declared with [] and without initialiser: extern .shared
	init    []initValue
	managed bool
	opaque  string // "texref", "samplerref", "surfref"

	offset uint32 // of an entry's parameter
	mod    *Module
}

func (v *variable) byteSize() uint32 { return v.typ.Size() * v.vec * v.count }

// initValue is an element of an initialiser: a number or a symbol's address.
type initValue struct {
	index   uint32 // of the element
	num     uint64 // bits of the element's type; what is added, for a symbol
	symbol  string
	generic bool   // generic(symbol)
	mask    uint64 // 0xFF(symbol): the byte chosen, shifted down; 0: the whole address
	line    int
}

// register is a declared register, or a parameter of a function in the space reg.
type register struct {
	name string
	typ  Type
	vec  uint32
	id   int // of its first virtual register; set when its function is lowered
}

// registerRange is .reg .b32 %r<10>.
type registerRange struct {
	count uint64
	typ   Type
	vec   uint32
}

// prototype is a .callprototype, or the signature of a function.
type prototype struct {
	ret, params []param
	noreturn    bool
}

// param is a formal parameter: a variable in the space param, or a register.
type param struct {
	v   *variable
	reg *register
}

// scope is a function's body or a block within.
type scope struct {
	outer   *scope
	regs    map[string]*register
	ranges  map[string]registerRange
	vars    map[string]*variable
	labels  map[string]int // index of the statement that follows
	targets map[string][]string
	protos  map[string]*prototype
}

func newScope(outer *scope) *scope {
	return &scope{
		outer: outer, regs: map[string]*register{}, ranges: map[string]registerRange{}, vars: map[string]*variable{},
		labels: map[string]int{}, targets: map[string][]string{}, protos: map[string]*prototype{},
	}
}

// findRegister finds a register; a register of a range is made when first named.
func (s *scope) findRegister(name string) *register {
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
				reg := &register{name: name, typ: r.typ, vec: r.vec, id: -1}
				s.regs[name] = reg
				return reg
			}
		}
	}
	return nil
}

func (s *scope) findVariable(name string) *variable {
	for ; s != nil; s = s.outer {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *scope) findLabel(name string) (int, bool) {
	for ; s != nil; s = s.outer {
		if at, ok := s.labels[name]; ok {
			return at, true
		}
	}
	return 0, false
}

func (s *scope) findTargets(name string) ([]string, bool) {
	for ; s != nil; s = s.outer {
		if t, ok := s.targets[name]; ok {
			return t, true
		}
	}
	return nil, false
}

func (s *scope) findPrototype(name string) *prototype {
	for ; s != nil; s = s.outer {
		if p := s.protos[name]; p != nil {
			return p
		}
	}
	return nil
}

// operandKind is the syntactic form of an operand.
type operandKind uint8

const (
	argName   operandKind = iota // register, label, variable, function, special register
	argInt                       // num, negative values in two's complement
	argFloat                     // num: bits of a float64, or of a float32 if f32
	argAddr                      // [base+off]
	argVector                    // {a, b}
	argList                      // (a, b) of a call
	argSink                      // _
)

// operand is an argument of an instruction as written.
type operand struct {
	kind operandKind
	name string // argName; of an argAddr, when its base is a name
	sel  string // component behind a name: x, y, r, b0, h1
	not  bool   // !p
	neg  bool   // -%r, of the video instructions
	f32  bool
	num  uint64 // value; of an argAddr the offset
	list []operand
	pair *operand // p|q
}

// instruction is a statement as written.
type instruction struct {
	line  int
	guard string // predicate, or ""
	not   bool   // @!p
	op    string
	mods  []string
	args  []operand
	scope *scope
}

// fullName is the opcode with its modifiers.
func (in *instruction) fullName() string {
	s := in.op
	for _, m := range in.mods {
		s += "." + m
	}
	return s
}

// hasModifier reports whether the instruction bears a modifier.
func (in *instruction) hasModifier(mod string) bool {
	for _, m := range in.mods {
		if m == mod {
			return true
		}
	}
	return false
}

// function is an entry or a function as written.
type function struct {
	name  string
	line  int
	link  linkage
	entry bool
	body  []*instruction
	later *unparsedBody // of a body that has not been needed yet
	decl  bool          // no body
	proto prototype
	scope *scope // with the parameters; the body's is within
	mod   *Module

	maxntid, reqntid Dim3
	minnctapersm     uint32
	maxnreg          uint32
	nctapercluster   bool
	alias            string // name of the function that stands in for this function
}
