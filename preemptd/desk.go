// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/api"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// desk is where people ask, while this preemptd works: one that waits for the lease leaves
// the port to whoever has it.
type desk struct {
	*control
	wake func() // of the loop, once it has ticked

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
		now.Users = func(job int64) string {
			if j, ok := last.snapshot.Job(sdk.JobID(job)); ok {
				return j.User
			}
			return ""
		}
	}
	return now
}

// serve listens until ctx ends. A port that is taken, for one by a preemptd that hangs and
// has lost the lease, is waited for: what policies want and what is under way goes on.
func (d *desk) serve(ctx context.Context) {
	cfg := d.cfg.Load()
	if cfg.Listen == "" {
		return
	}
	for {
		err := d.listen(ctx, cfg.Listen)
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

func (d *desk) listen(ctx context.Context, address string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	cfg := d.cfg.Load()
	server := api.NewServer(api.Options{
		Version: version, Cluster: d.cluster, Journal: d.journal, Slurm: d.slurm,
		Operators: cfg.Operators, Sacctmgr: cfg.Sacctmgr, State: d.state, Log: d.log,
		Wake: func() {
			if d.seen() != nil { // else its first tick will find what was asked for
				d.wake()
			}
		},
	}, munge.Programs{Socket: cfg.MungeSocket})
	d.log.Info("listening", "address", l.Addr().String())
	defer context.AfterFunc(ctx, server.Stop)() // who watches is told; the action goes on
	return server.Serve(l)
}
