// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrAnswered is Answer's error for a call that has its answer.
var ErrAnswered = errors.New("the call has its answer")

// A Message is valid until its handler returns; a Call that was taken from the Message, longer.
type Message struct {
	Number  uint64 // in the ring's order, from 0
	Op      uint32
	Thread  uint32 // the sender's id, by the sender's word
	Args    []byte // the server's copy
	Counted bool

	r    *Ring
	m    *message
	call *Call

	letter Letter // of a posted message, see Open
}

func (m *Message) fillFrom(r *Ring, from *message) {
	args := r.serving.args[:from.size]
	copy(args, r.mem[from.args:])
	*m = Message{Number: from.number, Op: from.op, Thread: from.thread, Args: args, Counted: from.counts > 0, r: r, m: from}
	if from.call {
		m.call = &Call{r: r, lane: from.lane, end: from.end, unit: from.unit, body: from.body, room: from.room}
	}
}

// Call returns the call that is to be answered, nil if the message was posted.
func (m *Message) Call() *Call { return m.call }

// BulkSize is how many bytes of bulk the message has.
func (m *Message) BulkSize() int { return int(m.m.bulk) }

// Bulk copies the message's bulk from offset to dst, and returns how many bytes. A second read of the same place may
// give different bytes: the process can write there.
func (m *Message) Bulk(dst []byte, offset int) int {
	if offset < 0 || offset > int(m.m.bulk) {
		return 0
	}
	begin := m.m.args + (m.m.size+7)&^7
	return copy(dst, m.r.mem[begin : begin+m.m.bulk][offset:])
}

// A Call waits for its answer, which any goroutine may give, once. A call that is never
// answered keeps its thread for ever.
type Call struct {
	r          *Ring
	lane       int
	end, unit  uint32
	body, room uint32
	done       atomic.Bool
}

// Room is how many bytes the answer may have.
func (c *Call) Room() int { return int(c.room) }

// Answer wakes the caller with a status and the parts, concatenated. Answer fails if the parts
// are more than Room (and the call still waits), with ErrAnswered, and with ErrClosed.
func (c *Call) Answer(status int32, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > int(c.room) {
		return fmt.Errorf("an answer of %d bytes where %d fit", n, c.room)
	}
	if !c.r.enterMapping() {
		return ErrClosed
	}
	defer c.r.releaseMapping()
	if c.done.Swap(true) {
		return ErrAnswered
	}
	to := c.r.mem[c.body : c.body+c.room]
	for _, p := range parts {
		to = to[copy(to, p):]
	}
	a := c.r.mem.answerAt(c.unit)
	atomic.StoreUint32(&a.status, uint32(status))
	atomic.StoreUint32(&a.length, uint32(n))
	// The lane must be the reader's again before the thread can use it again. mu keeps the reader from settling the
	// lane in between: its next owner would have a message where the state is.
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.lanes[c.lane].release.Store(c.end)
	c.r.freeTo(c.lane, c.end)
	c.r.lanes[c.lane].open.Store(0)
	if atomic.SwapUint32(&a.state, stateAnswered) == stateAwaitedAsleep {
		wakeWaiters(&a.state, 1)
	}
	if c.r.lanes[c.lane].leaving {
		c.r.wakeReader() // the thread that would take the answer is gone; the reader can settle the lane
	}
	return nil
}
