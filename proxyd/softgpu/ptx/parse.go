// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"strings"
)

// Limits on a text, so that a small text cannot make us take much memory.
const (
	maxRegisters = 1 << 20 // declared in a range
	maxVariable  = 1 << 32 // bytes of a variable
	maxNesting   = 200     // blocks, expressions and initialisers in each other
	maxBody      = 1 << 22 // instructions of a text
)

// Module is a parsed text. A Module does not change after Parse and may be linked many times, but
// not by concurrent Links.
type Module struct {
	Name        string
	Major       int // of .version
	Minor       int
	Target      string // "sm_80"
	AddressSize uint32 // in bytes

	funcs   map[string]*function
	order   []*function
	globals map[string]*variable
	vars    []*variable
	aliases map[string]string
	ranged  uint64 // variables by ranges of names, in all bodies that were parsed later
}

// parser reads tokens, with a lookahead of one token.
type parser struct {
	lex   lexer
	tok   token
	ahead []token
	mod   *Module
	depth int
	later bool // bodies are parsed when they are needed

	made   int    // instructions
	ranged uint64 // variables by ranges of names
}

// Parse reads a text and checks its syntax, scopes and signatures. name is used in
// errors. Opcodes are checked when a kernel that reaches them is asked for. The error is
// a *SyntaxError, or a *RefusedError for what may not be declared.
func Parse(name, text string) (*Module, error) { return parse(name, text, false) }

// ParseDeclarations is Parse without the bodies of functions: the syntax of a body is checked when a kernel that reaches
// the body is asked for, and Program.Kernel returns the error. ParseDeclarations is for long texts,
// when a program uses few of their kernels.
func ParseDeclarations(name, text string) (*Module, error) { return parse(name, text, true) }

func parse(name, text string, later bool) (*Module, error) {
	p := &parser{
		lex:   lexer{module: name, src: text, line: 1},
		later: later,
		mod: &Module{
			Name: name, AddressSize: 4,
			funcs: map[string]*function{}, globals: map[string]*variable{}, aliases: map[string]string{},
		},
	}
	p.next()
	if err := p.module(); err != nil {
		if p.lex.err != nil {
			return nil, p.lex.err
		}
		return nil, err
	}
	return p.mod, nil
}

func (p *parser) next() token {
	t := p.tok
	if len(p.ahead) > 0 {
		p.tok, p.ahead = p.ahead[0], p.ahead[1:]
	} else {
		p.tok = p.lex.next()
	}
	return t
}

// peek returns the token after p.tok.
func (p *parser) peek() token {
	if len(p.ahead) == 0 {
		p.ahead = append(p.ahead, p.lex.next())
	}
	return p.ahead[0]
}

func (p *parser) errorf(line int, format string, args ...any) error {
	return &SyntaxError{Module: p.mod.Name, Line: line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) unexpected(want string) error {
	return p.errorf(p.tok.line, "%s expected, found %s", want, p.tok)
}

func (p *parser) is(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }
func (p *parser) dot(name string) bool { return p.tok.kind == tokDot && p.tok.text == name }

func (p *parser) accept(punct string) bool {
	if p.is(punct) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(punct string) error {
	if !p.accept(punct) {
		return p.unexpected(fmt.Sprintf("%q", punct))
	}
	return nil
}

func (p *parser) ident(what string) (string, error) {
	if p.tok.kind != tokWord {
		return "", p.unexpected(what)
	}
	return p.next().text, nil
}

// deeper guards against texts that nest without end; the caller undoes the count.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxNesting {
		return p.errorf(p.tok.line, "nested too deeply")
	}
	return nil
}

func (p *parser) module() error {
	if err := p.header(); err != nil {
		return err
	}
	for p.tok.kind != tokEOF {
		if err := p.declaration(); err != nil {
			return err
		}
	}
	if p.lex.err != nil {
		return p.lex.err
	}
	for name, to := range p.mod.aliases {
		if f := p.mod.funcs[name]; f != nil && p.mod.funcs[to] != nil {
			f.alias = to
		}
	}
	return nil
}

// header reads .version, .target and .address_size.
func (p *parser) header() error {
	if !p.dot("version") {
		return p.unexpected(".version")
	}
	p.next()
	if p.tok.kind != tokFloat && p.tok.kind != tokInt {
		return p.unexpected("a version number")
	}
	line := p.tok.line
	if _, err := fmt.Sscanf(p.next().text+".0", "%d.%d", &p.mod.Major, &p.mod.Minor); err != nil {
		return p.errorf(line, "bad version number")
	}
	if p.mod.Major < 1 || p.mod.Major > 9 {
		return p.errorf(line, "unsupported .version %d.%d", p.mod.Major, p.mod.Minor)
	}
	if !p.dot("target") {
		return p.unexpected(".target")
	}
	for first := true; first || p.is(","); first = false {
		p.next()
		name, err := p.ident("a target")
		if err != nil {
			return err
		}
		if first {
			p.mod.Target = name
		}
	}
	if !strings.HasPrefix(p.mod.Target, "sm_") && !strings.HasPrefix(p.mod.Target, "compute_") {
		return p.errorf(line, "unknown target %q", p.mod.Target)
	}
	if p.dot("address_size") {
		p.next()
		switch {
		case p.tok.kind == tokInt && p.tok.num == 64:
			p.mod.AddressSize = 8
		case p.tok.kind == tokInt && p.tok.num == 32:
			p.mod.AddressSize = 4
		default:
			return p.unexpected("32 or 64")
		}
		p.next()
	} else if p.mod.Major < 2 || p.mod.Major == 2 && p.mod.Minor < 3 {
		// Before .address_size existed, the width of addresses was the program's affair;
		// that of ld and st operands decides.
		p.mod.AddressSize = 8
	}
	return nil
}

// declaration reads a directive at module level.
func (p *parser) declaration() error {
	if p.accept(";") {
		return nil
	}
	if p.is("@@") {
		p.skipTextLine()
		return nil
	}
	if p.tok.kind != tokDot {
		return p.unexpected("a directive")
	}
	switch p.tok.text {
	case "file", "loc":
		p.skipTextLine()
		return nil
	case "section":
		return p.section()
	case "pragma":
		return p.pragma()
	case "alias":
		return p.alias()
	}
	link := linkInternal
	for p.tok.kind == tokDot {
		switch p.tok.text {
		case "visible":
			link = linkVisible
		case "extern":
			link = linkExtern
		case "weak":
			link = linkWeak
		case "common":
			link = linkCommon
		case "entry", "func":
			return p.function(link)
		default:
			if space, ok := spaceNames[p.tok.text]; ok {
				return p.globals(space, link)
			}
			return p.unexpected("a directive")
		}
		p.next()
	}
	return p.unexpected("a declaration")
}

// skipTextLine passes the rest of the line on which the present token stands.
func (p *parser) skipTextLine() {
	line := p.tok.line
	for p.tok.kind != tokEOF && p.tok.line == line {
		p.next()
	}
}

// section passes .section name { … }, the debugger's.
func (p *parser) section() error {
	line := p.next().line
	for !p.is("{") {
		if p.tok.kind == tokEOF {
			return p.errorf(line, "section without a body")
		}
		p.next()
	}
	for !p.is("}") {
		if p.tok.kind == tokEOF {
			return p.errorf(line, "section does not end")
		}
		p.next()
	}
	p.next()
	return nil
}

func (p *parser) pragma() error {
	p.next()
	for {
		if p.tok.kind != tokString {
			return p.unexpected("a string")
		}
		p.next()
		if !p.accept(",") {
			return p.expect(";")
		}
	}
}

func (p *parser) alias() error {
	p.next()
	name, err := p.ident("a function")
	if err != nil {
		return err
	}
	if err := p.expect(","); err != nil {
		return err
	}
	to, err := p.ident("a function")
	if err != nil {
		return err
	}
	p.mod.aliases[name] = to
	return p.expect(";")
}

// globals reads the variables of a declaration at module level.
func (p *parser) globals(space Space, link linkage) error {
	p.next()
	vars, err := p.variables(space)
	if err != nil {
		return err
	}
	for _, v := range vars {
		v.link, v.mod = link, p.mod
		if old := p.mod.globals[v.name]; old != nil {
			// A declaration may come before or after the definition.
			switch {
			case link == linkExtern:
				continue
			case old.link != linkExtern:
				return p.errorf(v.line, "%s is declared twice, first on line %d", v.name, old.line)
			default:
				link := *v
				*old = link
				continue
			}
		}
		if p.mod.funcs[v.name] != nil {
			return p.errorf(v.line, "%s is a function already", v.name)
		}
		p.mod.globals[v.name] = v
		p.mod.vars = append(p.mod.vars, v)
	}
	return nil
}
