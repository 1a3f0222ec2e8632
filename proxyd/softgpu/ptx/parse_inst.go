// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// instruction reads an instruction with its guard, up to and with the semicolon.
func (p *parser) instruction(s *scope) (*instruction, error) {
	if p.made++; p.made > maxBody {
		return nil, p.errorf(p.tok.line, "more than %d instructions", maxBody)
	}
	in := &instruction{line: p.tok.line, scope: s}
	var err error
	if p.accept("@") {
		in.not = p.accept("!")
		if in.guard, err = p.ident("a predicate"); err != nil {
			return nil, err
		}
	}
	in.line = p.tok.line
	if in.op, err = p.ident("an instruction"); err != nil {
		return nil, err
	}
	for p.tok.kind == tokDot {
		in.mods = append(in.mods, p.next().text)
	}
	for !p.is(";") {
		arg, err := p.argument()
		if err != nil {
			return nil, err
		}
		in.args = append(in.args, arg)
		if !p.accept(",") {
			break
		}
	}
	return in, p.expect(";")
}

// argument reads an operand.
func (p *parser) argument() (operand, error) {
	if err := p.deeper(); err != nil {
		return operand{}, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.is("["):
		return p.address()
	case p.is("{"):
		line := p.tok.line
		list, err := p.list("}")
		switch {
		case err != nil:
			return operand{}, err
		case len(list) == 0:
			return operand{}, p.errorf(line, "a vector without elements")
		case len(list) == 1:
			return list[0], nil // {%fd20} is %fd20
		}
		return operand{kind: argVector, list: list}, nil
	case p.is("("):
		// A list of a call, or a constant expression.
		if t := p.peek(); t.kind != tokInt && (t.kind != tokPunct || t.text == ")" || t.text == "{") {
			list, err := p.list(")")
			return operand{kind: argList, list: list}, err
		}
		return p.parenthesis()
	case p.accept("!"):
		o, err := p.named()
		o.not = true
		return o, err
	case p.is("-") && p.peek().kind == tokWord:
		p.next()
		o, err := p.named()
		o.neg = true
		return o, err
	case p.tok.kind == tokWord && p.tok.text != "WARP_SZ":
		o, err := p.named()
		if err != nil || !p.is("|") {
			return o, err
		}
		p.next()
		second, err := p.named()
		o.pair = &second
		return o, err
	}
	return p.number()
}

// parenthesis reads a call's list of numbers, or a constant expression in parentheses.
func (p *parser) parenthesis() (operand, error) {
	p.next()
	first, err := p.number()
	if err != nil {
		return operand{}, err
	}
	if p.is(",") {
		p.next()
		list, err := p.rest([]operand{first}, ")")
		return operand{kind: argList, list: list}, err
	}
	if err := p.expect(")"); err != nil {
		return operand{}, err
	}
	if p.tok.kind == tokPunct && binaryOps[p.tok.text] > 0 && first.kind == argInt {
		// (1+2)*3: the first factor is known already
		p.ahead = append([]token{p.tok}, p.ahead...)
		p.tok = token{kind: tokInt, num: first.num, line: p.tok.line}
		n, err := p.constant()
		return operand{kind: argInt, num: n}, err
	}
	return operand{kind: argList, list: []operand{first}}, nil
}

// named reads a register, label or symbol, with its component.
func (p *parser) named() (operand, error) {
	name, err := p.ident("an operand")
	if err != nil {
		return operand{}, err
	}
	if name == "_" {
		return operand{kind: argSink}, nil
	}
	o := operand{kind: argName, name: name}
	if p.tok.kind == tokDot {
		o.sel = p.next().text
	} else if p.is("+") || p.is("-") {
		// mov.u64 %rd1, symbol+8
		minus := p.next().text == "-"
		n, err := p.unary()
		if err != nil {
			return o, err
		}
		if minus {
			n = -n
		}
		o.num = n
	}
	return o, nil
}

func (p *parser) number() (operand, error) {
	t := p.tok
	neg := t.kind == tokPunct && t.text == "-" && p.peek().kind == tokFloat
	if neg {
		p.next()
	}
	if p.tok.kind == tokFloat {
		t := p.next()
		o := operand{kind: argFloat, num: t.num, f32: t.f32}
		if neg && t.f32 {
			o.num ^= 1 << 31
		} else if neg {
			o.num ^= 1 << 63
		}
		return o, nil
	}
	n, err := p.constant()
	return operand{kind: argInt, num: n}, err
}

func (p *parser) list(end string) ([]operand, error) {
	p.next()
	return p.rest(nil, end)
}

func (p *parser) rest(list []operand, end string) ([]operand, error) {
	for !p.is(end) {
		o, err := p.argument()
		if err != nil {
			return nil, err
		}
		list = append(list, o)
		if !p.accept(",") {
			break
		}
	}
	return list, p.expect(end)
}

// address reads [base], [base+offset], [1234] and what textures have: [a, {b, c}].
func (p *parser) address() (operand, error) {
	p.next()
	o := operand{kind: argAddr}
	if p.tok.kind == tokWord {
		o.name = p.next().text
		if p.tok.kind == tokDot {
			o.sel = p.next().text
		}
		for p.is("+") || p.is("-") {
			minus := p.next().text == "-"
			n, err := p.unary()
			if err != nil {
				return o, err
			}
			if minus {
				n = -n
			}
			o.num += n
		}
	} else {
		n, err := p.constant()
		if err != nil {
			return o, err
		}
		o.num = n
	}
	for p.accept(",") {
		more, err := p.argument()
		if err != nil {
			return o, err
		}
		o.list = append(o.list, more)
	}
	return o, p.expect("]")
}
