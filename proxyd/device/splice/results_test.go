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

// ask is an operation of a rank at the first Site, with a Record of one letter. It returns "" if the rank does not
// compare, "run" if it runs, or what it takes.
func ask(r *Results, rank Rank, record byte, others int) string {
	_, turn, compare := r.Ask(rank, Site{}, 10)
	if !compare {
		return ""
	}
	if got, ok := r.Take(rank, Site{}, turn, Record{record}); ok {
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
		t.Errorf("%s: %q, want %q", what, got, want)
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
				_, at, compare := r.Ask(Rank(rank), Site{}, 10)
				if !compare {
					continue
				}
				if rank == 0 {
					compared = append(compared, turn)
				}
				if _, ok := r.Take(Rank(rank), Site{}, at, Record{byte(record), byte(record >> 8)}); ok {
					t.Fatalf("%d ranks, turn %d: a result is taken of an operation that differs", ranks, turn)
				}
				r.Learn(Site{}, 100, nil, nil)
			}
		}
		if want := []int{0, 16, 256, 512, 768}; !slices.Equal(compared, want) {
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

// TestEverySecond: a Site at which each second turn is alike keeps what it saves.
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

// TestLearn: a result is kept only if the Record had all that the operation read, and what it lacked is in the next.
func TestLearn(t *testing.T) {
	r := NewResults(1000, 10)
	all := []Span{{1, 2}, {3, 4}}
	if reads, _, compare := r.Ask(1, Site{}, 0); len(reads) != 0 || !compare {
		t.Fatalf("at first: %v %v", reads, compare)
	}
	if r.Learn(Site{}, 5, all[:1], all) {
		t.Error("a Record without all that was read is taken for whole")
	}
	reads, _, _ := r.Ask(2, Site{}, 0)
	if len(reads) != 1 || reads[0] != all[1] {
		t.Fatalf("the next Record is to have %v, want %v", reads, all[1:])
	}
	if !r.Learn(Site{}, 5, all, all) {
		t.Error("a Record with all that was read is not taken for whole")
	}
	if _, _, compare := r.Ask(2, Site{}, 1000); compare {
		t.Error("1000 bytes are read to save 5 instructions")
	}
	r.Refuse(Site{})
	if _, _, compare := r.Ask(2, Site{}, 0); compare {
		t.Error("an operation with other effects is compared")
	}
}

// TestLearned: a rank that has compared more memory than the rank before it, because that has taught what the operation
// reads, is no reason to compare less often.
func TestLearned(t *testing.T) {
	r, more := NewResults(1000, 10), []Span{{Base: 4096, Size: 1}}
	launch := func(rank Rank, turns byte) string {
		reads, turn, compare := r.Ask(rank, Site{}, 10)
		if !compare {
			return ""
		}
		record := Record{turns, byte(len(reads))}
		if got, ok := r.Take(rank, Site{}, turn, record); ok {
			got.Drop()
			return got.(*letter).string
		}
		if r.Learn(Site{}, 100, reads, more) {
			r.Keep(rank, record, 1, &letter{string: string(turns)})
		}
		return "run"
	}
	wantAsk(t, "the first rank, which learns", launch(1, 'a'), "run")
	wantAsk(t, "the second, which is the first to know", launch(2, 'a'), "run")
	wantAsk(t, "the next turn of the first", launch(1, 'b'), "run")
	wantAsk(t, "and of the second", launch(2, 'b'), "b")
}
