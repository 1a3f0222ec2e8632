// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/cluster"
	"github.com/singularity-slurm/singularity-slurm/preemptd/health"
	"github.com/singularity-slurm/singularity-slurm/preemptd/leader"
	"github.com/singularity-slurm/singularity-slurm/preemptd/metrics"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	proxyd "github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// nodeHealth is how the nodes' proxyds are while this preemptd works.
type nodeHealth struct {
	seen   atomic.Pointer[[]slurmrest.Node] // by the loop
	poller atomic.Pointer[health.Poller]    // nil: another preemptd works
}

// wrapObserver returns an observer that also keeps which nodes it saw.
func (h *nodeHealth) wrapObserver(o reconcile.Observer) reconcile.Observer {
	return &nodeObserver{o, h}
}

type nodeObserver struct {
	reconcile.Observer
	kept *nodeHealth
}

// Look looks once.
func (o *nodeObserver) Look(ctx context.Context) (cluster.Observation, error) {
	seen, err := o.Observer.Look(ctx)
	var away *cluster.ProxydError
	if err == nil || errors.As(err, &away) {
		o.kept.seen.Store(&seen.Nodes)
	}
	return seen, err
}

// seenNodes is the nodes that the loop saw last.
func (h *nodeHealth) seenNodes() []health.Node {
	seen := h.seen.Load()
	if seen == nil {
		return nil
	}
	all := make([]health.Node, len(*seen))
	for i := range *seen {
		n := &(*seen)[i]
		all[i] = health.Node{Name: n.Name, Address: n.Address, Down: n.State.Base == "DOWN" || n.State.Has("NOT_RESPONDING")}
	}
	return all
}

// knownStates are the states of the nodes' proxyds.
func (h *nodeHealth) knownStates() []health.State {
	p := h.poller.Load()
	if p == nil {
		return nil
	}
	return p.Report()
}

// startPolling polls in the background; wait returns when the polling has ended, after ctx.
func (c *controller) startPolling(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() { c.pollProxyds(ctx, c.newProxyds(c.cfg.Load())) })
	return all.Wait
}

// pollProxyds asks the nodes' proxyds how they are until ctx ends.
func (c *controller) pollProxyds(ctx context.Context, proxyds *leader.Finder) {
	p := &health.Poller{
		Nodes: c.nodes.seenNodes, Log: c.log,
		Ask: func(ctx context.Context, n health.Node) (*proxyd.PingReply, error) {
			return proxyds.PingHealth(ctx, n.Name, n.Address)
		},
	}
	c.nodes.poller.Store(p)
	defer c.nodes.poller.Store(nil)
	p.Run(ctx)
}

// pageList are the proxyds for the page.
func (h *nodeHealth) pageList() []web.Proxyd {
	report := h.knownStates()
	all := make([]web.Proxyd, len(report))
	for i := range report {
		s := &report[i]
		is := s.Reply.GetHealth()
		all[i] = web.Proxyd{
			Node: s.Node, Asked: !s.Asked.IsZero(), Answers: s.Answers, Since: s.Since, Heard: s.Heard, Version: s.Reply.GetVersion(), Problem: s.Problem,
			Says: is != nil, Store: web.Space{Size: is.GetStore().GetSize(), Free: is.GetStore().GetFree()},
			Stage: web.Space{Size: is.GetStage().GetSize(), Free: is.GetStage().GetFree()}, Devices: is.GetDevices(), Capsules: int(is.GetCapsules()),
		}
	}
	return all
}

// ledJobs are the running jobs that nodes lead, as the nodes that answer have looked at them last.
func (h *nodeHealth) ledJobs() map[int64]cluster.LedRun {
	all := map[int64]cluster.LedRun{}
	for _, s := range h.knownStates() {
		if !s.Answers {
			continue
		}
		for _, j := range s.Reply.GetHealth().GetJobs() {
			all[int64(j.GetJob())] = cluster.LedRun{Restarts: int64(j.GetRun()), Obstacle: j.GetObstacle()}
		}
	}
	return all
}

// maxExamples is how many nodes singctl status names.
const maxExamples = 5

// statusMessage is the proxyds' part of singctl status; nil: not known.
func (h *nodeHealth) statusMessage() *rpc.Proxyds {
	report := h.knownStates()
	if len(report) == 0 {
		return nil
	}
	c := health.CountStates(report)
	m := &rpc.Proxyds{Nodes: int32(c.Nodes), Answer: int32(c.Answer), Silent: int32(c.Silent), Unsound: int32(c.Unsound)} //nolint:gosec // nodes of a cluster
	slices.SortStableFunc(report, func(a, b health.State) int { return b.Since.Compare(a.Since) })
	for i := range report {
		s := &report[i]
		text := s.Problem
		if !s.Asked.IsZero() && !s.Answers {
			text = "proxyd does not answer since " + s.Since.Format(time.DateTime)
			if s.Heard.IsZero() {
				text = "proxyd has not answered yet"
			}
		}
		if text == "" {
			continue
		}
		if len(m.Examples) == maxExamples {
			break
		}
		m.Examples = append(m.Examples, fmt.Sprintf("%s: %s", s.Node, text))
	}
	return m
}

// countProxyds counts the proxyds for Prometheus.
func (h *nodeHealth) countProxyds() metrics.Proxyds {
	c := health.CountStates(h.knownStates())
	return metrics.Proxyds{
		Unasked: c.Nodes - c.Answer - c.Silent, Sound: c.Answer - c.Unsound, Unsound: c.Unsound, Silent: c.Silent, Capsules: c.Capsules, Versions: c.Versions,
		Known: c.Nodes > 0, StoreKnown: c.LeastFree != nil, StoreFree: c.LeastFree.GetFree(), StoreSize: c.LeastFree.GetSize(),
	}
}
