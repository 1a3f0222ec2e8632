// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/ptx/native"
)

// basicBlock is a basic block: micro-operations from to to-1, the last of which may jump.
type basicBlock struct {
	from, to int
	next     []int // blocks that may follow
	joins    bool  // lanes meet at its start
}

// exitBlock is the virtual block after the end.
const exitBlock = -1

// finishFunction turns the lowered micro-operations into the function's code.
func finishFunction(l *lowerer) {
	g := graphOf(l)
	g.findMeetings()
	assignRegisters(g)
	l.out.insts, l.out.plan = g.layoutCode()
}

// graph is a function's control flow.
type graph struct {
	l      *lowerer
	blocks []basicBlock
	at     []int // block of each micro-operation
}

// endsFlow reports whether control never reaches the micro-operation behind this one.
func (m *microOperation) endsFlow() bool {
	switch m.flow {
	case flowBranch, flowExit:
		return m.guard == 0
	case flowIndex, flowReturn:
		return true
	case flowCall:
		return m.ext.call.noreturn
	default:
		return m.guard == 0 && m.ext != nil && m.ext.text != ""
	}
}

// endsBlock reports whether a block ends after a micro-operation.
func (m *microOperation) endsBlock() bool {
	return m.endsFlow() || m.flow == flowBranch || m.flow == flowExit || m.flow == flowCall
}

func graphOf(l *lowerer) *graph {
	n := len(l.code)
	leader := make([]bool, n+1)
	leader[0] = true
	for i := range l.code {
		m := &l.code[i]
		if m.endsBlock() {
			leader[i+1] = true
		}
		if m.flow == flowBranch {
			leader[m.target] = true
		}
		if m.flow == flowIndex {
			for _, t := range m.ext.targets {
				leader[t] = true
			}
		}
	}
	g := &graph{l: l, at: make([]int, n)}
	for i := range n {
		if leader[i] {
			g.blocks = append(g.blocks, basicBlock{from: i})
		}
		b := len(g.blocks) - 1
		g.at[i] = b
		g.blocks[b].to = i + 1
	}
	for b := range g.blocks {
		m := &l.code[g.blocks[b].to-1]
		var next []int
		switch m.flow {
		case flowBranch:
			next = append(next, g.at[m.target])
		case flowIndex:
			for _, t := range m.ext.targets {
				next = append(next, g.at[t])
			}
		case flowReturn, flowExit:
			next = append(next, exitBlock)
		}
		if !m.endsFlow() && b+1 < len(g.blocks) {
			next = append(next, b+1)
		}
		g.blocks[b].next = next
	}
	return g
}

// findMeetings finds for each branch the block where its lanes meet again: its immediate post-dominator. Blocks that
// end in a trap lead to no other block and are ignored; blocks that lead only to an endless loop have a meeting point
// among themselves.
func (g *graph) findMeetings() {
	order, number, leads := g.orderBackwards()
	idom := g.findDominators(order, number, leads)
	for b := range g.blocks {
		g.blocks[b].joins = false
	}
	for b := range g.blocks {
		m := &g.l.code[g.blocks[b].to-1]
		meets := -1
		switch {
		case m.flow == flowBranch && m.guard != 0, m.flow == flowIndex:
			if k := number[b]; k > 0 && idom[k] > 0 {
				meets = order[idom[k]-1]
			}
		case m.flow == flowCall && m.ext.call.fn == nil && b+1 < len(g.blocks) && !m.endsFlow():
			meets = b + 1
		}
		if meets >= 0 {
			g.blocks[meets].joins = true
		}
		m.join = int32(meets) // a block until layout
	}
}

// findDominators finds the immediate post-dominator of each block that orderBackwards has numbered: the number of that block, by
// the block's number, or -1. The virtual exit is number 0.
func (g *graph) findDominators(order, number []int, leads []bool) []int {
	// Cooper, Harvey and Kennedy: A Simple, Fast Dominance Algorithm, on the reversed graph.
	idom := make([]int, len(order)+1)
	for i := range idom {
		idom[i] = -1
	}
	idom[0] = 0
	common := func(a, b int) int {
		for a != b {
			g.l.countEffort(1)
			for a > b {
				a = idom[a]
				g.l.countEffort(1)
			}
			for b > a {
				b = idom[b]
				g.l.countEffort(1)
			}
		}
		return a
	}
	for changed := true; changed; {
		changed = false
		for i, b := range order {
			dom := -1
			if g.blocks[b].joins {
				dom = 0 // an endless loop counts as leading to the exit: see orderBackwards
			}
			for _, s := range g.blocks[b].next {
				k := 0
				if s != exitBlock {
					if k = number[s]; k == 0 || idom[k] < 0 || leads[b] && !leads[s] {
						continue
					}
				}
				if dom < 0 {
					dom = k
				} else {
					dom = common(dom, k)
				}
			}
			if dom >= 0 && idom[i+1] != dom {
				idom[i+1] = dom
				changed = true
			}
		}
	}
	return idom
}

// orderBackwards orders the blocks that lead to the exit so that most come after the blocks that they lead to, and
// numbers them from 1. A chosen block of each endless loop, for which joins is set, counts as leading to the exit;
// leads tells which blocks lead there without such a block.
func (g *graph) orderBackwards() (order, number []int, leads []bool) {
	prev := make([][]int, len(g.blocks))
	var exits []int
	for b := range g.blocks {
		for _, s := range g.blocks[b].next {
			if s == exitBlock {
				exits = append(exits, b)
			} else {
				prev[s] = append(prev[s], b)
			}
		}
	}
	number = make([]int, len(g.blocks))
	seen := make([]bool, len(g.blocks))
	var post []int
	visit := func(root int) {
		type step struct{ b, i int }
		stack := []step{{root, 0}}
		seen[root] = true
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.i < len(prev[top.b]) {
				p := prev[top.b][top.i]
				top.i++
				if !seen[p] {
					seen[p] = true
					stack = append(stack, step{p, 0})
				}
				continue
			}
			post = append(post, top.b)
			stack = stack[:len(stack)-1]
		}
	}
	for _, b := range exits {
		if !seen[b] {
			visit(b)
		}
	}
	leads = slices.Clone(seen)
	endless := g.findEndless(prev)
	for b := len(g.blocks) - 1; b >= 0; b-- {
		if seen[b] || !endless[b] {
			continue
		}
		at := g.findLoop(b, endless)
		g.blocks[at].joins = true
		visit(at)
	}
	for i := len(post) - 1; i >= 0; i-- {
		order = append(order, post[i])
		number[post[i]] = len(order)
	}
	return order, number, leads
}

// findLoop returns a block of an endless loop to which a block leads: followed far enough, the path through endless blocks
// comes to a block for the second time.
func (g *graph) findLoop(from int, endless []bool) int {
	at, been := from, map[int]bool{}
	for !been[at] {
		been[at] = true
		for _, s := range g.blocks[at].next {
			if endless[s] {
				at = s
				break
			}
		}
	}
	return at
}

// findEndless tells which blocks need not come to a trap: the rest after blocks that end in a trap, and blocks that
// lead only to such blocks, are taken away one after the other.
func (g *graph) findEndless(prev [][]int) []bool {
	left := make([]bool, len(g.blocks))
	ways := make([]int, len(g.blocks)) // to blocks that are left
	var ends []int
	for b := range g.blocks {
		left[b] = true
		if ways[b] = len(g.blocks[b].next); ways[b] == 0 {
			ends = append(ends, b)
		}
	}
	for len(ends) > 0 {
		b := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		left[b] = false
		for _, p := range prev[b] {
			if ways[p]--; ways[p] == 0 {
				ends = append(ends, p)
			}
		}
	}
	return left
}

// layoutCode returns the code with meeting points before the blocks that have them, and turns
// targets into its numbers.
func (g *graph) layoutCode() ([]inst, []native.Inst) {
	pos := make([]int32, len(g.blocks))
	at := int32(0)
	for b, blk := range g.blocks {
		pos[b] = at
		at += int32(blk.to - blk.from)
		if blk.joins {
			at++
		}
	}
	insts, plan := make([]inst, 0, at), make([]native.Inst, 0, at)
	for _, blk := range g.blocks {
		if blk.joins {
			insts = append(insts, inst{flow: flowJoin, line: g.l.code[blk.from].line, target: -1, join: -1, site: -1})
			plan = append(plan, native.Inst{Flow: native.Join})
		}
		for i := blk.from; i < blk.to; i++ {
			m := &g.l.code[i]
			if m.flow == flowBranch {
				m.target = pos[g.at[m.target]]
			}
			if m.flow == flowIndex {
				for k, t := range m.ext.targets {
					m.ext.targets[k] = pos[g.at[t]]
				}
			}
			if m.join >= 0 {
				m.join = pos[m.join]
			}
			insts = append(insts, m.inst)
			plan = append(plan, m.describeInst(g.l.out.rets))
		}
	}
	return insts, plan
}
