// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"runtime"
	"sync/atomic"
	"time"
)

// chunk is the number of messages that are handled before their lanes' room is freed.
const chunk = 64

// chunkBytes is the number of bytes after which room is freed at the latest.
const chunkBytes = 256 << 10

// reader is the state that Serve alone uses.
type reader struct {
	longest, spin time.Duration
	messages      [chunk]message
	touched       []int
	args          [sizeMax]byte
	m             Message
}

// Serve handles messages, in their order, until Close, Detach or Finish (nil), or until the
// process writes nonsense: then the ring is closed and the error is a *HostileError. Serve may be
// called once.
//
// A handler must not wait for anything that another message brings: such a handler keeps the Call and answers
// later.
func (r *Ring) Serve(handle func(*Message)) error {
	if !r.enterMapping() {
		return ErrClosed
	}
	defer r.releaseMapping()
	for !r.closed.Load() {
		finish := r.finish.Load() // first, so that messages posted before Finish are seen
		n, err := r.handleSome(handle)
		if err != nil {
			r.Close()
			return err
		}
		if n > 0 {
			continue
		}
		if finish {
			r.Close()
			break
		}
		r.waitForWork()
	}
	return nil
}

// handleSome takes the messages that are in the order and handles a part. It returns the number of messages handled.
func (r *Ring) handleSome(handle func(*Message)) (int, error) {
	n, err := r.readBacklog()
	if err != nil {
		return 0, err
	}
	s := &r.serving
	var bytes uint32
	for i := range n {
		if r.closed.Load() {
			break
		}
		m := &s.messages[i]
		if m.call {
			r.publishDone(m.lane) // from here on the lane is the call's
		}
		s.m.fillFrom(r, m)
		handle(&s.m)
		if m.call {
			continue
		}
		l := &r.lanes[m.lane]
		l.release.Store(m.end)
		if !l.touched {
			l.touched = true
			s.touched = append(s.touched, m.lane)
		}
		if bytes += m.size + m.bulk; bytes >= chunkBytes {
			bytes = 0
			r.publishAll()
		}
	}
	r.publishAll()
	r.mu.Lock()
	r.handed = 0
	r.freeLanes()
	r.mu.Unlock()
	return n, nil
}

// readBacklog copies the next messages of the backlog to the reader.
func (r *Ring) readBacklog() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.backlog) {
		if r.backlog, r.next = r.backlog[:0], 0; cap(r.backlog) > 1<<16 {
			r.backlog = nil
		}
		if err := r.takeOrder(); err != nil {
			return 0, err
		}
	} else if r.broken != nil {
		return 0, r.broken
	}
	n := copy(r.serving.messages[:], r.backlog[r.next:])
	r.next += n
	r.handed = n
	return n, nil
}

func (r *Ring) publishAll() {
	for _, i := range r.serving.touched {
		r.publishDone(i)
	}
	r.serving.touched = r.serving.touched[:0]
}

// publishDone frees the room of the lane's messages that are done, and wakes the thread that waits for room.
func (r *Ring) publishDone(i int) {
	if r.lanes[i].touched {
		r.lanes[i].touched = false
		r.freeTo(i, r.lanes[i].release.Load())
	}
}

func (r *Ring) freeTo(i int, position uint32) {
	word := &r.mem.laneAt(i).head
	if atomic.SwapUint32(word, position<<1)&waitsBit != 0 {
		wakeWaiters(word, 1)
	}
}

// freeLanes frees the lanes that have lost their owners. The caller holds mu and handles no
// message.
func (r *Ring) freeLanes() {
	if len(r.leaving) == 0 || r.next != len(r.backlog) {
		return
	}
	var rest []int
	freed := false
	for _, i := range r.leaving {
		l := &r.lanes[i]
		if l.open.Load() != 0 {
			rest = append(rest, i) // its call still waits for an answer, which goes into the lane's bytes
			continue
		}
		l.leaving = false
		freed = true
		l.release.Store(l.next)
		head := r.mem.laneAt(i)
		atomic.StoreUint32(&head.inside, 0)
		atomic.StoreUint32(&head.tail, l.next)
		r.freeTo(i, l.next)
		atomic.StoreUint32(&head.state, 0)
	}
	r.leaving = rest
	if freed {
		atomic.AddUint32(&r.mem.viewRingHead().freed, 1)
		wakeWaiters(&r.mem.viewRingHead().freed, lanes)
	}
}

// isWanted tells whether there is work for the reader.
func (r *Ring) isWanted() bool {
	h := r.mem.viewRingHead()
	return atomic.LoadUint64(&h.order)&lastMask != 0 || r.closed.Load() || r.finish.Load() || r.isLeft()
}

func (r *Ring) isLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if atomic.LoadUint32(&r.mem.viewRingHead().left) != r.left || r.broken != nil || r.next != len(r.backlog) {
		return true
	}
	for _, i := range r.leaving {
		if r.lanes[i].open.Load() == 0 {
			return true
		}
	}
	return false
}

// waitForWork returns when there is work, or after a second. It polls for a while first, as long as polling was worth
// its time lately.
func (r *Ring) waitForWork() {
	s := &r.serving
	word := &r.mem.viewRingHead().order
	if s.spin > 0 {
		for since := time.Now(); time.Since(since) < s.spin; runtime.Gosched() {
			for range 64 {
				if atomic.LoadUint64(word)&lastMask != 0 {
					s.spin = min(2*s.spin, s.longest)
					return
				}
			}
		}
		s.spin = max(s.spin/2, s.longest/16)
	}
	// The reader says that it is asleep before it looks once more: a sender that comes now wakes
	// the reader, or was seen.
	old := atomic.OrUint64(word, asleep)
	if old&lastMask == 0 && !r.isWanted() {
		waitForWord(r.mem.halfOfOrder(messagesHalf), uint32(old|asleep))
	}
	atomic.AndUint64(word, ^uint64(asleep))
}
