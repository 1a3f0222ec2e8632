// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

var errNoStream = fmt.Errorf("no such stream: %w", fs.ErrNotExist)

// readAhead is the number of chunks of a stream that are fetched in advance. A StreamReader holds
// at most readAhead × 2 MiB.
const readAhead = 6

// StreamReader reads a stream sequentially. A StreamReader returns only verified bytes, and is not
// safe for concurrent use, except for Close.
type StreamReader struct {
	r    *Reader
	info *StreamInfo
	ctx  context.Context
	end  context.CancelCauseFunc

	queue chan *segmentFetch // in order; closed after the last
	bufs  chan *fetchBuffer  // limits the data that is fetched
	tasks sync.WaitGroup
	last  error // why the queue ended; valid once the queue is closed

	now   *segmentFetch // being read
	runs  []run         // remaining runs of now
	rest  []byte        // the data of runs
	data  []byte        // remaining data of the current run
	zeros uint64        // zeros to read before data
	err   error
}

// fetchBuffer is the memory for fetching a chunk.
type fetchBuffer struct{ plain, file []byte }

// segmentFetch is a segment while its data arrives.
type segmentFetch struct {
	seg   segment
	buf   *fetchBuffer
	err   error
	ready chan struct{}
}

func newStreamReader(r *Reader, info *StreamInfo) *StreamReader {
	s := &StreamReader{r: r, info: info, queue: make(chan *segmentFetch, readAhead), bufs: make(chan *fetchBuffer, readAhead)}
	for range readAhead {
		s.bufs <- new(fetchBuffer)
	}
	s.ctx, s.end = context.WithCancelCause(r.ctx)
	s.tasks.Go(func() {
		defer close(s.queue)
		s.last = r.st.eachStreamSegment(s.ctx, info, s.beginFetch)
	})
	return s
}

// beginFetch starts to fetch a segment's data as soon as a buffer is free.
func (s *StreamReader) beginFetch(g segment) error {
	f := &segmentFetch{seg: g, ready: make(chan struct{})}
	select {
	case f.buf = <-s.bufs:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	if g.kind == segmentChunk {
		s.tasks.Go(func() { s.loadSegment(f) })
	} else {
		f.buf.plain = append(f.buf.plain[:0], g.bytes...)
		close(f.ready)
	}
	select {
	case s.queue <- f:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *StreamReader) loadSegment(f *segmentFetch) {
	defer close(f.ready)
	f.buf.plain, f.err = s.r.st.loadChunk(s.ctx, f.seg.hash, f.seg.data, f.buf.plain, &f.buf.file)
}

// fillData makes bytes readable, or returns an error: io.EOF at the end.
func (s *StreamReader) fillData() error {
	for s.zeros == 0 && len(s.data) == 0 {
		if len(s.runs) == 0 {
			if err := s.nextSegment(); err != nil {
				return err
			}
			continue
		}
		r := s.runs[0]
		s.runs = s.runs[1:]
		s.zeros, s.data = r.zeros, s.rest[:r.data]
		s.rest = s.rest[r.data:]
	}
	return nil
}

// nextSegment waits for the next segment.
func (s *StreamReader) nextSegment() error {
	s.recycleSegment()
	f, ok := <-s.queue
	if !ok {
		if s.last != nil {
			return s.withStream(s.last)
		}
		return io.EOF
	}
	select {
	case <-f.ready:
	case <-s.ctx.Done():
		return s.withStream(context.Cause(s.ctx))
	}
	if f.err != nil {
		s.end(f.err)
		return s.withStream(f.err)
	}
	s.now, s.runs, s.rest, s.zeros = f, f.seg.runs, f.buf.plain, f.seg.zeros
	return nil
}

// recycleSegment gives the memory of the finished segment to the next.
func (s *StreamReader) recycleSegment() {
	if s.now != nil {
		s.bufs <- s.now.buf
		s.now = nil
	}
}

func (s *StreamReader) withStream(err error) error {
	return fmt.Errorf("checkpoint %s: stream %s: %w", s.r.m.ID, s.info.StreamID, err)
}

// Read reads some of the stream. At the stream's end Read returns io.EOF; any other error is returned again by later
// calls.
func (s *StreamReader) Read(p []byte) (int, error) {
	if len(p) == 0 || s.err != nil {
		return 0, s.err
	}
	if s.err = s.fillData(); s.err != nil {
		return 0, s.err
	}
	if s.zeros > 0 {
		n := int(min(s.zeros, uint64(len(p))))
		clear(p[:n])
		s.zeros -= uint64(n)
		return n, nil
	}
	n := copy(p, s.data)
	s.data = s.data[n:]
	return n, nil
}

// zeroBlock is the source from which zeros are written.
var zeroBlock [256 << 10]byte

// WriteTo writes the rest of the stream to w, without another copy.
func (s *StreamReader) WriteTo(w io.Writer) (total int64, err error) {
	for s.err == nil {
		if s.err = s.fillData(); s.err != nil {
			break
		}
		piece := s.data
		if s.zeros > 0 {
			piece = zeroBlock[:min(s.zeros, uint64(len(zeroBlock)))]
		}
		n, err := w.Write(piece)
		total += int64(n)
		if s.zeros > 0 {
			s.zeros -= uint64(n)
		} else {
			s.data = s.data[n:]
		}
		if err != nil {
			return total, err
		}
	}
	if errors.Is(s.err, io.EOF) {
		return total, nil
	}
	return total, s.err
}

// Close stops reading and frees the memory. Close may be called twice.
func (s *StreamReader) Close() error {
	s.end(ErrClosed)
	s.tasks.Wait()
	return nil
}
