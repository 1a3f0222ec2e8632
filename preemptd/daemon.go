// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/leader"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// control is preemptd while it runs.
type control struct {
	cfg      atomic.Pointer[config.Config]
	load     func() (*config.Config, error)
	dryRun   bool
	log      *slog.Logger
	slurm    *slurmrest.Client
	cluster  string
	journal  *journal.Journal
	policies *policies
}

// runDaemon is the daemon's life, top to bottom. What it opens is closed in reverse.
func runDaemon(ctx context.Context, cfg *config.Config, load func() (*config.Config, error), dryRun bool, log *slog.Logger) error {
	c := &control{load: load, dryRun: dryRun, log: log}
	c.cfg.Store(cfg)
	for _, step := range []struct {
		name string
		do   func(*control, context.Context) (func(), error)
	}{
		{"slurmrestd", (*control).reachSlurm},
		{"journal", (*control).openJournal},
		{"policies", (*control).startPolicies},
		{"reload", (*control).listenReload},
	} {
		undo, err := step.do(c, ctx)
		if err != nil {
			return unlessEnded(ctx, fmt.Errorf("%s: %w", step.name, err))
		}
		if undo != nil {
			defer undo()
		}
	}
	notify(log, daemon.SdNotifyReady)
	log.Info("ready", "version", version, "cluster", c.cluster, "dry_run", dryRun)
	err := c.work(ctx)
	notify(log, daemon.SdNotifyStopping)
	log.Info("stopped; jobs and Slurm go on")
	return err
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("sd_notify", "error", err)
	}
}

// again is how long to wait for a slurmrestd that does not answer yet.
const again = 2 * time.Second

// reachSlurm makes the client, and waits until it is known which cluster this is.
func (c *control) reachSlurm(ctx context.Context) (func(), error) {
	cfg := c.cfg.Load()
	options := slurmrest.Config{Address: cfg.Slurmrestd, Timeout: time.Minute}
	if cfg.TokenFile != "" {
		options.Token = slurmrest.TokenFile(cfg.TokenFile, cfg.TokenUser)
	}
	if cfg.Scontrol != "" {
		options.Scontrol = slurmrest.ExecScontrol{Path: cfg.Scontrol}
	}
	var err error
	if c.slurm, err = slurmrest.New(options); err != nil {
		return nil, err
	}
	for {
		info, err := c.slurm.Cluster(ctx)
		if err == nil && info.Name == "" {
			err = errors.New("it does not say which cluster this is (slurmdbd is asked for that)")
		}
		if err == nil {
			c.cluster = info.Name
			break
		}
		c.log.Warn("slurmrestd does not answer", "error", err)
		select {
		case <-ctx.Done():
			c.slurm.Close()
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
	for _, route := range c.slurm.RequeueRoutes(ctx) {
		c.log.Debug("requeue", "route", route.String())
	}
	return c.slurm.Close, nil
}

func (c *control) openJournal(ctx context.Context) (func(), error) {
	var err error
	if c.journal, err = journal.Open(ctx, c.cfg.Load().Journal, c.cluster); err != nil {
		return nil, err
	}
	return func() {
		if err := c.journal.Close(); err != nil {
			c.log.Error("journal", "error", err)
		}
	}, nil
}

func (c *control) startPolicies(context.Context) (func(), error) {
	c.policies = newPolicies(c.log)
	return c.policies.close, nil
}

// listenReload has SIGHUP read the configuration again. One that is wrong changes nothing.
func (c *control) listenReload(ctx context.Context) (func(), error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
				c.reload()
			}
		}
	}()
	return func() { signal.Stop(hup); cancel(); <-ended }, nil
}

func (c *control) reload() {
	cfg, err := c.load()
	if err != nil {
		c.log.Error("the configuration stays as it was", "error", err)
		return
	}
	if keys := c.cfg.Load().NeedsRestart(cfg); len(keys) > 0 {
		c.log.Warn("takes effect at the next start", "keys", strings.Join(keys, ", "))
	}
	c.cfg.Store(cfg)
	c.log.Info("configuration read again")
}

// work waits for the lease, and works while it has it.
func (c *control) work(ctx context.Context) error {
	if c.dryRun {
		return c.loop().Run(ctx)
	}
	for {
		err := c.journal.Await(ctx, func(l journal.Lease) {
			c.log.Info("another preemptd works; waiting", "holder", l.Name)
			notify(c.log, "STATUS=waiting: "+l.Name+" works")
		})
		if err != nil {
			return unlessEnded(ctx, err)
		}
		c.log.Info("working")
		notify(c.log, "STATUS=working")
		err = c.hold(ctx)
		if !errors.Is(err, journal.ErrLost) {
			return err
		}
		c.log.Warn("stopped working", "error", err)
	}
}

// unlessEnded is err, or nothing if the daemon was asked to stop.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// hold works until ctx ends or the lease is lost, and listens to people meanwhile. The lease
// is kept until the last action has ended.
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
	loop := c.loop()
	desk := &desk{control: c, wake: loop.Wake}
	loop.Told = desk.tell
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

func (c *control) loop() *reconcile.Loop {
	cfg := c.cfg.Load()
	host, err := os.Hostname()
	if err != nil {
		host = "preemptd"
	}
	host, _, _ = strings.Cut(host, ".")
	proxyds := &leader.Finder{Node: c.slurm.Node, Port: cfg.ProxydPort, Here: host, Coder: munge.Programs{Socket: cfg.MungeSocket}}
	return &reconcile.Loop{
		Eyes: &cluster.Watch{Slurm: c.slurm, Proxyd: proxyds},
		Hands: &action.Runner{
			Slurm: c.slurm, Proxyd: proxyds, Journal: c.journal,
			Patience: action.Patience{Checkpoint: cfg.Patience.Checkpoint, Vacate: cfg.Patience.Vacate, Start: cfg.Patience.Start},
		},
		Journal: c.journal, Settings: c.settings, Log: c.log, DryRun: c.dryRun, Grace: cfg.Grace,
	}
}

// settings are what the loop asks for at each tick.
func (c *control) settings() reconcile.Settings {
	cfg := c.cfg.Load()
	tiers := map[string]sdk.Tier{}
	for tier, names := range map[sdk.Tier][]string{sdk.Premium: cfg.Tiers.Premium, sdk.Standard: cfg.Tiers.Standard, sdk.Basic: cfg.Tiers.Basic} {
		for _, qos := range names {
			tiers[qos] = tier
		}
	}
	return reconcile.Settings{
		Interval: cfg.Interval, MaxActions: cfg.MaxActions, Retention: cfg.Retention, Tiers: tiers, Policies: c.policies.now(cfg),
		Rules: sdk.Rules{
			Window: cfg.Rules.Window, MinRun: cfg.Rules.MinRun, CoolDown: cfg.Rules.CoolDown,
			Promised: [sdk.Tiers]float64{
				sdk.Premium: float64(cfg.Promised.Premium) / 100, sdk.Standard: float64(cfg.Promised.Standard) / 100, sdk.Basic: float64(cfg.Promised.Basic) / 100,
			},
		},
	}
}
