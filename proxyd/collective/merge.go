// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

// An all-reduce begins when all local ranks have come to it. Before, the vectors of ranks that have come are added up
// where that saves memory: a node of the reduction tree is computed as soon as both of its children are there. The sum
// goes over the vector of the first child, and the memory of the second child's vector is given up. So for k ranks that
// come in order, 1 + ⌈log₂ k⌉ vectors are there at a time, and not k. The tree is the same, and so are the bits.
//
// Both vectors have to be in place, since their bytes are undefined for the program until the operation is complete.
// An operation of a group with other operations is not merged. If an operation does not come to its end, because the
// communicator fails, a rank's vector is lost, as it may be if the communicator fails during the operation.
// While a cut is sought, operations that were issued are carried out (see Quiet), so no vector is saved half merged.

// mergeChunk is how many bytes are added up before a failure of the communicator is noticed.
const mergeChunk = 1 << 20

// merges is which nodes of the reduction tree were added up before all local ranks had come. Only the goroutine that
// carries out collectives uses it.
type merges struct {
	ends    map[int]int   // by rank: the end of the node that begins with the rank, and has its sum in the rank's buffer
	refused map[node]bool // nodes that are not merged
}

// endOf returns the end of the node that begins with a rank, and has its value in the rank's buffer.
func (m *merges) endOf(rank int) int { return max(m.ends[rank], rank+1) }

// mergeNext adds up two vectors of a collective that is not complete, and returns whether there were two. coll may be
// nil.
func (c *Comm) mergeNext(coll *collective) bool {
	n, x, y, ok := c.findMerge(coll)
	if !ok {
		return false
	}
	m := &coll.merges
	if !c.node.memory.CanShare([][]byte{x, y}) {
		if m.refused == nil {
			m.refused = map[node]bool{}
		}
		m.refused[n] = true
		return true
	}
	add := combiners[coll.op.Type][coll.op.Reduction]
	for at := 0; at < len(x); at += mergeChunk {
		if c.ctx.Err() != nil {
			return false
		}
		end := min(at+mergeChunk, len(x))
		add(x[at:end], x[at:end], y[at:end])
	}
	c.node.memory.GiveUp(y)
	if m.ends == nil {
		m.ends = map[int]int{}
	}
	m.ends[n.lo] = n.hi
	return true
}

// findMerge finds a node that can be merged, and the vectors of its children.
func (c *Comm) findMerge(coll *collective) (n node, x, y []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node.memory == nil || coll == nil || coll.op.Kind != AllReduce {
		return n, nil, nil, false
	}
	for _, cover := range c.covers[c.me] {
		if n, ok = coll.findMergeIn(cover); ok {
			first, second := n.childNodes()
			return n, coll.parts[first.lo].Send, coll.parts[second.lo].Send, true
		}
	}
	return n, nil, nil, false
}

// findMergeIn finds a node within n of which both children's values are there, and n's is not. The caller holds the
// Comm's mu.
func (coll *collective) findMergeIn(n node) (node, bool) {
	if coll.hasValue(n) || n.hi-n.lo == 1 {
		return node{}, false
	}
	first, second := n.childNodes()
	for _, child := range []node{first, second} {
		if found, ok := coll.findMergeIn(child); ok {
			return found, true
		}
	}
	return n, !coll.merges.refused[n] && coll.hasValue(first) && coll.hasValue(second)
}

// hasValue tells whether the buffer of n's first rank holds n's value, and may be overwritten. The caller holds the
// Comm's mu.
func (coll *collective) hasValue(n node) bool {
	if n.hi-n.lo > 1 {
		return coll.merges.ends[n.lo] >= n.hi
	}
	op := coll.parts[n.lo]
	return op != nil && op.canMerge() && len(coll.batches[n.lo].ops) == 1
}

// canMerge tells whether the operation's vector may be overwritten before the operation has begun.
func (o *Op) canMerge() bool {
	return o.Kind == AllReduce && o.Count > 0 && o.Scale == nil && &o.Send[0] == &o.Recv[0]
}
