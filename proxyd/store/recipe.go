// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A recipe describes how a stream is made: zeros, and data that comes from chunks. A recipe is a sequence of segments:
//
//	0x01  hash[32]  n  n × (zeros, data)            a chunk
//	0x02  n  n × (zeros, data)  bytes               the same, with the bytes in place of a hash
//	0x03  zeros                                     zeros only
//
// Numbers are unsigned varints. A pair stands for that many zero bytes and then that many
// of the segment's data; a pair's data is never 0. A chunk's length is the sum over its
// pairs, at most MaxChunk. Because zeros are no part of chunks, zero pages that come or
// go between two checkpoints change the recipe only.
const (
	segmentChunk  = 0x01
	segmentInline = 0x02
	segmentZeros  = 0x03
)

// run is some zero bytes and then some bytes of data.
type run struct{ zeros, data uint64 }

// maxRuns bounds a segment's pairs: a pair for each page, and the pairs that a short page adds.
const maxRuns = MaxChunk/pageSize + 2

// maxStream bounds a stream, so that sums over a recipe cannot overflow.
const maxStream = 1 << 60

// segment is a parsed piece of a recipe.
type segment struct {
	kind   byte
	hash   Hash   // segmentChunk
	bytes  []byte // segmentInline: its data, in the recipe's storage
	runs   []run  // of segmentChunk and segmentInline
	zeros  uint64 // segmentZeros
	length uint64 // bytes of the stream that the segment stands for
	data   int    // of these, bytes of data
}

var errRecipe = errors.New("recipe is malformed")

// appendChunk appends a segment of a chunk.
func appendChunk(b []byte, h Hash, runs []run) []byte {
	b = append(b, segmentChunk)
	b = append(b, h[:]...)
	return appendRuns(b, runs)
}

// appendInline appends a segment that carries its data.
func appendInline(b, data []byte, runs []run) []byte {
	b = appendRuns(append(b, segmentInline), runs)
	return append(b, data...)
}

// appendZeros appends a segment of n zeros.
func appendZeros(b []byte, n uint64) []byte {
	return binary.AppendUvarint(append(b, segmentZeros), n)
}

func appendRuns(b []byte, runs []run) []byte {
	b = binary.AppendUvarint(b, uint64(len(runs)))
	for _, r := range runs {
		b = binary.AppendUvarint(b, r.zeros)
		b = binary.AppendUvarint(b, r.data)
	}
	return b
}

// nextSegment parses the first segment of b, which is not empty, and returns the rest.
func nextSegment(b []byte) (segment, []byte, error) {
	s := segment{kind: b[0]}
	var err error
	switch b = b[1:]; s.kind {
	case segmentZeros:
		s.zeros, b, err = nextNumber(b, maxStream)
		s.length = s.zeros
	case segmentChunk:
		if len(b) < len(s.hash) {
			return s, nil, errRecipe
		}
		s.hash = Hash(b)
		b, err = s.parseRuns(b[len(s.hash):])
	case segmentInline:
		if b, err = s.parseRuns(b); err == nil && len(b) < s.data {
			err = errRecipe
		}
		if err == nil {
			s.bytes, b = b[:s.data], b[s.data:]
		}
	default:
		err = fmt.Errorf("%w: segment of kind %d", errRecipe, s.kind)
	}
	return s, b, err
}

// parseRuns fills runs, length and data.
func (s *segment) parseRuns(b []byte) ([]byte, error) {
	n, b, err := nextNumber(b, maxRuns)
	if err != nil || n == 0 || uint64(len(b)) < 2*n {
		return nil, errRecipe
	}
	s.runs = make([]run, n)
	for i := range s.runs {
		r := &s.runs[i]
		if r.zeros, b, err = nextNumber(b, maxStream/maxRuns); err != nil {
			return nil, err
		}
		if r.data, b, err = nextNumber(b, MaxChunk); err != nil || r.data == 0 {
			return nil, errRecipe
		}
		s.length += r.zeros + r.data
		s.data += int(r.data)
	}
	if s.data > MaxChunk {
		return nil, errRecipe
	}
	return b, nil
}

// nextNumber parses a varint of at most limit.
func nextNumber(b []byte, limit uint64) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > limit {
		return 0, nil, errRecipe
	}
	return v, b[n:], nil
}

// Recipes are stored in pieces, which are chunks and end between segments. The hash of a segment's chunk decides
// whether a piece ends there. So if a small part of a recipe changes, its other pieces are the same as before.
const (
	minPiece  = 4 << 10
	maxPiece  = 64 << 10
	pieceMask = 0xff // in the hash's second byte: 256 segments on average
)

// pieceEnds tells whether a piece of n bytes ends after a segment with the hash h.
func pieceEnds(n int, h Hash) bool {
	return n >= maxPiece || n >= minPiece && h[1]&pieceMask == 0
}

// runTape collects runs until a chunk is cut.
type runTape struct {
	runs  []run
	zeros uint64 // since the last data
	data  int    // in runs
}

func (t *runTape) addZeros(n int) { t.zeros += uint64(n) }

func (t *runTape) addData(n int) {
	if last := len(t.runs) - 1; last >= 0 && t.zeros == 0 {
		t.runs[last].data += uint64(n)
	} else {
		t.runs = append(t.runs, run{t.zeros, uint64(n)})
	}
	t.zeros, t.data = 0, t.data+n
}

// takeRuns returns the runs so far. Zeros after the last data stay for the next.
func (t *runTape) takeRuns() []run {
	runs := t.runs
	t.runs, t.data = nil, 0
	return runs
}
