// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// Slurm's special values, where a server writes the raw 32 or 64 bits.
const (
	infinite32 = math.MaxUint32
	noValue32  = math.MaxUint32 - 1
	infinite64 = "18446744073709551615"
	noValue64  = "18446744073709551614"
)

// readToken consumes a JSON number and returns its characters, which are valid until the next call.
func (s *scanner) readToken() []byte {
	s.peekToken()
	n := 0
	for s.err == nil {
		if s.r == s.w && !s.fillBuffer() {
			if n > 0 && errors.Is(s.err, io.ErrUnexpectedEOF) {
				s.err = nil // the end of the text ends a number, too
				break
			}
			return nil
		}
		c := s.buf[s.r]
		if !isNumeric(c) {
			break
		}
		if n == maxToken {
			s.failScan("a number of more than %d characters", maxToken)
			return nil
		}
		s.digits[n] = c
		n++
		s.r++
	}
	if s.err == nil && !validNumber(s.digits[:n]) {
		s.failScan("%q is no value", string(s.buf[s.r:min(s.r+1, s.w)]))
		return nil
	}
	return s.digits[:n]
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c|0x20 == 'e'
}

// validNumber is RFC 8259's grammar: -? int frac? exp?
func validNumber(b []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(b) && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		b = b[n:]
		return n > 0
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '0' {
		b = b[1:]
	} else if !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		if b = b[1:]; !digits() {
			return false
		}
	}
	if len(b) > 0 && b[0]|0x20 == 'e' {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(b) == 0
}

// readNumber reads a Number in any shape that a Slurm release has written: null, 7, 7.5, "7",
// "Infinity", "", {"set":true,"infinite":false,"number":7}.
func (s *scanner) readNumber() Number {
	switch c := s.peekToken(); c {
	case 'n':
		s.readLiteral("null")
		return Number{}
	case '"':
		return s.numberIn(s.readString(maxToken, "a number"))
	case '{':
		return s.numberObject()
	default:
		return s.numberIn(s.readToken())
	}
}

// numberIn reads a number from its characters.
func (s *scanner) numberIn(b []byte) Number {
	if s.err != nil {
		return Number{}
	}
	if v, ok := shortInt(b); ok {
		return markedNumber(v)
	}
	switch word := string(b); {
	case word == "" || word == noValue64:
		return Number{}
	case word == infinite64 || infiniteWord(word):
		return Number{Set: true, Infinite: true}
	default:
		if v, err := strconv.ParseInt(word, 10, 64); err == nil {
			return Num(v)
		}
		// Not a word like "0x10" or "NaN", which ParseFloat would take.
		if f, err := strconv.ParseFloat(word, 64); validNumber(b) && err == nil && math.Abs(f) < math.MaxInt64 {
			return Num(int64(f))
		}
		s.failScan("%s is not a 64-bit number", strconv.Quote(clipText(word, maxToken)))
		return Number{}
	}
}

// shortInt parses the usual case, up to 18 digits and no sign.
func shortInt(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}

// markedNumber turns a raw 32-bit number into a Number: Slurm marks "not set" and "infinite" by
// special values.
func markedNumber(v int64) Number {
	switch v {
	case noValue32:
		return Number{}
	case infinite32:
		return Number{Set: true, Infinite: true}
	}
	return Num(v)
}

func infiniteWord(word string) bool {
	return strings.EqualFold(word, "infinity") || strings.EqualFold(word, "infinite") ||
		strings.EqualFold(word, "unlimited")
}

// numberObject reads {"set","infinite","number"}; members may come in any order.
func (s *scanner) numberObject() Number {
	var n Number
	var set, infinite bool
	for s.beginGroup('{'); s.hasNext('}'); {
		switch key := s.readKey(); string(key) {
		case "set":
			set = s.readBool()
		case "infinite":
			infinite = s.readBool()
		case "number":
			n = s.readNumber()
		default:
			s.skipValue()
		}
	}
	switch {
	case infinite:
		return Number{Set: true, Infinite: true}
	case !set:
		return Number{}
	}
	n.Set = true
	return n
}

// readBool reads true, false, null (false) or a number (not 0).
func (s *scanner) readBool() bool {
	switch s.peekToken() {
	case 't':
		s.readLiteral("true")
		return s.err == nil
	case 'f':
		s.readLiteral("false")
		return false
	default:
		n := s.readNumber()
		return n.Set && (n.Infinite || n.Value != 0)
	}
}

// readText reads a string. A null is empty; a number is its digits, since releases
// differ on which of the two a version number is.
func (s *scanner) readText() string {
	switch s.peekToken() {
	case '"':
		return s.keepText(s.readString(s.limits.record-s.kept, "a text"))
	case 'n':
		s.readLiteral("null")
		return ""
	default:
		return s.keepText(s.readToken())
	}
}

// readTexts reads a list of strings. A single string is a list separated by commas.
func (s *scanner) readTexts() []string {
	if s.peekToken() != '[' {
		if one := s.readText(); one != "" {
			return strings.Split(one, ",")
		}
		return nil
	}
	var all []string
	for s.beginGroup('['); s.hasNext(']'); {
		if one := s.readText(); s.growBudget(stringSize) {
			all = append(all, one)
		}
	}
	return all
}

const stringSize = 16 // bytes of a string header

// readHostList reads names of nodes, as a single host list expression. A list of strings is joined by
// commas.
func (s *scanner) readHostList() string {
	if s.peekToken() != '[' {
		return s.readText()
	}
	return strings.Join(s.readTexts(), ",")
}

// clipText bounds a text that goes into a message.
func clipText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
