// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is the error for every answer that is not the expected JSON.
var ErrMalformed = errors.New("malformed answer")

// ErrTooLarge matches every error about an answer over a limit of Config.
var ErrTooLarge = errors.New("answer over the limit")

const (
	window   = 64 << 10 // bytes read ahead
	maxDepth = 64       // nested objects and arrays; Slurm's deepest answer has 9
	maxToken = 64       // digits of a number
	maxKey   = 256      // bytes of a key
)

// scanner reads a JSON text from a stream, through a window of fixed size. The reason for a scanner
// of our own: encoding/json holds a whole value at a time and spends most of its time on the
// hundred fields of a job that are not used. The scanner checks and skips such a field without an
// allocation (docs/performance.md has figures).
//
// A scanner accepts JSON as RFC 8259 defines it, except that the encoding of skipped text is not
// checked. The first error stays (err), and every call afterwards returns a zero value and consumes
// no input, so that callers check a single time, at the end.
//
// A scanner is for a single goroutine and a single text.
type scanner struct {
	src  io.Reader
	buf  []byte // buf[r:w] is read and not consumed
	r, w int
	err  error

	depth int  // open objects and arrays
	fresh bool // the innermost object or array has had no member yet
	null  bool // begin found a null

	limits limits
	total  int64 // bytes read
	kept   int64 // bytes of text kept for the current record

	scratch []byte            // a string with escapes, or that spans windows
	digits  [maxToken]byte    // the current number
	names   map[string]string // short texts seen before: a single allocation each
}

// limits bound the size of an answer.
type limits struct {
	body   int64 // bytes on the wire
	record int64 // bytes of memory for a record
}

func newScanner(src io.Reader, l limits) *scanner {
	return &scanner{
		src:    src,
		buf:    make([]byte, window),
		limits: l,
		names:  make(map[string]string),
	}
}

// failScan keeps the first error.
func (s *scanner) failScan(format string, args ...any) {
	if s.err == nil {
		at := s.total - int64(s.w-s.r)
		s.err = fmt.Errorf("%w: byte %d: %s", ErrMalformed, at, fmt.Sprintf(format, args...))
	}
	s.r, s.w = 0, 0
}

// tooLarge keeps the first error.
func (s *scanner) tooLarge(what string, limit int64) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s of more than %d bytes", ErrTooLarge, what, limit)
	}
	s.r, s.w = 0, 0
}

// fillBuffer reads more into an empty window. fillBuffer reports false at the end of the text (which is an
// error, since only checkEnd asks for the end) and after an error.
func (s *scanner) fillBuffer() bool {
	if s.err != nil {
		return false
	}
	if s.total > s.limits.body {
		s.tooLarge("a body", s.limits.body)
		return false
	}
	s.r, s.w = 0, 0
	for range 100 {
		n, err := s.src.Read(s.buf)
		s.w = n
		s.total += int64(n)
		switch {
		case n > 0:
			return true
		case err == io.EOF:
			s.err = fmt.Errorf("%w: byte %d: %w", ErrMalformed, s.total, io.ErrUnexpectedEOF)
			return false
		case err != nil:
			s.err = fmt.Errorf("read answer: %w", err)
			return false
		}
	}
	s.err = fmt.Errorf("read answer: %w", io.ErrNoProgress)
	return false
}

// peekToken skips white space and returns the next byte without consuming that byte; 0 after an error.
func (s *scanner) peekToken() byte {
	for {
		for i, c := range s.buf[s.r:s.w] {
			if c > ' ' {
				s.r += i
				return c
			}
			if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				s.r += i
				s.failScan("control character 0x%02x", c)
				return 0
			}
		}
		s.r = s.w
		if !s.fillBuffer() {
			return 0
		}
	}
}

// nextByte consumes and returns the next byte, white space included.
func (s *scanner) nextByte() byte {
	if s.r == s.w && !s.fillBuffer() {
		return 0
	}
	c := s.buf[s.r]
	s.r++
	return c
}

// expectByte consumes white space and then exactly c.
func (s *scanner) expectByte(c byte) {
	got := s.peekToken()
	if s.err != nil {
		return
	}
	if got != c {
		s.failScan("%q where %q should be", got, c)
		return
	}
	s.r++
}

// beginGroup opens an object ('{') or array ('['). A null counts as an empty group: Slurm writes
// null for many empty objects and arrays. The next call must be hasNext.
func (s *scanner) beginGroup(open byte) {
	if s.peekToken() == 'n' {
		s.readLiteral("null")
		s.null = true
		return
	}
	s.expectByte(open)
	if s.depth++; s.depth > maxDepth {
		s.failScan("more than %d levels", maxDepth)
	}
	s.fresh = true
}

// hasNext goes to the next member of the innermost object or array, or closes it and
// returns false.
func (s *scanner) hasNext(end byte) bool {
	if s.null {
		s.null = false
		return false
	}
	c := s.peekToken()
	switch {
	case s.err != nil:
		return false
	case c == end:
		s.r++
		s.depth--
		s.fresh = false
		return false
	case s.fresh:
		s.fresh = false
		return true
	case c != ',':
		s.failScan("%q where ',' or %q should be", c, end)
		return false
	}
	s.r++
	return true
}

// readKey reads a member's name and the colon. The bytes are valid until the next call.
func (s *scanner) readKey() []byte {
	name := s.readString(maxKey, "a key")
	if s.r < s.w && s.buf[s.r] == ':' { // by far the usual case
		s.r++
		return name
	}
	if len(name) > 0 && s.err == nil {
		s.scratch = append(s.scratch[:0], name...) // the window may move
		name = s.scratch
	}
	s.expectByte(':')
	return name
}

// readLiteral consumes null, true or false.
func (s *scanner) readLiteral(word string) {
	s.peekToken()
	for i := range len(word) {
		if c := s.nextByte(); s.err == nil && c != word[i] {
			s.failScan("%q is not %s", c, word)
			return
		}
	}
}

// skipValue consumes a value of any kind, checks it and keeps no part of it.
func (s *scanner) skipValue() {
	switch c := s.peekToken(); c {
	case '"':
		s.skipString()
	case '{':
		for s.beginGroup('{'); s.hasNext('}'); s.skipValue() {
			s.skipKey()
		}
	case '[':
		for s.beginGroup('['); s.hasNext(']'); {
			s.skipValue()
		}
	case 't':
		s.readLiteral("true")
	case 'f':
		s.readLiteral("false")
	case 'n':
		s.readLiteral("null")
	default:
		s.readToken()
	}
}

func (s *scanner) skipKey() {
	s.peekToken()
	s.skipString()
	s.expectByte(':')
}

// checkEnd checks that only white space follows, and returns the scanner's first error.
func (s *scanner) checkEnd() error {
	if s.err != nil {
		return s.err
	}
	c := s.peekToken()
	if errors.Is(s.err, io.ErrUnexpectedEOF) {
		s.err = nil
		return nil
	}
	if s.err == nil {
		s.failScan("%q after the end", c)
	}
	return s.err
}
