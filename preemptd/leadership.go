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
	"github.com/singularity-slurm/singularity-slurm/preemptd/mandate"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

// showWaiting tells people that another preemptd works.
func (c *controller) showWaiting(holder string) {
	c.log.Info("another preemptd works; waiting", "holder", holder)
	c.page.setRole(web.Waits, holder)
	notifySystemd(c.log, "STATUS=waiting: "+holder+" works")
}

// giveBack is how long giving back the mandate that Slurm shows may take: a waiting preemptd takes
// the mandate anyway.
const giveBack = 3 * time.Second

// holdMandate has the journal's mandate until ctx ends or the mandate is lost, and works while it has the
// mandate that Slurm shows as well. Both mandates are kept until the last action has ended.
func (c *controller) holdMandate(ctx context.Context) error {
	var g errgroup.Group
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	g.Go(func() error {
		err := c.journal.Keep(keeping, func(err error) { c.log.Error("cannot renew the mandate of the journal", "error", err) })
		stopWorking()
		return err
	})
	g.Go(func() error {
		defer stopKeeping()
		return c.leadUntilLost(working)
	})
	err := g.Wait()
	if errors.Is(err, journal.ErrLost) || c.mandate.WhyNoMandate() != nil { // another preemptd's mandate, or no mandate
		return err
	}
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	if err := c.mandate.Release(giving); err != nil {
		c.log.Warn("Slurm still shows that this preemptd works", "error", err)
	}
	return err
}

// leadUntilLost waits for the mandate that Slurm shows, and works while it has the mandate.
func (c *controller) leadUntilLost(ctx context.Context) error {
	for {
		err := c.mandate.Await(ctx, func(h mandate.Holder) { c.showWaiting(h.String()) }, func(err error) {
			c.log.Warn("waiting for the mandate that Slurm shows", "error", err)
		})
		if err != nil {
			return ignoreShutdown(ctx, err)
		}
		if err := c.mandate.WhyNoMandate(); err != nil {
			c.log.Warn("Slurm lets this preemptd make no reservation: one with another journal would not know that it works", "error", err)
		}
		c.log.Info("working")
		c.page.setRole(web.Works, "")
		notifySystemd(c.log, "STATUS=working")
		c.metrics.Leads(true)
		err = c.runLoop(ctx)
		c.metrics.Leads(false)
		c.page.setRole(web.Waits, "")
		if !errors.Is(err, mandate.ErrLost) {
			return err
		}
		c.log.Warn("stopped working", "error", err)
	}
}

// runLoop works until ctx ends or the mandate that Slurm shows is lost, and listens to people
// meanwhile.
func (c *controller) runLoop(ctx context.Context) error {
	var g errgroup.Group
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	leading, lost := context.WithCancel(context.WithoutCancel(ctx))
	defer lost()
	g.Go(func() error {
		err := c.mandate.Keep(keeping, func(err error) { c.log.Warn("cannot renew the mandate that Slurm shows", "error", err) })
		if err != nil {
			lost()
		}
		stopWorking()
		return err
	})
	loop := c.newLoop(leading)
	requests := &requestServer{controller: c, wake: loop.Wake, trying: make(chan struct{}, 1)}
	loop.OnDecision = func(d reconcile.Decision, s *sdk.Snapshot) {
		requests.setDecision(d, s)
		c.onDecision(d, s)
	}
	g.Go(func() error {
		requests.serveRequests(working)
		return nil
	})
	g.Go(func() error {
		c.pollProxyds(working, c.newProxyds(c.cfg.Load()))
		return nil
	})
	g.Go(func() error {
		defer stopKeeping()
		return loop.Run(working)
	})
	return g.Wait()
}

// mandateJournal is a journal that writes no step before it is certain that no other preemptd works; a step that is
// not written is not taken.
type mandateJournal struct {
	action.Journal
	mandate *mandate.Mandate
}

// Save waits while Slurm does not say which preemptd has the mandate.
func (s *mandateJournal) Save(ctx context.Context, a *journal.Action, text string) error {
	if err := s.mandate.Sure(ctx); err != nil {
		return err
	}
	return s.Journal.Save(ctx, a, text)
}

// mandateExecutor carries actions out until held ends, and stops then at once.
type mandateExecutor struct {
	reconcile.Executor
	leading context.Context
}

// Run carries out the action, as far as possible.
func (t *mandateExecutor) Run(ctx context.Context, a journal.Action) (journal.Action, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.leading, stop)()
	return t.Executor.Run(ctx, a)
}
