// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

// region is a part of every rank's Send that a single process reduces.
type region struct {
	off, n int
	out    []byte // where its process puts the result; nil in other processes, or if the result is passed on only
}

// plan is a reduction: which process reduces which regions in which step, and which processes
// then get the result.
type plan struct {
	steps   int
	regions func(step, process int) []region
	to      []int               // processes that get a reduced region
	at      func(region) []byte // where they put the region
	after   func(step int)      // called when all messages of a step are here
	whole   bool                // regions are the same in all processes
	sum     *sum
}

// step is a step of a plan under way.
type step struct {
	sends, recvs []*message // contributions
	out, in      []*message // results
	came         [][][]byte // contributions by process: for each region, each subtree
	scratch      [][]byte
}

func (r *run) allReduce() error {
	op, n := r.firstOp(), r.processCount()
	size, bytes := op.Type.Size(), len(r.firstOp().Recv)
	if r.fitsEager(bytes) {
		if n > r.node.tuning.direct {
			return r.reduceByTree(op.Recv, -1)
		}
		return r.reduceParts(&plan{
			steps: 1,
			whole: true,
			regions: func(_, p int) []region {
				if p != r.me {
					return []region{{n: bytes}}
				}
				return []region{{n: bytes, out: op.Recv}}
			},
			after: func(int) { r.spreadToLocal(op.Recv) },
		})
	}
	all := make([]int, n)
	for p := range all {
		all[p] = p
	}
	length := n * r.sliceSize(size)
	p := &plan{
		steps: (bytes + length - 1) / length,
		regions: func(k, p int) []region {
			return r.cutShare(k*length, min(bytes, (k+1)*length), size, p, func(lo, hi int) []byte { return op.Recv[lo:hi] })
		},
		to: all,
		at: func(g region) []byte { return op.Recv[g.off : g.off+g.n] },
		// The bytes are still in the core's cache.
		after: func(k int) { r.copyToLocal(k*length, min(bytes, (k+1)*length)) },
	}
	spread := r.canSpread()
	if spread {
		p.after = nil
	}
	if err := r.reduceParts(p); err != nil || !spread {
		return err
	}
	r.spreadToLocal(op.Recv)
	return nil
}

// cutShare returns process p's share of lo … hi.
func (r *run) cutShare(lo, hi, size, p int, out func(lo, hi int) []byte) []region {
	n, elements := r.processCount(), (hi-lo)/size
	from, to := lo+elements*p/n*size, lo+elements*(p+1)/n*size
	if from == to {
		return nil
	}
	g := region{off: from, n: to - from}
	if p == r.me && out != nil {
		g.out = out(from, to)
	}
	return []region{g}
}

func (r *run) reduceTo() error {
	root := r.coll.op.Root
	home := r.home[root]
	bytes, size := len(r.firstOp().Send), r.coll.op.Type.Size()
	var recv []byte
	if home == r.me {
		recv = r.localOp(root).Recv
	}
	if r.fitsEager(bytes) && r.processCount() > r.node.tuning.direct {
		return r.reduceByTree(recv, root)
	}
	if r.fitsEager(bytes) {
		return r.reduceParts(&plan{
			steps: 1,
			regions: func(_, p int) []region {
				if p != home {
					return nil
				}
				return []region{{n: bytes, out: recv}}
			},
		})
	}
	var out func(lo, hi int) []byte
	if home == r.me {
		out = func(lo, hi int) []byte { return recv[lo:hi] }
	}
	length := r.processCount() * r.sliceSize(size)
	return r.reduceParts(&plan{
		steps: (bytes + length - 1) / length,
		regions: func(k, p int) []region {
			return r.cutShare(k*length, min(bytes, (k+1)*length), size, p, out)
		},
		to: []int{home},
		at: func(g region) []byte { return recv[g.off : g.off+g.n] },
	})
}

func (r *run) reduceScatter() error {
	size := r.coll.op.Type.Size()
	one := r.coll.op.Count * size
	most := 0
	for _, ranks := range r.layout.ranks {
		most = max(most, len(ranks))
	}
	length := max(r.sliceSize(size)/most/size*size, size)
	return r.reduceParts(&plan{
		steps: (one + length - 1) / length,
		regions: func(k, p int) []region {
			lo, hi := k*length, min(one, (k+1)*length)
			regions := make([]region, len(r.layout.ranks[p]))
			for i, rank := range r.layout.ranks[p] {
				regions[i] = region{off: rank*one + lo, n: hi - lo}
				if p == r.me {
					regions[i].out = r.localOp(rank).Recv[lo:hi]
				}
			}
			return regions
		},
	})
}

// fitsEager tells whether everything that a process sends to another about bytes of a vector fits
// into a single eager message.
func (r *run) fitsEager(bytes int) bool {
	most := 1
	for _, c := range r.covers {
		most = max(most, len(c))
	}
	return bytes*most <= r.node.tuning.eager
}

// sliceSize is how many bytes a process reduces in a step: less where the placement makes other
// processes send many contributions, because there must be room for them.
func (r *run) sliceSize(size int) int {
	contributions := 0
	for _, c := range r.covers {
		contributions += len(c)
	}
	t := &r.node.tuning
	return max(min(t.slice, t.arena/contributions)/size*size, size)
}

// reduceParts carries out a plan. While contributions of a step come, the step before is reduced, and
// the results of the step before that are on their way. Memory: depth steps of slices.
//
// A result may overwrite its operands (in place): a process that has the result of a region got the
// result from the region's process, which had all contributions by then.
func (r *run) reduceParts(p *plan) error {
	p.sum = newSum(r.coll.op.Type, r.coll.op.Reduction, r.size)
	depth := max(r.node.tuning.depth, 2)
	steps := make([]*step, p.steps)
	for k := range p.steps + depth - 1 {
		if k < p.steps {
			steps[k] = r.startStep(p, k)
		}
		if k >= 1 && k-1 < p.steps {
			if err := r.combineStep(p, k-1, steps[k-1]); err != nil {
				return err
			}
		}
		if last := k - (depth - 1); last >= 0 {
			if err := r.finishStep(p, last, steps[last]); err != nil {
				return err
			}
			steps[last] = nil
		}
	}
	return nil
}

// startStep makes room for the other processes' contributions and results, and sends ours.
func (r *run) startStep(p *plan, k int) *step {
	s := &step{came: make([][][]byte, r.processCount())}
	r.forOthers(func(q int) {
		var parts [][]byte
		for _, g := range p.regions(k, r.me) {
			for range r.covers[q] {
				parts = append(parts, r.roomFor(s, g.n))
			}
		}
		s.came[q] = parts
		s.recvs = append(s.recvs, r.receivePart(q, 2*k, parts...))
	})
	if r.getsResult(p) {
		r.forOthers(func(q int) {
			var parts [][]byte
			for _, g := range p.regions(k, q) {
				parts = append(parts, p.at(g))
			}
			s.in = append(s.in, r.receivePart(q, 2*k+1, parts...))
		})
	}
	r.forOthers(func(q int) {
		if p.whole && len(s.sends) > 0 { // they all get the same bytes
			s.sends = append(s.sends, r.sendPart(q, 2*k, s.came[r.me]...))
			return
		}
		var parts [][]byte
		for _, g := range p.regions(k, q) {
			for _, n := range r.covers[r.me] {
				parts = append(parts, r.contributionOf(p, s, g, n))
			}
		}
		if p.whole {
			s.came[r.me] = parts
		}
		s.sends = append(s.sends, r.sendPart(q, 2*k, parts...))
	})
	return s
}

func (r *run) getsResult(p *plan) bool {
	for _, q := range p.to {
		if q == r.me {
			return true
		}
	}
	return false
}

func (r *run) roomFor(s *step, n int) []byte {
	b := r.scratch.getBuffer(n)
	s.scratch = append(s.scratch, b)
	return b
}

// contributionOf is the value of a subtree that this process holds.
func (r *run) contributionOf(p *plan, s *step, g region, n node) []byte {
	if op := r.localOp(n.lo); r.coll.merges.endOf(n.lo) == n.hi && op.Scale == nil {
		return op.Send[g.off : g.off+g.n]
	}
	out := r.roomFor(s, g.n)
	p.sum.clearLeaves()
	r.enterLeaves(p.sum, g, n)
	p.sum.computeNode(n, out)
	return out
}

// enterLeaves enters the contributions of local ranks to a subtree.
func (r *run) enterLeaves(s *sum, g region, n node) {
	for rank := n.lo; rank < n.hi; {
		op, end := r.localOp(rank), r.coll.merges.endOf(rank)
		s.setLeaf(node{rank, end}, op.Send[g.off:g.off+g.n], op.Scale, false)
		rank = end
	}
}

// combineStep reduces this process's regions when all contributions are there, and sends the results.
func (r *run) combineStep(p *plan, k int, s *step) error {
	if p.whole { // the result may overwrite bytes that are being sent
		if err := r.waitForAll(s.sends...); err != nil {
			return err
		}
	}
	if err := r.waitForAll(s.recvs...); err != nil {
		return err
	}
	var results [][]byte
	for i, g := range p.regions(k, r.me) {
		p.sum.clearLeaves()
		for q, covers := range r.covers {
			for j, n := range covers {
				if q == r.me {
					r.enterLeaves(p.sum, g, n)
				} else {
					p.sum.setLeaf(n, s.came[q][i*len(covers)+j], nil, true)
				}
			}
		}
		if g.out == nil {
			g.out = r.roomFor(s, g.n)
		}
		r.totalValue(p.sum, g.out)
		results = append(results, g.out)
	}
	for _, q := range p.to {
		if q != r.me {
			s.out = append(s.out, r.sendPart(q, 2*k+1, results...))
		}
	}
	return nil
}

// totalValue computes the value of the tree's root; with Avg it divides it by the number of ranks.
func (r *run) totalValue(s *sum, out []byte) {
	s.computeNode(node{0, r.size}, out)
	if op := &r.coll.op; op.Reduction == Avg && r.size > 1 {
		divideBy(op.Type, out, r.size)
	}
}

// finishStep waits until all messages of a step are here, and no message needs the step's memory any
// more.
func (r *run) finishStep(p *plan, k int, s *step) error {
	for _, messages := range [][]*message{s.sends, s.in, s.out} {
		if err := r.waitForAll(messages...); err != nil {
			return err
		}
	}
	if p.after != nil {
		p.after(k)
	}
	for _, b := range s.scratch {
		r.scratch.putBuffer(b)
	}
	return nil
}
