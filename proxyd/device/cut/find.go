// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
)

// Options of an attempt. Zero durations mean the defaults.
type Options struct {
	// Attempt is the attempt's number: higher than the numbers of all attempts before, of any leader.
	Attempt uint64
	// Deadline is how long Find may take; 60 s.
	Deadline time.Duration
	// Tick is the time without any event after which every process is let go a step further; 1 s.
	Tick time.Duration
	// LeaderTimeout is how long a device server stays in the attempt without hearing of the leader; 10 s.
	LeaderTimeout time.Duration
}

// openTimeout is how long members have to open their gates after the attempt. A member that cannot be reached does so
// when its LeaderTimeout has passed.
const openTimeout = 5 * time.Second

// Cut is a cut that was found: at no member does an operation pass a gate, and none is in flight. A Cut lasts until
// Open, or until a member is lost; then Lost is closed, and that member refuses to save for the attempt.
type Cut struct {
	Attempt uint64
	Who     []RankProcess          // the ranks of the barrier
	Counts  map[barrier.Key]uint64 // those that are not 0, as they were last reported

	f    *finder
	lost chan struct{}
	mu   sync.Mutex
	why  error
}

// finder is the leader of an attempt.
type finder struct {
	links  []*memberLink
	news   chan memberReport
	state  *leaderState
	early  []memberReport // events that came before all members had opened the attempt
	still  map[int]bool
	found  bool // the barrier has found the cut
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Find looks for a cut of the job with the device servers members. On success all processes stand still, with
// the gate of all calls shut, at every member, until the caller calls Open. The caller must call Open. On
// failure all gates are open again at every member that can be reached, and the error has the reason: a
// *Failure if the barrier found no cut. Find ends with ctx, without a cut.
func Find(ctx context.Context, members []Member, o Options) (*Cut, error) {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.Deadline, time.Minute}, {&o.Tick, time.Second}, {&o.LeaderTimeout, 10 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	f := &finder{news: make(chan memberReport), still: map[int]bool{}}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	for i, m := range members {
		p := newMemberLink(i, m, o.Attempt, o.LeaderTimeout)
		p.sendOrder(Order{Open: true})
		f.links = append(f.links, p)
		f.work.Go(func() { p.runLink(own, f.news) })
	}
	err := f.findCut(ctx, &o)
	if err != nil {
		return nil, errors.Join(err, f.endAttempt(ctx))
	}
	c := &Cut{Attempt: o.Attempt, Who: f.state.who, Counts: f.state.counts, f: f, lost: make(chan struct{})}
	f.work.Go(func() { c.renewTimeouts(own) })
	return c, nil
}

// findCut runs an attempt from its beginning to the cut.
func (f *finder) findCut(ctx context.Context, o *Options) error {
	deadline := time.NewTimer(o.Deadline)
	defer deadline.Stop()
	tick := time.NewTimer(o.Tick)
	defer tick.Stop()
	opened := make([]Event, len(f.links))
	missing := len(opened)
	for missing > 0 || !f.found || len(f.still) < len(f.links) {
		if missing == 0 && f.state == nil {
			f.state = newLeaderState(opened)
			for _, h := range f.early {
				f.state.enterEvent(h.member, &h.events[0])
			}
		} else {
			select {
			case h := <-f.news:
				if h.err != nil {
					return fmt.Errorf("device server %d: %w", h.member, h.err)
				}
				missing -= f.enterReport(h, opened)
			case <-tick.C:
				f.stepHistory(barrier.Tick{})
			case <-deadline.C:
				if f.state == nil || f.state.b == nil || f.found {
					return errors.New("no cut: deadline passed: a device server does not answer")
				}
				f.stepHistory(barrier.Deadline{})
			case <-ctx.Done():
				return fmt.Errorf("no cut: %w", context.Cause(ctx))
			}
		}
		if err := f.sendOrders(); err != nil {
			return err
		}
		tick.Reset(o.Tick)
	}
	return nil
}

// enterReport takes events of a member, and returns how many members have opened the attempt by these events.
func (f *finder) enterReport(h memberReport, opened []Event) (n int) {
	for i := range h.events {
		e := &h.events[i]
		switch {
		case e.Kind == Opened:
			opened[h.member] = *e
			n++
		case e.Kind == Still:
			f.still[h.member] = true
			if f.state != nil {
				f.state.markHolding(h.member)
			}
		case f.state == nil: // the state begins when all members have opened the attempt
			f.early = append(f.early, memberReport{member: h.member, events: []Event{*e}})
		default:
			f.state.enterEvent(h.member, e)
		}
	}
	return n
}

func (f *finder) stepHistory(e barrier.Event) {
	if f.state != nil {
		f.state.stepBarrier(e)
	}
}

// sendOrders sends the orders that follow from the state to the members.
func (f *finder) sendOrders() error {
	if f.state == nil {
		return nil
	}
	for _, e := range f.state.out {
		if e.Failed != nil {
			return f.state.nameRanks(e.Failed)
		}
		f.found = f.found || e.Cut
		f.state.settled.begun = f.state.settled.begun || e.ShutCalls
		for m, o := range f.state.ordersOf(e, len(f.links)) {
			f.links[m].sendOrder(o)
		}
	}
	f.state.out = nil
	for m, o := range f.state.settleOrders(len(f.links)) {
		f.links[m].sendOrder(o)
	}
	return nil
}

// ordersOf converts effects into an order for each member.
func (k *leaderState) ordersOf(e barrier.Effects, members int) map[int]Order {
	all := map[int]Order{}
	change := func(m int, what func(o *Order)) {
		o := all[m]
		what(&o)
		all[m] = o
	}
	if e.Shut || e.Read || e.Drain || e.ShutCalls || len(e.Create) > 0 {
		o := Order{Shut: e.Shut, Read: e.Read, Drain: e.Drain, ShutCalls: e.ShutCalls, Keep: e.ShutCalls}
		for _, id := range e.Create {
			o.Create = append(o.Create, barrier.Comm(id))
		}
		for m := range members {
			all[m] = o
		}
	}
	for _, r := range e.Withdraw {
		w := k.who[r]
		change(w.Member, func(o *Order) { o.Withdraw = append(o.Withdraw, w.Process) })
	}
	for _, r := range e.Raise {
		w := k.who[r.Rank]
		change(w.Member, func(o *Order) { o.Raise = append(o.Raise, Raise{w.Process, r.Targets}) })
	}
	for _, r := range e.Nudge {
		w := k.who[r]
		change(w.Member, func(o *Order) { o.Nudge = append(o.Nudge, w.Process) })
	}
	return all
}

// endAttempt has all members forget the attempt, and waits for the members that can be reached. When it
// returns, the leader has no goroutine left.
func (f *finder) endAttempt(ctx context.Context) error {
	f.cancel()
	f.work.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	o := Order{Forget: true}
	if f.state != nil {
		o.Past = f.state.pastComms()
	}
	errs := make([]error, len(f.links))
	var all sync.WaitGroup
	for i, p := range f.links {
		all.Go(func() {
			_, err := p.member.Exchange(ctx, &Orders{Attempt: p.attempt, LeaderTimeout: p.leaderTimeout, Heard: p.heard, Do: []Order{o}})
			if err != nil {
				errs[i] = fmt.Errorf("device server %d: open the gates: %w", i, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// renewTimeouts begins the LeaderTimeout of the members anew until the Cut is opened or lost.
func (c *Cut) renewTimeouts(ctx context.Context) {
	for {
		select {
		case h := <-c.f.news:
			c.mu.Lock()
			if h.err != nil && c.why == nil {
				c.why = fmt.Errorf("device server %d: %w", h.member, h.err)
				close(c.lost)
			}
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// Lost returns a channel that is closed when a member, and with it its part of the cut, is lost. Err has the
// reason.
func (c *Cut) Lost() <-chan struct{} { return c.lost }

// Err returns nil until Lost is closed.
func (c *Cut) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Open opens all gates, after the checkpoint was made or undone, and the job goes on. Open must be called
// once. The error names members that could not be reached; they open their gates when LeaderTimeout has passed.
func (c *Cut) Open(ctx context.Context) error { return c.f.endAttempt(ctx) }
