// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/api"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// desk is where people ask, while this preemptd works: one that waits for the lease leaves
// the port to whoever has it.
type desk struct {
	*control
	wake func() // of the loop, once it has ticked

	trying chan struct{} // has one who tries policies

	mu   sync.Mutex
	last *seen // nil: it has not ticked
}

// seen is what the loop told last.
type seen struct {
	decision reconcile.Decision
	snapshot *sdk.Snapshot
}

// tell is called by the loop after each tick.
func (d *desk) tell(decision reconcile.Decision, s *sdk.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = &seen{decision, s}
}

func (d *desk) seen() *seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// state is what people may know of the loop.
func (d *desk) state() api.State {
	now := api.State{Policies: d.policies.status(d.cfg.Load().Policies)}
	if last := d.seen(); last != nil {
		now.Ticked, now.Problems = last.decision.Time, last.decision.Problems
		now.Jobs = func() []*rpc.Job { return jobs(last.snapshot) }
		now.Users = func(job int64) string {
			if j, ok := last.snapshot.Job(sdk.JobID(job)); ok {
				return j.User
			}
			return ""
		}
		now.Standing = last.standing
	}
	return now
}

// standing is how a job does, as it was seen last.
func (s *seen) standing(job int64) *rpc.Standing {
	j, ok := s.snapshot.Job(sdk.JobID(job))
	if !ok {
		return nil
	}
	m := &rpc.Standing{
		Tier: j.Tier.String(), Promised: j.Promised, Fraction: j.Fraction, Counted: durationpb.New(j.Counted),
		Requested: int32(j.Request), Gpus: int32(j.GPUs), Least: int32(j.MinGPUs), Action: j.Action, //nolint:gosec // GPUs of a job
	}
	for _, w := range s.decision.Waiting {
		if w.Job == j.ID {
			m.Waits = w.Why
		}
	}
	return m
}

// serve listens until ctx ends, and has the page take requests meanwhile. A port that is
// taken, for one by a preemptd that hangs and has lost the lease, is waited for: what
// policies want and what is under way goes on.
func (d *desk) serve(ctx context.Context) {
	cfg := d.cfg.Load()
	if cfg.Listen == "" {
		return
	}
	server := api.New(d.options(cfg))
	d.page.set(func(s *web.State) { s.Requests = server })
	defer d.page.set(func(s *web.State) { s.Requests = nil })
	for {
		err := d.listen(ctx, cfg, server)
		if ctx.Err() != nil {
			return
		}
		d.log.Error("people cannot ask", "listen", cfg.Listen, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

func (d *desk) options(cfg *config.Config) api.Options {
	opt := api.Options{
		Version: version, Cluster: d.cluster, Journal: d.journal, Slurm: d.slurm,
		Operators: cfg.Operators, Programs: api.Programs{Sacctmgr: cfg.Sacctmgr, Scontrol: cfg.Scontrol}, State: d.state, Log: d.log,
		Snapshot: d.snapshot, Try: d.try,
		Wake: func() {
			if d.seen() != nil { // else its first tick will find what was asked for
				d.wake()
			}
		},
	}
	if d.page.wanted {
		opt.Token = d.page.token
	}
	return opt
}

func (d *desk) listen(ctx context.Context, cfg *config.Config, server *api.Server) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	gated := server.Gated(munge.Programs{Socket: cfg.MungeSocket})
	d.log.Info("listening", "address", l.Addr().String())
	defer context.AfterFunc(ctx, gated.Stop)() // who watches is told; the action goes on
	return gated.Serve(l)
}
