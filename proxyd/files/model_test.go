// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/iotest"
)

var (
	seed   = flag.Uint64("seed", 0, "replay this sequence of TestRollback")
	rounds = flag.Int("rounds", 12, "how many sequences TestRollback tries")
)

// TestRollback: a program that does random things to files is recorded at random moments and goes on; put back, the
// files are byte for byte as they were at that moment.
func TestRollback(t *testing.T) {
	needRoot(t)
	if *seed != 0 {
		rollBackRandomly(t, *seed)
		return
	}
	tries := *rounds
	if testing.Short() {
		tries = min(tries, 4)
	}
	for range tries {
		s := rand.Uint64()>>16 | 1
		if !t.Run(strconv.FormatUint(s, 10), func(t *testing.T) { rollBackRandomly(t, s) }) {
			t.Logf("replay with -run TestRollback -seed %d", s)
			return
		}
	}
}

func rollBackRandomly(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	dir := ownFolder(t)
	j, env := changeListFor(t)
	ops := func() {
		buildTools(t)
		for range 1 + r.IntN(3) {
			runAsUser(t, env, programs.ops, dir, fmt.Sprint(r.Uint64()>>1), fmt.Sprint(1+r.IntN(120)))
		}
	}
	shelf := newShelf()
	var states []*State
	var trees [][]string
	var before *State
	for range 1 + r.IntN(3) {
		ops()
		mark, err := j.Cut()
		if err != nil {
			t.Fatal(err)
		}
		from := Mark(0)
		if before != nil {
			from = before.Mark
		}
		touched, err := j.Since(from)
		if err != nil {
			t.Fatal(err)
		}
		if touched.Lost || touched.Until != mark {
			t.Fatalf("Since: lost %v, until %d, want until the mark %d", touched.Lost, touched.Until, mark)
		}
		state, err := Record(testDeadline(t), testUser, Job{}, before, touched, shelf)
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Notes) > 0 {
			t.Errorf("record: %v", state.Notes)
		}
		before = throughJSON(t, state)
		states = append(states, before)
		trees = append(trees, describeTree(t, dir))
	}
	ops()
	// To the last, then to an older checkpoint, of which the streams are there too.
	for at := len(states) - 1; at >= 0; at-- {
		after, err := j.Since(states[at].Mark)
		if err != nil {
			t.Fatal(err)
		}
		for r.IntN(2) == 0 { // it fails somewhere, and is tried again
			_, err := PutBack(testDeadline(t), testUser, Job{}, states[at], after, &failing{shelf, r.IntN(5), r.IntN(9000)})
			if err != nil && !errors.Is(err, errFails) {
				t.Fatal(err)
			}
		}
		report, err := PutBack(testDeadline(t), testUser, Job{}, states[at], after, shelf)
		if err != nil {
			t.Fatal(err)
		}
		if d := differentLines(trees[at], describeTree(t, dir)); d != "" {
			t.Fatalf("state %d of %d:\n%s\nreport: %+v\nafter the cut: %s", at, len(states), d, report, describeEntries(after.Entries))
		}
		if err := j.Rewind(states[at].Mark, report.Made); err != nil {
			t.Fatal(err)
		}
		if at == len(states)-1 && r.IntN(2) == 0 {
			ops()
		}
	}
}

// failing is a Loader that fails after some streams and some bytes.
type failing struct {
	Loader
	opens, bytes int
}

var errFails = errors.New("fails here")

func (f *failing) Open(name string) (io.ReadCloser, error) {
	if f.opens--; f.opens < 0 {
		return nil, errFails
	}
	r, err := f.Loader.Open(name)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, int64(f.bytes)), iotest.ErrReader(errFails)), r}, err
}

func describeEntries(all []Entry) (s string) {
	for _, e := range all {
		s += fmt.Sprintf("\n%c %s", e.Kind, e.Path)
		if e.Other != "" {
			s += " from " + e.Other
		}
	}
	return s
}

func throughJSON(t *testing.T, s *State) *State {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &State{}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}
