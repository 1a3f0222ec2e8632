// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import "strconv"

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

// binaryOps are the operators of constant expressions, by how tightly they bind.
var binaryOps = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

// readConstant reads an integer expression. Division and comparison are signed, as for
// literals without U.
func (p *parser) readConstant() (uint64, error) {
	n, err := p.readBinary(1)
	if err != nil || !p.isPunct("?") {
		return n, err
	}
	p.nextToken()
	a, err := p.readConstant()
	if err != nil {
		return 0, err
	}
	if err := p.expectPunct(":"); err != nil {
		return 0, err
	}
	b, err := p.readConstant()
	if n != 0 {
		return a, err
	}
	return b, err
}

func (p *parser) readBinary(least int) (uint64, error) {
	a, err := p.readUnary()
	if err != nil {
		return 0, err
	}
	for p.tok.kind == tokPunct && binaryOps[p.tok.text] >= least {
		op := p.nextToken()
		b, err := p.readBinary(binaryOps[op.text] + 1)
		if err != nil {
			return 0, err
		}
		if b == 0 && (op.text == "/" || op.text == "%") {
			return 0, p.syntaxError(op.line, "division by zero")
		}
		a = foldConstants(op.text, a, b)
	}
	return a, nil
}

func foldConstants(op string, a, b uint64) uint64 {
	truth := func(v bool) uint64 {
		if v {
			return 1
		}
		return 0
	}
	switch op {
	case "||":
		return truth(a != 0 || b != 0)
	case "&&":
		return truth(a != 0 && b != 0)
	case "|":
		return a | b
	case "^":
		return a ^ b
	case "&":
		return a & b
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(int64(a) < int64(b))
	case ">":
		return truth(int64(a) > int64(b))
	case "<=":
		return truth(int64(a) <= int64(b))
	case ">=":
		return truth(int64(a) >= int64(b))
	case "<<":
		return a << b
	case ">>":
		return uint64(int64(a) >> b)
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return uint64(int64(a) / int64(b))
	default:
		return uint64(int64(a) % int64(b))
	}
}

func (p *parser) readUnary() (uint64, error) {
	if err := p.enterNesting(); err != nil {
		return 0, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.tok.kind == tokInt:
		return p.nextToken().num, nil
	case p.acceptPunct("-"):
		n, err := p.readUnary()
		return -n, err
	case p.acceptPunct("+"):
		return p.readUnary()
	case p.acceptPunct("~"):
		n, err := p.readUnary()
		return ^n, err
	case p.acceptPunct("!"):
		n, err := p.readUnary()
		if n == 0 {
			return 1, err
		}
		return 0, err
	case p.acceptPunct("("):
		if p.isDirective("s64") || p.isDirective("u64") {
			p.nextToken()
			if err := p.expectPunct(")"); err != nil {
				return 0, err
			}
			return p.readUnary()
		}
		n, err := p.readConstant()
		if err != nil {
			return 0, err
		}
		return n, p.expectPunct(")")
	case p.tok.kind == tokWord && p.tok.text == "WARP_SZ":
		p.nextToken()
		return 32, nil
	}
	return 0, p.errUnexpected("a number")
}
