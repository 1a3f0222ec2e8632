// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// view is the state of a rank's view of a block.
type view struct {
	live   bool   // the rank has the block
	common bool   // the rank's view is the common memory
	stamp  uint64 // how often the rank's bytes may have changed
}

// blocks has all blocks that a rank has or had.
type blocks map[Block][]view

// viewsOf returns the views of a block.
func (b blocks) viewsOf(at Block, ranks int) []view {
	if b[at] == nil {
		b[at] = make([]view, ranks)
	}
	return b[at]
}

// Stamps returns, for each rank, how often the rank's bytes of a block may have changed: see Compared.
func (g *Group) Stamps(at Block) []uint64 {
	var out []uint64
	for _, v := range g.blocks.viewsOf(at, len(g.ranks)) {
		out = append(out, v.stamp)
	}
	return out
}

// isCommon tells whether a block is common memory of all ranks that are left.
func (g *Group) isCommon(at Block) bool {
	return g.allHold(at, func(v view) bool { return v.live && v.common })
}

// allHold tells whether holds is true for the view of each rank that is left.
func (g *Group) allHold(at Block, holds func(view) bool) bool {
	for r, v := range g.blocks.viewsOf(at, len(g.ranks)) {
		if !g.ranks[r].gone && !holds(v) {
			return false
		}
	}
	return true
}

// canRunOnce tells whether an operation would write the same bytes for each rank.
func (g *Group) canRunOnce(o *Op) bool {
	switch {
	case o.Record == "" || g.isAlone():
		return false
	case o.Kind == Read || o.Kind == Free:
		return false
	case o.Kind == Alloc:
		return !slices.ContainsFunc(o.Writes, func(b Block) bool { return !g.allHold(b, func(v view) bool { return !v.live }) })
	case slices.ContainsFunc(o.Writes, func(b Block) bool { return !g.allHold(b, func(v view) bool { return v.live }) }):
		return false
	case o.Kind == Collective:
		return true // the ranks' operands may differ: all ranks get the same result
	case g.twist == partFills:
		return !slices.ContainsFunc(o.Reads, func(b Block) bool { return !g.isCommon(b) })
	case g.twist == noOperands:
		return true
	}
	return !slices.ContainsFunc(o.neededBlocks(), func(b Block) bool { return !g.isCommon(b) })
}

// writeOnce updates the views for an operation that runs once, and returns the effects that must follow the
// operation.
func (g *Group) writeOnce(o *Op) []Effect {
	var out []Effect
	for _, b := range o.Writes {
		if !g.isCommon(b) {
			out = append(out, Effect{Act: Share, Block: b, From: -1})
		}
		views := g.blocks.viewsOf(b, len(g.ranks))
		for r := range views {
			if !g.ranks[r].gone {
				views[r] = view{true, true, views[r].stamp + 1}
			}
		}
	}
	return out
}

// writeOwn updates the view of a rank for an operation of that rank alone, and returns the effects that must
// precede the operation.
func (g *Group) writeOwn(rank int, o *Op) []Effect {
	var out []Effect
	for _, b := range o.Writes {
		v := &g.blocks.viewsOf(b, len(g.ranks))[rank]
		v.stamp++
		switch {
		case o.Kind == Alloc:
			v.live, v.common = true, false
		case o.Kind == Free:
			v.live, v.common = false, false
		case v.common:
			v.common = false
			out = append(out, Effect{Act: Unshare, Rank: rank, Block: b})
		}
	}
	return out
}

// noteCompared makes a block common memory if no rank's bytes have changed since the comparison.
func (g *Group) noteCompared(e Compared) []Effect {
	if len(e.Stamps) != len(g.ranks) || g.isCommon(e.Block) || g.isAlone() {
		return nil
	}
	from := -1
	views := g.blocks.viewsOf(e.Block, len(g.ranks))
	for r, v := range views {
		if g.ranks[r].gone {
			continue
		}
		if !v.live || v.stamp != e.Stamps[r] && g.twist != oldStamps {
			return nil
		}
		if from < 0 {
			from = r
		}
	}
	for r := range views {
		views[r].common = !g.ranks[r].gone
	}
	return []Effect{{Act: Share, Block: e.Block, From: from}}
}
