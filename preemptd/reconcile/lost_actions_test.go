// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"strings"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// loseJournal stops preemptd, removes its journal, and starts preemptd again, without policies.
func (s *site) loseJournal() {
	s.Helper()
	if err := s.journal.Close(); err != nil {
		s.Fatal(err)
	}
	s.openJournal() // in a folder of its own
	s.settings.Policies = nil
	s.loop = s.newLoop()
}

// TestJournalLost: a journal that was removed while preemptd was stopped is noticed at the start:
// the job of an action under way says so, in its comment and its history, once.
func TestJournalLost(t *testing.T) {
	s := newSite(t, forPremium)
	s.proxyd.hold = make(chan struct{}) // the action is stopped during its checkpoint
	acting, stop := context.WithCancel(t.Context())
	s.proxyd.asked = stop
	if err := s.loop.Tick(t.Context(), acting); err != nil {
		t.Fatal(err)
	}
	s.loop.actions.Wait()
	if got := s.readJob(basic).Comment; !strings.Contains(got, "preemptd: under way: preempt by policy tiers") {
		t.Fatalf("comment of the job under way = %q", got)
	}

	// With the journal, the start reports no lost action.
	s.settings.Policies = nil
	s.loop = s.newLoop()
	again, stopAgain := context.WithCancel(t.Context())
	s.proxyd.asked = stopAgain
	if err := s.loop.Tick(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	s.loop.actions.Wait()
	if got := s.readJob(basic).Comment; !strings.Contains(got, "under way: preempt") {
		t.Fatalf("with the journal: comment %q", got)
	}

	s.loseJournal()
	d := s.runTick()
	if len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "job 1: the journal does not have action 1") {
		t.Errorf("problems %q", d.Problems)
	}
	want := "preemptd: preempt broken off: the journal does not have it any more (action 1)"
	if got := s.readJob(basic).Comment; got != want {
		t.Errorf("comment %q, want %q", got, want)
	}
	events, err := s.journal.Events(t.Context(), basic, 10)
	if err != nil || len(events) != 1 || events[0].What != "journal lost" {
		t.Errorf("events %v: %v", events, err)
	}
	if d := s.runTick(); len(d.Problems) != 0 {
		t.Errorf("said again: %q", d.Problems)
	}
}

// TestJournalLostHeld: a job that preemptd holds, by an action that its journal does not have, would
// wait for ever; a job with such a comment that is not held, and comments of other forms, are
// left as they are.
func TestJournalLostHeld(t *testing.T) {
	held := "mine; preemptd: preempted by alice: room (action 7); checkpoint c/1/1; held until singctl resume 1; singularity: checkpoint 1"
	for name, c := range map[string]struct {
		had, want string
		held      bool
	}{
		"held":              {held, "mine; preemptd: preempted, and the journal does not have it any more (action 7); still held: scontrol release 1; singularity: checkpoint 1", true},
		"released":          {held, held, false},
		"ended":             {"preemptd: requeued by alice: x (action 7)", "preemptd: requeued by alice: x (action 7)", true},
		"of another form":   {"preemptd: under way: (action )", "preemptd: under way: (action )", true},
		"no number of ours": {"preemptd: under way: a b (action 99999999999999999999)", "preemptd: under way: a b (action 99999999999999999999)", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.srv.EditJob(basic, func(j *slurmrest.Job) {
				j.Comment, j.Held = c.had, c.held
				j.State = slurmrest.State{Base: slurmrest.Pending}
			})
			s.runTick()
			if got := s.readJob(basic).Comment; got != c.want {
				t.Errorf("comment\n%q, want\n%q", got, c.want)
			}
		})
	}
}
