// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// ranksUnder runs a program's ranks under two device servers, in turns, and returns their output, rank by rank. strike
// is called at random moments until all ranks have ended.
func ranksUnder(t *testing.T, s *soft.Servers, seed uint64, ranks int, path, mode string, strike func()) string {
	t.Helper()
	folder := t.TempDir()
	ended := make(chan error, ranks)
	out := make([]soft.Output, ranks)
	for i := range ranks {
		c := s.Command(t, i%2, path, mode, strconv.Itoa(i), strconv.Itoa(ranks), folder)
		c.Stdout, c.Stderr = &out[i], &out[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- c.Wait() }()
	}
	r := rand.New(rand.NewPCG(seed, 11))
	limit := time.After(2 * time.Minute)
	all := func() string {
		var b strings.Builder
		for i := range out {
			b.WriteString(out[i].String())
		}
		return b.String()
	}
	for left := ranks; left > 0; {
		// The moment of the disturbance.
		moment := time.After(time.Duration(r.Int64N(int64(80 * time.Millisecond))))
		select {
		case err := <-ended:
			if left--; err != nil {
				t.Fatalf("a rank failed: %v\n%s\n%s", err, all(), s.Stderr.String())
			}
		case <-limit:
			t.Fatalf("the job does not end\n%s\n%s", all(), s.Stderr.String())
		case <-moment:
			strike()
		}
	}
	return all()
}

// TestCutOfRanks: cuts are found for ranks that wait for each other outside of collectives, that are in host code or have ended, and
// that make communicators all the time; they print the same as in an undisturbed run.
func TestCutOfRanks(t *testing.T) {
	w := soft.Need(t)
	path := w.Compile(t, "testdata/parts/cut.c")
	for _, c := range []struct {
		mode  string
		ranks int
	}{{"pipe", 3}, {"host", 2}, {"gone", 2}, {"create", 4}, {"async", 4}} {
		t.Run(c.mode, func(t *testing.T) {
			s := w.Servers(t, 2, 2)
			want := ranksUnder(t, s, 0, c.ranks, path, c.mode, func() {})
			found, failed, attempt := 0, 0, uint64(0)
			got := ranksUnder(t, s, 1, c.ranks, path, c.mode, func() {
				attempt++
				f, err := cut.Find(t.Context(), s.Members, cut.Options{Attempt: attempt, Tick: 50 * time.Millisecond})
				var why *barrier.Failure
				switch {
				case err == nil:
					found++
					if err := f.Open(t.Context()); err != nil {
						t.Error(err)
					}
				// The server may see the end of a rank that ends just now before it has read that the rank ended by its own will.
				case errors.As(err, &why) && (why.Why == barrier.RankEnded || why.Why == barrier.RankDied):
					failed++
				default:
					t.Fatalf("the cut failed: %v\n%s", err, s.Stderr.String())
				}
			})
			if got != want {
				t.Errorf("after %d cuts they printed\n%s, not\n%s", found, got, want)
			}
			if found == 0 {
				t.Error("no cut was found")
			}
			t.Logf("%d cuts, and %d attempts that failed of a rank's end", found, failed)
		})
	}
}
