// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import "slices"

// node is a node of the reduction tree: the ranks lo … hi-1.
type node struct{ lo, hi int }

// splitPoint is where a node's children meet: its first child has as many ranks as the largest
// power of two below the node's own number.
func (n node) splitPoint() int {
	k := 1
	for k*2 < n.hi-n.lo {
		k *= 2
	}
	return n.lo + k
}

func (n node) childNodes() (node, node) {
	mid := n.splitPoint()
	return node{n.lo, mid}, node{mid, n.hi}
}

// coverRanks returns, in order, the largest subtrees of which a single process holds all ranks.
// home has each rank's process. A process may merge the vectors of such a subtree only.
func coverRanks(n node, home []int) [][]node {
	covers := make([][]node, 1+slices.Max(home))
	var walk func(n node) bool // whether a single process holds all of n
	walk = func(n node) bool {
		if n.hi-n.lo == 1 {
			return true
		}
		a, b := n.childNodes()
		first, second := walk(a), walk(b)
		if first && second && home[a.lo] == home[b.lo] {
			return true
		}
		if first {
			covers[home[a.lo]] = append(covers[home[a.lo]], a)
		}
		if second {
			covers[home[b.lo]] = append(covers[home[b.lo]], b)
		}
		return false
	}
	if walk(n) {
		covers[home[n.lo]] = append(covers[home[n.lo]], n)
	}
	for _, c := range covers {
		slices.SortFunc(c, func(a, b node) int { return a.lo - b.lo })
	}
	return covers
}

// blockBytes is how much of each operand is combined at a time, so that the result of one step of
// the tree is still in the cache for the next. A multiple of every element's size.
const blockBytes = 16 << 10

// leaf is a part of the tree that is there already.
type leaf struct {
	hi     int
	bytes  []byte
	factor []byte // PreMulSum: not multiplied yet
	ours   bool   // its bytes may be overwritten
}

// sum computes nodes of the reduction tree from leaves, each node rounded to the type. Its
// zero value has no type. Not safe for concurrent use.
type sum struct {
	t       Type
	combine combiner
	leaves  []leaf // by their first rank; hi is 0 if the rank has no leaf
	temps   [][]byte
	used    int
}

func newSum(t Type, r Reduction, ranks int) *sum {
	return &sum{t: t, combine: combiners[t][r], leaves: make([]leaf, ranks)}
}

func (s *sum) setLeaf(n node, b, factor []byte, ours bool) {
	s.leaves[n.lo] = leaf{n.hi, b, factor, ours}
}

// clearLeaves forgets the leaves, and with them the buffers.
func (s *sum) clearLeaves() { clear(s.leaves) }

// computeNode sets dst to the value of n. Leaves have dst's length. dst may be a leaf, if dst is the
// very same memory.
func (s *sum) computeNode(n node, dst []byte) {
	for at := 0; at < len(dst); at += blockBytes {
		end := min(at+blockBytes, len(dst))
		s.used = 0
		out, _ := s.valueOf(n, at, end, dst[at:end])
		copy(dst[at:end], out)
	}
}

// bufferOwner tells whether a value may be written to.
type bufferOwner uint8

const (
	theirs bufferOwner = iota // not to be written to: a program's
	ours                      // a leaf that may be overwritten
	temp                      // the newest of temps
)

// valueOf returns bytes at … end of n's value, in dst if n is computed and dst is not nil. Only the
// last combination writes to dst, when no other operand is needed any more.
func (s *sum) valueOf(n node, at, end int, dst []byte) ([]byte, bufferOwner) {
	if l := s.leaves[n.lo]; l.hi == n.hi {
		switch {
		case l.factor != nil:
			out := s.tempBuffer(end - at)
			multiplyBy(s.t, out, l.bytes[at:end], l.factor)
			return out, temp
		case l.ours:
			return l.bytes[at:end], ours
		}
		return l.bytes[at:end], theirs
	}
	first, second := n.childNodes()
	a, of := s.valueOf(first, at, end, nil)
	b, ofB := s.valueOf(second, at, end, nil)
	out := dst
	switch {
	case dst != nil:
	case of != theirs:
		out = a
	case ofB != theirs:
		out, of = b, ofB
	default:
		out, of = s.tempBuffer(end-at), temp
	}
	s.combine(out, a, b)
	// Temps come and go like a stack: b's is newer than a's.
	if ofB == temp && &out[0] != &b[0] {
		s.used--
	}
	return out, of
}

func (s *sum) tempBuffer(n int) []byte {
	if s.used == len(s.temps) {
		s.temps = append(s.temps, make([]byte, blockBytes))
	}
	s.used++
	return s.temps[s.used-1][:n]
}
