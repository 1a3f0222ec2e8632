// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

// readInstruction reads an instruction with its guard, up to and with the semicolon.
func (p *parser) readInstruction(s *Scope) (*Instruction, error) {
	if p.made++; p.made > maxBody {
		return nil, p.syntaxError(p.tok.line, "more than %d instructions", maxBody)
	}
	in := &Instruction{Line: p.tok.line, Scope: s}
	var err error
	if p.acceptPunct("@") {
		in.Not = p.acceptPunct("!")
		if in.Guard, err = p.expectIdent("a predicate"); err != nil {
			return nil, err
		}
	}
	in.Line = p.tok.line
	if in.Op, err = p.expectIdent("an instruction"); err != nil {
		return nil, err
	}
	for p.tok.kind == tokDot {
		in.Mods = append(in.Mods, p.nextToken().text)
	}
	for !p.isPunct(";") {
		arg, err := p.readArgument()
		if err != nil {
			return nil, err
		}
		in.Args = append(in.Args, arg)
		if !p.acceptPunct(",") {
			break
		}
	}
	return in, p.expectPunct(";")
}

// readArgument reads an operand.
func (p *parser) readArgument() (Operand, error) {
	if err := p.enterNesting(); err != nil {
		return Operand{}, err
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
			return Operand{}, err
		case len(list) == 0:
			return Operand{}, p.syntaxError(line, "a vector without elements")
		case len(list) == 1:
			return list[0], nil // {%fd20} is %fd20
		}
		return Operand{Kind: ArgVector, List: list}, nil
	case p.isPunct("("):
		// A list of a call, or a constant expression.
		if t := p.peekToken(); t.kind != tokInt && (t.kind != tokPunct || t.text == ")" || t.text == "{") {
			list, err := p.readList(")")
			return Operand{Kind: ArgList, List: list}, err
		}
		return p.readParenthesis()
	case p.acceptPunct("!"):
		o, err := p.readNamed()
		o.Not = true
		return o, err
	case p.isPunct("-") && p.peekToken().kind == tokWord:
		p.nextToken()
		o, err := p.readNamed()
		o.Neg = true
		return o, err
	case p.tok.kind == tokWord && p.tok.text != "WARP_SZ":
		o, err := p.readNamed()
		if err != nil || !p.isPunct("|") {
			return o, err
		}
		p.nextToken()
		second, err := p.readNamed()
		o.Pair = &second
		return o, err
	}
	return p.readNumber()
}

// readParenthesis reads a call's list of numbers, or a constant expression in parentheses.
func (p *parser) readParenthesis() (Operand, error) {
	p.nextToken()
	first, err := p.readNumber()
	if err != nil {
		return Operand{}, err
	}
	if p.isPunct(",") {
		p.nextToken()
		list, err := p.readRest([]Operand{first}, ")")
		return Operand{Kind: ArgList, List: list}, err
	}
	if err := p.expectPunct(")"); err != nil {
		return Operand{}, err
	}
	if p.tok.kind == tokPunct && binaryOps[p.tok.text] > 0 && first.Kind == ArgInt {
		// (1+2)*3: the first factor is known already
		p.ahead = append([]token{p.tok}, p.ahead...)
		p.tok = token{kind: tokInt, num: first.Num, line: p.tok.line}
		n, err := p.readConstant()
		return Operand{Kind: ArgInt, Num: n}, err
	}
	return Operand{Kind: ArgList, List: []Operand{first}}, nil
}

// readNamed reads a register, label or symbol, with its component.
func (p *parser) readNamed() (Operand, error) {
	name, err := p.expectIdent("an operand")
	if err != nil {
		return Operand{}, err
	}
	if name == "_" {
		return Operand{Kind: ArgSink}, nil
	}
	o := Operand{Kind: ArgName, Name: name}
	if p.tok.kind == tokDot {
		o.Sel = p.nextToken().text
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
		o.Num = n
	}
	return o, nil
}

func (p *parser) readNumber() (Operand, error) {
	t := p.tok
	neg := t.kind == tokPunct && t.text == "-" && p.peekToken().kind == tokFloat
	if neg {
		p.nextToken()
	}
	if p.tok.kind == tokFloat {
		t := p.nextToken()
		o := Operand{Kind: ArgFloat, Num: t.num, F32: t.f32}
		if neg && t.f32 {
			o.Num ^= 1 << 31
		} else if neg {
			o.Num ^= 1 << 63
		}
		return o, nil
	}
	n, err := p.readConstant()
	return Operand{Kind: ArgInt, Num: n}, err
}

func (p *parser) readList(end string) ([]Operand, error) {
	p.nextToken()
	return p.readRest(nil, end)
}

func (p *parser) readRest(list []Operand, end string) ([]Operand, error) {
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

// readAddress reads [base], [base+offset], [1234] and the addresses of textures: [a, {b, c}].
func (p *parser) readAddress() (Operand, error) {
	p.nextToken()
	o := Operand{Kind: ArgAddr}
	if p.tok.kind == tokWord {
		o.Name = p.nextToken().text
		if p.tok.kind == tokDot {
			o.Sel = p.nextToken().text
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
			o.Num += n
		}
	} else {
		n, err := p.readConstant()
		if err != nil {
			return o, err
		}
		o.Num = n
	}
	for p.acceptPunct(",") {
		more, err := p.readArgument()
		if err != nil {
			return o, err
		}
		o.List = append(o.List, more)
	}
	return o, p.expectPunct("]")
}
