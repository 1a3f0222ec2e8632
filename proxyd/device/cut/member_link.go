// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cut

import (
	"context"
	"sync"
	"time"
)

// memberReport is a message from a member: events, or the loss of the member.
type memberReport struct {
	member int
	events []Event
	err    error
}

// memberLink carries orders to a member and events back. One goroutine runs a memberLink: new orders end the wait for events.
type memberLink struct {
	number        int
	member        Member
	attempt       uint64
	leaderTimeout time.Duration

	mu     sync.Mutex
	orders []Order
	news   chan struct{} // has a value when orders has an order
	heard  uint64
}

func newMemberLink(number int, m Member, attempt uint64, leaderTimeout time.Duration) *memberLink {
	return &memberLink{number: number, member: m, attempt: attempt, leaderTimeout: leaderTimeout, news: make(chan struct{}, 1)}
}

// sendOrder adds an order behind the orders before.
func (p *memberLink) sendOrder(o Order) {
	p.mu.Lock()
	p.orders = append(p.orders, o)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *memberLink) takeOrders() []Order {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.orders
	p.orders = nil
	return o
}

// runLink ends with ctx, or when the member is lost, which it reports.
func (p *memberLink) runLink(ctx context.Context, to chan<- memberReport) {
	for {
		e, err := p.exchangeEvents(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && len(e.List) == 0 {
			continue
		}
		h := memberReport{member: p.number, err: err}
		if err == nil {
			h.events = e.List
		}
		select {
		case to <- h:
		case <-ctx.Done():
		}
		if err != nil {
			return
		}
	}
}

// exchangeEvents makes an exchange: it sends the pending orders, or, if there are none, waits for events.
func (p *memberLink) exchangeEvents(ctx context.Context) (*Events, error) {
	o := &Orders{Attempt: p.attempt, LeaderTimeout: p.leaderTimeout, Heard: p.heard, Do: p.takeOrders()}
	var e *Events
	var err error
	if len(o.Do) > 0 {
		e, err = p.member.Exchange(ctx, o)
	} else {
		o.Wait = p.leaderTimeout / 3
		e, err = p.exchangeUntilOrders(ctx, o)
	}
	if err == nil {
		p.heard = e.Next
	}
	return e, err
}

// exchangeUntilOrders makes an exchange that ends early when there are orders.
func (p *memberLink) exchangeUntilOrders(ctx context.Context, o *Orders) (*Events, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(over)
	watch.Go(func() {
		select {
		case <-p.news:
			cancel()
		case <-over:
		}
	})
	e, err := p.member.Exchange(ctx, o)
	if err != nil && ctx.Err() != nil { // no order was sent, and the member sends its unheard events again
		return &Events{Next: o.Heard}, nil
	}
	return e, err
}
