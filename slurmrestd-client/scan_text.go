// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxName  = 96   // bytes of a text that is worth remembering
	maxNames = 4096 // texts remembered per answer
)

// special marks the bytes that end a run of plain text in a JSON string.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// plainPrefix returns how many bytes at the head of b are plain text.
func plainPrefix(b []byte) int {
	for i, c := range b {
		if special[c] {
			return i
		}
	}
	return len(b)
}

// readString reads a string of at most limit bytes. The bytes are valid until the next call. The error
// names the string by what.
func (s *scanner) readString(limit int64, what string) []byte {
	s.expectByte('"')
	n := plainPrefix(s.buf[s.r:s.w])
	if s.r+n < s.w && s.buf[s.r+n] == '"' && int64(n) <= limit {
		text := s.buf[s.r : s.r+n]
		s.r += n + 1
		return text
	}
	return s.longStr(limit, what)
}

// longStr is readString for a string that cannot be returned in place: it has escapes, or its end
// is not in the window.
func (s *scanner) longStr(limit int64, what string) []byte {
	s.scratch = s.scratch[:0]
	for s.err == nil {
		n := plainPrefix(s.buf[s.r:s.w])
		if int64(len(s.scratch)+n) > limit {
			s.tooLarge(what, limit)
			break
		}
		s.scratch = append(s.scratch, s.buf[s.r:s.r+n]...)
		s.r += n
		if s.r == s.w {
			s.fillBuffer()
			continue
		}
		switch c := s.nextByte(); c {
		case '"':
			return s.scratch
		case '\\':
			r := s.readEscape() // may itself append to scratch
			s.scratch = utf8.AppendRune(s.scratch, r)
		default:
			s.failScan("control character 0x%02x in a string", c)
		}
	}
	return nil
}

// skipString consumes a string that is not used.
func (s *scanner) skipString() {
	s.expectByte('"')
	for s.err == nil {
		s.r += plainPrefix(s.buf[s.r:s.w])
		if s.r == s.w {
			s.fillBuffer()
			continue
		}
		switch c := s.nextByte(); c {
		case '"':
			return
		case '\\':
			s.readEscape()
		default:
			s.failScan("control character 0x%02x in a string", c)
		}
	}
}

// readEscape reads the rest of an escape, after its backslash.
func (s *scanner) readEscape() rune {
	switch c := s.nextByte(); c {
	case '"', '\\', '/':
		return rune(c)
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'u':
		return s.readUnicode()
	default:
		s.failScan("escape \\%c", c)
		return 0
	}
}

// readUnicode reads the digits of a \u escape, and of the second escape of a pair. Half a pair becomes
// U+FFFD, as in encoding/json.
func (s *scanner) readUnicode() rune {
	r := s.readHex4()
	if !utf16.IsSurrogate(r) {
		return r
	}
	// A second escape may follow. Other bytes must stay unread, so the look-ahead takes one byte at a
	// time.
	if s.r == s.w {
		s.fillBuffer()
	}
	if s.err != nil || s.buf[s.r] != '\\' {
		return utf8.RuneError
	}
	s.r++
	if s.r == s.w {
		s.fillBuffer()
	}
	if s.err != nil || s.buf[s.r] != 'u' {
		second := s.readEscape()
		s.scratch = utf8.AppendRune(s.scratch, utf8.RuneError)
		return second
	}
	s.r++
	return utf16.DecodeRune(r, s.readHex4())
}

// readHex4 reads four hexadecimal digits.
func (s *scanner) readHex4() rune {
	var r rune
	for range 4 {
		c := s.nextByte()
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if c < '0' || d < 0 {
			s.failScan("%q in a \\u escape", c)
			return 0
		}
		r = r<<4 | rune(d)
	}
	return r
}

// keepText returns a copy of a text, which stays valid when the window moves. Short texts are
// shared within an answer: a list of jobs names the same users, partitions and nodes again and
// again.
func (s *scanner) keepText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s.kept += int64(len(b)); s.kept > s.limits.record {
		s.tooLarge("a record", s.limits.record)
		return ""
	}
	if known, ok := s.names[string(b)]; ok {
		return known
	}
	text := string(bytes.ToValidUTF8(b, []byte("\ufffd")))
	if len(b) <= maxName && len(s.names) < maxNames {
		s.names[text] = text
	}
	return text
}

// growBudget counts n bytes that a record holds besides its texts.
func (s *scanner) growBudget(n int64) bool {
	if s.kept += n; s.kept > s.limits.record {
		s.tooLarge("a record", s.limits.record)
	}
	return s.err == nil
}
