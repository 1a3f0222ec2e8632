// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// MaxQueued is how many pieces of work a stream holds before its program must wait, as a device does.
const MaxQueued = 1 << 16

// StreamQueue has the work that a stream was given and has not begun, in order. A piece of work is a W of the backend's.
// A backend embeds StreamQueue in its own type, calls Init, and carries the work out in a goroutine that begins when
// AddWork says so, and ends when TakeNext has no more.
type StreamQueue[W any] struct {
	Mu      sync.Mutex // held to change anything below
	Queue   []*W
	Current *W     // taken off the queue and not done
	Done    uint64 // pieces of the program's work

	given   atomic.Uint64 // likewise
	waiting atomic.Int64  // length of Queue
	context *ContextState
	gone    atomic.Bool
	busy    bool          // the goroutine runs
	room    chan struct{} // closed when the queue is no longer full; nil when no goroutine waits
}

// Init is called once, before any other method, for a stream of a context.
func (q *StreamQueue[W]) Init(c *ContextState) { q.context = c }

// CheckUsable returns an error if the stream was destroyed, or its context's error. Calls that queue no work begin with
// CheckUsable.
func (q *StreamQueue[W]) CheckUsable() error {
	if err := q.context.CheckUsable(); err != nil {
		return err
	}
	if q.gone.Load() {
		return errStreamGone
	}
	return nil
}

// Given implements backend.Stream.
func (q *StreamQueue[W]) Given() uint64 { return q.given.Load() }

// CountGiven counts a piece of the program's work that the stream is given. The caller holds Mu.
func (q *StreamQueue[W]) CountGiven() { q.given.Add(1) }

var errStreamGone = fmt.Errorf("stream: %w", backend.InvalidHandle)

// limitGate is a space's gate. See package gate.
type limitGate interface {
	// Unlimited is closed while streams take work beyond their limit.
	Unlimited() <-chan struct{}
}

// WaitReady is CheckUsable for calls that queue work. WaitReady waits while the queue is full; with the error ErrClosed
// the wait has ended because closed, the space's end, was closed.
func (q *StreamQueue[W]) WaitReady(g limitGate, closed <-chan struct{}) error {
	for {
		if err := q.context.CheckUsable(); err != nil {
			return err
		}
		room, err := q.awaitedRoom()
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-g.Unlimited():
			return q.CheckUsable()
		case <-closed:
			return ErrClosed
		}
	}
}

// awaitedRoom returns a channel that is closed when the queue is no longer full. awaitedRoom returns nil if the queue is
// not full, or with an error if the stream was destroyed.
func (q *StreamQueue[W]) awaitedRoom() (chan struct{}, error) {
	if q.gone.Load() {
		return nil, errStreamGone
	}
	if q.waiting.Load() < MaxQueued {
		return nil, nil
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.gone.Load() {
		return nil, errStreamGone
	}
	if len(q.Queue) < MaxQueued {
		return nil, nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room, nil
}

// HasWork tells whether work is queued or is carried out. The caller holds Mu.
func (q *StreamQueue[W]) HasWork() bool { return q.busy || len(q.Queue) > 0 }

// AddWork queues work. If start is true, the caller starts the goroutine that carries the queue out. The caller holds Mu.
func (q *StreamQueue[W]) AddWork(w *W) (start bool) {
	q.Queue = append(q.Queue, w)
	q.waiting.Add(1)
	start = !q.busy
	q.busy = true
	return start
}

// TakeNext takes the next work off the queue, which is Current from then on. TakeNext returns nil if the queue is empty:
// the goroutine ends then.
func (q *StreamQueue[W]) TakeNext() *W {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if len(q.Queue) == 0 {
		q.Queue, q.busy = nil, false
		return nil
	}
	w := q.Queue[0]
	q.Queue[0] = nil
	q.Queue, q.Current = q.Queue[1:], w
	q.waiting.Add(-1)
	if q.room != nil && len(q.Queue) <= MaxQueued/2 {
		close(q.room)
		q.room = nil
	}
	return w
}

// MarkDestroyed notes that the stream is destroyed, or returns an error if the stream was destroyed before.
func (q *StreamQueue[W]) MarkDestroyed() error {
	if q.gone.Swap(true) {
		return errStreamGone
	}
	return nil
}
