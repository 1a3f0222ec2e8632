// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/types"
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

	Functions map[string]*Function
	Order     []*Function
	Globals   map[string]*Variable
	Variables []*Variable
	aliases   map[string]string
	ranged    uint64 // variables by ranges of names, in all bodies that were parsed later
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
// errors. The error is an *Error.
func Parse(name, text string) (*Module, error) { return parseModule(name, text, false) }

// ParseDeclarations is Parse without the bodies of functions, which Function.ParseBody parses. ParseDeclarations is for
// long texts of which few functions are used.
func ParseDeclarations(name, text string) (*Module, error) { return parseModule(name, text, true) }

func parseModule(name, text string, later bool) (*Module, error) {
	p := &parser{
		lex:   lexer{module: name, src: text, line: 1},
		later: later,
		mod: &Module{
			Name: name, AddressSize: 4,
			Functions: map[string]*Function{}, Globals: map[string]*Variable{}, aliases: map[string]string{},
		},
	}
	p.nextToken()
	if err := p.readModule(); err != nil {
		if p.lex.err != nil {
			return nil, p.lex.err
		}
		return nil, err
	}
	return p.mod, nil
}

func (p *parser) nextToken() token {
	t := p.tok
	if len(p.ahead) > 0 {
		p.tok, p.ahead = p.ahead[0], p.ahead[1:]
	} else {
		p.tok = p.lex.nextToken()
	}
	return t
}

// peekToken returns the token after p.tok.
func (p *parser) peekToken() token {
	if len(p.ahead) == 0 {
		p.ahead = append(p.ahead, p.lex.nextToken())
	}
	return p.ahead[0]
}

func (p *parser) syntaxError(line int, format string, args ...any) error {
	return &Error{Module: p.mod.Name, Line: line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) errUnexpected(want string) error {
	return p.syntaxError(p.tok.line, "%s expected, found %s", want, p.tok)
}

func (p *parser) isPunct(punct string) bool    { return p.tok.kind == tokPunct && p.tok.text == punct }
func (p *parser) isDirective(name string) bool { return p.tok.kind == tokDot && p.tok.text == name }

func (p *parser) acceptPunct(punct string) bool {
	if p.isPunct(punct) {
		p.nextToken()
		return true
	}
	return false
}

func (p *parser) expectPunct(punct string) error {
	if !p.acceptPunct(punct) {
		return p.errUnexpected(fmt.Sprintf("%q", punct))
	}
	return nil
}

func (p *parser) expectIdent(what string) (string, error) {
	if p.tok.kind != tokWord {
		return "", p.errUnexpected(what)
	}
	return p.nextToken().text, nil
}

// enterNesting guards against texts that nest without end; the caller undoes the count.
func (p *parser) enterNesting() error {
	if p.depth++; p.depth > maxNesting {
		return p.syntaxError(p.tok.line, "nested too deeply")
	}
	return nil
}

func (p *parser) readModule() error {
	if err := p.readHeader(); err != nil {
		return err
	}
	for p.tok.kind != tokEOF {
		if err := p.readDeclaration(); err != nil {
			return err
		}
	}
	if p.lex.err != nil {
		return p.lex.err
	}
	for name, to := range p.mod.aliases {
		if f := p.mod.Functions[name]; f != nil && p.mod.Functions[to] != nil {
			f.Alias = to
		}
	}
	return nil
}

// readHeader reads .version, .target and .address_size.
func (p *parser) readHeader() error {
	if !p.isDirective("version") {
		return p.errUnexpected(".version")
	}
	p.nextToken()
	if p.tok.kind != tokFloat && p.tok.kind != tokInt {
		return p.errUnexpected("a version number")
	}
	line := p.tok.line
	if _, err := fmt.Sscanf(p.nextToken().text+".0", "%d.%d", &p.mod.Major, &p.mod.Minor); err != nil {
		return p.syntaxError(line, "bad version number")
	}
	if p.mod.Major < 1 || p.mod.Major > 9 {
		return p.syntaxError(line, "unsupported .version %d.%d", p.mod.Major, p.mod.Minor)
	}
	if !p.isDirective("target") {
		return p.errUnexpected(".target")
	}
	for first := true; first || p.isPunct(","); first = false {
		p.nextToken()
		name, err := p.expectIdent("a target")
		if err != nil {
			return err
		}
		if first {
			p.mod.Target = name
		}
	}
	if !strings.HasPrefix(p.mod.Target, "sm_") && !strings.HasPrefix(p.mod.Target, "compute_") {
		return p.syntaxError(line, "unknown target %q", p.mod.Target)
	}
	if p.isDirective("address_size") {
		p.nextToken()
		switch {
		case p.tok.kind == tokInt && p.tok.num == 64:
			p.mod.AddressSize = 8
		case p.tok.kind == tokInt && p.tok.num == 32:
			p.mod.AddressSize = 4
		default:
			return p.errUnexpected("32 or 64")
		}
		p.nextToken()
	} else if p.mod.Major < 2 || p.mod.Major == 2 && p.mod.Minor < 3 {
		// Before .address_size existed, each program chose its width of addresses; the width of ld and st operands
		// decides.
		p.mod.AddressSize = 8
	}
	return nil
}

// readDeclaration reads a directive at module level.
func (p *parser) readDeclaration() error {
	if p.acceptPunct(";") {
		return nil
	}
	if p.isPunct("@@") {
		p.skipTextLine()
		return nil
	}
	if p.tok.kind != tokDot {
		return p.errUnexpected("a directive")
	}
	switch p.tok.text {
	case "file", "loc":
		p.skipTextLine()
		return nil
	case "section":
		return p.skipSection()
	case "pragma":
		return p.readPragma()
	case "alias":
		return p.readAlias()
	}
	link := Internal
	for p.tok.kind == tokDot {
		switch p.tok.text {
		case "visible":
			link = Visible
		case "extern":
			link = Extern
		case "weak":
			link = Weak
		case "common":
			link = Common
		case "entry", "func":
			return p.readFunction(link)
		default:
			if space, ok := types.SpacesByName[p.tok.text]; ok {
				return p.readGlobals(space, link)
			}
			return p.errUnexpected("a directive")
		}
		p.nextToken()
	}
	return p.errUnexpected("a declaration")
}

// skipTextLine passes the rest of the line on which the present token stands.
func (p *parser) skipTextLine() {
	line := p.tok.line
	for p.tok.kind != tokEOF && p.tok.line == line {
		p.nextToken()
	}
}

// skipSection passes .section name { … }, the debugger's.
func (p *parser) skipSection() error {
	line := p.nextToken().line
	for !p.isPunct("{") {
		if p.tok.kind == tokEOF {
			return p.syntaxError(line, "section without a body")
		}
		p.nextToken()
	}
	for !p.isPunct("}") {
		if p.tok.kind == tokEOF {
			return p.syntaxError(line, "section does not end")
		}
		p.nextToken()
	}
	p.nextToken()
	return nil
}

func (p *parser) readPragma() error {
	p.nextToken()
	for {
		if p.tok.kind != tokString {
			return p.errUnexpected("a string")
		}
		p.nextToken()
		if !p.acceptPunct(",") {
			return p.expectPunct(";")
		}
	}
}

func (p *parser) readAlias() error {
	p.nextToken()
	name, err := p.expectIdent("a function")
	if err != nil {
		return err
	}
	if err := p.expectPunct(","); err != nil {
		return err
	}
	to, err := p.expectIdent("a function")
	if err != nil {
		return err
	}
	p.mod.aliases[name] = to
	return p.expectPunct(";")
}

// readGlobals reads the variables of a declaration at module level.
func (p *parser) readGlobals(space types.Space, link Linkage) error {
	p.nextToken()
	vars, err := p.readVariables(space)
	if err != nil {
		return err
	}
	for _, v := range vars {
		v.Link, v.Module = link, p.mod
		if old := p.mod.Globals[v.Name]; old != nil {
			// A declaration may come before or after the definition.
			switch {
			case link == Extern:
				continue
			case old.Link != Extern:
				return p.syntaxError(v.Line, "%s is declared twice, first on line %d", v.Name, old.Line)
			default:
				link := *v
				*old = link
				continue
			}
		}
		if p.mod.Functions[v.Name] != nil {
			return p.syntaxError(v.Line, "%s is a function already", v.Name)
		}
		p.mod.Globals[v.Name] = v
		p.mod.Variables = append(p.mod.Variables, v)
	}
	return nil
}
