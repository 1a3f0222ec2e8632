// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "strconv"

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

// binaryOps are the operators of constant expressions, by how tightly they bind.
var binaryOps = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

// constant reads an integer expression. Division and comparison are signed, as for
// literals without U.
func (p *parser) constant() (uint64, error) {
	n, err := p.binary(1)
	if err != nil || !p.is("?") {
		return n, err
	}
	p.next()
	a, err := p.constant()
	if err != nil {
		return 0, err
	}
	if err := p.expect(":"); err != nil {
		return 0, err
	}
	b, err := p.constant()
	if n != 0 {
		return a, err
	}
	return b, err
}

func (p *parser) binary(least int) (uint64, error) {
	a, err := p.unary()
	if err != nil {
		return 0, err
	}
	for p.tok.kind == tokPunct && binaryOps[p.tok.text] >= least {
		op := p.next()
		b, err := p.binary(binaryOps[op.text] + 1)
		if err != nil {
			return 0, err
		}
		if b == 0 && (op.text == "/" || op.text == "%") {
			return 0, p.errorf(op.line, "division by zero")
		}
		a = fold(op.text, a, b)
	}
	return a, nil
}

func fold(op string, a, b uint64) uint64 {
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

func (p *parser) unary() (uint64, error) {
	if err := p.deeper(); err != nil {
		return 0, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.tok.kind == tokInt:
		return p.next().num, nil
	case p.accept("-"):
		n, err := p.unary()
		return -n, err
	case p.accept("+"):
		return p.unary()
	case p.accept("~"):
		n, err := p.unary()
		return ^n, err
	case p.accept("!"):
		n, err := p.unary()
		if n == 0 {
			return 1, err
		}
		return 0, err
	case p.accept("("):
		if p.dot("s64") || p.dot("u64") {
			p.next()
			if err := p.expect(")"); err != nil {
				return 0, err
			}
			return p.unary()
		}
		n, err := p.constant()
		if err != nil {
			return 0, err
		}
		return n, p.expect(")")
	case p.tok.kind == tokWord && p.tok.text == "WARP_SZ":
		p.next()
		return 32, nil
	}
	return 0, p.unexpected("a number")
}
