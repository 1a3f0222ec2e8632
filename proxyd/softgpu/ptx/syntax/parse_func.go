// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import "github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"

// readFunction reads .entry or .func, from that word on.
func (p *parser) readFunction(link Linkage) error {
	f := &Function{Line: p.tok.line, Link: link, Entry: p.nextToken().text == "entry", Module: p.mod, Scope: newScope(nil)}
	var err error
	if p.isDirective("attribute") {
		if err := p.skipParens(); err != nil {
			return err
		}
	}
	if p.isPunct("(") {
		if f.Prototype.Results, err = p.readParams(f.Scope); err != nil {
			return err
		}
	}
	if f.Name, err = p.expectIdent("a function's name"); err != nil {
		return err
	}
	if p.isPunct("(") {
		if f.Prototype.Params, err = p.readParams(f.Scope); err != nil {
			return err
		}
	}
	if err := p.readTuning(f); err != nil {
		return err
	}
	if p.isPunct("{") {
		if err := p.readBody(f); err != nil {
			return err
		}
	} else {
		// Old texts declare functions without a semicolon.
		if !p.acceptPunct(";") && (f.Entry || p.tok.kind != tokDot && p.tok.kind != tokEOF) {
			return p.errUnexpected("\";\"")
		}
		f.Declared = true
	}
	return p.defineFunction(f)
}

// skipParens passes a directive's word and its parentheses.
func (p *parser) skipParens() error {
	p.nextToken()
	if err := p.expectPunct("("); err != nil {
		return err
	}
	for !p.acceptPunct(")") {
		if p.tok.kind == tokEOF {
			return p.errUnexpected("\")\"")
		}
		p.nextToken()
	}
	return nil
}

// defineFunction enters a function; a declaration may come before or after its definition.
func (p *parser) defineFunction(f *Function) error {
	if p.mod.Globals[f.Name] != nil {
		return p.syntaxError(f.Line, "%s is a variable already", f.Name)
	}
	old := p.mod.Functions[f.Name]
	switch {
	case old == nil:
		p.mod.Functions[f.Name] = f
		p.mod.Order = append(p.mod.Order, f)
	case !f.Declared && !old.Declared:
		return p.syntaxError(f.Line, "%s is defined twice, first on line %d", f.Name, old.Line)
	case !f.Declared:
		if f.Link == Internal {
			f.Link = old.Link
		}
		*old = *f
	}
	return nil
}

// readTuning reads .maxntid and its like.
func (p *parser) readTuning(f *Function) error {
	for p.tok.kind == tokDot && !p.startsDeclaration() {
		t := p.nextToken()
		switch t.text {
		case "noreturn":
			f.Prototype.NoReturn = true
		case "maxntid", "reqntid", "reqnctapercluster":
			dim, err := p.readExtent(t)
			if err != nil {
				return err
			}
			switch t.text {
			case "maxntid":
				f.MaxThreads = dim
			case "reqntid":
				f.ReqThreads = dim
			default:
				f.Clusters = dim != [3]uint32{1, 1, 1}
			}
		case "minnctapersm", "maxnreg", "maxnctapersm":
			n, err := p.readConstant()
			if err != nil {
				return err
			}
			switch t.text {
			case "minnctapersm":
				f.MinBlocks = uint32(n)
			case "maxnreg":
				f.MaxRegisters = uint32(n)
			}
		case "explicitcluster", "blocksareclusters": // as all launches are, in clusters of one block
		case "maxclusterrank":
			if _, err := p.readConstant(); err != nil {
				return err
			}
		case "abi_preserve", "abi_preserve_control":
			if _, err := p.readConstant(); err != nil {
				return err
			}
		case "pragma":
			if p.tok.kind != tokString {
				return p.errUnexpected("a string")
			}
			p.nextToken()
			p.acceptPunct(";")
		default:
			return p.syntaxError(t.line, "unknown directive .%s", t.text)
		}
	}
	return nil
}

// readExtent reads the one to three numbers of a directive.
func (p *parser) readExtent(t token) ([3]uint32, error) {
	d := [3]uint32{1, 1, 1}
	for i := range d {
		n, err := p.readConstant()
		if err != nil {
			return d, err
		}
		if n > 1<<31 {
			return d, p.syntaxError(t.line, ".%s is too large", t.text)
		}
		if d[i] = uint32(n); !p.acceptPunct(",") {
			break
		}
	}
	return d, nil
}

// startsDeclaration reports whether a directive begins that stands at module level.
func (p *parser) startsDeclaration() bool {
	switch p.tok.text {
	case "visible", "extern", "weak", "common", "entry", "func", "file", "loc", "section", "alias":
		return true
	}
	_, ok := types.SpacesByName[p.tok.text]
	return ok
}

// readParams reads a list of formal parameters and enters them into the scope.
func (p *parser) readParams(s *Scope) ([]Param, error) {
	if err := p.expectPunct("("); err != nil {
		return nil, err
	}
	var out []Param
	for !p.isPunct(")") {
		if p.tok.kind != tokDot {
			return nil, p.errUnexpected("a parameter")
		}
		space := types.SpacesByName[p.tok.text]
		if space != types.ParamSpace && space != types.RegSpace {
			return nil, p.errUnexpected(".param or .reg")
		}
		p.nextToken()
		h, err := p.readHead()
		if err != nil {
			return nil, err
		}
		v, err := p.readDeclarator(space, h)
		if err != nil {
			return nil, err
		}
		one := Param{Variable: v}
		if v.Name == "_" {
			v.Name = ""
		}
		if space == types.RegSpace {
			one = Param{Register: &Register{Name: v.Name, Type: v.Type, Vec: v.Vec, ID: -1}}
		}
		if v.Name != "" {
			if s.Vars[v.Name] != nil || s.regs[v.Name] != nil {
				return nil, p.syntaxError(v.Line, "parameter %s is declared twice", v.Name)
			}
			if one.Register != nil {
				s.regs[v.Name] = one.Register
			} else {
				s.Vars[v.Name] = v
			}
		}
		out = append(out, one)
		if !p.acceptPunct(",") {
			break
		}
	}
	return out, p.expectPunct(")")
}

// readBlock reads statements up to and with the closing brace.
func (p *parser) readBlock(f *Function, s *Scope) error {
	if err := p.enterNesting(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	for !p.acceptPunct("}") {
		if err := p.readStatement(f, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) readStatement(f *Function, s *Scope) error {
	switch {
	case p.tok.kind == tokEOF:
		return p.syntaxError(p.tok.line, "function %s does not end", f.Name)
	case p.acceptPunct(";"):
		return nil
	case p.acceptPunct("{"):
		return p.readBlock(f, newScope(s))
	case p.isPunct("@@"):
		p.skipTextLine()
		return nil
	case p.tok.kind == tokDot:
		return p.readDirective(s)
	case p.tok.kind == tokWord && p.peekToken().kind == tokPunct && p.peekToken().text == ":":
		t := p.nextToken()
		p.nextToken()
		if _, ok := s.labels[t.text]; ok {
			return p.syntaxError(t.line, "label %s is defined twice", t.text)
		}
		s.labels[t.text] = len(f.Body)
		return p.readLabelled(s, t.text)
	}
	in, err := p.readInstruction(s)
	if err != nil {
		return err
	}
	f.Body = append(f.Body, in)
	return nil
}

// readLabelled reads the directives that a label may name.
func (p *parser) readLabelled(s *Scope, label string) error {
	switch {
	case p.isDirective("branchtargets"), p.isDirective("calltargets"):
		p.nextToken()
		var names []string
		for {
			name, err := p.expectIdent("a label")
			if err != nil {
				return err
			}
			names = append(names, name)
			if !p.acceptPunct(",") {
				break
			}
		}
		s.targets[label] = names
		return p.expectPunct(";")
	case p.isDirective("callprototype"):
		p.nextToken()
		proto := &Prototype{}
		inner := newScope(nil)
		var err error
		if p.isPunct("(") {
			if proto.Results, err = p.readParams(inner); err != nil {
				return err
			}
		}
		if _, err := p.expectIdent("\"_\""); err != nil {
			return err
		}
		if p.isPunct("(") {
			if proto.Params, err = p.readParams(newScope(nil)); err != nil {
				return err
			}
		}
		f := &Function{}
		if err := p.readTuning(f); err != nil {
			return err
		}
		proto.NoReturn = f.Prototype.NoReturn
		s.protos[label] = proto
		return p.expectPunct(";")
	}
	return nil
}

// readDirective reads a declaration or another directive within a function.
func (p *parser) readDirective(s *Scope) error {
	switch p.tok.text {
	case "loc", "file":
		p.skipTextLine()
		return nil
	case "pragma":
		return p.readPragma()
	case "section":
		return p.skipSection()
	case "reg":
		return p.readRegisters(s)
	}
	space, ok := types.SpacesByName[p.tok.text]
	if p.isDirective("extern") {
		p.nextToken()
		space, ok = types.SpacesByName[p.tok.text]
	}
	if !ok || p.tok.kind != tokDot {
		return p.errUnexpected("a statement")
	}
	p.nextToken()
	vars, err := p.readVariables(space)
	if err != nil {
		return err
	}
	for _, v := range vars {
		if s.Vars[v.Name] != nil {
			return p.syntaxError(v.Line, "%s is declared twice", v.Name)
		}
		s.Vars[v.Name] = v
		if space == types.GlobalSpace || space == types.ConstSpace {
			p.mod.Variables = append(p.mod.Variables, v)
		}
	}
	return nil
}

// readRegisters reads .reg .b32 %r<10>, %x;
func (p *parser) readRegisters(s *Scope) error {
	p.nextToken()
	h, err := p.readHead()
	if err != nil {
		return err
	}
	for {
		t := p.tok
		name, err := p.expectIdent("a register")
		if err != nil {
			return err
		}
		if p.acceptPunct("<") {
			if p.tok.kind != tokInt || p.tok.num > maxRegisters {
				return p.errUnexpected("a count of registers")
			}
			s.ranges[name] = registerRange{count: p.nextToken().num, typ: h.typ, vec: h.vec}
			if err := p.expectPunct(">"); err != nil {
				return err
			}
		} else {
			if s.regs[name] != nil {
				return p.syntaxError(t.line, "register %s is declared twice", name)
			}
			s.regs[name] = &Register{Name: name, Type: h.typ, Vec: h.vec, ID: -1}
		}
		if !p.acceptPunct(",") {
			return p.expectPunct(";")
		}
	}
}
