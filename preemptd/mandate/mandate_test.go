// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mandate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// slurmctld is a slurmctld in virtual time. Each request takes a moment before its effect and a moment after.
type slurmctld struct {
	mu      sync.Mutex
	there   []slurmrest.Reservation
	away    bool
	refuses error
	writes  int
	most    time.Duration
	random  *rand.Rand
}

func (s *slurmctld) do(ctx context.Context, f func() error) error {
	s.mu.Lock()
	before, after := time.Duration(s.random.Int64N(int64(s.most))), time.Duration(s.random.Int64N(int64(s.most)))
	s.mu.Unlock()
	for _, d := range []time.Duration{before, after} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
		}
		if f == nil {
			continue
		}
		s.mu.Lock()
		err := slurmrest.ErrController
		if !s.away {
			err = f()
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		f = nil
	}
	return nil
}

func (s *slurmctld) Nodes(context.Context) ([]slurmrest.Node, error) {
	return []slurmrest.Node{{Name: "n0", State: slurmrest.NodeState{Base: "FUTURE"}}, {Name: "n1"}}, nil
}

func (s *slurmctld) Reservations(ctx context.Context) ([]slurmrest.Reservation, error) {
	var all []slurmrest.Reservation
	err := s.do(ctx, func() error { all = slices.Clone(s.there); return nil })
	return all, err
}

func (s *slurmctld) CreateReservation(ctx context.Context, r slurmrest.NewReservation) error {
	return s.do(ctx, func() error {
		s.writes++
		if s.refuses != nil {
			return s.refuses
		}
		if !slices.ContainsFunc(s.there, func(is slurmrest.Reservation) bool { return is.Name == r.Name }) {
			s.there = append(s.there, slurmrest.Reservation{Name: r.Name, Nodes: strings.Join(r.Nodes, ",")})
		}
		return nil
	})
}

func (s *slurmctld) DeleteReservation(ctx context.Context, name string) error {
	return s.do(ctx, func() error {
		s.writes++
		before := len(s.there)
		s.there = slices.DeleteFunc(s.there, func(r slurmrest.Reservation) bool { return r.Name == name })
		if len(s.there) == before {
			return slurmrest.ErrNoReservation
		}
		return nil
	})
}

func (s *slurmctld) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.there {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (s *slurmctld) changeState(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// site is some preemptds, each with a journal of its own, and which of them acts now.
type site struct {
	*testing.T
	slurm *slurmctld
	began time.Time
	mu    sync.Mutex
	acts  map[string]bool
}

func newSite(t *testing.T, seed uint64, most time.Duration) *site {
	return &site{
		T: t, began: time.Now(), acts: map[string]bool{},
		slurm: &slurmctld{random: rand.New(rand.NewPCG(seed, 1)), most: most},
	}
}

// daemon is a preemptd.
type daemon struct {
	*site
	name    string
	mandate *Mandate
	works   chan struct{} // each time the daemon begins to work
	told    chan string   // the preemptd for which the daemon waits
	end     context.CancelFunc
	ended   chan struct{}
}

// startDaemon starts a daemon, which works whenever the mandate allows until the test ends the daemon.
func (s *site) startDaemon(id string) *daemon {
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{
		site: s, name: id, mandate: New(s.slurm, "host"+id[:1], id), works: make(chan struct{}, 1000), told: make(chan string, 1000),
		end: cancel, ended: make(chan struct{}),
	}
	d.mandate.clock = func() time.Duration { return time.Since(s.began) + time.Hour }
	go func() {
		defer close(d.ended)
		for {
			err := d.mandate.Await(ctx, func(h Holder) { d.told <- h.String() }, func(error) {})
			if err != nil {
				return
			}
			d.works <- struct{}{}
			acting, stop := context.WithCancel(ctx)
			var all sync.WaitGroup
			all.Go(func() { d.actWhileSure(acting) })
			err = d.mandate.Keep(ctx, func(error) {})
			stop()
			all.Wait()
			if !errors.Is(err, ErrLost) {
				return
			}
		}
	}()
	return d
}

// actWhileSure acts for short times while the daemon is sure, and fails the test if another daemon acts then.
func (d *daemon) actWhileSure(ctx context.Context) {
	for ctx.Err() == nil {
		if d.mandate.Sure(ctx) != nil {
			return
		}
		d.mu.Lock()
		d.acts[d.name] = true
		if len(d.acts) > 1 {
			d.Errorf("%s: %v work", time.Since(d.began), d.acts)
		}
		d.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		d.mu.Lock()
		delete(d.acts, d.name)
		d.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
}

// killDaemon ends a daemon as kill -9 does: its reservations stay in Slurm.
func (d *daemon) killDaemon() {
	d.end()
	<-d.ended
}

// stopDaemon ends a daemon cleanly.
func (d *daemon) stopDaemon() {
	d.killDaemon()
	if err := d.mandate.Release(context.Background()); err != nil {
		d.Error(err)
	}
}

func (d *daemon) worksWithin(most time.Duration) {
	d.Helper()
	began := time.Now()
	<-d.works
	if took := time.Since(began); took > most {
		d.Errorf("%s works after %s; want %s", d.name, took, most)
	}
}

func (d *daemon) worksNot(within time.Duration) {
	d.Helper()
	select {
	case <-d.works:
		d.Errorf("%s works", d.name)
	case <-time.After(within):
	}
}

func TestTakeOver(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, seed, 150*time.Millisecond)
			a := s.startDaemon("aaaaaaaa")
			a.worksWithin(time.Second)
			before := s.slurm.writes
			time.Sleep(time.Minute)
			if s.slurm.writes != before {
				t.Errorf("%d writes while no preemptd waits", s.slurm.writes-before)
			}
			b := s.startDaemon("bbbbbbbb")
			if who := <-b.told; who != "the one on hosta (reservation preemptd:works:hosta:aaaaaaaa)" {
				t.Errorf("the second preemptd waits for %s", who)
			}
			b.worksNot(time.Minute + time.Duration(seed)*111*time.Millisecond)
			a.killDaemon()
			b.worksWithin(10 * time.Second)
			time.Sleep(3 * time.Second)
			if names := s.slurm.names(); names != "preemptd:works:hostb:bbbbbbbb" {
				t.Errorf("Slurm shows %s", names)
			}
			b.killDaemon()
			// The next daemon with its journal need not wait.
			b = s.startDaemon("bbbbbbbb")
			b.worksWithin(time.Second)
			c := s.startDaemon("cccccccc")
			<-c.told
			b.stopDaemon()
			c.worksWithin(10 * time.Second)
			c.stopDaemon()
			if names := s.slurm.names(); names != "" {
				t.Errorf("Slurm shows %s", names)
			}
		})
	}
}

// Slurm is away, for any time: the holder of the mandate works again afterwards, and not meanwhile.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 100*time.Millisecond)
		a := s.startDaemon("aaaaaaaa")
		a.worksWithin(time.Second)
		b := s.startDaemon("bbbbbbbb")
		for _, d := range []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour} {
			time.Sleep(3300 * time.Millisecond)
			s.slurm.changeState(func() { s.slurm.away = true })
			time.Sleep(d)
			if ctx, cancel := context.WithTimeout(t.Context(), time.Second); d > certainFor && a.mandate.Sure(ctx) == nil {
				t.Errorf("the first preemptd is sure of its mandate %s after Slurm has answered", d)
				cancel()
			} else {
				cancel()
			}
			s.slurm.changeState(func() { s.slurm.away = false })
			b.worksNot(20 * time.Second)
			if err := a.mandate.Sure(t.Context()); err != nil {
				t.Errorf("Sure after Slurm was away for %s: %v", d, err)
			}
		}
		s.slurm.changeState(func() { s.slurm.there = nil }) // by an administrator
		time.Sleep(20 * time.Second)
		if names := s.slurm.names(); !strings.Contains(names, "preemptd:works:") {
			t.Errorf("Slurm shows %s", names)
		}
		a.stopDaemon()
		b.stopDaemon()
	})
}

// After any kill, stop, deletion or absence of Slurm: never do two daemons act, and in the end a single daemon does.
func TestNeverTwo(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, seed, time.Duration(1+seed%5)*400*time.Millisecond)
			random := rand.New(rand.NewPCG(seed, 2))
			all := make([]*daemon, 3)
			for range 60 {
				i := random.IntN(len(all))
				switch random.IntN(6) {
				case 0, 1, 2:
					if all[i] == nil {
						all[i] = s.startDaemon(strings.Repeat(string(rune('a'+i)), 8))
					}
				case 3:
					if all[i] != nil {
						all[i].killDaemon()
						all[i] = nil
					}
				case 4:
					s.slurm.changeState(func() { s.slurm.away = true })
					time.Sleep(time.Duration(random.Int64N(int64(12 * time.Second))))
					s.slurm.changeState(func() { s.slurm.away = false })
				case 5:
					s.slurm.changeState(func() { // by an administrator: questions, and reservations of dead daemons
						s.slurm.there = slices.DeleteFunc(s.slurm.there, func(r slurmrest.Reservation) bool {
							return strings.Contains(r.Name, ":waits:") || all[r.Name[len(r.Name)-1]-'a'] == nil
						})
					})
				}
				time.Sleep(time.Duration(random.Int64N(int64(12 * time.Second))))
			}
			if all[0] == nil {
				all[0] = s.startDaemon("aaaaaaaa")
			}
			s.slurm.changeState(func() { s.slurm.most = 100 * time.Millisecond })
			time.Sleep(time.Minute)
			working := 0
			for _, d := range all {
				if d == nil {
					continue
				}
				if d.mandate.Sure(t.Context()) == nil {
					working++
				}
				d.killDaemon()
			}
			if working != 1 {
				t.Errorf("seed %d: %d work in the end", seed, working)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		err    error
		within time.Duration
	}{
		{slurmrest.ErrAccessDenied, time.Second},
		{&slurmrest.UnsupportedError{Feature: "reservations"}, time.Second},
		{errors.New("no reservations on Mondays"), 5 * time.Second},
	} {
		t.Run(fmt.Sprint(test.err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, 1, 100*time.Millisecond)
				s.slurm.refuses = test.err
				a := s.startDaemon("aaaaaaaa")
				a.worksWithin(test.within)
				if !errors.Is(a.mandate.WhyNoMandate(), test.err) || a.mandate.Sure(t.Context()) != nil {
					t.Errorf("the reason for no mandate is %v", a.mandate.WhyNoMandate())
				}
				a.stopDaemon()
				// A daemon that works is waited for, even if the daemon cannot be asked.
				s.slurm.there = []slurmrest.Reservation{{Name: "preemptd:works:x:12345678"}}
				b := s.startDaemon("bbbbbbbb")
				<-b.told
				b.worksNot(time.Minute)
				b.stopDaemon()
			})
		})
	}
}

// slowToMake is a slurmctld that makes a reservation a second after the request, whether the caller is still there or
// not.
type slowToMake struct {
	*slurmctld
	begun chan struct{}
}

func (s slowToMake) CreateReservation(ctx context.Context, r slurmrest.NewReservation) error {
	s.begun <- struct{}{}
	made := make(chan error, 1)
	go func() {
		time.Sleep(time.Second)
		made <- s.slurmctld.CreateReservation(context.WithoutCancel(ctx), r)
	}()
	select {
	case err := <-made:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestStoppedWhileAsking: a daemon that is stopped while Slurm makes its question leaves no question behind.
func TestStoppedWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 10*time.Millisecond)
		const worker = "preemptd:works:x:12345678"
		s.slurm.there = []slurmrest.Reservation{{Name: worker}}
		slow := slowToMake{s.slurm, make(chan struct{}, 1)}
		l := New(slow, "hosta", "aaaaaaaa")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Await(ctx, func(Holder) {}, func(error) {}) }()
		<-slow.begun
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Await: %v", err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if names := s.slurm.names(); names != worker {
			t.Errorf("Slurm shows %s; want %s", names, worker)
		}
	})
}

// A reservation with a name of another form is a site's own.
func TestViewed(t *testing.T) {
	var all []slurmrest.Reservation
	for _, name := range []string{
		"preemptd", "preemptd:works", "preemptd:works:ctl", "preemptd:works:ctl:1", "my-preemptd:works:ctl:12345678", "preemptd:sleeps:ctl:12345678",
		"preemptd:works:ctl:12345678", "preemptd:waits:ctl:12345678", "preemptd:works:c2.d:abcdef01", "preemptd:waits:c-3:abcdef02",
	} {
		all = append(all, slurmrest.Reservation{Name: name})
	}
	v := viewOf(all, New(nil, "ctl", "12345678").me)
	if !v.mine || !v.asked || !slices.Equal(v.works, []string{"c2.d:abcdef01"}) || !slices.Equal(v.asks, []string{"c-3:abcdef02"}) {
		t.Errorf("viewOf = %+v", v)
	}
	if me := New(nil, "a b:ü", "12345678").me; !ours.MatchString("preemptd:works:" + me) {
		t.Errorf("a host's name with anything in it: %q", me)
	}
}
