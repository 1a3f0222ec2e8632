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
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/api"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// requestServer answers people while this preemptd works: a preemptd that waits for the mandate
// leaves the port to the holder of the mandate.
type requestServer struct {
	*controller
	wake func() // of the loop, after its first tick

	trying chan struct{} // full while a user tries policies

	mu   sync.Mutex
	last *lookResult // nil: the loop has not ticked
}

// lookResult is the loop's last decision and snapshot.
type lookResult struct {
	decision reconcile.Decision
	snapshot *sdk.Snapshot
}

// setDecision is called by the loop after each tick.
func (d *requestServer) setDecision(decision reconcile.Decision, s *sdk.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = &lookResult{decision, s}
}

func (d *requestServer) latestLook() *lookResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// apiState is the part of the loop's state that people may know.
func (d *requestServer) apiState() api.State {
	now := api.State{Policies: d.policies.collectStatus(d.cfg.Load().Policies)}
	if last := d.latestLook(); last != nil {
		now.Ticked, now.Problems = last.decision.Time, last.decision.Problems
		now.Unkept = last.snapshot.UnkeptPromises
		now.Jobs = func() []*rpc.Job { return jobMessages(last.snapshot) }
		now.Users = func(job int64) string {
			if j, ok := last.snapshot.Job(sdk.JobID(job)); ok {
				return j.User
			}
			return ""
		}
		now.Standing = last.standingOf
	}
	return now
}

// standingOf is the state of a job at the last look.
func (s *lookResult) standingOf(job int64) *rpc.Standing {
	j, ok := s.snapshot.Job(sdk.JobID(job))
	if !ok {
		return nil
	}
	holds := j.GPUs
	if j.State == sdk.Waiting || j.State == sdk.Held { // then they are the GPUs that the job waits for
		holds = 0
	}
	m := &rpc.Standing{
		Tier: j.Tier.String(), Promised: j.Promised, Fraction: j.Fraction, Counted: durationpb.New(j.Counted),
		Requested: int32(j.Request), Gpus: int32(holds), Leased: int32(j.Leased), Least: int32(j.MinGPUs), Action: j.Action, //nolint:gosec // GPUs of a job
		Infeasible: plan.WhyInfeasible(s.snapshot, j),
	}
	for _, w := range s.decision.Waiting {
		if w.Job == j.ID {
			m.Waits = w.Why
		}
	}
	return m
}

// serveRequests listens until ctx ends, and has the page take requests meanwhile. While the port is taken, for
// example by a preemptd that hangs and has lost the mandate, serveRequests waits for the port: decisions and actions go
// on.
func (d *requestServer) serveRequests(ctx context.Context) {
	cfg := d.cfg.Load()
	if cfg.Listen == "" {
		return
	}
	server := api.New(d.apiOptions(cfg))
	d.page.changeState(func(s *web.State) { s.Requests = server })
	defer d.page.changeState(func(s *web.State) { s.Requests = nil })
	for {
		err := d.listenAndServe(ctx, cfg, server)
		if ctx.Err() != nil {
			return
		}
		d.log.Error("people cannot ask", "listen", cfg.Listen, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
	}
}

func (d *requestServer) apiOptions(cfg *config.Config) api.Options {
	sizes := d.jobSizes(d.newProxyds(cfg))
	sizes.WhySwapped = d.whySwapped
	opt := api.Options{
		Version: version, Cluster: d.cluster, Journal: d.journal, Slurm: d.slurm,
		Operators: cfg.Operators, Programs: api.Programs{Sacctmgr: cfg.Sacctmgr, Scontrol: cfg.Scontrol}, State: d.apiState, Log: d.log,
		Snapshot: d.encodedSnapshot, Try: d.tryPolicies,
		CheckSize: func(ctx context.Context, job *slurmrest.Job, kind string, args action.Args) error {
			return sizes.CheckAction(ctx, job, kind, args, kind == "resize")
		},
		UsableGPUs: sizes.UsableGPUs,
		Doctor: func(ctx context.Context) []*rpc.Finding {
			return append([]*rpc.Finding{d.checkConfiguration()}, d.examineController().Examine(ctx)...)
		},
		Rights: func(ctx context.Context) error { return d.examineController().Rights(ctx) }, Host: hostName(),
		Proxyds: d.nodes.statusMessage,
		Wake: func() {
			if d.latestLook() != nil { // else its first tick will find the new action
				d.wake()
			}
		},
	}
	if d.page.wanted {
		opt.Token = d.page.makeToken
	}
	return opt
}

func (d *requestServer) listenAndServe(ctx context.Context, cfg *config.Config, server *api.Server) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	gated := server.Gated(munge.Programs{Socket: cfg.MungeSocket})
	d.log.Info("listening", "address", l.Addr().String())
	defer context.AfterFunc(ctx, gated.Stop)() // users that watch are told; the action goes on
	return gated.Serve(l)
}
