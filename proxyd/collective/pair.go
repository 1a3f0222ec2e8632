// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "fmt"

// pairRooms bounds the transfers of a pair of ranks that are under way at a time, and
// collectiveRooms the collectives of a communicator, so that the messages that a peer may announce
// are bounded.
const (
	pairRooms       = 8
	collectiveRooms = 64
)

// pair has the transfers from one rank to another.
type pair struct {
	number  uint64      // of the next transfer
	active  int         // between processes: transfers under way
	waiting []*transfer // between processes: transfers that wait for their turn
	sends   []*transfer // within the process: without a partner
	recvs   []*transfer
}

// transfer is a Send or Recv.
type transfer struct {
	op *Op
	q  *queue
	b  *batch
	at [2]int // from, to
	n  uint64
}

// enterTransfer enters a Send or Recv. The caller holds mu, and calls the returned function without it.
func (c *Comm) enterTransfer(q *queue, b *batch, op *Op) func() {
	t := &transfer{op: op, q: q, b: b, at: [2]int{q.rank, op.Peer}}
	if op.Kind == Recv {
		t.at = [2]int{op.Peer, q.rank}
	}
	p := c.pairs[t.at]
	if p == nil {
		p = &pair{}
		c.pairs[t.at] = p
	}
	if c.home[op.Peer] == c.me {
		if op.Kind == Send {
			p.sends = append(p.sends, t)
		} else {
			p.recvs = append(p.recvs, t)
		}
		if len(p.sends) == 0 || len(p.recvs) == 0 {
			if c.ranks[op.Peer].isGone() {
				return func() { c.failComm(fmt.Errorf("rank %d: a message with rank %d: %w", q.rank, op.Peer, ErrLeft)) }
			}
			return func() {}
		}
		from, to := p.sends[0], p.recvs[0]
		p.sends, p.recvs = p.sends[1:], p.recvs[1:]
		return func() { c.copyWithin(from, to) }
	}
	if len(op.Send)+len(op.Recv) == 0 {
		return func() { c.completePart(q, b) }
	}
	t.n = p.number
	p.number++
	if p.active == pairRooms {
		p.waiting = append(p.waiting, t)
		return func() {}
	}
	p.active++
	return func() { c.sendBetween(p, t) }
}

// copyWithin copies from a local rank to another local rank.
func (c *Comm) copyWithin(from, to *transfer) {
	if len(from.op.Send) != len(to.op.Recv) {
		c.failComm(fmt.Errorf("rank %d sends %d bytes, rank %d receives %d: %w",
			from.q.rank, len(from.op.Send), to.q.rank, len(to.op.Recv), ErrMismatch))
		return
	}
	c.runInBackground(func() {
		copy(to.op.Recv, from.op.Send)
		c.completePart(from.q, from.b)
		c.completePart(to.q, to.b)
	})
}

// runInBackground runs f in a goroutine of its own, unless the communicator is ending.
func (c *Comm) runInBackground(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil { // endComm waits for work after err is set
		c.work.Go(f)
	}
}

// sendBetween posts a transfer to or from another process.
func (c *Comm) sendBetween(p *pair, t *transfer) {
	m := newMessage(key{seq: t.n, src: uint32(t.at[0]), dst: uint32(t.at[1])}, 0, t.op.Send)
	if t.op.Kind == Recv {
		m = newMessage(m.key, 0, t.op.Recv)
	}
	m.then = func() {
		c.mu.Lock()
		var next *transfer
		if len(p.waiting) > 0 {
			next, p.waiting = p.waiting[0], p.waiting[1:]
		} else {
			p.active--
		}
		c.mu.Unlock()
		if next != nil {
			c.sendBetween(p, next)
		}
		c.completePart(t.q, t.b)
	}
	l := c.links[c.home[t.op.Peer]]
	if t.op.Kind == Send {
		l.sendMessage(m, false)
	} else {
		l.receiveMessage(m, false)
	}
}
