// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
)

// ParseError says where a table is wrong.
type ParseError struct {
	File string
	Line int
	What string
}

func (e *ParseError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// token is a word, a quoted text or a mark of punctuation.
type token struct {
	text   string
	quoted bool
}

// statement is a line with its continuation lines.
type statement struct {
	file   string
	line   int
	tokens []token
	next   int
}

func (s *statement) failAt(format string, args ...any) error {
	return &ParseError{s.file, s.line, fmt.Sprintf(format, args...)}
}

const marks = "(),:[]*="

// splitStatements cuts a file into statements.
func splitStatements(file, text string) ([]*statement, error) {
	var all []*statement
	for i, line := range strings.Split(text, "\n") {
		tokens, err := scanLine(line)
		if err != nil {
			return nil, &ParseError{file, i + 1, err.Error()}
		}
		if len(tokens) == 0 {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			all = append(all, &statement{file: file, line: i + 1, tokens: tokens})
			continue
		}
		if len(all) == 0 {
			return nil, &ParseError{file, i + 1, "continues nothing"}
		}
		last := all[len(all)-1]
		last.tokens = append(last.tokens, tokens...)
	}
	return all, nil
}

func scanLine(line string) ([]token, error) {
	var tokens []token
	for line != "" {
		c := line[0]
		switch {
		case c == ' ' || c == '\t':
			line = line[1:]
		case c == '#':
			return tokens, nil
		case c == '"':
			text, rest, ok := strings.Cut(line[1:], "\"")
			if !ok {
				return nil, fmt.Errorf("a quote is not closed")
			}
			tokens, line = append(tokens, token{text, true}), rest
		case strings.IndexByte(marks, c) >= 0:
			tokens, line = append(tokens, token{line[:1], false}), line[1:]
		case isWord(c):
			n := 1
			for n < len(line) && isWord(line[n]) {
				n++
			}
			tokens, line = append(tokens, token{line[:n], false}), line[n:]
		default:
			return nil, fmt.Errorf("%q does not belong here", c)
		}
	}
	return tokens, nil
}

func isWord(c byte) bool {
	return c == '_' || c == '+' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// peekToken returns the next token's text, "" at the end; a quoted text is never taken for a mark.
func (s *statement) peekToken() string {
	if s.next == len(s.tokens) || s.tokens[s.next].quoted {
		return ""
	}
	return s.tokens[s.next].text
}

func (s *statement) expectEnd() bool { return s.next == len(s.tokens) }

// acceptToken skips the next token if that token is the mark or word.
func (s *statement) acceptToken(text string) bool {
	if s.peekToken() != text {
		return false
	}
	s.next++
	return true
}

func (s *statement) expectToken(text string) error {
	if !s.acceptToken(text) {
		return s.failAt("want %q, found %s", text, s.foundToken())
	}
	return nil
}

func (s *statement) foundToken() string {
	if s.expectEnd() {
		return "the end of the line"
	}
	return fmt.Sprintf("%q", s.tokens[s.next].text)
}

// takeWord takes a word; what is the name of the word in the error.
func (s *statement) takeWord(what string) (string, error) {
	text := s.peekToken()
	if text == "" || !isWord(text[0]) {
		return "", s.failAt("want %s, found %s", what, s.foundToken())
	}
	s.next++
	return text, nil
}

// takeText takes a quoted text, or a word in its place.
func (s *statement) takeText(what string) (string, error) {
	if !s.expectEnd() && s.tokens[s.next].quoted {
		s.next++
		return s.tokens[s.next-1].text, nil
	}
	return s.takeWord(what)
}
