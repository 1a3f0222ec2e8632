// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestEndedHold: the comment of a job that a person has released by scontrol, and that runs, does not say that the job is
// held.
func TestEndedHold(t *testing.T) {
	const parked, undone = "mine; preemptd: preempted by alice: room (action 7); checkpoint c/1/1", "preemptd: not migrated: no room; asked at 10:00 by alice (action 4)"
	const heldUntil, stillHeld, ofProxyd = "; held until singctl resume 1", "; still held: scontrol release 1", "; singularity: restored from checkpoint 1 on n1"
	for name, c := range map[string]struct {
		had, want string
		state     slurmrest.BaseState
		held      bool
	}{
		"parked, and runs":               {parked + heldUntil + ofProxyd, parked + ofProxyd, slurmrest.Running, false},
		"held":                           {undone + stillHeld, undone + stillHeld, slurmrest.Pending, true},
		"released, and waits":            {parked + heldUntil, parked + heldUntil, slurmrest.Pending, false},
		"not released by us, and runs":   {undone + stillHeld, undone, slurmrest.Running, false},
		"a user's words":                 {"mine; held until singctl resume 1", "mine; held until singctl resume 1", slurmrest.Running, false},
		"words of proxyd":                {undone + "; singularity: held: why; still held: scontrol release 1", undone + "; singularity: held: why; still held: scontrol release 1", slurmrest.Running, false},
		"an action without a hold, runs": {undone, undone, slurmrest.Running, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.srv.EditJob(basic, func(j *slurmrest.Job) {
				j.Comment, j.Held = c.had, c.held
				j.State = slurmrest.State{Base: c.state}
			})
			s.runTick()
			if got := s.readJob(basic).Comment; got != c.want {
				t.Errorf("comment\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// TestEndedLeases: the comment of a job that was given a size in place says so as long as the job has that size.
func TestEndedLeases(t *testing.T) {
	const (
		four  = "mine; preemptd: resized in place, to 4 GPUs by alice: more (action 7)"
		six   = "mine; preemptd: resized to n1,n2 in place, to 6 GPUs by policy elastic: idle (action 7)"
		was   = "mine; preemptd: was resized to n1,n2 in place, to 6 GPUs by policy elastic: idle (action 7); its leases have changed since"
		other = "; singularity: restored from checkpoint 1 on n1"
	)
	for name, c := range map[string]struct {
		had, want string
		state     slurmrest.BaseState
	}{
		"it has that size":         {four, four, slurmrest.Running},
		"a lease has ended":        {six + other, was + other, slurmrest.Running},
		"that was said":            {was, was, slurmrest.Running},
		"it waits":                 {six, was, slurmrest.Pending},
		"a user's words":           {"resized in place, to 6 GPUs by me", "resized in place, to 6 GPUs by me", slurmrest.Running},
		"resized by a requeue":     {"preemptd: resized by alice (action 7)", "preemptd: resized by alice (action 7)", slurmrest.Running},
		"it is over, and was that": {six, six, slurmrest.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.srv.EditJob(basic, func(j *slurmrest.Job) {
				j.Comment, j.State = c.had, slurmrest.State{Base: c.state}
			})
			s.runTick()
			if got := s.readJob(basic).Comment; got != c.want {
				t.Errorf("comment\n%q, want\n%q", got, c.want)
			}
		})
	}
}
