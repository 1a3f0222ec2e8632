// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"slices"
)

// tuning has the numbers that decide how bytes move. All processes of a communicator must have the
// same tuning; it has no influence on results. See the package comment for why these numbers.
type tuning struct {
	eager  int // messages up to this size are sent at once; at most maxEager
	slice  int // bytes of a reduction that a process does at a time
	depth  int // steps of a large operation under way at a time
	direct int // up to so many processes, each computes a small reduction for itself
	arena  int // bytes of peers' contributions that a process holds in a step
}

var standard = tuning{eager: maxEager, slice: 256 << 10, depth: 3, direct: 8, arena: 4 << 20}

// executeAll carries out collectives in order. executeAll returns when the communicator fails.
func (c *Comm) executeAll() {
	for seq := uint64(0); ; seq++ {
		coll := c.waitForCollective(seq)
		if coll == nil {
			return
		}
		r := &run{Comm: c, coll: coll, seq: seq}
		if err := r.executeOp(); err != nil {
			if err != errStopped { //nolint:errorlint // never wrapped
				c.failComm(err)
			}
			return
		}
		c.scratch.trimBuffers()
		for _, rank := range c.local {
			c.completePart(c.ranks[rank], coll.batches[rank])
		}
	}
}

// waitForCollective returns the seq-th collective when all local ranks have reached that
// collective. Meanwhile it merges vectors of ranks that have.
func (c *Comm) waitForCollective(seq uint64) *collective {
	for {
		c.mu.Lock()
		coll := c.colls[seq]
		if coll != nil && coll.missing == 0 {
			delete(c.colls, seq)
			c.mu.Unlock()
			return coll
		}
		c.mu.Unlock()
		if c.mergeNext(coll) {
			continue
		}
		select {
		case <-c.full:
		case <-c.ctx.Done():
			return nil
		}
	}
}

// run is a collective that is being carried out.
type run struct {
	*Comm
	coll *collective
	seq  uint64
}

// localOp returns a local rank's operation.
func (r *run) localOp(rank int) *Op { return r.coll.parts[rank] }

// firstOp returns the operation of the first local rank. If all local ranks get the same result,
// its receive buffer takes the result first.
func (r *run) firstOp() *Op { return r.localOp(r.local[0]) }

func (r *run) executeOp() error {
	op := &r.coll.op
	if op.Kind == splitRanks {
		return r.splitComms()
	}
	if op.Count == 0 {
		return nil
	}
	switch op.Kind {
	case AllReduce:
		return r.allReduce()
	case Reduce:
		return r.reduceTo()
	case ReduceScatter:
		return r.reduceScatter()
	case Broadcast:
		return r.broadcastParts()
	case AllGather:
		return r.allGather()
	case AllToAll:
		return r.allToAll()
	case Gather:
		return r.gatherParts()
	default:
		return r.scatterParts()
	}
}

// sendPart posts a message of this collective to a process.
func (r *run) sendPart(process, part int, bytes ...[]byte) *message {
	m := newMessage(key{r.seq, noRank, noRank, uint32(part)}, r.coll.check, bytes...)
	r.links[process].sendMessage(m, m.size <= r.node.tuning.eager)
	return m
}

// receivePart posts room for a part.
func (r *run) receivePart(process, part int, bytes ...[]byte) *message {
	m := newMessage(key{r.seq, noRank, noRank, uint32(part)}, r.coll.check, bytes...)
	r.links[process].receiveMessage(m, m.size <= r.node.tuning.eager)
	return m
}

// waitForAll returns when all messages are done, or the communicator has failed.
func (r *run) waitForAll(messages ...*message) error {
	for _, m := range messages {
		select {
		case <-m.done:
		default:
			select {
			case <-m.done:
			case <-r.ctx.Done():
				return errStopped
			}
		}
	}
	return nil
}

// processCount returns how many processes take part.
func (r *run) processCount() int { return len(r.layout.ranks) }

// forOthers calls f for each process but this process, beginning with the next, so that different
// processes begin with different peers.
func (r *run) forOthers(f func(process int)) {
	for i := 1; i < r.processCount(); i++ {
		f((r.me + i) % r.processCount())
	}
}

// copyToLocal copies received bytes of the first local rank to the other local ranks.
func (r *run) copyToLocal(lo, hi int) {
	for _, rank := range r.local[1:] {
		copy(r.localOp(rank).Recv[lo:hi], r.firstOp().Recv[lo:hi])
	}
}

// pool keeps scratch memory between steps. A pool belongs to one goroutine.
type pool struct{ free [][]byte }

const (
	poolLeast = 4 << 10
	poolMost  = 32 << 20 // bytes that are kept between operations
)

func (p *pool) getBuffer(n int) []byte {
	for i, b := range slices.Backward(p.free) {
		if cap(b) >= n && cap(b) <= 4*max(n, poolLeast) {
			p.free = slices.Delete(p.free, i, i+1)
			return b[:n]
		}
	}
	return make([]byte, n, max(n, poolLeast))
}

func (p *pool) putBuffer(b []byte) { p.free = append(p.free, b) }

func (p *pool) trimBuffers() {
	n := 0
	for _, b := range p.free {
		n += cap(b)
	}
	if n > poolMost || len(p.free) > 1024 {
		p.free = nil
	}
}
