// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"math"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/float"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
)

// varHead is the part of a declaration before the names.
type varHead struct {
	align   uint32
	vec     uint32
	typ     types.Type
	managed bool
	opaque  string
}

// readHead reads alignment, attributes, vector and type.
func (p *parser) readHead() (varHead, error) {
	h := varHead{vec: 1}
	for p.tok.kind == tokDot {
		name := p.tok.text
		switch name {
		case "align":
			p.nextToken()
			if p.tok.kind != tokInt || p.tok.num == 0 || p.tok.num > 1<<16 || p.tok.num&(p.tok.num-1) != 0 {
				return h, p.errUnexpected("a power of two")
			}
			h.align = uint32(p.tok.num)
		case "v2":
			h.vec = 2
		case "v4":
			h.vec = 4
		case "v8":
			h.vec = 8
		case "attribute":
			p.nextToken()
			if err := p.expectPunct("("); err != nil {
				return h, err
			}
			for !p.isPunct(")") {
				if p.tok.kind == tokEOF {
					return h, p.errUnexpected("\")\"")
				}
				h.managed = h.managed || p.isDirective("managed")
				p.nextToken()
			}
		case "ptr":
			// .ptr .global .align 16 says where a parameter points, which the parser does not need.
			p.nextToken()
			if p.tok.kind == tokDot {
				if _, ok := types.SpacesByName[p.tok.text]; ok {
					p.nextToken()
				}
			}
			if p.isDirective("align") {
				p.nextToken()
				p.nextToken()
			}
			continue
		case "texref", "samplerref", "surfref":
			h.opaque, h.typ = name, types.B64
		default:
			t, ok := types.ByName[name]
			if !ok {
				return h, p.errUnexpected("a type")
			}
			h.typ = t
		}
		p.nextToken()
	}
	if h.typ == types.NoType {
		return h, p.errUnexpected("a type")
	}
	if h.align == 0 {
		h.align = h.typ.Size() * h.vec
	}
	return h, nil
}

// readVariables reads head and names up to and with the semicolon.
func (p *parser) readVariables(space types.Space) ([]*Variable, error) {
	if p.isPunct("[") {
		// .const[2]: memory banks, which current devices do not have.
		p.nextToken()
		p.nextToken()
		if err := p.expectPunct("]"); err != nil {
			return nil, err
		}
	}
	h, err := p.readHead()
	if err != nil {
		return nil, err
	}
	var vars []*Variable
	for {
		v, err := p.readDeclarator(space, h)
		if err != nil {
			return nil, err
		}
		if p.acceptPunct("<") {
			// .param .b32 %p<4>
			n := p.tok.num
			if p.tok.kind != tokInt || n > maxRegisters {
				return nil, p.errUnexpected("a count")
			}
			if p.ranged += n; p.ranged > maxRegisters/4 {
				return nil, p.syntaxError(p.tok.line, "more than %d variables by ranges of names", maxRegisters/4)
			}
			p.nextToken()
			if err := p.expectPunct(">"); err != nil {
				return nil, err
			}
			for i := range n {
				each := *v
				each.Name += utoa(i)
				vars = append(vars, &each)
			}
		} else {
			vars = append(vars, v)
		}
		if !p.acceptPunct(",") {
			return vars, p.expectPunct(";")
		}
	}
}

// readDeclarator reads name[2][3] = {…}.
func (p *parser) readDeclarator(space types.Space, h varHead) (*Variable, error) {
	v := &Variable{
		Line: p.tok.line, Space: space, Type: h.typ, Vec: h.vec, Align: h.align, Count: 1,
		Managed: h.managed, Opaque: h.opaque, Module: p.mod,
	}
	var err error
	if v.Name, err = p.expectIdent("a name"); err != nil {
		return nil, err
	}
	var dims []uint64
	total := uint64(v.Type.Size()) * uint64(v.Vec)
	for p.acceptPunct("[") {
		if p.acceptPunct("]") {
			if len(dims) > 0 {
				return nil, p.syntaxError(v.Line, "%s: only the first dimension may be open", v.Name)
			}
			v.Open = true
			dims = append(dims, 0)
			continue
		}
		n, err := p.readConstant()
		if err != nil {
			return nil, err
		}
		if err := p.expectPunct("]"); err != nil {
			return nil, err
		}
		if n > maxVariable {
			return nil, p.syntaxError(v.Line, "%s is too large", v.Name)
		}
		if n > 0 {
			if total *= n; total >= maxVariable {
				return nil, p.syntaxError(v.Line, "%s is too large", v.Name)
			}
		}
		dims = append(dims, n)
	}
	for _, n := range dims {
		v.Count *= uint32(n)
	}
	if p.acceptPunct("=") {
		if err := p.readInitializer(v, dims); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// readInitializer reads the initialiser behind "=".
func (p *parser) readInitializer(v *Variable, dims []uint64) error {
	if v.Opaque != "" {
		// The fields of a texture reference; such kernels are refused where they use the reference.
		for !p.isPunct(";") && p.tok.kind != tokEOF {
			p.nextToken()
		}
		return nil
	}
	inner := uint64(v.Vec)
	for i, n := range dims {
		if i > 0 {
			inner *= n
		}
	}
	end, err := p.initList(v, dims, 0, 0)
	if err != nil {
		return err
	}
	if v.Open {
		v.Open = false
		v.Count = uint32((uint64(end) + inner - 1) / inner * (inner / uint64(v.Vec)))
	}
	if uint64(end) > uint64(v.Count)*uint64(v.Vec) {
		return p.syntaxError(v.Line, "%s: too many values", v.Name)
	}
	return nil
}

// initList reads a value or a list of them for the elements from at on; dim says how deep
// in the braces the list stands. initList returns the index after the last element.
func (p *parser) initList(v *Variable, dims []uint64, dim int, at uint32) (uint32, error) {
	if err := p.enterNesting(); err != nil {
		return 0, err
	}
	defer func() { p.depth-- }()
	if !p.isPunct("{") {
		iv, err := p.initValue(v)
		if err != nil {
			return 0, err
		}
		iv.Index = at
		if iv.Num != 0 || iv.Symbol != "" {
			v.Init = append(v.Init, iv)
		}
		return at + 1, nil
	}
	p.nextToken()
	stride := v.Vec
	for i := dim + 1; i < len(dims); i++ {
		stride *= uint32(dims[i])
	}
	if dim >= len(dims) {
		stride = 1
	}
	for !p.isPunct("}") {
		start, braced := at, p.isPunct("{")
		end, err := p.initList(v, dims, dim+1, at)
		if err != nil {
			return 0, err
		}
		at = end
		// A row that is too short is filled with zeros.
		if braced {
			at = max(end, start+stride)
		}
		if uint64(at) > maxVariable>>3 {
			return 0, p.syntaxError(v.Line, "%s is too large", v.Name)
		}
		if !p.acceptPunct(",") {
			break
		}
	}
	return at, p.expectPunct("}")
}

func (p *parser) initValue(v *Variable) (InitValue, error) {
	iv := InitValue{Line: p.tok.line}
	if v.Type.IsFloat() {
		n, err := p.floatConstant(v.Type)
		iv.Num = n
		return iv, err
	}
	if p.tok.kind == tokInt && p.peekToken().kind == tokPunct && p.peekToken().text == "(" {
		// 0xFF00(symbol): bytes of an address
		iv.Mask = p.nextToken().num
		p.nextToken()
		if err := p.initSymbol(&iv); err != nil {
			return iv, err
		}
		return iv, p.expectPunct(")")
	}
	if p.tok.kind == tokWord {
		return iv, p.initSymbol(&iv)
	}
	n, err := p.readConstant()
	iv.Num = n & types.SizeMask(v.Type.Size())
	return iv, err
}

// initSymbol reads name, name+4, generic(name) or generic(name)+4.
func (p *parser) initSymbol(iv *InitValue) error {
	name, err := p.expectIdent("a name")
	if err != nil {
		return err
	}
	if name == "generic" && p.acceptPunct("(") {
		iv.Generic = true
		if name, err = p.expectIdent("a name"); err != nil {
			return err
		}
		if err := p.expectPunct(")"); err != nil {
			return err
		}
	}
	iv.Symbol = name
	for p.isPunct("+") || p.isPunct("-") {
		minus := p.nextToken().text == "-"
		n, err := p.readUnary()
		if err != nil {
			return err
		}
		if minus {
			n = -n
		}
		iv.Num += n
	}
	return nil
}

// floatConstant reads a number and returns the bits of type t.
func (p *parser) floatConstant(t types.Type) (uint64, error) {
	neg := false
	for p.isPunct("-") || p.isPunct("+") {
		neg = neg != (p.nextToken().text == "-")
	}
	var f float64
	switch {
	case p.tok.kind == tokFloat && p.tok.f32:
		if t == types.F32 {
			n := p.nextToken().num
			if neg {
				n ^= 1 << 31
			}
			return n, nil
		}
		f = float64(math.Float32frombits(uint32(p.tok.num)))
	case p.tok.kind == tokFloat:
		f = math.Float64frombits(p.tok.num)
	case p.tok.kind == tokInt && t.Size() < 4:
		// The bits of an f16 are written as an integer.
		return p.nextToken().num, nil
	case p.tok.kind == tokInt:
		f = float64(p.tok.num)
	default:
		return 0, p.errUnexpected("a number")
	}
	p.nextToken()
	if neg {
		f = -f
	}
	return float.Bits(t, f), nil
}
