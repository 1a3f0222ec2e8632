// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

// A small reduction among many processes goes up the reduction tree itself: a node is computed by
// the process of its first rank, to which the process of its second child's first rank sends that
// child's value. All walk the tree in the same order, so no wait is in a circle. A message's part
// is the place where the node is split, which no other node has.

// reduceByTree carries out AllReduce (root < 0) or Reduce of a small vector. recv is where the
// result goes; nil if this process does not get the result.
func (r *run) reduceByTree(recv []byte, root int) error {
	s := &step{}
	t := &upwardReduction{run: r, step: s, sum: newSum(r.coll.op.Type, r.coll.op.Reduction, r.size), bytes: len(r.firstOp().Send)}
	t.localBelow = make([]int, r.size+1)
	for rank, p := range r.home {
		t.localBelow[rank+1] = t.localBelow[rank] + countIf(p == r.me, 1)
	}
	value, err := t.computeAt(node{0, r.size})
	if err != nil {
		return err
	}
	top := r.home[0]
	if top == r.me {
		if op := &r.coll.op; op.Reduction == Avg && r.size > 1 {
			divideBy(op.Type, value, r.size)
		}
	}
	// Messages from here on have part 0, which is no place to split.
	switch {
	case root < 0:
		if top == r.me {
			if err := r.waitForAll(s.sends...); err != nil {
				return err
			}
			copy(recv, value)
		}
		if err := r.broadcastFrom(recv, top); err != nil {
			return err
		}
	case top == r.me && r.home[root] == r.me:
		copy(recv, value)
	case top == r.me:
		s.sends = append(s.sends, r.sendPart(r.home[root], 0, value))
	case r.home[root] == r.me:
		s.sends = append(s.sends, r.receivePart(top, 0, recv))
	}
	if err := r.waitForAll(s.sends...); err != nil {
		return err
	}
	if root < 0 {
		r.spreadToLocal(recv)
	}
	for _, b := range s.scratch {
		r.scratch.putBuffer(b)
	}
	return nil
}

// upwardReduction adds up, from the leaves of the tree to its root.
type upwardReduction struct {
	*run
	step       *step
	sum        *sum
	bytes      int
	localBelow []int // by rank r: how many of the ranks below r are in this process
}

// computeAt returns n's value in the process of n's first rank, nil in other processes. The caller
// may overwrite the value.
func (t *upwardReduction) computeAt(n node) ([]byte, error) {
	here := t.localBelow[n.hi] - t.localBelow[n.lo]
	switch here {
	case 0:
		return nil, nil
	case n.hi - n.lo:
		out := t.roomFor(t.step, t.bytes)
		t.sum.clearLeaves()
		t.enterLeaves(t.sum, region{n: t.bytes}, n)
		t.sum.computeNode(n, out)
		return out, nil
	}
	first, second := n.childNodes()
	a, err := t.computeAt(first)
	if err != nil {
		return nil, err
	}
	b, err := t.computeAt(second)
	if err != nil {
		return nil, err
	}
	from, to := t.home[second.lo], t.home[n.lo]
	switch {
	case to == t.me && from != t.me:
		b = t.roomFor(t.step, t.bytes)
		if err := t.waitForAll(t.receivePart(from, second.lo, b)); err != nil {
			return nil, err
		}
	case to != t.me && from == t.me:
		t.step.sends = append(t.step.sends, t.sendPart(to, second.lo, b))
		return nil, nil
	case to != t.me:
		return nil, nil
	}
	t.sum.combine(a, a, b)
	return a, nil
}

// broadcastFrom brings a small buffer from the process top to all other processes, along a binomial
// tree: after n rounds 2^n processes have the buffer.
func (r *run) broadcastFrom(bytes []byte, top int) error {
	n := r.processCount()
	turn := func(v int) int { return (v + top) % n }
	v := (r.me - top + n) % n
	reach := 1
	for ; reach <= v; reach *= 2 {
	}
	if v > 0 {
		if err := r.waitForAll(r.receivePart(turn(v-reach/2), 0, bytes)); err != nil {
			return err
		}
	}
	var sends []*message
	for ; v+reach < n; reach *= 2 {
		sends = append(sends, r.sendPart(turn(v+reach), 0, bytes))
	}
	return r.waitForAll(sends...)
}
