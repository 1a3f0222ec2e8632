// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// warpLanes is the operands that each lane of a warp brings to a synchronising instruction.
type warpLanes struct {
	live   uint32 // lanes that the block has
	mask   [warpSize]uint32
	a, b   [warpSize]uint32
	second bool // the lanes with an odd number come to the instruction by another branch
}

// partnersOf are the lanes that lane i exchanges values with.
func (l *warpLanes) partnersOf(i int) (all []int) {
	for k := range warpSize {
		if l.mask[i]&l.live>>k&1 != 0 {
			all = append(all, k)
		}
	}
	return all
}

// syncForms are the synchronising instructions: the text, with operands %a, %b and %m and the results %r and %p, and
// the result of lane i by a computation that looks at a single lane at a time.
var syncForms = []struct {
	text string
	want func(l *warpLanes, i int) (r uint32, p bool)
}{
	{"vote.sync.ballot.b32 %r, %odd, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		for _, k := range l.partnersOf(i) {
			r |= l.a[k] & 1 << k
		}
		return r, false
	}},
	{"vote.sync.all.pred %p, %odd, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		p = true
		for _, k := range l.partnersOf(i) {
			p = p && l.a[k]&1 != 0
		}
		return 0, p
	}},
	{"vote.sync.any.pred %p, !%odd, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		for _, k := range l.partnersOf(i) {
			p = p || l.a[k]&1 == 0
		}
		return 0, p
	}},
	{"vote.sync.uni.pred %p, %odd, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		p = true
		for _, k := range l.partnersOf(i) {
			p = p && l.a[k]&1 == l.a[i]&1
		}
		return 0, p
	}},
	{"match.any.sync.b32 %r, %a, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		for _, k := range l.partnersOf(i) {
			if l.a[k] == l.a[i] {
				r |= 1 << k
			}
		}
		return r, false
	}},
	{"match.any.sync.b64 %r, %wide, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		for _, k := range l.partnersOf(i) {
			if l.a[k] == l.a[i] && l.b[k] == l.b[i] {
				r |= 1 << k
			}
		}
		return r, false
	}},
	{"match.all.sync.b32 %r|%p, %a, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		for _, k := range l.partnersOf(i) {
			if l.a[k] != l.a[i] {
				return 0, false
			}
			r |= 1 << k
		}
		return r, true
	}},
	{"redux.sync.add.u32 %r, %a, %m;", reduxOf(0, func(x, y uint32) uint32 { return x + y })},
	{"redux.sync.and.b32 %r, %a, %m;", reduxOf(fullMask, func(x, y uint32) uint32 { return x & y })},
	{"redux.sync.or.b32 %r, %a, %m;", reduxOf(0, func(x, y uint32) uint32 { return x | y })},
	{"redux.sync.xor.b32 %r, %a, %m;", reduxOf(0, func(x, y uint32) uint32 { return x ^ y })},
	{"redux.sync.min.s32 %r, %a, %m;", reduxOf(1<<31-1, func(x, y uint32) uint32 { return uint32(min(int32(x), int32(y))) })},
	{"redux.sync.max.s32 %r, %a, %m;", reduxOf(1<<31, func(x, y uint32) uint32 { return uint32(max(int32(x), int32(y))) })},
	{"redux.sync.max.u32 %r, %a, %m;", reduxOf(0, func(x, y uint32) uint32 { return max(x, y) })},
	{"shfl.sync.idx.b32 %r|%p, %a, %b, 31, %m;", shflOf(func(i, b int) int { return b })},
	{"shfl.sync.up.b32 %r|%p, %a, %b, 0, %m;", shflOf(func(i, b int) int { return i - b })},
	{"shfl.sync.down.b32 %r|%p, %a, %b, 31, %m;", shflOf(func(i, b int) int { return i + b })},
	{"shfl.sync.bfly.b32 %r|%p, %a, %b, 31, %m;", shflOf(func(i, b int) int { return i ^ b })},
	{"elect.sync %r|%p, %m;", func(l *warpLanes, i int) (r uint32, p bool) {
		first := l.partnersOf(i)[0]
		return uint32(first), first == i
	}},
	{"bar.warp.sync %m;", func(*warpLanes, int) (r uint32, p bool) { return 0, false }},
}

func reduxOf(neutral uint32, f func(x, y uint32) uint32) func(*warpLanes, int) (uint32, bool) {
	return func(l *warpLanes, i int) (uint32, bool) {
		r := neutral
		for _, k := range l.partnersOf(i) {
			r = f(r, l.a[k])
		}
		return r, false
	}
}

// shflOf reads the lane that from names. A lane that is no member gives an undefined value: this implementation gives
// the reading lane's own, and the test wants that.
func shflOf(from func(i, b int) int) func(*warpLanes, int) (uint32, bool) {
	return func(l *warpLanes, i int) (uint32, bool) {
		k := from(i, int(l.b[i]&31))
		if k < 0 || k > 31 {
			return l.a[i], false
		}
		return l.a[k], true
	}
}

// randomLanes partitions a warp into tiles, contiguous or not, some of which are empty.
func randomLanes(r *rand.Rand, tiles int) *warpLanes {
	l := &warpLanes{live: fullMask, second: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		l.live = 1<<(1+r.IntN(31)) - 1
	}
	var of [warpSize]int
	var masks [warpSize]uint32
	for i := range of {
		of[i] = i * tiles / warpSize
		if tiles < 0 {
			of[i] = r.IntN(-tiles)
		}
		masks[of[i]] |= 1 << i
	}
	for i := range masks {
		if r.IntN(2) == 0 {
			masks[i] &= l.live // lanes that the block lacks may be named or not, by all lanes of a tile alike
		}
	}
	for i := range of {
		l.mask[i] = masks[of[i]]
		l.a[i], l.b[i] = uint32(r.IntN(4))+1<<31*uint32(r.IntN(2)), uint32(i)
	}
	// The lane that is read must be a member: the distance stays within a tile.
	for i := range of {
		var all []int
		for m := l.mask[i] & l.live; m != 0; m &= m - 1 {
			all = append(all, bits.TrailingZeros32(m))
		}
		if len(all) > 0 {
			l.b[i] = uint32(all[r.IntN(len(all))])
		}
	}
	return l
}

// TestMemberMasks: lanes of a single warp carry different member masks, as tiled_partition<8>() makes them. Each
// synchronising instruction gives each lane the result of a computation over that lane's members, whether the lanes
// come together or by two branches.
func TestMemberMasks(t *testing.T) {
	for _, form := range syncForms {
		t.Run(form.text, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			m := bootMachine(t, memberKernel(form.text))
			in := m.mapAt(testIn, make([]byte, 16*warpSize))
			out := m.mapAt(testOut, make([]byte, 8*warpSize))
			for round := range 200 {
				tiles := []int{1, 2, 4, 8, 16, 32, -2, -3, -5, -9}[round%10]
				l := randomLanes(r, tiles)
				if n := shflDistance(form.text); n != nil {
					for i := range l.b {
						l.b[i] = n(i, l.b[i])
					}
				}
				for i := range warpSize {
					second := uint32(0)
					if l.second {
						second = uint32(i & 1)
					}
					for k, v := range [...]uint32{l.a[i], l.b[i], l.mask[i], second} {
						binary.LittleEndian.PutUint32(in[16*i+4*k:], v)
					}
				}
				n := bits.Len32(l.live)
				m.runKernel("k", Dim3{1, 1, 1}, Dim3{uint32(n), 1, 1}, testIn, testOut)
				for i := range n {
					wantR, wantP := form.want(l, i)
					gotR, gotP := binary.LittleEndian.Uint32(out[8*i:]), binary.LittleEndian.Uint32(out[8*i+4:]) != 0
					if gotR != wantR || gotP != wantP {
						t.Fatalf("round %d, %d tiles, %d lanes, two branches: %v: lane %d with mask %#x gets %#x, %v; it should be %#x, %v",
							round, tiles, n, l.second, i, l.mask[i], gotR, gotP, wantR, wantP)
					}
				}
			}
		})
	}
}

// shflDistance turns the number of a lane that is read into the operand with which a mode of shfl reads that lane; nil
// for other instructions. An operand out of the warp's range is not corrected.
func shflDistance(text string) func(i int, lane uint32) uint32 {
	for mode, f := range map[string]func(i int, lane uint32) uint32{
		"shfl.sync.idx":  func(_ int, lane uint32) uint32 { return lane },
		"shfl.sync.bfly": func(i int, lane uint32) uint32 { return lane ^ uint32(i) },
		"shfl.sync.up":   func(i int, lane uint32) uint32 { return max(uint32(i), lane) - lane },
		"shfl.sync.down": func(i int, lane uint32) uint32 { return max(uint32(i), lane) - uint32(i) },
	} {
		if len(text) > len(mode) && text[:len(mode)] == mode {
			return f
		}
	}
	return nil
}

// memberKernel executes a synchronising instruction once for all lanes of a warp: lanes with
// a fourth word that is not 0 come to the instruction by a branch of their own.
func memberKernel(text string) string {
	return header + fmt.Sprintf(`
.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .b64 %%in, %%out, %%off, %%wide;
	.reg .b32 %%t, %%a, %%b, %%m, %%second, %%r, %%x;
	.reg .pred %%odd, %%p, %%q;
	ld.param.u64 %%in, [in];
	ld.param.u64 %%out, [out];
	mov.u32 %%t, %%tid.x;
	mul.wide.u32 %%off, %%t, 16;
	add.s64 %%in, %%in, %%off;
	mul.wide.u32 %%off, %%t, 8;
	add.s64 %%out, %%out, %%off;
	ld.global.v4.u32 {%%a, %%b, %%m, %%second}, [%%in];
	mov.b64 %%wide, {%%a, %%b};
	and.b32 %%x, %%a, 1;
	setp.ne.u32 %%odd, %%x, 0;
	setp.ne.u32 %%p, 0, 0;
	mov.u32 %%r, 0;
	setp.ne.u32 %%q, %%second, 0;
	@%%q bra SECOND;
	%[1]s
	bra DONE;
SECOND:
	%[1]s
DONE:
	st.global.u32 [%%out], %%r;
	selp.u32 %%x, 1, 0, %%p;
	st.global.u32 [%%out+4], %%x;
	ret;
}
`, text)
}
