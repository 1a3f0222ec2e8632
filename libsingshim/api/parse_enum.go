// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

func (p *parser) parseEnum(s *statement) error {
	var e Enum
	var err error
	if e.Word, err = s.takeWord("a word"); err != nil {
		return err
	}
	if e.Prefix, err = s.takeWord("a prefix"); err != nil {
		return err
	}
	for _, other := range p.table.Enums {
		if other.Word == e.Word {
			return s.failAt("enum %s is there already", e.Word)
		}
	}
	if err := s.expectToken("("); err != nil {
		return err
	}
	next := 0
	for {
		name, err := s.takeWord("a name")
		if err != nil {
			return err
		}
		if s.acceptToken("=") {
			if next, err = s.takeNumber("a number", 0, 1<<30); err != nil {
				return err
			}
		} else if len(e.Names) == 0 {
			return s.failAt("the first name has a number")
		}
		if other := p.constants[e.Prefix+name]; other != "" {
			return s.failAt("%s%s is in %s already", e.Prefix, name, other)
		}
		p.constants[e.Prefix+name] = e.Word
		e.Names, e.Values = append(e.Names, name), append(e.Values, next)
		next++
		if !s.acceptToken(",") {
			break
		}
	}
	p.table.Enums = append(p.table.Enums, e)
	return s.expectToken(")")
}
