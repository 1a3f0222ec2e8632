// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// step is an operation of a program in the model. If after is not 0, the rank asks for the operation only
// when rank peer has had so many operations carried out, as a program that waits for a file or a socket of
// the other rank does.
type step struct {
	Op
	peer, after int
}

// program has the operations of each rank, in the rank's order.
type program struct {
	name     string
	ranks    [][]step
	mayEnd   bool  // rank 0 may be killed at any moment
	compares Block // a block that is compared once, at any moment; 0: none
}

// memory has the content of blocks, as a number each.
type memory map[Block]uint64

// world is a group with its memory, and the memory that each rank would have on a device of its own.
type world struct {
	*program
	group    *Group
	posted   []int
	done     []int
	gone     []bool
	parked   []bool
	common   memory
	own      []memory
	shared   []map[Block]bool // by rank: the blocks whose view is the common memory
	alone    []memory         // by rank: the memory of a device of its own
	stamps   []uint64         // when the block was compared
	compared int              // 1: the block was compared, 2: the group was told
	wrong    string
	story    []string
}

func newWorld(p *program, t twist) *world {
	n := len(p.ranks)
	w := &world{program: p, group: New(n), posted: make([]int, n), done: make([]int, n), gone: make([]bool, n), parked: make([]bool, n), common: memory{}}
	w.group.twist = t
	for range n {
		w.own, w.alone, w.shared = append(w.own, memory{}), append(w.alone, memory{}), append(w.shared, map[Block]bool{})
	}
	return w
}

// clone returns a copy of the world, which does not share state with it.
func (w *world) clone() *world {
	c := *w
	g := *w.group
	g.ranks = slices.Clone(g.ranks)
	for i := range g.ranks {
		g.ranks[i].queue = slices.Clone(g.ranks[i].queue)
	}
	g.blocks = blocks{}
	for b, v := range w.group.blocks {
		g.blocks[b] = slices.Clone(v)
	}
	c.group = &g
	c.posted, c.done, c.gone, c.parked = slices.Clone(w.posted), slices.Clone(w.done), slices.Clone(w.gone), slices.Clone(w.parked)
	c.common, c.story = maps.Clone(w.common), slices.Clone(w.story)
	c.own, c.alone, c.shared = slices.Clone(w.own), slices.Clone(w.alone), slices.Clone(w.shared)
	for i := range c.own {
		c.own[i], c.alone[i], c.shared[i] = maps.Clone(c.own[i]), maps.Clone(c.alone[i]), maps.Clone(c.shared[i])
	}
	return &c
}

// key identifies worlds that have the same future.
func (w *world) key() string {
	return fmt.Sprint(w.posted, w.done, w.gone, w.parked, w.common, w.own, w.shared, w.alone, w.stamps, w.compared, w.group.ranks, w.group.blocks)
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

func sum(words ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, words...)
	return h.Sum64()
}

// view returns the memory that has a rank's bytes of a block.
func (w *world) view(r int, b Block) memory {
	if w.shared[r][b] {
		return w.common
	}
	return w.own[r]
}

// result returns the number that an operation writes to a block, computed from the numbers that find returns.
// It depends on the rank only if the operation's Record is "".
func result(o *Op, b Block, find func(Block) uint64) uint64 {
	words := []any{o.Record, b}
	if o.Record == "" {
		words = append(words, o.ID)
	}
	for _, r := range o.Reads {
		words = append(words, find(r))
	}
	if !slices.Contains(o.Fills, b) {
		words = append(words, find(b))
	}
	return sum(words...)
}

// write carries an operation out: find returns the numbers before the operation, and put stores the numbers
// after it.
func write(o *Op, find func(Block) uint64, put func(Block, uint64)) {
	out := memory{}
	for _, b := range o.Writes {
		if o.Kind == Work {
			out[b] = result(o, b, find)
		}
	}
	for _, b := range o.Writes {
		put(b, out[b])
	}
}

// onItsOwn has a rank carry out its next operation on a device of its own.
func (w *world) onItsOwn(r int, id uint64) *Op {
	if w.done[r] >= len(w.ranks[r]) || w.ranks[r][w.done[r]].ID != id {
		w.fail("rank %d: operation %d is out of its turn", r, id)
		return nil
	}
	o := &w.ranks[r][w.done[r]].Op
	w.done[r]++
	switch o.Kind {
	case Free:
		delete(w.alone[r], o.Writes[0])
	case Alloc, Work:
		write(o, func(b Block) uint64 { return w.alone[r][b] }, func(b Block, v uint64) { w.alone[r][b] = v })
	}
	return o
}

// collective returns the result of a collective of the ranks that are left. from returns the numbers of a
// rank's memory.
func (w *world) collective(o *Op, from func(r int) func(Block) uint64) uint64 {
	words := []any{o.Record}
	for r := range w.ranks {
		if !w.gone[r] {
			for _, b := range o.Reads {
				words = append(words, from(r)(b))
			}
		}
	}
	return sum(words...)
}

// carryOut carries out the effects of the group, and checks all views after each effect.
func (w *world) carryOut(effects []Effect) {
	for _, e := range effects {
		w.story = append(w.story, fmt.Sprintf("  act %d rank %d block %d %+v", e.Act, e.Rank, e.Block, e.Op))
		switch e.Act {
		case Park:
			w.parked[e.Rank] = true
			continue
		case Unshare:
			w.own[e.Rank][e.Block] = w.common[e.Block]
			w.shared[e.Rank][e.Block] = false
			continue
		case Share:
			if e.From >= 0 {
				w.common[e.Block] = w.view(e.From, e.Block)[e.Block]
			}
			for r := range w.ranks {
				if !w.gone[r] {
					w.shared[r][e.Block] = true
				}
			}
		case RunOwn:
			w.runOwn(e.Rank, e.Op)
		case RunOnce:
			w.runOnce(e.Op, e.IDs)
			continue // the next effect makes the written blocks common
		}
		w.check()
	}
}

func (w *world) runOwn(r int, o *Op) {
	w.parked[r] = false
	if w.onItsOwn(r, o.ID) == nil {
		return
	}
	switch o.Kind {
	case Free:
		delete(w.own[r], o.Writes[0])
		delete(w.shared[r], o.Writes[0])
		return
	case Alloc:
		w.own[r][o.Writes[0]] = 0
		return
	case Collective: // only one rank is left
		w.alone[r][o.Writes[0]] = w.collective(o, func(int) func(Block) uint64 { return func(b Block) uint64 { return w.alone[r][b] } })
	case Read:
		return // the check has compared all blocks that can be read
	}
	for _, b := range o.Writes {
		if w.shared[r][b] {
			w.fail("rank %d alone writes to common memory, block %d", r, b)
			return
		}
	}
	if o.Kind == Collective {
		w.own[r][o.Writes[0]] = w.collective(o, func(int) func(Block) uint64 { return func(b Block) uint64 { return w.view(r, b)[b] } })
		return
	}
	write(o, func(b Block) uint64 { return w.view(r, b)[b] }, func(b Block, v uint64) { w.own[r][b] = v })
}

func (w *world) runOnce(o *Op, ids []uint64) {
	views := func(r int) func(Block) uint64 { return func(b Block) uint64 { return w.view(r, b)[b] } }
	alone := func(r int) func(Block) uint64 { return func(b Block) uint64 { return w.alone[r][b] } }
	total, want := w.collective(o, views), w.collective(o, alone)
	for r := range w.ranks {
		if w.gone[r] {
			continue
		}
		w.parked[r] = false
		if w.onItsOwn(r, ids[r]) == nil {
			return
		}
		if o.Kind == Collective {
			w.alone[r][o.Writes[0]] = want
		}
	}
	if o.Kind == Collective {
		w.common[o.Writes[0]] = total
		return
	}
	write(o, func(b Block) uint64 { return w.common[b] }, func(b Block, v uint64) { w.common[b] = v })
}

// check compares each rank's view with the memory of a device of its own. It must not be called between an
// operation that ran once and the effects that make its blocks common.
func (w *world) check() {
	for r := range w.ranks {
		for b, want := range w.alone[r] {
			if got := w.view(r, b)[b]; !w.gone[r] && got != want {
				w.fail("rank %d finds %x in block %d, and would find %x on a device of its own", r, got, b, want)
			}
		}
	}
}

// moves returns all events that can come next.
func (w *world) moves() (moves []string, apply []func(*world)) {
	add := func(name string, f func(*world)) { moves, apply = append(moves, name), append(apply, f) }
	for r := range w.ranks {
		if w.gone[r] {
			continue
		}
		if w.parked[r] {
			add(fmt.Sprintf("rank %d has waited for long", r), func(w *world) { w.parked[r] = false; w.carryOut(w.group.Step(TimeOut{r})) })
		}
		if n := w.posted[r]; n < len(w.ranks[r]) {
			if s := w.ranks[r][n]; s.after == 0 || w.done[s.peer] >= s.after {
				add(fmt.Sprintf("rank %d asks for %d", r, s.ID), func(w *world) { w.posted[r]++; w.carryOut(w.group.Step(Post{r, s.Op})) })
			}
		}
		if w.mayEnd && r == 0 {
			add("rank 0 is killed", func(w *world) { w.gone[0], w.parked[0] = true, false; w.carryOut(w.group.Step(End{0})) })
		}
	}
	switch {
	case w.compares != 0 && w.compared == 0 && w.equal(w.compares):
		add("a block is compared", func(w *world) { w.stamps, w.compared = w.group.Stamps(w.compares), 1 })
	case w.compared == 1:
		add("the comparison is told", func(w *world) {
			w.compared = 2
			w.carryOut(w.group.Step(Compared{w.compares, w.stamps}))
		})
	}
	return moves, apply
}

// equal tells whether all ranks have a block, with the same number.
func (w *world) equal(b Block) bool {
	for r := range w.ranks {
		v, is := w.alone[r][b]
		if !is || v != w.alone[0][b] {
			return false
		}
	}
	return true
}

// explore tries all interleavings. It returns the first violation with the events that led to it, or "", and
// the number of worlds that it has seen.
func explore(p *program, t twist) (wrong string, worlds int) {
	seen := map[string]bool{}
	var visit func(w *world) string
	visit = func(w *world) string {
		if w.wrong != "" {
			return w.wrong + ", after\n" + strings.Join(w.story, "\n")
		}
		if key := w.key(); seen[key] {
			return ""
		} else {
			seen[key] = true
		}
		moves, apply := w.moves()
		if len(moves) == 0 {
			for r := range w.ranks {
				if !w.gone[r] && w.done[r] < len(w.ranks[r]) {
					return fmt.Sprintf("rank %d waits for ever before operation %d, after\n%s", r, w.ranks[r][w.done[r]].ID, strings.Join(w.story, "\n"))
				}
			}
		}
		for i, f := range apply {
			next := w.clone()
			next.story = append(next.story, moves[i])
			f(next)
			if wrong := visit(next); wrong != "" {
				return wrong
			}
		}
		return ""
	}
	return visit(newWorld(p, t)), len(seen)
}
