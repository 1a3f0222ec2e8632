// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"slices"
	"testing"
)

// letter is the Result of an operation.
type letter struct {
	string
	size  uint64 // beyond 10
	users int
}

func (l *letter) Size() uint64 { return 10 + l.size }
func (l *letter) Hold()        { l.users++ }
func (l *letter) Drop()        { l.users-- }

// ask is an operation of a rank at the first Site, with a Record of a single letter. It returns "" if the rank does not
// compare, "run" if it runs, or the text of the result that it takes.
func ask(r *Results, rank Rank, record byte, others int) string {
	p := r.Ask(rank, Site{}, 10)
	if p.Learn {
		r.LearnParts(Site{}, 100, nil, false) // all of the memory
	}
	if !p.Compare {
		return ""
	}
	if got, ok := r.Take(rank, Site{}, p.Turn, Record{record}); ok {
		got.Drop()
		return got.(*letter).string
	}
	if r.Learn(Site{}, 100, nil, nil) {
		r.Keep(rank, Record{record}, others, &letter{string: string(record)})
	}
	return "run"
}

func wantAsk(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: ask = %q, want %q", what, got, want)
	}
}

// TestTake: the first rank runs, each other rank takes the result once, and then the result is gone.
func TestTake(t *testing.T) {
	r := NewResults(1000, 10)
	wantAsk(t, "the first rank", ask(r, 1, 'a', 2), "run")
	wantAsk(t, "the second", ask(r, 2, 'a', 2), "a")
	if r.Held() != 10 {
		t.Errorf("%d bytes are kept for the third rank, want 10", r.Held())
	}
	wantAsk(t, "the third", ask(r, 3, 'a', 2), "a")
	if r.Held() != 0 {
		t.Errorf("%d bytes are kept for no rank", r.Held())
	}
	wantAsk(t, "another record", ask(r, 1, 'b', 2), "run")
	wantAsk(t, "the rank that has made it", ask(r, 1, 'b', 2), "run")
	wantAsk(t, "a rank that lags", ask(r, 2, 'c', 2), "run")
}

// TestBudget: the oldest results make room.
func TestBudget(t *testing.T) {
	r := NewResults(25, 10)
	for _, c := range []byte("abc") {
		wantAsk(t, "the first rank", ask(r, 1, c, 1), "run")
	}
	if r.Held() != 20 {
		t.Errorf("%d bytes are kept, want 20", r.Held())
	}
	wantAsk(t, "the oldest", ask(r, 2, 'a', 1), "run")
	r.Keep(1, Record{'z'}, 1, &letter{string: "z", size: 16})
	if _, ok := r.Take(2, Site{}, 9, Record{'z'}); ok {
		t.Error("a result is kept that is larger than all that may be kept")
	}
}

// TestInVain: ranks with different operations compare ever more seldom, for every number of ranks, and compare again when
// the operations are alike.
func TestInVain(t *testing.T) {
	const turns = 1024
	for _, ranks := range []int{2, 4, 8} {
		r := NewResults(1<<20, 10)
		record := 0
		var compared []int // turns of the first rank
		for turn := range turns {
			for rank := range ranks {
				record++
				p := r.Ask(Rank(rank), Site{}, 10)
				if p.Learn {
					r.LearnParts(Site{}, 100, nil, false) // all of the memory
				}
				if !p.Compare {
					if !p.Learn && p.Why != Differed {
						t.Errorf("%d ranks, turn %d: plan %+v, want Differed", ranks, turn, p)
					}
					continue
				}
				if rank == 0 {
					compared = append(compared, turn)
				}
				if _, ok := r.Take(Rank(rank), Site{}, p.Turn, Record{byte(record), byte(record >> 8)}); ok {
					t.Fatalf("%d ranks, turn %d: a result is taken of an operation that differs", ranks, turn)
				}
				r.Learn(Site{}, 100, nil, nil)
			}
		}
		// The parts are learned by the next rank that may compare: at the first turn, or after the first pause.
		want := []int{0, 1, 16, 256, 512, 768}
		if ranks == 2 {
			want = []int{0, 17, 32, 256, 512, 768}
		}
		if !slices.Equal(compared, want) {
			t.Errorf("%d ranks: turns %v are compared, want %v", ranks, compared, want)
		}
		taken := 0
		for turn := range 256 {
			for rank := range ranks {
				if got := ask(r, Rank(rank), byte(turn), ranks-1); got != "" && got != "run" {
					taken++
				}
			}
		}
		if want := 256 * (ranks - 1); taken != want {
			t.Errorf("%d ranks: %d results are taken when the ranks are alike again, want %d", ranks, taken, want)
		}
	}
}

// TestGroups: of ranks that are alike two by two, as replicas of several tensor-parallel ranks are, each second rank takes
// the result of the first, in whichever order ranks come, and however far they run ahead of each other.
func TestGroups(t *testing.T) {
	const turns = 256
	for _, order := range []string{"aabb", "abab", "abba", "aabbccdd", "abcdabcd", "abcddcba"} {
		for _, ahead := range []int{1, 4} { // turns that a rank has before the next rank
			r := NewResults(1<<20, 10)
			taken := 0
			for from := 0; from < turns; from += ahead {
				for rank, group := range []byte(order) {
					for turn := from; turn < from+ahead; turn++ {
						if got := ask(r, Rank(rank), group^byte(turn)<<3, 1); got != "" && got != "run" {
							taken++
						}
					}
				}
			}
			if most := turns * len(order) / 2; taken < most*9/10 {
				t.Errorf("ranks %s, %d turns ahead: %d results are taken, want nearly %d", order, ahead, taken, most)
			}
		}
	}
}

// TestEverySecond: ranks that are alike at each second turn of a Site still take results there.
func TestEverySecond(t *testing.T) {
	r := NewResults(1<<20, 10)
	taken := 0
	for turn := range 256 {
		for rank := range Rank(2) {
			record := byte(turn)
			if turn%2 == 1 {
				record += 128 * byte(rank)
			}
			if got := ask(r, rank, record, 1); got != "" && got != "run" {
				taken++
			}
		}
	}
	if taken < 120 {
		t.Errorf("%d of 128 results are taken", taken)
	}
}

// TestLearn: a result is kept only if the Record had all that the operation read, and the next Record has the memory
// that this one lacked.
func TestLearn(t *testing.T) {
	r := NewResults(1000, 10)
	all := []Span{{1, 2}, {3, 4}}
	if p := r.Ask(1, Site{}, 0); len(p.More) != 0 || !p.Compare {
		t.Fatalf("the first plan = %+v, want it to compare", p)
	}
	if r.Learn(Site{}, 5, all[:1], all) {
		t.Error("a Record without all that was read is taken for whole")
	}
	if p := r.Ask(2, Site{}, 0); !slices.Equal(p.More, all[1:]) {
		t.Fatalf("the next Record is to have %v, want %v", p.More, all[1:])
	}
	if !r.Learn(Site{}, 5, all, all) {
		t.Error("a Record with all that was read is not taken for whole")
	}
	if p := r.Ask(2, Site{}, 1000); p.Compare || p.Why != Dear {
		t.Errorf("plan to save 5 instructions by reading 1000 bytes = %+v, want Dear", p)
	}
	r.Refuse(Site{})
	if p := r.Ask(2, Site{}, 0); p.Compare || p.Why != Refused {
		t.Errorf("plan for a refused Site = %+v, want Refused", p)
	}
}

// TestLearned: if a rank compares more memory than the rank before it, because Results has learned in between that the
// operation reads more, their Records differ, but ranks do not compare less often for that.
func TestLearned(t *testing.T) {
	r, more := NewResults(1000, 10), []Span{{Base: 4096, Size: 1}}
	launch := func(rank Rank, turns byte) string {
		p := r.Ask(rank, Site{}, 10)
		if !p.Compare {
			return ""
		}
		record := Record{turns, byte(len(p.More))}
		if got, ok := r.Take(rank, Site{}, p.Turn, record); ok {
			got.Drop()
			return got.(*letter).string
		}
		if r.Learn(Site{}, 100, p.More, more) {
			r.Keep(rank, record, 1, &letter{string: string(turns)})
		}
		return "run"
	}
	wantAsk(t, "the first rank, which learns", launch(1, 'a'), "run")
	wantAsk(t, "the second, which is the first to know", launch(2, 'a'), "run")
	wantAsk(t, "the next turn of the first", launch(1, 'b'), "run")
	wantAsk(t, "and of the second", launch(2, 'b'), "b")
}

// TestParts: where ranks differ, the parts that the operation accesses are learned, and compared alone. An operation
// that accesses other parts is not kept, and is learned again, a limited number of times.
func TestParts(t *testing.T) {
	r := NewResults(1000, 10)
	whole, near, far := Span{4096, 1024}, Span{4096, 512}, Span{4608, 8}
	// launch has the Record all where the Site compares all of the memory, else the Record parts. In truth the launch
	// accesses accesses.
	launch := func(rank Rank, all, parts byte, accesses Span) string {
		p := r.Ask(rank, Site{}, 10)
		for i := 0; i < 16 && !p.Learn && !p.Compare; i++ { // the pause after a miss
			p = r.Ask(rank, Site{}, 10)
		}
		switch {
		case p.Learn:
			r.LearnParts(Site{}, 100, []Span{accesses}, true)
			return "learn"
		case !p.Compare:
			return ""
		}
		had, record := []Span{whole}, Record{all}
		if p.Parts != nil {
			had, record = p.Parts, Record{parts, byte(len(p.Parts))}
		}
		if got, ok := r.Take(rank, Site{}, p.Turn, record); ok {
			got.Drop()
			return got.(*letter).string
		}
		touched := whole
		if slices.ContainsFunc(had, accesses.isIn) {
			touched = accesses
		}
		if !r.Learn(Site{}, 100, had, []Span{touched}) {
			return "more"
		}
		r.Keep(rank, record, 1, &letter{string: string(parts)})
		return "run"
	}
	wantAsk(t, "the first rank", launch(1, 'a', 'x', near), "run")
	wantAsk(t, "a rank that differs", launch(2, 'b', 'x', near), "run")
	wantAsk(t, "the next turn, which learns", launch(1, 'a', 'y', near), "learn")
	wantAsk(t, "the second rank, by parts", launch(2, 'b', 'y', near), "run")
	wantAsk(t, "the first rank, by parts", launch(1, 'a', 'z', near), "run")
	wantAsk(t, "the second rank takes", launch(2, 'b', 'z', near), "z")
	wantAsk(t, "other parts", launch(1, 'a', 'w', far), "more")
	wantAsk(t, "and again", launch(2, 'b', 'w', far), "learn")
	wantAsk(t, "both parts", launch(1, 'a', 'v', far), "run")
	wantAsk(t, "both parts, taken", launch(2, 'b', 'v', far), "v")
	for i := range 4 {
		launch(1, 'a', byte(i), Span{4700 + 2*uint64(i), 1})
	}
	if p := r.Ask(1, Site{}, 10); p.Learn || p.Parts != nil {
		t.Errorf("an operation that accesses ever other parts is still learned: %+v", p)
	}
}

// TestDear: for an operation of unknown cost that could read much, no memory is read. Once the cost is known, the parts
// are learned.
func TestDear(t *testing.T) {
	r := NewResults(1000, 10)
	if p := r.Ask(1, Site{}, firstBytes+1); p.Compare || p.Learn || p.Cost != 0 {
		t.Errorf("the first plan for much memory = %+v, want it to run", p)
	}
	r.Measure(Site{}, 100)
	for turn := 1; turn < 15; turn++ {
		if p := r.Ask(1, Site{}, firstBytes+1); p.Compare || p.Learn {
			t.Errorf("plan for turn %d = %+v, want it to run", turn, p)
		}
	}
	if p := r.Ask(1, Site{}, firstBytes+1); !p.Learn || p.Cost != 100 {
		t.Errorf("plan once the cost is known = %+v, want it to learn", p)
	}
	r.LearnParts(Site{}, 100, []Span{{4096, 512}}, true)
	if p := r.Ask(1, Site{}, firstBytes+1); !p.Compare || len(p.Parts) != 1 {
		t.Errorf("plan with parts = %+v, want it to compare", p)
	}
}
