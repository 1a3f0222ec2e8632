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

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/leader"
	"github.com/singularity-slurm/singularity-slurm/preemptd/mandate"
	"github.com/singularity-slurm/singularity-slurm/preemptd/metrics"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/room"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// daemonOptions are what the command line and the environment say of a run, beside the configuration.
type daemonOptions struct {
	load      func() (*config.Config, error) // reads the configuration again
	dryRun    bool
	pauseFile string // see pauseVariable
	log       *slog.Logger
}

// controller is preemptd while it runs.
type controller struct {
	daemonOptions
	cfg      atomic.Pointer[config.Config]
	started  *config.Config // read at the start; of some keys the values stay until the next start
	slurm    *slurmrest.Client
	cluster  string
	journal  *journal.Journal
	mandate  *mandate.Mandate
	policies *policySet
	page     *webPage
	metrics  *metrics.Metrics

	checkpoints seenCheckpoints
	nodes       nodeHealth
}

// runDaemon is the daemon's life, top to bottom. The parts that runDaemon opens are closed in reverse.
func runDaemon(ctx context.Context, cfg *config.Config, options daemonOptions) error {
	c := &controller{daemonOptions: options, started: cfg}
	log := options.log
	c.cfg.Store(cfg)
	c.policies = newPolicies(log)
	c.metrics = metrics.New(metrics.Options{
		Version: version, Journal: cfg.Journal, Kinds: action.Kinds(), Ends: journal.Ends(), Policy: c.policies.collectMetrics, Proxyds: c.nodes.countProxyds,
	})
	for _, step := range []struct {
		name string
		do   func(*controller, context.Context) (func(), error)
	}{
		{"web", (*controller).openPage},
		{"metrics", (*controller).serveMetrics},
		{"slurmrestd", (*controller).reachSlurm},
		{"journal", (*controller).openJournal},
		{"policies", (*controller).startPolicies},
		{"reload", (*controller).listenReload},
	} {
		undo, err := step.do(c, ctx)
		if err != nil {
			return ignoreShutdown(ctx, fmt.Errorf("%s: %w", step.name, err))
		}
		if undo != nil {
			defer undo()
		}
	}
	notifySystemd(log, daemon.SdNotifyReady+"\nSTATUS=")
	log.Info("ready", "version", version, "cluster", c.cluster, "dry_run", c.dryRun)
	err := c.runWithJournal(ctx)
	notifySystemd(log, daemon.SdNotifyStopping)
	log.Info("stopped; jobs and Slurm go on")
	return err
}

func notifySystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("sd_notify", "error", err)
	}
}

// retryInterval is the time between two requests to a slurmrestd that does not answer, and between two tries to listen.
const retryInterval = 2 * time.Second

// slurmClientConfig returns how the configuration has Slurm be asked.
func slurmClientConfig(cfg *config.Config) slurmrest.Config {
	options := slurmrest.Config{Address: cfg.Slurmrestd, Timeout: time.Minute}
	if cfg.TokenFile != "" {
		options.Token = slurmrest.TokenFile(cfg.TokenFile, cfg.TokenUser)
	}
	if cfg.Scontrol != "" {
		options.Scontrol = slurmrest.ExecScontrol{Path: cfg.Scontrol}
	}
	return options
}

// reachSlurm makes the client, and waits until Slurm has told the name of this cluster.
func (c *controller) reachSlurm(ctx context.Context) (func(), error) {
	options := slurmClientConfig(c.cfg.Load())
	options.Observe = c.countRequest
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
		// `systemctl start` returns, and `systemctl status` shows which service preemptd waits for.
		notifySystemd(c.log, daemon.SdNotifyReady+"\nSTATUS=waits for slurmrestd: "+err.Error())
		select {
		case <-ctx.Done():
			c.slurm.Close()
			return nil, ctx.Err()
		case <-time.After(retryInterval):
		}
	}
	for _, route := range c.slurm.RequeueRoutes(ctx) {
		c.log.Debug("requeue", "route", route.String())
	}
	c.page.changeState(func(s *web.State) {
		s.Cluster, s.Slurm = c.cluster, func(ctx context.Context) error { return pingSlurm(ctx, c.slurm) }
		s.Useful, s.Proxyds, s.Checkpoints, s.Obstacles = c.metrics.UsefulDays, c.nodes.pageList, c.checkpoints.ofJob, c.fetchObstacles
		s.Rights = func(ctx context.Context) error { return c.examineController().Rights(ctx) }
	})
	return c.slurm.Close, nil
}

func (c *controller) openJournal(ctx context.Context) (func(), error) {
	var err error
	if c.journal, err = journal.Open(ctx, c.cfg.Load().Journal, c.cluster); err != nil {
		return nil, err
	}
	c.mandate = mandate.New(c.slurm, hostName(), c.journal.ID())
	c.page.changeState(func(s *web.State) { s.Journal = c.journal })
	return func() {
		c.page.changeState(func(s *web.State) { s.Journal = nil })
		if err := c.journal.Close(); err != nil {
			c.log.Error("cannot close the journal", "error", err)
		}
	}, nil
}

func (c *controller) startPolicies(context.Context) (func(), error) {
	c.page.changeState(func(s *web.State) {
		s.Policies = func() []*rpc.Policy { return c.policies.collectStatus(c.cfg.Load().Policies) }
	})
	return c.policies.closeAll, nil
}

// listenReload has SIGHUP read the configuration again. A wrong configuration has no effect.
func (c *controller) listenReload(ctx context.Context) (func(), error) {
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
				c.reloadConfig()
			}
		}
	}()
	return func() { signal.Stop(hup); cancel(); <-ended }, nil
}

func (c *controller) reloadConfig() {
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

// runWithJournal waits for the journal's mandate, and works while it has the mandate.
func (c *controller) runWithJournal(ctx context.Context) error {
	if c.dryRun {
		c.page.setRole(web.DryRun, "")
		ended := c.startPolling(ctx)
		defer ended()
		return c.newLoop(ctx).Run(ctx)
	}
	for {
		err := c.journal.Await(ctx, func(m journal.Mandate) { c.showWaiting(m.Name) })
		if err != nil {
			return ignoreShutdown(ctx, err)
		}
		if err = c.holdMandate(ctx); !errors.Is(err, journal.ErrLost) {
			return err
		}
		c.log.Warn("stopped working", "error", err)
	}
}

// ignoreShutdown is err, or nil if the daemon was asked to stop.
func ignoreShutdown(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// newLoop makes the loop. The loop's work ends with held.
func (c *controller) newLoop(held context.Context) *reconcile.Loop {
	cfg := c.cfg.Load()
	proxyds := c.newProxyds(cfg)
	return &reconcile.Loop{
		Observer: c.nodes.wrapObserver(c.checkpoints.wrapObserver(&cluster.Watch{Slurm: c.slurm, Proxyd: proxyds, Led: c.nodes.ledJobs})),
		Executor: &mandateExecutor{leading: held, Executor: &action.Runner{
			Slurm: c.slurm, Proxyd: proxyds, Sizes: c.jobSizes(proxyds), LeaseQOS: func() string { return c.cfg.Load().LeaseQOS },
			Journal:  newPausingJournal(&mandateJournal{Journal: c.journal, mandate: c.mandate}, c.pauseFile, c.log),
			Patience: action.Patience{Checkpoint: cfg.Patience.Checkpoint, Leave: cfg.Patience.Leave, Start: cfg.Patience.Start},
		}},
		Rooms:   &room.Keeper{Slurm: c.slurm, Log: c.log},
		Journal: c.journal, Commenter: c.slurm, Settings: c.loopSettings, Log: c.log, DryRun: c.dryRun, Grace: cfg.Grace,
		OnDecision: c.onDecision, OnTick: c.metrics.Ticked, OnActionEnd: c.countAction,
	}
}

// newProxyds makes the Finder that reaches the nodes' proxyds.
func (c *controller) newProxyds(cfg *config.Config) *leader.Finder {
	return &leader.Finder{Node: c.slurm.Node, Port: cfg.ProxydPort, Here: hostName(), Coder: munge.Programs{Socket: cfg.MungeSocket}}
}

// jobSizes says which sizes jobs can have.
func (c *controller) jobSizes(proxyds *leader.Finder) *action.Sizes {
	return &action.Sizes{Slurm: c.slurm, Proxyd: proxyds, Journal: c.journal}
}

// hostName is this host's name, as Slurm has it.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "preemptd"
	}
	host, _, _ = strings.Cut(host, ".")
	return host
}

// onDecision passes on the decision of a tick.
func (c *controller) onDecision(d reconcile.Decision, s *sdk.Snapshot) {
	c.page.showDecision(d, s)
	c.countDecision(d, s)
}

// loopSettings are the settings that the loop asks for at each tick.
func (c *controller) loopSettings() reconcile.Settings {
	cfg := c.cfg.Load()
	set := settingsOf(cfg)
	set.Policies = c.withStopwatch(c.policies.readConfigured(cfg))
	return set
}

// settingsOf are the configuration's settings of decisions, without the policies.
func settingsOf(cfg *config.Config) reconcile.Settings {
	tiers := map[string]sdk.Tier{}
	for tier, names := range map[sdk.Tier][]string{sdk.Premium: cfg.Tiers.Premium, sdk.Standard: cfg.Tiers.Standard, sdk.Basic: cfg.Tiers.Basic} {
		for _, qos := range names {
			tiers[qos] = tier
		}
	}
	return reconcile.Settings{
		Interval: cfg.Interval, MaxActions: cfg.MaxActions, KeepRoom: cfg.KeepRoom, Retention: cfg.Retention, Tiers: tiers,
		Power: cluster.Power{Cap: float64(cfg.Power.Cap), Busy: float64(cfg.Power.Busy), Idle: float64(cfg.Power.Idle)},
		Rules: sdk.Rules{
			Window: cfg.Rules.Window, MinRun: cfg.Rules.MinRun, CoolDown: cfg.Rules.CoolDown,
			Promised: [sdk.Tiers]float64{
				sdk.Premium: float64(cfg.Promised.Premium) / 100, sdk.Standard: float64(cfg.Promised.Standard) / 100, sdk.Basic: float64(cfg.Promised.Basic) / 100,
			},
		},
	}
}
