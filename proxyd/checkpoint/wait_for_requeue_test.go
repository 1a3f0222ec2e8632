// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/decisions"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
)

// waitingAttempt makes an attempt with a checkpoint that counts, of a job that waits for its requeue, and a channel
// that is closed when the job does not wait any more.
func waitingAttempt(ctx context.Context, t *testing.T) (*Conductor, *attempt, <-chan struct{}) {
	t.Helper()
	c := (&Conductor{Config: Config{Node: "n1"}}).linkPartsToConductor()
	j := (&job{c: c, id: 7, run: runs.NewRunAt(runs.Snapshot{Placement: records.Placement{FirstRun: []string{"n1"}, ThisRun: []string{"n1"}}, Record: &records.Record{Job: 7}})}).linkPartsToJob()
	a := &attempt{
		j: j, log: slog.New(slog.DiscardHandler), outcome: decisions.NewOutcome(decisions.Request{HoldAfterwards: true}), committed: make(chan struct{}), done: make(chan struct{}),
	}
	j.ledAttempt = a
	waitOver := make(chan struct{})
	go func() {
		a.outcome.WaitForRequeue(ctx, a.log)
		close(waitOver)
	}()
	return c, a, waitOver
}

// departureAfter returns the outcome of the attempt.
func departureAfter(a *attempt) decisions.Departure {
	follows, _ := a.outcome.WhatFollows()
	return follows
}

func isClosed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestWaitForRequeue: a job captured for a requeue stays frozen until the requeue, or for HoldTimeout.
func TestWaitForRequeue(t *testing.T) {
	t.Run("until the requeue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, waitOver := waitingAttempt(t.Context(), t)
			if isClosed(waitOver) {
				t.Fatal("the job does not wait")
			}
			joined, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.LeavesForRequeue, Reason: "requeue"})
			if joined != a || late || departureAfter(a) != decisions.LeavesForRequeue || !isClosed(waitOver) {
				t.Fatalf("joined %v, late %v, after %v, wait over %v", joined == a, late, departureAfter(a), isClosed(waitOver))
			}
		})
	})
	t.Run("for less than leaderTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, a, waitOver := waitingAttempt(t.Context(), t)
			began := time.Now()
			<-waitOver
			if took := time.Since(began); took < decisions.HoldTimeout || took >= leaderTimeout || departureAfter(a) != decisions.StaysOnNodes {
				t.Fatalf("wait over after %s, after %v", took, departureAfter(a))
			}
		})
	})
	t.Run("for holdTimeout after a second request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, waitOver := waitingAttempt(t.Context(), t)
			synctest.Wait()
			time.Sleep(decisions.HoldTimeout - time.Second)
			if joined, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.StaysOnNodes, HoldAfterwards: true}); joined != a || late {
				t.Fatal("the second request did not join in time")
			}
			asked := time.Now()
			<-waitOver
			if took := time.Since(asked); took != decisions.HoldTimeout {
				t.Fatalf("the job waited %s after the second request", took)
			}
		})
	})
	t.Run("until it is told to run on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, waitOver := waitingAttempt(t.Context(), t)
			c.jobs.addJob(a.j)
			if isClosed(waitOver) {
				t.Fatal("the job does not wait")
			}
			for range 2 {
				if err := c.RunOn("7"); err != nil {
					t.Fatal(err)
				}
			}
			if !isClosed(waitOver) || departureAfter(a) != decisions.StaysOnNodes {
				t.Fatalf("wait over %v, after %v", isClosed(waitOver), departureAfter(a))
			}
			if err := c.RunOn("8"); !errors.Is(err, ErrNoJob) {
				t.Errorf("a job that is not there: %v", err)
			}
		})
	})
	t.Run("on, while a plain checkpoint is requested", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, waitOver := waitingAttempt(t.Context(), t)
			if joined, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.StaysOnNodes}); joined != a || late || isClosed(waitOver) {
				t.Fatal("the plain request ended the wait")
			}
			a.outcome.StopWaiting()
			a.outcome.StopWaiting() // a second call
			<-waitOver
		})
	})
	t.Run("until the daemon stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, _, waitOver := waitingAttempt(ctx, t)
			cancel()
			<-waitOver
		})
	})
}

// TestOutcomeDecided: after the wait, or without a wait, no request changes the outcome.
func TestOutcomeDecided(t *testing.T) {
	for _, stands := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := (&Conductor{}).linkPartsToConductor()
			a := &attempt{j: (&job{c: c}).linkPartsToJob(), log: slog.New(slog.DiscardHandler), outcome: decisions.NewOutcome(decisions.Request{HoldAfterwards: stands})}
			a.j.ledAttempt = a
			a.outcome.WaitForRequeue(t.Context(), a.log)
			if _, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.LeavesForRequeue}); !late || departureAfter(a) != decisions.StaysOnNodes {
				t.Errorf("hold %v: late is %v, after %v", stands, late, departureAfter(a))
			}
		})
	}
}

// TestLateRequeue: a request that comes after the decision that the job runs on is not answered with that
// checkpoint, or the job would never leave.
func TestLateRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, waitOver := waitingAttempt(t.Context(), t)
		a.outcome.StopWaiting()
		<-waitOver
		for v, want := range map[decisions.Departure]bool{decisions.LeavesForRequeue: true, decisions.LeavesAtTimeLimit: true, decisions.StaysOnNodes: false} {
			if _, late := c.startOrJoinAttempt(a.j, decisions.Request{After: v}); late != want {
				t.Errorf("request for %v: late is %v", v, late)
			}
		}
		if _, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.StaysOnNodes, HoldAfterwards: true}); !late {
			t.Error("a request to stay frozen is not late although the job runs on")
		}
		a.outcome = decisions.NewOutcome(decisions.Request{After: decisions.LeavesForRequeue})
		a.outcome.WaitForRequeue(t.Context(), a.log)
		if _, late := c.startOrJoinAttempt(a.j, decisions.Request{After: decisions.LeavesForRequeue}); late {
			t.Error("a request to leave is late although the job leaves")
		}
	})
}
