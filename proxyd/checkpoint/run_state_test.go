// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"math/rand"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// TestRunTransitions tries every pair of states: those of the table change the run, all others
// are refused with the typed error and change nothing.
func TestRunTransitions(t *testing.T) {
	allowed := 0
	for from := range runStates {
		for to := range runStates {
			r := &run{}
			r.now.setState(from)
			err := r.enterState(to)
			got := r.snapshot()
			if slices.Contains(runTransitions[from], to) {
				allowed++
				if err != nil || got.state != to || !got.hasBeen(to) || to != runUnknown && !got.hasBeen(from) || to == runUnknown && got.hasBeen(from) {
					t.Errorf("%s to %s: %v, now %s, been %v", from, to, err, got.state, got.been)
				}
				continue
			}
			var refused *runTransitionError
			if !errors.As(err, &refused) || refused.from != from || refused.to != to || got.state != from || from != to && got.hasBeen(to) {
				t.Errorf("%s to %s: %v, now %s", from, to, err, got.state)
			}
		}
	}
	if allowed != 25 {
		t.Errorf("the table allows %d transitions", allowed)
	}
}

// TestRunReachable: every state but unknown is reached from the beginning of a run, and ends with the run.
func TestRunReachable(t *testing.T) {
	reached := map[runState]bool{}
	var visit func(runState)
	visit = func(s runState) {
		if reached[s] {
			return
		}
		reached[s] = true
		if s != runUnknown && !slices.Contains(runTransitions[s], runUnknown) {
			t.Errorf("a run that is %s never ends", s)
		}
		for _, next := range runTransitions[s] {
			visit(next)
		}
	}
	visit(runUnknown)
	if len(reached) != int(runStates) {
		t.Errorf("reached %v", reached)
	}
}

// flags is a run as separate facts: a second implementation, without a table.
type flags struct{ released, signalled, restored, givenUp, itself bool }

func (f *flags) apply(next runState, restoring bool) {
	switch {
	case next == runGivenUp && f.released, next == runTerminated && (f.released || f.givenUp):
	case next == runRequeuedItself && (f.released || f.givenUp):
	case next == runGivenUp:
		f.givenUp = true
	case next == runTerminated:
		f.signalled = true
	case next == runRequeuedItself:
		f.itself = true
	case next == runReleased:
		f.released = true
	case next == runRunning && restoring:
		f.restored = true
	}
}

// TestRunWalk compares the run with the flags at random steps.
func TestRunWalk(t *testing.T) {
	rec := &records.Record{Job: 7, Nodes: []string{"n1"}}
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		r, want := &run{}, flags{}
		var path []runState
		for range 40 {
			next := runState(random.Intn(int(runStates)))
			path = append(path, next)
			switch {
			case next == runUnknown && random.Intn(2) == 0:
				var point *resumePoint
				if random.Intn(2) == 0 {
					point = &resumePoint{meta: &records.Meta{}}
				}
				r.now.point = point // begin closes another checkpoint's reader
				r.beginNext(rec, 3, []string{"n1"}, point)
				want = flags{restored: point == nil}
			case next == runUnknown:
				_ = r.enterState(next)
				want = flags{}
			case next == runRestoring: // only begin enters it
			default:
				s := r.snapshot()
				if s.state == runUnknown && next != runGivenUp { // what has not begun is given up at most
					continue
				}
				_ = r.enterState(next)
				want.apply(next, s.state == runRestoring)
			}
			s := r.snapshot()
			if got := (flags{s.hasBeen(runReleased), s.hasBeen(runTerminated), s.hasBeen(runRunning), s.hasBeen(runGivenUp), s.hasBeen(runRequeuedItself)}); got != want {
				t.Fatalf("seed %d, after %v: the run is %+v, want %+v", seed, path, got, want)
			}
		}
	}
}

// TestRunRecord: a record is replaced and saved; an earlier snapshot keeps the earlier record.
func TestRunRecord(t *testing.T) {
	r := &run{}
	var saved []uint32
	save := func(rec *records.Record) error { saved = append(saved, rec.LastNumber); return nil }
	number := func(n uint32) func(*records.Record) bool {
		return func(rec *records.Record) bool { rec.LastNumber = n; return n != 0 }
	}
	noError(t, r.changeRecord(save, number(1))) // no record yet
	r.beginNext(&records.Record{Job: 7}, 0, []string{"n1"}, nil)
	before := r.snapshot()
	noError(t, r.changeRecord(save, number(2)))
	noError(t, r.changeRecord(save, number(0)))
	if before.rec.LastNumber != 0 || r.snapshot().rec.LastNumber != 2 || !slices.Equal(saved, []uint32{2}) {
		t.Errorf("before %d, now %d, saved %v", before.rec.LastNumber, r.snapshot().rec.LastNumber, saved)
	}
}
