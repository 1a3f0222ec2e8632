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

// ErrTooLarge is what every answer over a limit of Config is.
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
// A scanner accepts what RFC 8259 accepts, except that the encoding of skipped text is not checked.
// The first error stays (err), and every call afterwards returns a zero value and consumes nothing,
// so that callers check a single time, at the end.
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
	held   int64 // bytes of text kept for the current record

	scratch []byte            // a string with escapes, or that spans windows
	digits  [maxToken]byte    // the current number
	names   map[string]string // short texts seen before: a single allocation each
}

// limits bound what an answer may cost.
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

// fail keeps the first error.
func (s *scanner) fail(format string, args ...any) {
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

// fill reads more into an empty window. fill reports false at the end of the text (which is an
// error, since only done asks for the end) and after an error.
func (s *scanner) fill() bool {
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

// peek skips white space and returns the next byte without consuming that byte; 0 after an error.
func (s *scanner) peek() byte {
	for {
		for i, c := range s.buf[s.r:s.w] {
			if c > ' ' {
				s.r += i
				return c
			}
			if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				s.r += i
				s.fail("control character 0x%02x", c)
				return 0
			}
		}
		s.r = s.w
		if !s.fill() {
			return 0
		}
	}
}

// next1 consumes and returns the next byte, white space included.
func (s *scanner) next1() byte {
	if s.r == s.w && !s.fill() {
		return 0
	}
	c := s.buf[s.r]
	s.r++
	return c
}

// expect consumes white space and then exactly c.
func (s *scanner) expect(c byte) {
	got := s.peek()
	if s.err != nil {
		return
	}
	if got != c {
		s.fail("%q where %q should be", got, c)
		return
	}
	s.r++
}

// begin opens an object ('{') or array ('['). A null will do instead and has no member: Slurm
// writes null for many empty objects and arrays. next must follow.
func (s *scanner) begin(open byte) {
	if s.peek() == 'n' {
		s.literal("null")
		s.null = true
		return
	}
	s.expect(open)
	if s.depth++; s.depth > maxDepth {
		s.fail("more than %d levels", maxDepth)
	}
	s.fresh = true
}

// next goes to the next member of the innermost object or array, or closes it and
// returns false.
func (s *scanner) next(end byte) bool {
	if s.null {
		s.null = false
		return false
	}
	c := s.peek()
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
		s.fail("%q where ',' or %q should be", c, end)
		return false
	}
	s.r++
	return true
}

// key reads a member's name and the colon. The bytes are good until the next call.
func (s *scanner) key() []byte {
	name := s.str(maxKey, "a key")
	if s.r < s.w && s.buf[s.r] == ':' { // by far the usual case
		s.r++
		return name
	}
	if len(name) > 0 && s.err == nil {
		s.scratch = append(s.scratch[:0], name...) // the window may move
		name = s.scratch
	}
	s.expect(':')
	return name
}

// literal consumes null, true or false.
func (s *scanner) literal(word string) {
	s.peek()
	for i := range len(word) {
		if c := s.next1(); s.err == nil && c != word[i] {
			s.fail("%q is not %s", c, word)
			return
		}
	}
}

// skip consumes a value of any kind, checks the value and keeps nothing.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '"':
		s.skipString()
	case '{':
		for s.begin('{'); s.next('}'); s.skip() {
			s.skipKey()
		}
	case '[':
		for s.begin('['); s.next(']'); {
			s.skip()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.token()
	}
}

func (s *scanner) skipKey() {
	s.peek()
	s.skipString()
	s.expect(':')
}

// done checks that nothing but white space follows, and returns the first error.
func (s *scanner) done() error {
	if s.err != nil {
		return s.err
	}
	c := s.peek()
	if errors.Is(s.err, io.ErrUnexpectedEOF) {
		s.err = nil
		return nil
	}
	if s.err == nil {
		s.fail("%q after the end", c)
	}
	return s.err
}
