// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/lease"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

// waits tells everybody that another one works.
func (c *control) waits(holder string) {
	c.log.Info("another preemptd works; waiting", "holder", holder)
	c.page.role(web.Waits, holder)
	notify(c.log, "STATUS=waiting: "+holder+" works")
}

// giveBack is how long giving back the lease that Slurm shows may take: who waits takes it
// anyway.
const giveBack = 3 * time.Second

// hold has the journal's lease until ctx ends or the lease is lost, and works while it has the
// one that Slurm shows as well. Both are kept until the last action has ended.
func (c *control) hold(ctx context.Context) error {
	var g errgroup.Group
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	g.Go(func() error {
		err := c.journal.Keep(keeping, func(err error) { c.log.Error("lease", "error", err) })
		stopWorking()
		return err
	})
	g.Go(func() error {
		defer stopKeeping()
		return c.lead(working)
	})
	err := g.Wait()
	if errors.Is(err, journal.ErrLost) || c.lease.Alone() != nil { // the other one's, or none
		return err
	}
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	if err := c.lease.Release(giving); err != nil {
		c.log.Warn("Slurm still shows that this preemptd works", "error", err)
	}
	return err
}

// lead waits for the lease that Slurm shows, and works while it has that.
func (c *control) lead(ctx context.Context) error {
	for {
		err := c.lease.Await(ctx, func(h lease.Holder) { c.waits(h.String()) }, func(err error) {
			c.log.Warn("waiting for the lease that Slurm shows", "error", err)
		})
		if err != nil {
			return unlessEnded(ctx, err)
		}
		if err := c.lease.Alone(); err != nil {
			c.log.Warn("Slurm lets this preemptd make no reservation: one with another journal would not know that it works", "error", err)
		}
		c.log.Info("working")
		c.page.role(web.Works, "")
		notify(c.log, "STATUS=working")
		c.metrics.Leads(true)
		err = c.act(ctx)
		c.metrics.Leads(false)
		c.page.role(web.Waits, "")
		if !errors.Is(err, lease.ErrLost) {
			return err
		}
		c.log.Warn("stopped working", "error", err)
	}
}

// act works until ctx ends or the lease that Slurm shows is lost, and listens to people
// meanwhile.
func (c *control) act(ctx context.Context) error {
	var g errgroup.Group
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	held, lost := context.WithCancel(context.WithoutCancel(ctx))
	defer lost()
	g.Go(func() error {
		err := c.lease.Keep(keeping, func(err error) { c.log.Warn("lease", "error", err) })
		if err != nil {
			lost()
		}
		stopWorking()
		return err
	})
	loop := c.loop(held)
	desk := &desk{control: c, wake: loop.Wake, trying: make(chan struct{}, 1)}
	loop.Told = func(d reconcile.Decision, s *sdk.Snapshot) {
		desk.tell(d, s)
		c.told(d, s)
	}
	g.Go(func() error {
		desk.serve(working)
		return nil
	})
	g.Go(func() error {
		defer stopKeeping()
		return loop.Run(working)
	})
	return g.Wait()
}

// sure is a journal that takes no step before it is certain that nobody else works: what is
// not written is not done.
type sure struct {
	action.Journal
	lease *lease.Lease
}

// Save waits while Slurm does not say whose the lease is.
func (s *sure) Save(ctx context.Context, a *journal.Action, text string) error {
	if err := s.lease.Sure(ctx); err != nil {
		return err
	}
	return s.Journal.Save(ctx, a, text)
}

// tied are hands that stop at once when held ends.
type tied struct {
	reconcile.Hands
	held context.Context
}

// Run does the action, or what can be done of it.
func (t *tied) Run(ctx context.Context, a journal.Action) (journal.Action, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.held, stop)()
	return t.Hands.Run(ctx, a)
}
