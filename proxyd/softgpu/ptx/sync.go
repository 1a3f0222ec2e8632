// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import "math/bits"

// syncSite is an instruction that exchanges values between lanes of a warp. ext.refs[0]
// is its member mask.
type syncSite struct {
	key    string // lanes meet only at instructions with the same key
	gather func(w *warp, in *inst, m uint32, g *gather)
	finish func(w *warp, in *inst, m uint32, g *gather)
}

// gather is the values that the lanes of a mask have brought.
type gather struct {
	mask uint32
	val  [warpSize]uint64
}

// syncGroup is lanes that wait for the other lanes of their member mask.
type syncGroup struct {
	key   string
	need  uint32
	frags []*frag
	gather
}

// runSync executes a flowSync. Lanes of a fragment may carry different member masks, as the tiles of a
// warp do: lanes with the same mask are a group. The lanes of a group go on if its members are all
// in the fragment, other lanes wait here. runSync reports false when lanes wait.
func (w *warp) runSync(in *inst) bool {
	f, s := w.cur, in.ext.sync
	masks := w.u32(in.ext.refs[0])
	waiting, gathered := uint32(0), false
	for left := f.mask; left != 0; {
		need, lanes := masks[lowestLane(left)], left
		if in.ext.refs[0]&1 == 0 { // not a constant
			lanes = lanesWith(masks, left, need)
		}
		left &^= lanes
		if need&w.live&^f.mask != 0 {
			waiting |= lanes
			continue
		}
		if !gathered {
			gathered = true
			w.gather.mask = f.mask
			s.gather(w, in, f.mask, &w.gather)
		}
		s.finish(w, in, lanes, &w.gather)
	}
	if waiting == 0 {
		f.pc++
		return true
	}
	// With .sync the lanes of a group may be anywhere in the warp, and meet here.
	if f.mask != waiting {
		w.splitFragment(in, f.mask&^waiting, f.pc+1)
	}
	for waiting != 0 {
		need := masks[lowestLane(waiting)]
		lanes := lanesWith(masks, waiting, need)
		waiting &^= lanes
		part := f
		if waiting != 0 {
			w.splitFragment(in, lanes, f.pc)
			part = w.frags[len(w.frags)-1]
		}
		w.waitForGroup(in, part, need)
	}
	w.checkSyncs()
	return false
}

// lanesWith returns the lanes of m in which a register has a value.
func lanesWith(values *[warpSize]uint32, m, value uint32) uint32 {
	same := uint32(0)
	for ; m != 0; m &= m - 1 {
		if i := lowestLane(m); values[i] == value {
			same |= 1 << i
		}
	}
	return same
}

// waitForGroup puts a fragment, with lanes that all have the member mask need, into the list of fragments
// that wait for the rest of their group.
func (w *warp) waitForGroup(in *inst, f *frag, need uint32) {
	s := in.ext.sync
	var g *syncGroup
	for _, h := range w.syncs {
		if h.need == need && h.key == s.key && h.mask&f.mask == 0 {
			g = h
		}
	}
	if g == nil {
		g = &syncGroup{key: s.key, need: need}
		w.syncs = append(w.syncs, g)
	}
	s.gather(w, in, f.mask, &g.gather)
	g.mask |= f.mask
	g.frags = append(g.frags, f)
	f.state = fragSync
}

// checkSyncs lets complete groups go on.
func (w *warp) checkSyncs() {
	for i := 0; i < len(w.syncs); i++ {
		g := w.syncs[i]
		if g.need&w.live&^g.mask != 0 {
			continue
		}
		w.syncs = append(w.syncs[:i], w.syncs[i+1:]...)
		i--
		cur := w.cur
		for _, f := range g.frags {
			in := &f.frame.code.insts[f.pc]
			w.enterFrame(f.frame, f.frame.code)
			in.ext.sync.finish(w, in, f.mask, &g.gather)
			f.state = fragReady
			f.pc++
			w.mergeFragment(f)
		}
		if cur != nil {
			w.enterFrame(cur.frame, cur.frame.code)
		}
	}
}

// mergeFragment joins a fragment with another that is ready at the same place: groups of a warp that parted at a
// synchronising instruction meet so behind it.
func (w *warp) mergeFragment(f *frag) {
	for _, g := range w.frags {
		if g != f && g != w.cur && g.state == fragReady && g.pc == f.pc && g.frame == f.frame && g.join == f.join {
			g.mask |= f.mask
			w.dropFragment(f)
			return
		}
	}
}

// gatherA32 and gatherA64 collect operand a.
func gatherA32(w *warp, in *inst, m uint32, g *gather) {
	a := w.u32(in.a)
	if m == fullMask {
		for i := range a {
			g.val[i] = uint64(a[i])
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		g.val[i] = uint64(a[i])
	}
}

func gatherA64(w *warp, in *inst, m uint32, g *gather) {
	a := w.u64(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		g.val[i] = a[i]
	}
}

func gatherPred(w *warp, in *inst, m uint32, g *gather) {
	p := w.pred(in.a)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		g.val[i] = uint64(p >> i & 1)
	}
}

func gatherNone(*warp, *inst, uint32, *gather) {}

// The modes of shfl.
const (
	shflUp = iota
	shflDown
	shflBfly
	shflIdx
)

// finishShfl returns, for each mode, the second half of shfl: d, the predicate e that the
// source was in range if imm is not 0, b the lane, c clamp and segments.
func finishShfl(mode int) func(w *warp, in *inst, m uint32, g *gather) {
	return func(w *warp, in *inst, m uint32, g *gather) {
		d, b, c := w.u32(in.d), w.u32(in.b), w.u32(in.c)
		if mode == shflBfly && m&g.mask == fullMask && in.b&in.c&1 != 0 && c[0] == 31 {
			// All lanes of a warp that is together, at a constant distance.
			by := int(b[0])
			for i := range d {
				d[i] = uint32(g.val[(i^by)&31])
			}
			if in.imm != 0 {
				w.setBits(in.e, m, fullMask)
			}
			return
		}
		inRange := uint32(0)
		for left := m; left != 0; left &= left - 1 {
			i := bits.TrailingZeros32(left) & 31
			lane, by := int32(i), int32(b[i]&31)
			segment := int32(c[i] >> 8 & 31)
			limit := lane&segment | int32(c[i]&31)&^segment
			from, ok := lane, false
			switch mode {
			case shflUp:
				from = lane - by
				ok = from >= limit
			case shflDown:
				from = lane + by
				ok = from <= limit
			case shflBfly:
				from = lane ^ by
				ok = from <= limit
			case shflIdx:
				from = lane&segment | by&^segment
				ok = from <= limit
			}
			if !ok {
				from = lane
			} else {
				inRange |= 1 << i
			}
			// The value of a lane that is not in the group is undefined: it is the reading lane's own.
			if g.mask>>(from&31)&1 == 0 {
				from = lane
			}
			d[i] = uint32(g.val[from&31])
		}
		if in.imm != 0 {
			w.setBits(in.e, m, inRange)
		}
	}
}

// finishVote ends vote.all, .any, .uni and .ballot.
func finishVote(mode string) func(w *warp, in *inst, m uint32, g *gather) {
	return func(w *warp, in *inst, m uint32, g *gather) {
		set := uint32(0)
		for left := g.mask; left != 0; left &= left - 1 {
			i := bits.TrailingZeros32(left) & 31
			set |= uint32(g.val[i]) << i
		}
		members := g.mask & w.u32(in.ext.refs[0])[bits.TrailingZeros32(m)&31]
		set &= members
		answer := false
		switch mode {
		case "all":
			answer = set == members
		case "any":
			answer = set != 0
		case "uni":
			answer = set == 0 || set == members
		case "ballot":
			d := w.u32(in.d)
			for ; m != 0; m &= m - 1 {
				d[bits.TrailingZeros32(m)&31] = set
			}
			return
		}
		v := uint32(0)
		if answer {
			v = fullMask
		}
		w.setBits(in.d, m, v)
	}
}

// finishMatch ends match.any and match.all; imm is 1 when .all also sets predicate e.
func finishMatch(all bool) func(w *warp, in *inst, m uint32, g *gather) {
	return func(w *warp, in *inst, m uint32, g *gather) {
		d := w.u32(in.d)
		members := g.mask & w.u32(in.ext.refs[0])[bits.TrailingZeros32(m)&31]
		agree := uint32(fullMask)
		for left := m; left != 0; left &= left - 1 {
			i := bits.TrailingZeros32(left) & 31
			same := uint32(0)
			for o := members; o != 0; o &= o - 1 {
				if k := bits.TrailingZeros32(o) & 31; g.val[k] == g.val[i] {
					same |= 1 << k
				}
			}
			if all && same != members {
				same, agree = 0, 0
			}
			d[i] = same
		}
		if in.imm != 0 {
			w.setBits(in.e, m, agree)
		}
	}
}

// finishRedux reduces the values of all members with f.
func finishRedux(f func(a, b uint32) uint32) func(w *warp, in *inst, m uint32, g *gather) {
	return func(w *warp, in *inst, m uint32, g *gather) {
		members := g.mask & w.u32(in.ext.refs[0])[bits.TrailingZeros32(m)&31]
		if members == 0 {
			return
		}
		first := bits.TrailingZeros32(members) & 31
		r := uint32(g.val[first])
		for left := members & (members - 1); left != 0; left &= left - 1 {
			r = f(r, uint32(g.val[bits.TrailingZeros32(left)&31]))
		}
		d := w.u32(in.d)
		for ; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&31] = r
		}
	}
}

func finishNone(*warp, *inst, uint32, *gather) {}

// parkAtJoin lets the current fragment wait at its join. When the fragment is the last to come, the fragment goes on
// with all lanes and parkAtJoin reports true.
func (w *warp) parkAtJoin() bool {
	f, j := w.cur, w.cur.join
	if j.arrived == 0 && f.mask != j.expected {
		w.joins = append(w.joins, j)
	}
	j.arrived |= f.mask
	if j.arrived == j.expected {
		w.forgetJoin(j)
		f.mask, f.join = j.arrived, j.parent
		j.arrived = 0
		return true
	}
	w.dropFragment(f)
	return false
}

func (w *warp) forgetJoin(j *join) {
	for i := len(w.joins) - 1; i >= 0; i-- {
		if w.joins[i] == j {
			w.joins = append(w.joins[:i], w.joins[i+1:]...)
			return
		}
	}
}

// releaseJoins lets all lanes that stand at joins go on without the lanes that they wait for. releaseJoins reports
// whether any lane stood at a join.
func (w *warp) releaseJoins() bool {
	any := false
	for _, j := range w.joins {
		if j.arrived == 0 {
			continue
		}
		any = true
		j.expected &^= j.arrived
		w.frags = append(w.frags, w.newFrag(frag{mask: j.arrived, pc: j.pc, frame: j.frame, join: j.parent}))
		j.arrived = 0
	}
	w.joins = w.joins[:0]
	return any
}
