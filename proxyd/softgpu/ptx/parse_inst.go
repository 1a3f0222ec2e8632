// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

// readInstruction reads an instruction with its guard, up to and with the semicolon.
func (p *parser) readInstruction(s *scope) (*instruction, error) {
	if p.made++; p.made > maxBody {
		return nil, p.syntaxError(p.tok.line, "more than %d instructions", maxBody)
	}
	in := &instruction{line: p.tok.line, scope: s}
	var err error
	if p.acceptPunct("@") {
		in.not = p.acceptPunct("!")
		if in.guard, err = p.expectIdent("a predicate"); err != nil {
			return nil, err
		}
	}
	in.line = p.tok.line
	if in.op, err = p.expectIdent("an instruction"); err != nil {
		return nil, err
	}
	for p.tok.kind == tokDot {
		in.mods = append(in.mods, p.nextToken().text)
	}
	for !p.isPunct(";") {
		arg, err := p.readArgument()
		if err != nil {
			return nil, err
		}
		in.args = append(in.args, arg)
		if !p.acceptPunct(",") {
			break
		}
	}
	return in, p.expectPunct(";")
}

// readArgument reads an operand.
func (p *parser) readArgument() (operand, error) {
	if err := p.enterNesting(); err != nil {
		return operand{}, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.isPunct("["):
		return p.readAddress()
	case p.isPunct("{"):
		line := p.tok.line
		list, err := p.readList("}")
		switch {
		case err != nil:
			return operand{}, err
		case len(list) == 0:
			return operand{}, p.syntaxError(line, "a vector without elements")
		case len(list) == 1:
			return list[0], nil // {%fd20} is %fd20
		}
		return operand{kind: argVector, list: list}, nil
	case p.isPunct("("):
		// A list of a call, or a constant expression.
		if t := p.peekToken(); t.kind != tokInt && (t.kind != tokPunct || t.text == ")" || t.text == "{") {
			list, err := p.readList(")")
			return operand{kind: argList, list: list}, err
		}
		return p.readParenthesis()
	case p.acceptPunct("!"):
		o, err := p.readNamed()
		o.not = true
		return o, err
	case p.isPunct("-") && p.peekToken().kind == tokWord:
		p.nextToken()
		o, err := p.readNamed()
		o.neg = true
		return o, err
	case p.tok.kind == tokWord && p.tok.text != "WARP_SZ":
		o, err := p.readNamed()
		if err != nil || !p.isPunct("|") {
			return o, err
		}
		p.nextToken()
		second, err := p.readNamed()
		o.pair = &second
		return o, err
	}
	return p.readNumber()
}

// readParenthesis reads a call's list of numbers, or a constant expression in parentheses.
func (p *parser) readParenthesis() (operand, error) {
	p.nextToken()
	first, err := p.readNumber()
	if err != nil {
		return operand{}, err
	}
	if p.isPunct(",") {
		p.nextToken()
		list, err := p.readRest([]operand{first}, ")")
		return operand{kind: argList, list: list}, err
	}
	if err := p.expectPunct(")"); err != nil {
		return operand{}, err
	}
	if p.tok.kind == tokPunct && binaryOps[p.tok.text] > 0 && first.kind == argInt {
		// (1+2)*3: the first factor is known already
		p.ahead = append([]token{p.tok}, p.ahead...)
		p.tok = token{kind: tokInt, num: first.num, line: p.tok.line}
		n, err := p.readConstant()
		return operand{kind: argInt, num: n}, err
	}
	return operand{kind: argList, list: []operand{first}}, nil
}

// readNamed reads a register, label or symbol, with its component.
func (p *parser) readNamed() (operand, error) {
	name, err := p.expectIdent("an operand")
	if err != nil {
		return operand{}, err
	}
	if name == "_" {
		return operand{kind: argSink}, nil
	}
	o := operand{kind: argName, name: name}
	if p.tok.kind == tokDot {
		o.sel = p.nextToken().text
	} else if p.isPunct("+") || p.isPunct("-") {
		// mov.u64 %rd1, symbol+8
		minus := p.nextToken().text == "-"
		n, err := p.readUnary()
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

func (p *parser) readNumber() (operand, error) {
	t := p.tok
	neg := t.kind == tokPunct && t.text == "-" && p.peekToken().kind == tokFloat
	if neg {
		p.nextToken()
	}
	if p.tok.kind == tokFloat {
		t := p.nextToken()
		o := operand{kind: argFloat, num: t.num, f32: t.f32}
		if neg && t.f32 {
			o.num ^= 1 << 31
		} else if neg {
			o.num ^= 1 << 63
		}
		return o, nil
	}
	n, err := p.readConstant()
	return operand{kind: argInt, num: n}, err
}

func (p *parser) readList(end string) ([]operand, error) {
	p.nextToken()
	return p.readRest(nil, end)
}

func (p *parser) readRest(list []operand, end string) ([]operand, error) {
	for !p.isPunct(end) {
		o, err := p.readArgument()
		if err != nil {
			return nil, err
		}
		list = append(list, o)
		if !p.acceptPunct(",") {
			break
		}
	}
	return list, p.expectPunct(end)
}

// readAddress reads [base], [base+offset], [1234] and what textures have: [a, {b, c}].
func (p *parser) readAddress() (operand, error) {
	p.nextToken()
	o := operand{kind: argAddr}
	if p.tok.kind == tokWord {
		o.name = p.nextToken().text
		if p.tok.kind == tokDot {
			o.sel = p.nextToken().text
		}
		for p.isPunct("+") || p.isPunct("-") {
			minus := p.nextToken().text == "-"
			n, err := p.readUnary()
			if err != nil {
				return o, err
			}
			if minus {
				n = -n
			}
			o.num += n
		}
	} else {
		n, err := p.readConstant()
		if err != nil {
			return o, err
		}
		o.num = n
	}
	for p.acceptPunct(",") {
		more, err := p.readArgument()
		if err != nil {
			return o, err
		}
		o.list = append(o.list, more)
	}
	return o, p.expectPunct("]")
}
