// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// File is the text of a .tbl file.
type File struct {
	Name string
	Text string
}

// Parse reads files into a table; types and structs must come before their uses. Parse checks the
// form only: Check does the rest. Every error is a *ParseError.
func Parse(files ...File) (*Table, error) {
	p := &parser{
		table:   &Table{words: map[string]*Type{}, symbols: map[string]*Call{}},
		reasons: map[string]string{}, constants: map[string]string{},
	}
	for _, f := range files {
		statements, err := splitStatements(f.Name, f.Text)
		if err != nil {
			return nil, err
		}
		p.area = nil
		for _, s := range statements {
			if err := p.parseStatement(s); err != nil {
				return nil, err
			}
		}
	}
	return p.table, nil
}

type parser struct {
	table   *Table
	area    *Area
	reasons map[string]string

	constants map[string]string // C's name: the enum
}

func (p *parser) parseStatement(s *statement) error {
	verb, err := s.takeWord("a statement")
	if err != nil {
		return err
	}
	parse, ok := map[string]func(*statement) error{
		"area": p.parseArea, "reason": p.parseReason, "call": p.parseCall, "msg": p.parseMessage,
		"scalar": p.parseScalar, "handle": p.parseHandle, "struct": p.parseStruct, "result": p.parseResult, "enum": p.parseEnum,
	}[verb]
	if !ok {
		return s.failAt("%q is no statement", verb)
	}
	if err := parse(s); err != nil {
		return err
	}
	if !s.expectEnd() {
		return s.failAt("%s is too much", s.foundToken())
	}
	return nil
}

func (p *parser) parseArea(s *statement) error {
	name, err := s.takeWord("the area's name")
	if err != nil {
		return err
	}
	lib, err := s.takeWord("a library")
	if err != nil {
		return err
	}
	if !slices.Contains([]Lib{Driver, NCCL, NVML, LibC}, Lib(lib)) {
		return s.failAt("%q is no library", lib)
	}
	a := &Area{Name: name, Lib: Lib(lib), Free: s.acceptToken("free")}
	if a.Title, err = s.takeText("a title"); err != nil {
		return err
	}
	if p.area != nil {
		return s.failAt("a file holds one area")
	}
	for _, other := range p.table.Areas {
		if other.Name == name {
			return s.failAt("area %s is there already", name)
		}
	}
	p.area = a
	p.table.Areas = append(p.table.Areas, a)
	return nil
}

func (p *parser) parseReason(s *statement) error {
	name, err := s.takeWord("a reason's name")
	if err != nil {
		return err
	}
	if p.reasons[name] != "" {
		return s.failAt("reason %s is there already", name)
	}
	if p.reasons[name], err = s.takeText("a reason"); err != nil {
		return err
	}
	if p.reasons[name] == "" {
		return s.failAt("reason %s is empty", name)
	}
	return nil
}

// natural says how large a wire type is. A type that is never sent can be in no struct.
var natural = map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "i64": 8, "f32": 4, "f64": 8}

// WireSize is the size of a scalar or a handle in a message, 0 for a type that is never sent.
func (t *Type) WireSize() int { return natural[t.Wire] }

// ElementSize is the size of an element, in memory and in a message.
func (t *Type) ElementSize() int {
	if t.Struct {
		return t.Size
	}
	return t.WireSize()
}

// parseHead reads WORD CTYPE [WIRE].
func (p *parser) parseHead(s *statement, wire bool) (*Type, error) {
	word, err := s.takeWord("a word")
	if err != nil {
		return nil, err
	}
	if p.table.words[word] != nil {
		return nil, s.failAt("type %s is there already", word)
	}
	t := &Type{Word: word}
	if t.C, err = s.takeText("C's name of it"); err != nil {
		return nil, err
	}
	if wire {
		if t.Wire, err = s.takeWord("a wire type"); err != nil {
			return nil, err
		}
		if t.Wire == "none" {
			t.Wire = ""
		} else if natural[t.Wire] == 0 {
			return nil, s.failAt("%q is no wire type", t.Wire)
		}
		t.Size, t.Align = natural[t.Wire], natural[t.Wire]
	}
	return t, nil
}

func (p *parser) addType(t *Type) {
	p.table.words[t.Word] = t
	p.table.Types = append(p.table.Types, t)
}

func (p *parser) parseScalar(s *statement) error {
	t, err := p.parseHead(s, true)
	if err != nil {
		return err
	}
	p.addType(t)
	return nil
}

func (p *parser) parseHandle(s *statement) error {
	t, err := p.parseHead(s, true)
	if err != nil {
		return err
	}
	maker, err := s.takeWord("who makes it")
	if err != nil {
		return err
	}
	t.Handle, t.Maker = true, Maker(maker)
	if !slices.Contains([]Maker{ByClient, ByServer, ByRefusal}, t.Maker) {
		return s.failAt("%q makes no handles", maker)
	}
	if s.acceptToken("of") {
		if err := s.expectToken("="); err != nil {
			return err
		}
		if t.Of, err = s.takeWord("a handle"); err != nil {
			return err
		}
		if of := p.table.words[t.Of]; of == nil || !of.Handle {
			return s.failAt("%s is no handle", t.Of)
		}
	}
	p.addType(t)
	return nil
}

func (p *parser) parseStruct(s *statement) error {
	t, err := p.parseHead(s, false)
	if err != nil {
		return err
	}
	t.Struct = true
	size, err := s.takeNumber("its size", 1, 1<<16)
	if err != nil {
		return err
	}
	if err := s.expectToken("("); err != nil {
		return err
	}
	at := 0
	t.Align = 1
	for {
		f, err := p.parseField(s)
		if err != nil {
			return err
		}
		for _, other := range t.Fields {
			if other.Name == f.Name {
				return s.failAt("field %s is there already", f.Name)
			}
		}
		at = roundUp(at, f.Type.Align)
		f.Offset = at
		at += max(f.N, 1) * f.Type.Size
		t.Align = max(t.Align, f.Type.Align)
		t.Fields = append(t.Fields, f)
		if !s.acceptToken(",") {
			break
		}
	}
	t.Size = roundUp(at, t.Align)
	if t.Size != size {
		return s.failAt("struct %s has %d bytes, not %d", t.Word, t.Size, size)
	}
	p.addType(t)
	return s.expectToken(")")
}

func (p *parser) parseField(s *statement) (Field, error) {
	var f Field
	var err error
	if f.Name, err = s.takeWord("a field"); err != nil {
		return f, err
	}
	if err := s.expectToken(":"); err != nil {
		return f, err
	}
	if f.Type, err = p.typeWord(s); err != nil {
		return f, err
	}
	if f.Type.Size == 0 {
		return f, s.failAt("%s cannot be in a struct", f.Type.Word)
	}
	if s.acceptToken("[") {
		if f.N, err = s.takeNumber("a length", 1, 1<<12); err != nil {
			return f, err
		}
		return f, s.expectToken("]")
	}
	return f, nil
}

func (p *parser) parseResult(s *statement) error {
	lib, err := s.takeWord("a library")
	if err != nil {
		return err
	}
	r := Result{Lib: Lib(lib)}
	if r.Number, err = s.takeNumber("a number", 0, 1<<20); err != nil {
		return err
	}
	if r.Name, err = s.takeWord("a name"); err != nil {
		return err
	}
	if r.Text, err = s.takeText("a text"); err != nil {
		return err
	}
	for _, other := range p.table.Results {
		if other.Lib == r.Lib && (other.Number == r.Number || other.Name == r.Name) {
			return s.failAt("result %d %s is there already", r.Number, r.Name)
		}
	}
	p.table.Results = append(p.table.Results, r)
	return nil
}

func (p *parser) typeWord(s *statement) (*Type, error) {
	word, err := s.takeWord("a type")
	if err != nil {
		return nil, err
	}
	t := p.table.words[word]
	if t == nil {
		return nil, s.failAt("type %s is not known; there are %s", word,
			strings.Join(slices.Sorted(maps.Keys(p.table.words)), " "))
	}
	return t, nil
}

func (s *statement) takeNumber(what string, low, high int) (int, error) {
	text, err := s.takeWord(what)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, s.failAt("%s must be a number from %d to %d, not %s", what, low, high, text)
	}
	return n, nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
