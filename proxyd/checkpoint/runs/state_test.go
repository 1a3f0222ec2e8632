// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"errors"
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// TestRunTransitions tries every pair of states: the pairs of the table change the run, all other pairs are refused
// with the typed error and leave the run as it is.
func TestRunTransitions(t *testing.T) {
	allowed := 0
	for from := range states {
		for to := range states {
			r := &Run{}
			r.now.setState(from)
			err := r.EnterState(to)
			got := r.Snapshot()
			if slices.Contains(transitions[from], to) {
				allowed++
				if err != nil || got.State != to || !got.HasBeen(to) || to != Unknown && !got.HasBeen(from) || to == Unknown && got.HasBeen(from) {
					t.Errorf("%s to %s: %v, now %s, been %v", from, to, err, got.State, got.been)
				}
				continue
			}
			var refused *TransitionError
			if !errors.As(err, &refused) || refused.from != from || refused.to != to || got.State != from || from != to && got.HasBeen(to) {
				t.Errorf("%s to %s: %v, now %s", from, to, err, got.State)
			}
		}
	}
	if allowed != 25 {
		t.Errorf("the table allows %d transitions", allowed)
	}
}

// TestRunReachable: every state but unknown is reached from the beginning of a run, and ends with the run.
func TestRunReachable(t *testing.T) {
	reached := map[State]bool{}
	var visit func(State)
	visit = func(s State) {
		if reached[s] {
			return
		}
		reached[s] = true
		if s != Unknown && !slices.Contains(transitions[s], Unknown) {
			t.Errorf("a run that is %s never ends", s)
		}
		for _, next := range transitions[s] {
			visit(next)
		}
	}
	visit(Unknown)
	if len(reached) != int(states) {
		t.Errorf("states that a run can reach: %v, want all", reached)
	}
}

// flags is a run as separate facts: a second implementation, without a table.
type flags struct{ released, signalled, restored, givenUp, itself bool }

func (f *flags) applyState(next State, restoring bool) {
	switch {
	case next == GivenUp && f.released, next == Terminated && (f.released || f.givenUp):
	case next == RequeuedItself && (f.released || f.givenUp):
	case next == GivenUp:
		f.givenUp = true
	case next == Terminated:
		f.signalled = true
	case next == RequeuedItself:
		f.itself = true
	case next == Released:
		f.released = true
	case next == Running && restoring:
		f.restored = true
	}
}

// TestRunWalk compares the run with the flags at random steps.
func TestRunWalk(t *testing.T) {
	rec := &records.Record{Job: 7, Nodes: []string{"n1"}}
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		r, want := &Run{}, flags{}
		var path []State
		for range 40 {
			next := State(random.Intn(int(states)))
			path = append(path, next)
			switch {
			case next == Unknown && random.Intn(2) == 0:
				var point *ResumePoint
				if random.Intn(2) == 0 {
					point = &ResumePoint{Meta: &records.Meta{}}
				}
				r.now.Point = point // begin closes another checkpoint's reader
				r.BeginNext(rec, 3, []string{"n1"}, point)
				want = flags{restored: point == nil}
			case next == Unknown:
				_ = r.EnterState(next)
				want = flags{}
			case next == Restoring: // only BeginNext enters it
			default:
				s := r.Snapshot()
				if s.State == Unknown && next != GivenUp { // a run that has not begun can only be given up
					continue
				}
				_ = r.EnterState(next)
				want.applyState(next, s.State == Restoring)
			}
			s := r.Snapshot()
			if got := (flags{s.HasBeen(Released), s.HasBeen(Terminated), s.HasBeen(Running), s.HasBeen(GivenUp), s.HasBeen(RequeuedItself)}); got != want {
				t.Fatalf("seed %d, after %v: the run is %+v, want %+v", seed, path, got, want)
			}
		}
	}
}

// TestSnapshotDuringSave: while a record is written into a shared folder of a server that is away, the run can be looked at and
// enters other states, and the next change of the record waits for the first.
func TestSnapshotDuringSave(t *testing.T) {
	r := &Run{}
	r.BeginNext(&records.Record{Job: 7}, 0, []string{"n1"}, nil)
	saving, serverIsBack := make(chan struct{}), make(chan struct{})
	var saved []uint32
	var isSaved atomic.Bool
	var changes sync.WaitGroup
	changes.Go(func() {
		err := r.ChangeRecord(func(rec *records.Record) error {
			close(saving)
			<-serverIsBack
			isSaved.Store(true)
			saved = append(saved, rec.LastNumber)
			return nil
		}, func(rec *records.Record) bool { rec.LastNumber++; return true })
		if err != nil {
			t.Error(err)
		}
	})
	<-saving
	changes.Go(func() {
		save := func(rec *records.Record) error { saved = append(saved, rec.LastNumber); return nil }
		if err := r.ChangeRecord(save, func(rec *records.Record) bool { rec.LastNumber++; return true }); err != nil {
			t.Error(err)
		}
	})
	changes.Go(func() {
		if r.SavedRecord(); !isSaved.Load() {
			t.Error("SavedRecord returns before the record is saved")
		}
	})
	looked := make(chan error, 1)
	go func() {
		r.Snapshot()
		looked <- r.EnterState(Terminated)
	}()
	select {
	case err := <-looked:
		if err != nil {
			t.Errorf("the run was not terminated: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Snapshot and EnterState wait for a record to be saved")
	}
	close(serverIsBack)
	changes.Wait()
	if !slices.Equal(saved, []uint32{1, 2}) || r.Snapshot().Record.LastNumber != 2 {
		t.Errorf("saved %v, want [1 2]; the record has %d", saved, r.Snapshot().Record.LastNumber)
	}
}

// TestRunRecord: a record is replaced and saved; an earlier snapshot keeps the earlier record.
func TestRunRecord(t *testing.T) {
	r := &Run{}
	var saved []uint32
	save := func(rec *records.Record) error { saved = append(saved, rec.LastNumber); return nil }
	number := func(n uint32) func(*records.Record) bool {
		return func(rec *records.Record) bool { rec.LastNumber = n; return n != 0 }
	}
	if err := r.ChangeRecord(save, number(1)); err != nil { // no record yet
		t.Fatal(err)
	}
	r.BeginNext(&records.Record{Job: 7}, 0, []string{"n1"}, nil)
	before := r.Snapshot()
	if err := r.ChangeRecord(save, number(2)); err != nil {
		t.Fatal(err)
	}
	if err := r.ChangeRecord(save, number(0)); err != nil {
		t.Fatal(err)
	}
	if before.Record.LastNumber != 0 || r.Snapshot().Record.LastNumber != 2 || !slices.Equal(saved, []uint32{2}) {
		t.Errorf("before %d, now %d, saved %v", before.Record.LastNumber, r.Snapshot().Record.LastNumber, saved)
	}
}
