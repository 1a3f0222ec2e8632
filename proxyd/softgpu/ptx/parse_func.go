// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// function reads .entry or .func, from that word on.
func (p *parser) function(link linkage) error {
	f := &function{line: p.tok.line, link: link, entry: p.next().text == "entry", mod: p.mod, scope: newScope(nil)}
	var err error
	if p.dot("attribute") {
		if err := p.skipParens(); err != nil {
			return err
		}
	}
	if p.is("(") {
		if f.proto.ret, err = p.params(f.scope); err != nil {
			return err
		}
	}
	if f.name, err = p.ident("a function's name"); err != nil {
		return err
	}
	if p.is("(") {
		if f.proto.params, err = p.params(f.scope); err != nil {
			return err
		}
	}
	if err := p.tuning(f); err != nil {
		return err
	}
	if p.is("{") {
		if err := p.body(f); err != nil {
			return err
		}
	} else {
		// Old texts declare functions without a semicolon.
		if !p.accept(";") && (f.entry || p.tok.kind != tokDot && p.tok.kind != tokEOF) {
			return p.unexpected("\";\"")
		}
		f.decl = true
	}
	return p.define(f)
}

// skipParens passes a directive's word and its parentheses.
func (p *parser) skipParens() error {
	p.next()
	if err := p.expect("("); err != nil {
		return err
	}
	for !p.accept(")") {
		if p.tok.kind == tokEOF {
			return p.unexpected("\")\"")
		}
		p.next()
	}
	return nil
}

// define enters a function; a declaration may come before or after its definition.
func (p *parser) define(f *function) error {
	if p.mod.globals[f.name] != nil {
		return p.errorf(f.line, "%s is a variable already", f.name)
	}
	old := p.mod.funcs[f.name]
	switch {
	case old == nil:
		p.mod.funcs[f.name] = f
		p.mod.order = append(p.mod.order, f)
	case !f.decl && !old.decl:
		return p.errorf(f.line, "%s is defined twice, first on line %d", f.name, old.line)
	case !f.decl:
		if f.link == linkInternal {
			f.link = old.link
		}
		*old = *f
	}
	return nil
}

// tuning reads .maxntid and its like.
func (p *parser) tuning(f *function) error {
	for p.tok.kind == tokDot && !p.declares() {
		t := p.next()
		switch t.text {
		case "noreturn":
			f.proto.noreturn = true
		case "maxntid", "reqntid":
			d := [3]uint64{1, 1, 1}
			for i := range d {
				n, err := p.constant()
				if err != nil {
					return err
				}
				if n > 1<<31 {
					return p.errorf(t.line, ".%s is too large", t.text)
				}
				d[i] = n
				if !p.accept(",") {
					break
				}
			}
			dim := Dim3{uint32(d[0]), uint32(d[1]), uint32(d[2])}
			if t.text == "maxntid" {
				f.maxntid = dim
			} else {
				f.reqntid = dim
			}
		case "minnctapersm", "maxnreg", "maxnctapersm":
			n, err := p.constant()
			if err != nil {
				return err
			}
			switch t.text {
			case "minnctapersm":
				f.minnctapersm = uint32(n)
			case "maxnreg":
				f.maxnreg = uint32(n)
			}
		case "reqnctapercluster", "maxclusterrank", "explicitcluster", "blocksareclusters":
			f.nctapercluster = f.nctapercluster || t.text != "maxclusterrank"
			for p.tok.kind == tokInt || p.is(",") {
				p.next()
			}
		case "abi_preserve", "abi_preserve_control":
			if _, err := p.constant(); err != nil {
				return err
			}
		case "pragma":
			if p.tok.kind != tokString {
				return p.unexpected("a string")
			}
			p.next()
			p.accept(";")
		default:
			return p.errorf(t.line, "unknown directive .%s", t.text)
		}
	}
	return nil
}

// declares reports whether a directive begins that stands at module level.
func (p *parser) declares() bool {
	switch p.tok.text {
	case "visible", "extern", "weak", "common", "entry", "func", "file", "loc", "section", "alias":
		return true
	}
	_, ok := spaceNames[p.tok.text]
	return ok
}

// params reads a list of formal parameters and enters them into the scope.
func (p *parser) params(s *scope) ([]param, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var out []param
	for !p.is(")") {
		if p.tok.kind != tokDot {
			return nil, p.unexpected("a parameter")
		}
		space := spaceNames[p.tok.text]
		if space != ParamSpace && space != RegSpace {
			return nil, p.unexpected(".param or .reg")
		}
		p.next()
		h, err := p.head()
		if err != nil {
			return nil, err
		}
		v, err := p.declarator(space, h)
		if err != nil {
			return nil, err
		}
		one := param{v: v}
		if v.name == "_" {
			v.name = ""
		}
		if space == RegSpace {
			one = param{reg: &register{name: v.name, typ: v.typ, vec: v.vec, id: -1}}
		}
		if v.name != "" {
			if s.vars[v.name] != nil || s.regs[v.name] != nil {
				return nil, p.errorf(v.line, "parameter %s is declared twice", v.name)
			}
			if one.reg != nil {
				s.regs[v.name] = one.reg
			} else {
				s.vars[v.name] = v
			}
		}
		out = append(out, one)
		if !p.accept(",") {
			break
		}
	}
	return out, p.expect(")")
}

// block reads statements up to and with the closing brace.
func (p *parser) block(f *function, s *scope) error {
	if err := p.deeper(); err != nil {
		return err
	}
	defer func() { p.depth-- }()
	for !p.accept("}") {
		if err := p.statement(f, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) statement(f *function, s *scope) error {
	switch {
	case p.tok.kind == tokEOF:
		return p.errorf(p.tok.line, "function %s does not end", f.name)
	case p.accept(";"):
		return nil
	case p.accept("{"):
		return p.block(f, newScope(s))
	case p.is("@@"):
		p.skipTextLine()
		return nil
	case p.tok.kind == tokDot:
		return p.directive(s)
	case p.tok.kind == tokWord && p.peek().kind == tokPunct && p.peek().text == ":":
		t := p.next()
		p.next()
		if _, ok := s.labels[t.text]; ok {
			return p.errorf(t.line, "label %s is defined twice", t.text)
		}
		s.labels[t.text] = len(f.body)
		return p.labelled(s, t.text)
	}
	in, err := p.instruction(s)
	if err != nil {
		return err
	}
	f.body = append(f.body, in)
	return nil
}

// labelled reads the directives that a label may name.
func (p *parser) labelled(s *scope, label string) error {
	switch {
	case p.dot("branchtargets"), p.dot("calltargets"):
		p.next()
		var names []string
		for {
			name, err := p.ident("a label")
			if err != nil {
				return err
			}
			names = append(names, name)
			if !p.accept(",") {
				break
			}
		}
		s.targets[label] = names
		return p.expect(";")
	case p.dot("callprototype"):
		p.next()
		proto := &prototype{}
		inner := newScope(nil)
		var err error
		if p.is("(") {
			if proto.ret, err = p.params(inner); err != nil {
				return err
			}
		}
		if _, err := p.ident("\"_\""); err != nil {
			return err
		}
		if p.is("(") {
			if proto.params, err = p.params(newScope(nil)); err != nil {
				return err
			}
		}
		f := &function{}
		if err := p.tuning(f); err != nil {
			return err
		}
		proto.noreturn = f.proto.noreturn
		s.protos[label] = proto
		return p.expect(";")
	}
	return nil
}

// directive reads a declaration or another directive within a function.
func (p *parser) directive(s *scope) error {
	switch p.tok.text {
	case "loc", "file":
		p.skipTextLine()
		return nil
	case "pragma":
		return p.pragma()
	case "section":
		return p.section()
	case "reg":
		return p.registers(s)
	}
	space, ok := spaceNames[p.tok.text]
	if p.dot("extern") {
		p.next()
		space, ok = spaceNames[p.tok.text]
	}
	if !ok || p.tok.kind != tokDot {
		return p.unexpected("a statement")
	}
	p.next()
	vars, err := p.variables(space)
	if err != nil {
		return err
	}
	for _, v := range vars {
		if s.vars[v.name] != nil {
			return p.errorf(v.line, "%s is declared twice", v.name)
		}
		s.vars[v.name] = v
		if space == GlobalSpace || space == ConstSpace {
			p.mod.vars = append(p.mod.vars, v)
		}
	}
	return nil
}

// registers reads .reg .b32 %r<10>, %x;
func (p *parser) registers(s *scope) error {
	p.next()
	h, err := p.head()
	if err != nil {
		return err
	}
	for {
		t := p.tok
		name, err := p.ident("a register")
		if err != nil {
			return err
		}
		if p.accept("<") {
			if p.tok.kind != tokInt || p.tok.num > maxRegisters {
				return p.unexpected("a count of registers")
			}
			s.ranges[name] = registerRange{count: p.next().num, typ: h.typ, vec: h.vec}
			if err := p.expect(">"); err != nil {
				return err
			}
		} else {
			if s.regs[name] != nil {
				return p.errorf(t.line, "register %s is declared twice", name)
			}
			s.regs[name] = &register{name: name, typ: h.typ, vec: h.vec, id: -1}
		}
		if !p.accept(",") {
			return p.expect(";")
		}
	}
}
