// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// hangingConn is a connection whose close does not return before the release.
type hangingConn struct {
	release <-chan struct{}
	closing *atomic.Int32
}

func (h hangingConn) Close() error {
	h.closing.Add(1)
	<-h.release
	return nil
}

// TestHangingCloses: connections of a user that cannot be closed take few threads, connections of other users are closed
// meanwhile, and the door is given up only beyond the limits.
func TestHangingCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, given := make(chan struct{}), 0
		var closing, closed, others atomic.Int32
		c := closer{limits: closingLimits{ofUser: 3, all: 8, waiting: 5}, giveUp: func() { given++ }}
		hang := func(uid uint32, n int) {
			for range n {
				c.closeConn(uid, hangingConn{release, &closing}, func() { closed.Add(1) })
			}
			synctest.Wait()
		}
		hang(1, 3+5)
		if closing.Load() != 3 || given != 0 {
			t.Errorf("with 8 hanging connections of a user, %d threads close, given up %d times; want 3 and 0", closing.Load(), given)
		}
		open := make(chan struct{})
		close(open)
		var other atomic.Int32
		c.closeConn(2, hangingConn{open, &other}, func() { others.Add(1) })
		synctest.Wait()
		if others.Load() != 1 {
			t.Error("the connection of another user is not closed")
		}
		hang(1, 1)
		if closing.Load() != 3 || given != 1 {
			t.Errorf("beyond what may wait: %d threads close, given up %d times", closing.Load(), given)
		}
		given = 0
		hang(3, 3)
		hang(unknownUser, 2)
		if closing.Load() != 8 || given != 0 {
			t.Errorf("of three users: %d threads close, given up %d times", closing.Load(), given)
		}
		hang(4, 1)
		if closing.Load() != 8 || given != 1 {
			t.Errorf("of four users: %d threads close, given up %d times", closing.Load(), given)
		}
		close(release)
		synctest.Wait()
		if n := closed.Load(); n != 3+5+1+3+2 {
			t.Errorf("%d connections are closed", n)
		}
	})
}

// TestLeftDoors: while as many doors as may be left behind have not ended, the next is not started, and the log says so.
func TestLeftDoors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		left, gone, later, started := make(leftDoors, 2), make(chan struct{}), make(chan struct{}), make(chan bool, 3)
		defer close(later)
		for range 2 {
			if !left.addDoor(ctx, log, gone) {
				t.Fatal("a door has no place")
			}
		}
		if said.Len() > 0 {
			t.Errorf("with two doors left of at most two, log = %q, want no line", said.String())
		}
		go func() { started <- left.addDoor(ctx, log, later) }()
		synctest.Wait()
		if len(started) > 0 || !strings.Contains(said.String(), "srun.sock is not served") {
			t.Errorf("with two doors left, started %d doors, and the log has %q; want none and a line", len(started), said.String())
		}
		close(gone)
		if !<-started {
			t.Error("the next door was not started when the others had ended")
		}
		left.addDoor(ctx, log, later)
		go func() { started <- left.addDoor(ctx, log, gone) }()
		synctest.Wait()
		cancel()
		if <-started {
			t.Error("a door was started after the end of the daemon")
		}
	})
}
