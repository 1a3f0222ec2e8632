// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package stream carries a TCP connection of a job to outside of the job in numbered bytes, so that both ends
// can go on at the same byte after the job was away.
//
//	program ── TCP ── forwarder ─────── link ─────── relay ── TCP ── the other side
//	                    End       frames of bytes     End
//
// A link is a TCP connection, which may break at any moment; the next link goes on at the positions of the ends. Each
// end keeps sent bytes until the other end has used them: the forwarder's end is in the job's checkpoint,
// together with the program, and the relay's end stays in the relay. When the job resumes, both ends send their
// positions. If an end has gone on since (the job resumed from a checkpoint after which it ran on), bytes are missing,
// and the connection has failed: no byte is ever delivered twice, left out or replaced.
package stream

import (
	"cmp"
	"context"
	"net"
	"sync"
)

// Stream is an End that goroutines share.
type Stream struct {
	// Stop, if set, is held shared while the stream changes. Under the exclusive lock the stream is at rest.
	Stop *sync.RWMutex

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	end     End
	failed  error
}

// NewStream returns a stream with an end.
func NewStream(e End, stop *sync.RWMutex) *Stream {
	return &Stream{Stop: stop, changed: make(chan struct{}), end: e}
}

// Do calls f with the end, and wakes the callers of Wait if f returns true. f must not wait.
func (s *Stream) Do(f func(*End) bool) {
	if s.Stop != nil {
		s.Stop.RLock()
		defer s.Stop.RUnlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f(&s.end) {
		s.wakeWaiting()
	}
}

// wakeWaiting wakes the callers of Wait. The caller holds mu.
func (s *Stream) wakeWaiting() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait waits until f is true of the end. Wait returns the reason if the stream has failed, or ctx's error.
func (s *Stream) Wait(ctx context.Context, f func(*End) bool) error {
	for {
		s.mu.Lock()
		failed, is, changed := s.failed, f(&s.end), s.changed
		s.mu.Unlock()
		if failed != nil {
			return failed
		}
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fail ends the stream for a reason. Later reasons are ignored.
func (s *Stream) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
		s.wakeWaiting()
	}
}

// Failed returns the reason for which the stream has failed, or nil.
func (s *Stream) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Forget drops the bytes of a stream that has failed.
func (s *Stream) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		s.end = End{}
	}
}

// State returns the state of the end. The caller holds Stop, unless Stop is nil.
func (s *Stream) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end.State()
}

// Carry carries frames over a link, which both ends have resumed, until the link breaks, the stream fails, or ctx ends.
// Carry closes the link. A frame ConnectionEnd of the other end is passed to over.
func (s *Stream) Carry(ctx context.Context, link net.Conn, over func(*Frame) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { link.Close() })()
	sent := make(chan error, 1)
	go func() {
		err := s.sendFrames(ctx, link)
		cancel()
		sent <- err
	}()
	err := s.receiveFrames(link, over)
	cancel()
	bad := <-sent
	return cmp.Or(s.Failed(), err, bad)
}

// sendFrames sends the end's frames, and the reason when the stream fails.
func (s *Stream) sendFrames(ctx context.Context, link net.Conn) error {
	for {
		if err := s.Wait(ctx, func(e *End) bool { return !e.Idle() }); err != nil {
			if ctx.Err() == nil {
				return WriteJSON(link, KindOver, ConnectionEnd{Reason: err.Error()})
			}
			return err
		}
		var f *Frame
		s.Do(func(e *End) bool {
			f = e.Pull()
			return false
		})
		if f == nil {
			continue
		}
		if err := WriteFrame(link, f); err != nil {
			return err
		}
	}
}

func (s *Stream) receiveFrames(link net.Conn, over func(*Frame) error) error {
	for {
		f, err := ReadFrame(link)
		if err != nil {
			return err
		}
		if f.Kind == KindOver {
			return over(f)
		}
		s.Do(func(e *End) bool {
			err = e.Receive(f)
			return true
		})
		if err != nil {
			return err
		}
	}
}
