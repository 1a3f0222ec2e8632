// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// standingAttempt is one whose checkpoint counts, of a job that stands for its requeue, and
// the channel that is closed when it stands no longer.
func standingAttempt(ctx context.Context, t *testing.T) (*Conductor, *attempt, <-chan struct{}) {
	t.Helper()
	c := &Conductor{Config: Config{Node: "n1"}}
	j := &job{c: c, id: 7, placement: placement{first: []string{"n1"}, today: []string{"n1"}}, rec: &Record{Job: 7}}
	a := &attempt{
		j: j, log: slog.New(slog.DiscardHandler), after: forwardSignal, holdAfterwards: true,
		holdOver: make(chan struct{}), committed: make(chan struct{}), done: make(chan struct{}),
	}
	j.ledAttempt = a
	moved := make(chan struct{})
	go func() {
		a.waitForRequeue(ctx)
		close(moved)
	}()
	return c, a, moved
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

// TestStands: a job that was captured for a requeue stands until that comes, or for a while.
func TestStands(t *testing.T) {
	t.Run("until the requeue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, moved := standingAttempt(t.Context(), t)
			if isClosed(moved) {
				t.Fatal("it does not stand")
			}
			joined, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: requeued, Reason: "requeue"})
			if joined != a || late || a.after != requeued || !isClosed(moved) {
				t.Fatalf("joined %v, late %v, then %v, moved %v", joined == a, late, a.after, isClosed(moved))
			}
		})
	})
	t.Run("no longer than its nodes bear silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, a, moved := standingAttempt(t.Context(), t)
			began := time.Now()
			<-moved
			if took := time.Since(began); took < holdTimeout || took >= leaderTimeout || a.after != forwardSignal {
				t.Fatalf("after %s, then %v", took, a.after)
			}
		})
	})
	t.Run("as long for who asks later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, moved := standingAttempt(t.Context(), t)
			synctest.Wait()
			time.Sleep(holdTimeout - time.Second)
			if joined, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: forwardSignal, HoldAfterwards: true}); joined != a || late {
				t.Fatal("it is too late")
			}
			asked := time.Now()
			<-moved
			if took := time.Since(asked); took != holdTimeout {
				t.Fatalf("it stands for %s of them", took)
			}
		})
	})
	t.Run("not while another checkpoint is asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, a, moved := standingAttempt(t.Context(), t)
			if joined, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: forwardSignal}); joined != a || late || isClosed(moved) {
				t.Fatal("it moves")
			}
			a.j.mu.Lock()
			a.stopWaiting()
			a.stopWaiting() // by whoever else
			a.j.mu.Unlock()
			<-moved
		})
	})
	t.Run("nor when the daemon stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_, _, moved := standingAttempt(ctx, t)
			cancel()
			<-moved
		})
	})
}

// TestDecided: when a job stands no longer, or was not asked to, no wish changes what follows.
func TestDecided(t *testing.T) {
	for _, stands := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &Conductor{}
			a := &attempt{j: &job{c: c}, log: slog.New(slog.DiscardHandler), holdAfterwards: stands, holdOver: make(chan struct{})}
			a.j.ledAttempt = a
			a.waitForRequeue(t.Context())
			if _, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: requeued}); !late || a.after != forwardSignal {
				t.Errorf("stands %v: late is %v, then %v", stands, late, a.after)
			}
		})
	}
}

// TestLateRequeue: what comes when it is decided that the job runs on is not answered by that
// checkpoint, for the job would never leave.
func TestLateRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := standingAttempt(t.Context(), t)
		a.j.mu.Lock()
		a.outcomeDecided = true
		a.stopWaiting()
		a.j.mu.Unlock()
		for v, want := range map[verdict]bool{requeued: true, timeLimit: true, forwardSignal: false} {
			if _, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: v}); late != want {
				t.Errorf("%v: late is %v", v, late)
			}
		}
		if _, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: forwardSignal, HoldAfterwards: true}); !late {
			t.Error("it does not stand, and that is said to be right")
		}
		a.j.mu.Lock()
		a.after = requeued
		a.j.mu.Unlock()
		if _, late := c.startOrJoinAttempt(a.j, checkpointRequest{After: requeued}); late {
			t.Error("one that leaves is the one that was wished for")
		}
	})
}
