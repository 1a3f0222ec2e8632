// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
)

var kinds = []Kind{Async, Counted, Sync, Stateful, Cached, Local, Aware, Same, Planned, Refused}

func (p *parser) parseCall(s *statement) error {
	c := &Call{}
	var err error
	if c.Symbol, err = s.takeWord("a symbol"); err != nil {
		return err
	}
	c.Name = baseName(c.Symbol)
	if c.Version, err = s.takeNumber("a version", 1000, 99999); err != nil {
		return err
	}
	for _, suffix := range []string{"ptds", "ptsz"} {
		if s.acceptToken(suffix) {
			c.PerThread = suffix
			break
		}
	}
	return p.parseRest(s, c)
}

func (p *parser) parseMessage(s *statement) error {
	c := &Call{Message: true}
	var err error
	if c.Symbol, err = s.takeWord("a message's name"); err != nil {
		return err
	}
	c.Name = c.Symbol
	return p.parseRest(s, c)
}

// baseName is the name by which cuGetProcAddress finds a symbol.
func baseName(symbol string) string {
	at := strings.LastIndex(symbol, "_v")
	if at < 1 || at+2 == len(symbol) || strings.Trim(symbol[at+2:], "0123456789") != "" {
		return symbol
	}
	return symbol[:at]
}

func (p *parser) parseRest(s *statement, c *Call) error {
	if p.area == nil {
		return s.failAt("%s is in no area", c.Symbol)
	}
	if p.table.symbols[c.Symbol] != nil {
		return s.failAt("%s is there already", c.Symbol)
	}
	c.Area, c.File, c.Line, c.Free = p.area, s.file, s.line, p.area.Free
	if err := p.parseKind(s, c); err != nil {
		return err
	}
	for !s.acceptToken("(") {
		if err := parseOption(s, c); err != nil {
			return err
		}
	}
	for !s.acceptToken(")") {
		if len(c.Args) > 0 {
			if err := s.expectToken(","); err != nil {
				return err
			}
		}
		a, err := p.parseArg(s)
		if err != nil {
			return err
		}
		if c.Arg(a.Name) != nil {
			return s.failAt("argument %s is there already", a.Name)
		}
		c.Args = append(c.Args, a)
	}
	p.table.symbols[c.Symbol] = c
	p.area.Calls = append(p.area.Calls, c)
	return nil
}

func (p *parser) parseKind(s *statement, c *Call) error {
	word, err := s.takeWord("a kind")
	if err != nil {
		return err
	}
	c.Kind = Kind(word)
	if !slices.Contains(kinds, c.Kind) {
		return s.failAt("%s: %q is no kind", c.Symbol, word)
	}
	if !s.acceptToken("=") {
		if c.Kind == Same || c.Kind == Refused {
			return s.failAt("%s: %s needs =…", c.Symbol, c.Kind)
		}
		return nil
	}
	text, err := s.takeWord("a name")
	if err != nil {
		return err
	}
	switch c.Kind {
	case Refused:
		if c.Reason = p.reasons[text]; c.Reason == "" {
			return s.failAt("%s: reason %s is not known", c.Symbol, text)
		}
	case Same, Aware:
		c.Via = strings.Split(text, "+")
	default:
		return s.failAt("%s: %s takes no =…", c.Symbol, c.Kind)
	}
	return nil
}

func parseOption(s *statement, c *Call) error {
	word, err := s.takeWord("an option or (")
	if err != nil {
		return err
	}
	switch word {
	case "unwritten":
		c.Unwritten = true
		return nil
	case "always":
		c.Always = true
		return nil
	case "free":
		c.Free = true
		return nil
	case "replaces":
		c.Replaces = true
		return nil
	case "whole":
		c.Name = c.Symbol
		return nil
	}
	if err := s.expectToken("="); err != nil {
		return err
	}
	switch word {
	case "gone":
		c.Gone, err = s.takeNumber("a version", 1000, 99999)
	case "also":
		c.Also, err = s.takeWord("another name")
	case "at":
		c.AlsoVersion, err = s.takeNumber("a version", 1000, 99999)
	case "changes":
		c.Changes, err = s.takeWord("what it changes")
	case "returns":
		c.Returns, err = s.takeWord("what it returns")
	case "unsure":
		c.Unsure, err = s.takeText("what is unsure")
	default:
		return s.failAt("%s: %q is no option", c.Symbol, word)
	}
	return err
}

func (p *parser) parseArg(s *statement) (Arg, error) {
	var a Arg
	var err error
	a.Opt = s.acceptToken("opt")
	for _, d := range []Dir{In, InOut, Out, Val} {
		if s.acceptToken(string(d)) {
			a.Dir = d
			break
		}
	}
	for _, v := range []Verb{Make, Use, Change, Break} {
		if s.acceptToken(string(v)) {
			a.Verb = v
			break
		}
	}
	if a.Name, err = s.takeWord("an argument"); err != nil {
		return a, err
	}
	if err := s.expectToken(":"); err != nil {
		return a, err
	}
	if a.Type, err = p.typeWord(s); err != nil {
		return a, err
	}
	if s.acceptToken("[") {
		if err := parseCount(s, &a); err != nil {
			return a, err
		}
	}
	return a, setDefaults(s, &a)
}

// setDefaults fills in the direction and the verb that the row leaves out.
func setDefaults(s *statement, a *Arg) error {
	if a.Verb != None && !a.Type.Handle {
		return s.failAt("%s is no handle, so nothing can %s it", a.Name, a.Verb)
	}
	if a.Dir == "" {
		a.Dir = In
		if a.Verb == Make {
			a.Dir = Out
		}
	}
	if a.Type.Handle && a.Verb == None && a.Dir == In {
		a.Verb = Use
	}
	if a.Dir == Val && !a.Type.Struct {
		return s.failAt("%s: val is for structs", a.Name)
	}
	if a.Opt && a.Dir != Out && a.Dir != InOut && !a.Count.IsArray() && !a.Type.Struct && a.Type.Word != "string" {
		return s.failAt("%s is no pointer, so it cannot be missing", a.Name)
	}
	return nil
}

func parseCount(s *statement, a *Arg) error {
	a.Count.Deref = s.acceptToken("*")
	text, err := s.takeWord("a count")
	if err != nil {
		return err
	}
	if text[0] >= '0' && text[0] <= '9' {
		s.next--
		if a.Count.Deref {
			return s.failAt("%s: a number cannot be pointed to", a.Name)
		}
		if a.Count.Fixed, err = s.takeNumber("a count", 1, 1<<16); err != nil {
			return err
		}
	} else {
		a.Count.Arg = text
	}
	return s.expectToken("]")
}
