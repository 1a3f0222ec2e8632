// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"io"
)

// feedWanted sends the parts of streams that a helper wants. They are in the order of the
// streams, so each stream is read once, from its beginning.
func (h *userHelper) feedWanted(wants []wantedRange, l Loader) error {
	f := feeder{l: l}
	defer f.closeFeed()
	buf := make([]byte, maxSegment)
	for _, w := range wants {
		if w.Size <= 0 || w.Size > maxSegment || w.Off < 0 {
			return fmt.Errorf("the helper wants %d bytes at %d", w.Size, w.Off)
		}
		if err := f.readWanted(w, buf[:w.Size]); err != nil {
			return fmt.Errorf("stream %.80s: %w", w.Stream, err)
		}
		if err := h.sendFrame(frameData, buf[:w.Size]); err != nil {
			return err
		}
	}
	return nil
}

// feeder has at most a single stream open at a time.
type feeder struct {
	l    Loader
	name string
	r    io.ReadCloser
	at   int64
}

func (f *feeder) closeFeed() {
	if f.r != nil {
		f.r.Close()
		f.r = nil
	}
}

func (f *feeder) readWanted(w wantedRange, b []byte) error {
	if f.r == nil || f.name != w.Stream || f.at > w.Off {
		f.closeFeed()
		r, err := f.l.Open(w.Stream)
		if err != nil {
			return err
		}
		f.r, f.name, f.at = r, w.Stream, 0
	}
	if err := f.skipBytes(w.Off - f.at); err != nil {
		return err
	}
	f.at = w.Off + int64(len(b))
	_, err := io.ReadFull(f.r, b)
	return err
}

func (f *feeder) skipBytes(n int64) error {
	if n == 0 {
		return nil
	}
	if s, ok := f.r.(io.Seeker); ok {
		_, err := s.Seek(n, io.SeekCurrent)
		return err
	}
	_, err := io.CopyN(io.Discard, f.r, n)
	return err
}
