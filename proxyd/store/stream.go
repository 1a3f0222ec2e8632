// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"sync"
)

// Stream is a stream being written. Its methods may be called concurrently, but then the order of
// the bytes is undefined; different Streams are independent.
type Stream struct {
	w     *Writer
	id    StreamID
	block int64 // chunks end at multiples of this length; 0: anywhere

	mu     sync.Mutex
	closed bool
	failed error

	page    [pageSize]byte // the beginning of a page, until the rest comes
	partial int            // bytes in page

	buf     []byte // data of the next chunk; nil if it has not begun
	tape    runTape
	level   splitLevel   // of the next chunk, once it has begun
	size    int64        // all bytes
	data    int64        // of these, not zero
	inline  int64        // of these, in the recipe
	waiting []*chunkSlot // chunks that are not in recipe yet, in order

	recipe []byte // the part of the recipe that is not in pieces yet
	pieces []*chunkSlot
}

// maxInline is the largest data of a stream that is kept in its recipe.
const maxInline = pageSize

// Write appends to the stream. Write does not keep p. After an error, all later calls fail.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, s.wrapError(ErrClosed)
	}
	if s.failed != nil {
		return 0, s.failed
	}
	if s.failed = s.splitPages(p); s.failed != nil {
		return 0, s.failed
	}
	return len(p), nil
}

func (s *Stream) wrapError(err error) error {
	return fmt.Errorf("checkpoint %s: stream %s: %w", s.w.up.ID, s.id, err)
}

// splitPages splits p into pages; an incomplete page waits.
func (s *Stream) splitPages(p []byte) error {
	if s.partial > 0 {
		n := copy(s.page[s.partial:], p)
		s.partial += n
		if p = p[n:]; s.partial < pageSize {
			return nil
		}
		s.partial = 0
		if err := s.addPage(s.page[:]); err != nil {
			return err
		}
	}
	for ; len(p) >= pageSize; p = p[pageSize:] {
		if err := s.addPage(p[:pageSize]); err != nil {
			return err
		}
	}
	s.partial = copy(s.page[:], p)
	return nil
}

// addPage takes a page, which only at the end of the stream may be short.
func (s *Stream) addPage(page []byte) error {
	if s.block > 0 && s.size%s.block == 0 {
		if err := s.cutChunk(); err != nil {
			return err
		}
	}
	s.size += int64(len(page))
	if isZero(page) {
		s.tape.addZeros(len(page))
		return nil
	}
	if s.buf == nil {
		buf, err := s.w.waitForBuffer()
		if err != nil {
			return err
		}
		s.level = levelAt(s.data)
		if s.block > 0 {
			s.level = blockLevel
		}
		if cap(buf) < s.level.max {
			buf = make([]byte, 0, s.level.max)
		}
		s.buf = buf
	}
	s.buf = append(s.buf, page...)
	s.tape.addData(len(page))
	s.data += int64(len(page))
	if s.level.endsChunk(len(s.buf), page) {
		return s.cutChunk()
	}
	return nil
}

// cutChunk submits the data so far, if there is any, and takes up finished chunks. The caller holds
// s.mu.
func (s *Stream) cutChunk() error {
	if len(s.buf) > 0 {
		slot, err := s.w.submitChunk(s.buf, s.tape.takeRuns(), streamData)
		if err != nil {
			return err
		}
		s.buf = nil
		s.waiting = append(s.waiting, slot)
	}
	for len(s.waiting) > 0 && s.waiting[0].hasArrived() {
		if err := s.appendToRecipe(s.waiting[0]); err != nil {
			return err
		}
		s.waiting = s.waiting[1:]
	}
	return nil
}

func (t *chunkSlot) hasArrived() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// appendToRecipe appends a chunk to the recipe, and ends the piece if due.
func (s *Stream) appendToRecipe(t *chunkSlot) error {
	s.recipe = appendChunk(s.recipe, t.hash, t.runs)
	if pieceEnds(len(s.recipe), t.hash) {
		return s.endPiece()
	}
	return nil
}

// endPiece submits the recipe so far.
func (s *Stream) endPiece() error {
	buf, err := s.w.waitForBuffer()
	if err != nil {
		return err
	}
	slot, err := s.w.submitChunk(append(buf, s.recipe...), nil, recipePiece)
	if err != nil {
		return err
	}
	s.recipe = s.recipe[:0]
	s.pieces = append(s.pieces, slot)
	return nil
}

// Close ends the stream. The stream is durable when the Writer commits. A second Close returns nil
// if the first did. A Stream that failed cannot be closed: its Writer has failed.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.failed == nil {
		s.failed = s.finishStream()
	}
	s.closed = s.failed == nil
	return s.failed
}

// finishStream writes the last chunk and the recipe.
func (s *Stream) finishStream() error {
	if s.partial > 0 {
		if err := s.addPage(s.page[:s.partial]); err != nil {
			return err
		}
	}
	if err := s.lastChunk(); err != nil {
		return err
	}
	for _, t := range s.waiting {
		if err := s.awaitChunk(t); err != nil {
			return err
		}
		if err := s.appendToRecipe(t); err != nil {
			return err
		}
	}
	if s.tape.zeros > 0 {
		s.recipe = appendZeros(s.recipe, s.tape.zeros)
	}
	info, err := s.lastPiece()
	if err != nil {
		return err
	}
	s.w.closeStream(info, Stats{Logical: s.size, Zero: s.size - s.data, Inline: s.inline})
	return nil
}

// lastChunk stores the remaining data: in the recipe if the stream has no other data.
func (s *Stream) lastChunk() error {
	if s.buf != nil && s.data == int64(len(s.buf)) && s.data <= maxInline {
		s.recipe = appendInline(s.recipe, s.buf, s.tape.takeRuns())
		s.inline = s.data
		s.w.free <- s.buf[:0]
		s.buf = nil
		return nil
	}
	return s.cutChunk()
}

// lastPiece returns the finished stream with its recipe. A short recipe goes into the manifest.
func (s *Stream) lastPiece() (StreamInfo, error) {
	info := StreamInfo{StreamID: s.id, Size: s.size, Data: s.data}
	if len(s.pieces) == 0 && len(s.recipe) <= 2*maxInline && s.w.reserveInline(len(s.recipe)) {
		info.Recipe = s.recipe
		return info, nil
	}
	if len(s.recipe) > 0 {
		if err := s.endPiece(); err != nil {
			return info, err
		}
	}
	for _, t := range s.pieces {
		if err := s.awaitChunk(t); err != nil {
			return info, err
		}
		info.Pieces = append(info.Pieces, Piece{t.hash, t.size})
	}
	return info, nil
}

// awaitChunk waits for a chunk, or the Writer's failure.
func (s *Stream) awaitChunk(t *chunkSlot) error {
	select {
	case <-t.done:
		return nil
	case <-s.w.ctx.Done():
		return s.w.Err()
	}
}
