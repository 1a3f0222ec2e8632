// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// actor is a process in a schedule. Each value in turn has the actor run to its next step, or die.
type actor struct {
	run  func(*Pool) error
	turn chan bool // true: a step; false: die
	at   chan bool // true: the actor is at a step; false: the actor has ended
	err  error
}

// playActors runs actors on a single folder. next chooses the actor that runs to its next step, or that is killed
// there.
func playActors(t *testing.T, dir string, actors []*actor, next func(alive []int) (who int, kill bool)) {
	t.Helper()
	for _, a := range actors {
		a.turn, a.at = make(chan bool), make(chan bool)
		p := newPool(t, dir, "10.9.0.0/28")
		p.step = func(string) {
			a.at <- true
			if !<-a.turn {
				panic(killed{})
			}
		}
		go func() {
			defer func() { a.at <- false }()
			runUntilKilled(func() { a.err = a.run(p) })
		}()
	}
	var alive []int
	for i, a := range actors {
		if <-a.at {
			alive = append(alive, i)
		}
	}
	for len(alive) > 0 {
		who, kill := next(alive)
		a := actors[who]
		a.turn <- !kill
		if !<-a.at {
			alive = slices.DeleteFunc(alive, func(i int) bool { return i == who })
		}
	}
}

// TestPoolSchedules plays takers and givers of the same job and of another job against
// each other, switching between them at steps, and killing some.
func TestPoolSchedules(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	parent := "/dev/shm" // a disk would have to flush at every step
	if _, err := os.Stat(parent); err != nil {
		parent = t.TempDir()
	}
	for round := range rounds {
		seed := rand.New(rand.NewPCG(7, uint64(round)))
		root, err := os.MkdirTemp(parent, "pool-")
		failOn(t, err)
		t.Cleanup(func() { os.RemoveAll(root) })
		dir := filepath.Join(root, "pool")
		p := newPool(t, dir, "10.9.0.0/28")
		var mu sync.Mutex
		held := map[netip.Addr]string{}
		hold := func(job string) func(*Pool) error {
			return func(p *Pool) error {
				a, err := p.Take(context.Background(), job, 1)
				if err != nil {
					if errors.Is(err, ErrExhausted) {
						return nil
					}
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				// A job that is never given back keeps its addresses: no other job may get them.
				if other, ok := held[a[0]]; ok && other != job && !strings.HasPrefix(other, "over") && !strings.HasPrefix(job, "over") {
					return fmt.Errorf("%s is of %s and of %s", a[0], other, job)
				}
				held[a[0]] = job
				return nil
			}
		}
		drop := func(job string) func(*Pool) error {
			return func(p *Pool) error { return p.Give(context.Background(), job) }
		}
		over := "over" + fmt.Sprint(seed.IntN(4))
		if seed.IntN(2) == 0 {
			takeAddresses(t, p, over, 1)
		}
		all := []func(*Pool) error{
			hold(over), hold(over), drop(over), drop(over),
			hold("a" + fmt.Sprint(seed.IntN(9))), hold("a" + fmt.Sprint(seed.IntN(9))), hold("b"), hold("b"),
			func(p *Pool) error { _, err := p.Jobs(); return err },
		}
		var actors []*actor
		for _, i := range seed.Perm(len(all))[:3+seed.IntN(4)] {
			actors = append(actors, &actor{run: all[i]})
		}
		now, stay := 0, 0
		playActors(t, dir, actors, func(alive []int) (int, bool) {
			if stay--; stay < 0 || !slices.Contains(alive, now) {
				now, stay = alive[seed.IntN(len(alive))], seed.IntN(8)
			}
			return now, seed.IntN(60) == 0
		})
		for i, a := range actors {
			if a.err != nil {
				t.Errorf("round %d: actor %d: %v", round, i, a.err)
			}
		}
		// Nor do the addresses of these jobs overlap with the addresses that other jobs get now.
		p.step = func(string) {}
		jobs, err := p.Jobs()
		failOn(t, err)
		owner := map[netip.Addr]string{}
		for _, job := range append(jobs, "late1", "late2") {
			a, err := p.Take(context.Background(), job, 1)
			if errors.Is(err, ErrExhausted) {
				continue
			}
			failOn(t, err)
			if other, ok := owner[a[0]]; ok {
				t.Errorf("round %d: %s is of %s and of %s", round, a[0], other, job)
			}
			owner[a[0]] = job
		}
		for a, job := range held {
			if now, ok := owner[a]; ok && now != job && !strings.HasPrefix(job, "over") {
				t.Errorf("round %d: %s was of %s and is of %s", round, a, job, now)
			}
		}
		jobs, err = p.Jobs()
		failOn(t, err)
		for _, job := range jobs {
			giveBack(t, p, job)
		}
		checkEmpty(t, p)
		if t.Failed() {
			t.Fatalf("round %d of %d", round, rounds)
		}
		os.RemoveAll(root)
	}
}
