// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"fmt"
	"sync"
)

// queue has the batches that a local rank has issued. They are carried out one after another.
type queue struct {
	rank      int
	batches   []*batch
	busy      bool   // the first batch has begun
	colls     uint64 // collectives that have begun
	issued    uint64 // operations
	completed uint64
	destroyed bool
}

// batch is a group of operations of a rank; they have no order among each other, except that
// collectives follow each other.
type batch struct {
	ops  []Op
	left int // parts that are not complete
	over bool
	done func(error)
}

// collective is the n-th collective of a communicator, as far as its operations are here.
type collective struct {
	op      Op // of the first rank that came; all ranks must agree on its fields
	check   uint32
	missing int // local ranks that have not come
	parts   map[int]*Op
	batches map[int]*batch
	merges  merges
}

// Issue gives rank's next operations to the communicator: a group, in NCCL's words. Issue returns
// at once; done is called once, when all of them are complete or have failed, from a goroutine that
// done must not hold up. An error says that no operation was issued: ErrArgument, or the
// communicator's failure.
//
// A rank's groups are carried out in the order in which they are issued. Within a group, sends and
// receives happen at the same time, and collectives in their order.
func (c *Comm) Issue(rank int, ops []Op, done func(error)) error {
	b, err := c.prepareBatch(rank, ops, done)
	if err != nil {
		return err
	}
	return c.enqueueBatch(rank, b)
}

// prepareBatch checks a group.
func (c *Comm) prepareBatch(rank int, ops []Op, done func(error)) (*batch, error) {
	if c.ranks[rank] == nil {
		return nil, fmt.Errorf("communicator %s: %w: rank %d is not here", c.id, ErrArgument, rank)
	}
	b := &batch{ops: make([]Op, len(ops)), done: done}
	for i, o := range ops {
		checked, err := o.checkFor(rank, c.size)
		if err != nil {
			return nil, fmt.Errorf("communicator %s: %w", c.id, err)
		}
		b.ops[i] = checked
	}
	return b, nil
}

func (c *Comm) enqueueBatch(rank int, b *batch) error {
	q := c.ranks[rank]
	c.mu.Lock()
	switch {
	case c.err != nil:
		defer c.mu.Unlock()
		return c.err
	case q.destroyed:
		defer c.mu.Unlock()
		return fmt.Errorf("communicator %s: rank %d: %w", c.id, rank, ErrClosed)
	}
	q.batches = append(q.batches, b)
	q.issued += uint64(len(b.ops))
	c.mu.Unlock()
	c.beginNext(q)
	return nil
}

// Call is an operation of a rank of a communicator.
type Call struct {
	Comm *Comm
	Rank int
	Op   Op
}

// Group issues operations of several ranks and communicators, as ncclGroupEnd does; done is called
// when all are complete, with the first error. Communicators are independent of each other, so a
// Group makes a group for each rank on each communicator. An error says that no operation was
// issued.
func Group(calls []Call, done func(error)) error {
	type commRank struct {
		comm *Comm
		rank int
	}
	ops := make(map[commRank][]Op)
	var order []commRank
	for _, call := range calls {
		at := commRank{call.Comm, call.Rank}
		if ops[at] == nil {
			order = append(order, at)
		}
		ops[at] = append(ops[at], call.Op)
	}
	var mu sync.Mutex
	var first error
	left := len(order) + 1
	part := func(err error) {
		mu.Lock()
		if first == nil {
			first = err
		}
		left--
		last := left == 0
		mu.Unlock()
		if last {
			done(first)
		}
	}
	batches := make([]*batch, len(order))
	for i, at := range order {
		b, err := at.comm.prepareBatch(at.rank, ops[at], part)
		if err == nil {
			err = at.comm.Err()
		}
		if err != nil {
			return err
		}
		batches[i] = b
	}
	for i, at := range order {
		if err := at.comm.enqueueBatch(at.rank, batches[i]); err != nil {
			part(err) // the communicator failed in between
		}
	}
	part(nil)
	return nil
}

// beginNext begins batches, until a batch has to wait for another rank.
func (c *Comm) beginNext(q *queue) {
	for {
		c.mu.Lock()
		if q.busy || len(q.batches) == 0 || !c.started || c.err != nil {
			c.mu.Unlock()
			return
		}
		b := q.batches[0]
		q.busy = true
		b.left = len(b.ops) + 1 // 1 more until all have begun
		var begin []func()
		for i := range b.ops {
			begin = append(begin, c.beginOp(q, b, &b.ops[i]))
		}
		c.mu.Unlock()
		for _, f := range begin {
			f()
		}
		if !c.lowerPending(q, b) {
			return
		}
	}
}

// beginOp enters an operation and returns the function to call without the lock. The caller holds mu.
func (c *Comm) beginOp(q *queue, b *batch, op *Op) func() {
	if op.Kind == Send || op.Kind == Recv {
		return c.enterTransfer(q, b, op)
	}
	seq := q.colls
	q.colls++
	if gone, is := c.departedRank(seq); is {
		return func() { c.failComm(fmt.Errorf("collective %d needs rank %d: %w", seq, gone, ErrLeft)) }
	}
	check := op.agreedHash()
	coll := c.colls[seq]
	if coll == nil {
		coll = &collective{
			op: *op, check: check, missing: len(c.local),
			parts: make(map[int]*Op, len(c.local)), batches: make(map[int]*batch, len(c.local)),
		}
		c.colls[seq] = coll
	}
	if coll.check != check {
		err := fmt.Errorf("collective %d: %w: rank %d issued %s, another %s", seq, ErrMismatch, q.rank, op, &coll.op)
		return func() { c.failComm(err) }
	}
	coll.parts[q.rank], coll.batches[q.rank] = op, b
	coll.missing--
	if coll.missing > 0 && (c.node.memory == nil || !op.canMerge()) {
		return func() {}
	}
	return func() {
		select {
		case c.full <- struct{}{}:
		default:
		}
	}
}

// lowerPending notes that a part of b is complete, and tells whether that was the last; then done has been
// called, and the next batch may begin.
func (c *Comm) lowerPending(q *queue, b *batch) bool {
	c.mu.Lock()
	b.left--
	if b.left > 0 || b.over {
		c.mu.Unlock()
		return false
	}
	b.over = true
	q.completed += uint64(len(b.ops))
	c.mu.Unlock()
	b.done(nil)
	c.mu.Lock()
	if len(q.batches) > 0 { // else dropped in between
		q.batches = q.batches[1:]
	}
	q.busy = false
	c.leaveIfDone()
	c.mu.Unlock()
	return true
}

// completePart calls lowerPending, and begins the next batches.
func (c *Comm) completePart(q *queue, b *batch) {
	if c.lowerPending(q, b) {
		c.beginNext(q)
	}
}

// failOperations lets all operations return the communicator's failure. No goroutine works on them any more.
func (c *Comm) failOperations() {
	c.mu.Lock()
	var all []*batch
	for _, r := range c.local {
		for _, b := range c.ranks[r].batches {
			if !b.over {
				b.over = true
				all = append(all, b)
			}
		}
		c.ranks[r].batches = nil
	}
	err := c.err
	c.mu.Unlock()
	for _, b := range all {
		b.done(err)
	}
}

// Destroy says that rank issues no more operations. When all local ranks have said so and all
// operations are complete, the process leaves the communicator; other processes may still
// complete operations in which this process has taken part. Done tells when that is over. Destroy
// may be called twice.
func (c *Comm) Destroy(rank int) error {
	q := c.ranks[rank]
	if q == nil {
		return fmt.Errorf("communicator %s: %w: rank %d is not here", c.id, ErrArgument, rank)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.destroyed = true
	c.leaveIfDone()
	return nil
}

// departedRank finds a local rank that was destroyed and takes no part in the seq-th collective. The caller holds mu.
func (c *Comm) departedRank(seq uint64) (rank int, is bool) {
	for _, q := range c.ranks {
		if q.isGone() && q.colls <= seq {
			return q.rank, true
		}
	}
	return 0, false
}

// isGone tells whether the rank begins no more operations.
func (q *queue) isGone() bool { return q.destroyed && len(q.batches) == 0 }

// strandedError finds an operation that would wait for ever for a local rank that begins no more operations. The caller
// holds mu.
func (c *Comm) strandedError() error {
	for seq := range c.colls {
		if c.colls[seq].missing == 0 {
			continue
		}
		if rank, is := c.departedRank(seq); is {
			return fmt.Errorf("collective %d needs rank %d: %w", seq, rank, ErrLeft)
		}
	}
	for at, p := range c.pairs {
		for _, waiting := range []struct {
			rank int
			n    int
		}{{at[1], len(p.sends)}, {at[0], len(p.recvs)}} {
			if q := c.ranks[waiting.rank]; waiting.n > 0 && q != nil && q.isGone() {
				return fmt.Errorf("a message between ranks %d and %d: %w", at[0], at[1], ErrLeft)
			}
		}
	}
	return nil
}

// leaveIfDone closes leaving when all operations are complete and all local ranks are destroyed. The caller holds mu.
func (c *Comm) leaveIfDone() {
	for _, q := range c.ranks {
		if !q.isGone() {
			continue
		}
		if err := c.strandedError(); err != nil {
			go c.failComm(err) // which takes mu
		}
		break
	}
	for _, q := range c.ranks {
		if !q.destroyed || len(q.batches) > 0 {
			return
		}
	}
	if !c.exited {
		c.exited = true
		close(c.leaving)
	}
}

// Counts tells how many operations rank has issued, and how many of them are complete.
func (c *Comm) Counts(rank int) (issued, completed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.ranks[rank]; q != nil {
		return q.issued, q.completed
	}
	return 0, 0
}

// Quiet tells whether everything that local ranks issued is complete. When Quiet is true in all
// processes, and all ranks have issued the same, no byte of an operation is under way.
func (c *Comm) Quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.ranks {
		if q.issued != q.completed {
			return false
		}
	}
	return true
}
