// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// crowd makes requests that wait for a place, and records the order in which they get places.
type crowd struct {
	t     *testing.T
	turns *turns
	order chan string
	ends  map[string]chan func()
}

// askAndWait has a request wait, and returns when it is in the queue or has its place.
func (c *crowd) askAndWait(ctx context.Context, remote string) {
	c.t.Helper()
	count := func() (n int) {
		c.turns.mu.Lock()
		defer c.turns.mu.Unlock()
		n = c.turns.busy + len(c.turns.daemons)
		for _, h := range c.turns.hosts {
			for _, k := range h.conns {
				n += len(k.waiting)
			}
		}
		return n
	}
	before := count()
	go func() {
		done, err := c.turns.waitForPlace(ctx, remote, false)
		if err != nil {
			return
		}
		c.order <- remote
		c.ends[""] <- done
	}()
	for count() == before {
		runtime.Gosched()
	}
}

// TestTurns: a user with 250 connections, each with requests that wait, does not make
// another host's daemon wait, nor for long a daemon of his own host.
func TestTurns(t *testing.T) {
	c := &crowd{t: t, turns: newTurns(), order: make(chan string, 10000), ends: map[string]chan func(){"": make(chan func(), 10000)}}
	ctx := t.Context()
	for range 2 {
		for i := range 250 {
			c.askAndWait(ctx, fmt.Sprintf("10.0.0.1:%d", 20000+i))
		}
	}
	if c.turns.busy != forOthers {
		t.Fatalf("%d places are taken by strangers, want %d", c.turns.busy, forOthers)
	}
	done, err := c.turns.waitForPlace(ctx, "10.0.0.1:900", true) // a daemon of the same host that is known
	if err != nil {
		t.Fatal(err)
	}
	done()
	for range forOthers {
		<-c.order
	}
	c.askAndWait(ctx, "10.0.0.2:30000") // another host
	c.askAndWait(ctx, "10.0.0.1:40000") // another user of the same host
	place := func(who string) int {
		for n := 1; ; n++ {
			(<-c.ends[""])()
			got := <-c.order
			if got == who {
				return n
			}
			if n > 1100 {
				t.Fatalf("%s never has its turn", who)
			}
		}
	}
	if n := place("10.0.0.2:30000"); n > 3 {
		t.Errorf("the request of another host is number %d, want at most 3", n)
	}
	if n := place("10.0.0.1:40000"); n > 251 {
		t.Errorf("the request of another user of the host is number %d", n)
	}
}

// TestTurnsGivenUp: a request that does not wait any more has no place in the queue, or gives its place back.
func TestTurnsGivenUp(t *testing.T) {
	turns := newTurns()
	var done []func()
	for i := range forOthers {
		d, err := turns.waitForPlace(t.Context(), fmt.Sprintf("10.0.0.1:%d", i), false)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := turns.waitForPlace(ctx, "10.0.0.1:99", false); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if len(turns.hosts) != 0 {
		t.Errorf("%d hosts have waiting requests, want none", len(turns.hosts))
	}
	for _, d := range slices.Backward(done) {
		d()
	}
	if turns.busy != 0 || turns.others != 0 {
		t.Errorf("%d, %d places are taken", turns.busy, turns.others)
	}
}
