// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "testing"

// FuzzStep hands the Barrier any events in any order, as a shim that scribbles over its
// counts could make them. The Barrier must not panic, its sums must stay the sums of its parts, and
// there is no cut while numbers differ or before all ranks have said that they are quiet.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0x10, 1, 1, 1, 0x20, 1, 1, 2, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 1, 0, 0x11, 3, 1, 1, 0x21, 3, 12, 0, 0, 0, 0, 13, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 6, 2, 0, 0, 0, 1, 0, 2, 9, 0, 1, 1, 2, 2, 0, 15, 0, 0, 0, 0, 9, 1, 0, 0, 0})
	whole := []byte{0, 0, 0, 0, 0} // an attempt from Start to Cut
	for _, what := range []byte{5, 14, 9, 10} {
		for r := range byte(3) {
			whole = append(whole, what, r, 0, 0, 0)
		}
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := New(3, Communicator{1, []Rank{0, 1}}, Communicator{2, []Rank{1, 2, 2}})
		over := false
		for len(data) >= 5 {
			out := b.Step(anyEvent(data[0], data[1], data[2], data[3], data[4]))
			data = data[5:]
			if over && (out.Cut || out.Failed != nil || out.Shut || out.Raise != nil || out.Nudge != nil) {
				t.Fatalf("effects after the end: %+v, want none", out)
			}
			over = over || out.Cut || out.Failed != nil
			checkSums(t, b)
			if out.Cut {
				for i, r := range b.ranks {
					if r.owes || r.behind > 0 || r.holds || !r.shut {
						t.Fatalf("cut although rank %d is not quiet: %+v", i, r)
					}
				}
			}
		}
	})
}

// anyEvent makes an event of some bytes. Rank 3 and communicator 4 do not exist.
func anyEvent(what, rank, where, n, more byte) Event {
	who := Rank(rank % 4)
	k := Key{Comm: Comm(where%4 + 1), Member: int32(where/4%4) - 1, Kind: Kind(where / 16 % 5), Peer: int32(where/64) - 1}
	counts := []Count{{k, uint64(n)}}
	if more&1 != 0 {
		counts = append(counts, Count{Key{Comm: 1, Member: int32(rank % 2)}, uint64(more)})
	}
	switch what % 17 {
	case 0:
		return Start{}
	case 1:
		return Shut{who, counts}
	case 2:
		return Issued{who, counts, more&2 != 0}
	case 3:
		return Withdrawn{who, counts}
	case 4:
		return Reading{who, counts}
	case 5:
		return Shut{Rank: who}
	case 6:
		return Ended{who, counts}
	case 7:
		return Destroyed{who, k.Comm, k.Member, counts}
	case 8:
		return Aborted{k.Comm}
	case 9:
		return Drained{who}
	case 10:
		return CallsShut{who}
	case 11:
		return Met{Rendezvous{3, []Rank{0, 2}, []Communicator{{3, []Rank{0, 2}}}}, more&2 != 0}
	case 12:
		return Created{3}
	case 13:
		return Tick{}
	case 14:
		return Reading{Rank: who}
	case 15:
		if more < 250 {
			return Withdrawn{Rank: who}
		}
		return Deadline{}
	default:
		if more < 250 {
			return Tick{}
		}
		return Died{who}
	}
}

// checkSums counts again the sums that the Barrier keeps, and compares.
func checkSums(t *testing.T, b *Barrier) {
	t.Helper()
	behind := make([]int, len(b.ranks))
	lag, unshut, owing, unrevoke := 0, 0, 0, 0
	for _, l := range b.lines {
		top := uint64(0)
		for _, s := range l.sides {
			top = max(top, b.sides[s].n)
		}
		for _, s := range l.sides {
			if b.sides[s].n < top && !b.comms[l.comm].aborted {
				behind[b.sides[s].rank]++
				lag++
			}
		}
	}
	for i, r := range b.ranks {
		if r.behind != behind[i] && b.phase != failed {
			t.Fatalf("rank %d is behind on %d lines, not %d", i, behind[i], r.behind)
		}
		unshut += int(1 - bitOf(r.shut))
		owing += int(bitOf(r.owes))
		unrevoke += r.withdrawing
	}
	if b.phase != failed && (b.lag != lag || b.unshut != unshut || b.owing != owing || b.unrevoke != unrevoke) {
		t.Fatalf("sum kept and counted: lag %d %d, unshut %d %d, owing %d %d, unrevoke %d %d", b.lag, lag, b.unshut, unshut, b.owing, owing, b.unrevoke, unrevoke)
	}
}
