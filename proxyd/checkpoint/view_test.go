// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
)

// TestNothingHere: the error for a protected job without programs is transient; the error for another job is not.
func TestNothingHere(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	if err := c.records.Save(recordOf(7)); err != nil {
		t.Fatal(err)
	}
	for job, passes := range map[string]bool{"7": true, "8": false} {
		_, err := c.TakeCheckpoint(t.Context(), job, "asked", false, nil)
		if !errors.Is(err, ErrNoJob) || MayRetryCheckpoint(err) != passes {
			t.Errorf("job %s: %v; may retry: %v", job, err, MayRetryCheckpoint(err))
		}
	}
}

// TestAttemptIsShown: while a checkpoint is being made, people are told its phase; after that, they are told of no
// attempt.
func TestAttemptIsShown(t *testing.T) {
	l := newLab(t)
	c := l.bootNode("n1", t.TempDir()+"/s", nil)
	j := c.jobFor(7)
	j.mu.Lock()
	j.run.BeginNext(recordOf(7), 0, []string{"n1"}, nil)
	j.mu.Unlock()
	before := phases
	defer func() { phases = before }()
	begun, goOn := make(chan string), make(chan struct{})
	waitHere := func(name string) phase {
		return phase{name, finishDeadline, func(*attempt, context.Context) error {
			begun <- name
			<-goOn
			return nil
		}, nil}
	}
	phases = []phase{waitHere(calls.PhaseFreeze), waitHere(calls.PhaseDump)}
	if a := c.Attempt("7"); a != nil {
		t.Errorf("before the checkpoint is asked for: %+v", a)
	}
	told := make(chan string, len(phases)+1)
	made := make(chan error)
	go func() {
		_, err := c.requestCheckpoint(t.Context(), j, decisions.Request{After: decisions.StaysOnNodes, Reason: "test"}, func(phase string) { told <- phase })
		made <- err
	}()
	for range phases {
		want := <-begun
		a := c.Attempt("7")
		if a == nil || a.Phase != want || a.Reason != "test" || a.UID != recordOf(7).UID || a.Began.IsZero() || a.PhaseBegan.Before(a.Began) {
			t.Errorf("in phase %s: %+v", want, a)
		}
		if got := <-told; got != want {
			t.Errorf("in phase %s, the phase %q was told", want, got)
		}
		goOn <- struct{}{}
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
	if a := c.Attempt("7"); a != nil {
		t.Errorf("after the checkpoint: %+v", a)
	}
}
