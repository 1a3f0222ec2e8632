// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tokKind is the kind of a token.
type tokKind uint8

const (
	tokEOF   tokKind = iota
	tokWord          // add, %r1, $L__BB0_1, _
	tokDot           // .global, .L2::128B, .m16n8k16: text without the first dot
	tokInt           // value in num
	tokFloat         // bits of a float64 in num; f32 when the text began with 0f
	tokString
	tokPunct // a byte, or << >> && || == != <= >= or @@
)

type token struct {
	kind tokKind
	f32  bool // a 0f literal: num holds the 32 bits
	uns  bool // an integer with the suffix U
	line int
	text string
	num  uint64
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of text"
	case tokDot:
		return "." + t.text
	case tokString:
		return strconv.Quote(t.text)
	default:
		return strconv.Quote(t.text)
	}
}

// lexer cuts a text into tokens. The error is kept: after an error all tokens are tokEOF.
type lexer struct {
	module string
	src    string
	pos    int
	line   int
	err    error
}

func (l *lexer) setError(format string, args ...any) token {
	if l.err == nil {
		l.err = &Error{Module: l.module, Line: l.line, Msg: fmt.Sprintf(format, args...)}
	}
	l.pos = len(l.src)
	return token{kind: tokEOF, line: l.line}
}

// skipSpace passes white space, comments and the preprocessor's lines.
func (l *lexer) skipSpace() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == 0:
			// Drivers take texts with their terminating NUL counted.
			l.pos++
		case c == '#', strings.HasPrefix(l.src[l.pos:], "//"):
			l.skipLine()
		case strings.HasPrefix(l.src[l.pos:], "/*"):
			end := strings.Index(l.src[l.pos+2:], "*/")
			if end < 0 {
				l.setError("comment does not end")
				return
			}
			l.line += strings.Count(l.src[l.pos:l.pos+2+end], "\n")
			l.pos += end + 4
		default:
			return
		}
	}
}

func (l *lexer) skipLine() {
	if end := strings.IndexByte(l.src[l.pos:], '\n'); end >= 0 {
		l.pos += end
	} else {
		l.pos = len(l.src)
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWordByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

func (l *lexer) endOfWord(from int) int {
	for from < len(l.src) && isWordByte(l.src[from]) {
		from++
	}
	return from
}

const punctuation = "{}()[],;:<>=+-*/%!~&|^?@"

var twoByte = [...]string{"<<", ">>", "&&", "||", "==", "!=", "<=", ">=", "@@"}

// nextToken returns the next token.
func (l *lexer) nextToken() token {
	l.skipSpace()
	if l.pos >= len(l.src) {
		return token{kind: tokEOF, line: l.line}
	}
	start, c := l.pos, l.src[l.pos]
	t := token{line: l.line}
	switch {
	case isDigit(c):
		return l.lexNumber()
	case isWordByte(c) || c == '%':
		t.kind = tokWord
		l.pos = l.endOfWord(start + 1)
		t.text = l.src[start:l.pos]
		return t
	case c == '.':
		return l.lexDot()
	case c == '"':
		end := start + 1
		for end < len(l.src) && l.src[end] != '"' && l.src[end] != '\n' {
			end++
		}
		if end >= len(l.src) || l.src[end] != '"' {
			return l.setError("string does not end")
		}
		t.kind, t.text = tokString, l.src[start+1:end]
		l.pos = end + 1
		return t
	}
	t.kind, t.text = tokPunct, l.src[start:start+1]
	for _, two := range twoByte {
		if strings.HasPrefix(l.src[start:], two) {
			t.text = two
		}
	}
	if strings.IndexByte(punctuation, c) < 0 {
		return l.setError("unexpected character %q", c)
	}
	l.pos += len(t.text)
	return t
}

// lexDot lexes a directive or a modifier; "::" joins the parts of a modifier.
func (l *lexer) lexDot() token {
	start := l.pos + 1
	end := l.endOfWord(start)
	if end == start {
		return l.setError("a name is missing after \".\"")
	}
	for strings.HasPrefix(l.src[end:], "::") && end+2 < len(l.src) && isWordByte(l.src[end+2]) {
		end = l.endOfWord(end + 2)
	}
	l.pos = end
	return token{kind: tokDot, line: l.line, text: l.src[start:end]}
}

// lexNumber lexes 12, 0x1F, 0b101, 017, 12U, 1.5, 1e-3, 0f3F800000 and 0d3FF0000000000000.
func (l *lexer) lexNumber() token {
	t := token{line: l.line, kind: tokInt}
	s := l.src[l.pos:]
	if len(s) > 2 && s[0] == '0' {
		digits := 0
		switch s[1] {
		case 'f', 'F':
			digits = 8
		case 'd', 'D':
			digits = 16
		}
		if digits > 0 {
			end := l.endOfWord(l.pos)
			t.text = l.src[l.pos:end]
			v, err := strconv.ParseUint(t.text[2:], 16, 4*digits)
			if err != nil || len(t.text) != 2+digits {
				return l.setError("bad floating-point number %q", t.text)
			}
			t.kind, t.num, t.f32 = tokFloat, v, digits == 8
			l.pos = end
			return t
		}
	}
	end := l.endOfWord(l.pos)
	if !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X") && l.isFloat(&end) {
		t.text = l.src[l.pos:end]
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil && !math.IsInf(v, 0) {
			return l.setError("bad floating-point number %q", t.text)
		}
		t.kind, t.num = tokFloat, math.Float64bits(v)
		l.pos = end
		return t
	}
	t.text = l.src[l.pos:end]
	digits := strings.TrimRight(t.text, "U")
	t.uns = digits != t.text
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.Contains(digits, "_") || strings.HasPrefix(digits, "0o") {
		return l.setError("bad number %q", t.text)
	}
	t.num = v
	l.pos = end
	return t
}

// isFloat reports whether a decimal floating-point number starts here, and its end.
func (l *lexer) isFloat(end *int) bool {
	i := l.pos
	for i < len(l.src) && isDigit(l.src[i]) {
		i++
	}
	float := false
	if i+1 < len(l.src) && l.src[i] == '.' && isDigit(l.src[i+1]) || i < len(l.src) && l.src[i] == '.' && (i+1 == len(l.src) || !isWordByte(l.src[i+1])) {
		float = true
		for i++; i < len(l.src) && isDigit(l.src[i]); i++ {
			continue
		}
	}
	if i < len(l.src) && l.src[i]|0x20 == 'e' {
		j := i + 1
		if j < len(l.src) && (l.src[j] == '+' || l.src[j] == '-') {
			j++
		}
		if j < len(l.src) && isDigit(l.src[j]) {
			for float = true; j < len(l.src) && isDigit(l.src[j]); j++ {
				continue
			}
			i = j
		}
	}
	if float {
		*end = i
	}
	return float
}
