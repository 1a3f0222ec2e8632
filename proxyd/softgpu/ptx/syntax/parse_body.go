// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import "strings"

// unparsedBody is the text of a function's body.
type unparsedBody struct {
	text string // from behind the opening brace up to and with the closing brace
	line int    // on which text begins
	err  error  // the error of the parser, if it has parsed the body
}

// readBody reads a function's body from the opening brace on, or notes its text for later.
func (p *parser) readBody(f *Function) error {
	if p.later && len(p.ahead) == 0 {
		// The lexer stands behind the brace.
		if end, ok := findBodyEnd(p.lex.src[p.lex.pos:]); ok {
			text := p.lex.src[p.lex.pos : p.lex.pos+end]
			f.later = &unparsedBody{text: text, line: p.lex.line}
			p.lex.pos += end
			p.lex.line += strings.Count(text, "\n")
			p.nextToken()
			return nil
		}
	}
	p.nextToken()
	return p.readBlock(f, newScope(f.Scope))
}

// ParseBody parses a body that has not been needed before. ParseBody changes the function and
// its module: calls for functions of the same module must not overlap.
func (f *Function) ParseBody() error {
	if f.later == nil || f.later.err != nil {
		return f.later.parseError()
	}
	p := &parser{lex: lexer{module: f.Module.Name, src: f.later.text, line: f.later.line}, mod: f.Module, ranged: f.Module.ranged}
	p.nextToken()
	err := p.readBlock(f, newScope(f.Scope))
	if p.lex.err != nil {
		err = p.lex.err
	}
	f.Module.ranged = p.ranged
	if err != nil {
		f.later.err = err
		return err
	}
	f.later = nil
	return nil
}

func (b *unparsedBody) parseError() error {
	if b == nil {
		return nil
	}
	return b.err
}

// endsOrHides marks the bytes at which findBodyEnd looks: braces, bytes that begin a string, a comment or a
// preprocessor's line, which may hide braces, and dots, which begin directives.
var endsOrHides = [256]bool{'{': true, '}': true, '"': true, '/': true, '#': true, '.': true}

// findBodyEnd returns the offset behind the brace that closes a body, for a text that begins behind
// the opening brace. findBodyEnd returns false for a body that has to be parsed at once: a body
// without an end, or with variables of the module, because the addresses of the module's variables
// depend on all of them.
func findBodyEnd(text string) (int, bool) {
	depth := 1
	for at := 0; at < len(text); at++ {
		if !endsOrHides[text[at]] { // almost all bytes
			continue
		}
		switch text[at] {
		case '.':
			if (at == 0 || !isWordByte(text[at-1])) && declaresModuleVariable(text, at) {
				return 0, false
			}
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return at + 1, true
			}
		default:
			length, ok := hiddenLength(text[at:])
			if !ok {
				return 0, false
			}
			at += length - 1
		}
	}
	return 0, false
}

// hiddenLength is the length of the string, the comment or the preprocessor's line at the start of a text; 1 if the
// text starts with none of them, false if there is no end.
func hiddenLength(text string) (int, bool) {
	end := 0
	switch {
	case text[0] == '#', strings.HasPrefix(text, "//"):
		end = strings.IndexByte(text, '\n')
	case strings.HasPrefix(text, "/*"):
		if end = strings.Index(text[2:], "*/"); end >= 0 {
			end += 4
		}
	case text[0] == '"':
		if end = strings.IndexAny(text[1:], "\"\n"); end < 0 || text[1+end] == '\n' {
			return 0, false
		}
		end += 2
	default:
		return 1, true
	}
	return end, end > 0
}

// declaresModuleVariable tells whether a dot that follows no word begins the directive of a variable that belongs to the
// module. In ld.global the dot follows a word, and in .L2::global a colon. Words that are apart from their dot count as
// directives: then the body is parsed at once, and that is never wrong.
func declaresModuleVariable(text string, dot int) bool {
	return (dot == 0 || text[dot-1] != ':') && (strings.HasPrefix(text[dot:], ".global") || strings.HasPrefix(text[dot:], ".const"))
}
