// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// maxMonitors bounds the connections of monitors without a request, and the connections with a request that is answered.
const maxMonitors = 64

// serveMetrics listens for Prometheus, whether this preemptd works or waits.
func (c *controller) serveMetrics(ctx context.Context) (func(), error) {
	address := c.cfg.Load().Metrics.Address
	if address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil { // a failure is logged, and the daemon goes on
		c.log.Error("metrics are not served", "error", err)
		return nil, nil
	}
	c.log.Info("metrics", "address", l.Addr().String())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", c.metrics.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10}
	strangers.LimitServer(server, maxMonitors, maxMonitors)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.log.Error("metrics are not served", "error", err)
		}
	}()
	return func() { server.Close(); <-ended }, nil
}

// countDecision counts the decision of a tick.
func (c *controller) countDecision(d reconcile.Decision, s *sdk.Snapshot) {
	for i := range d.Accepted {
		a := &d.Accepted[i]
		c.metrics.Intent(a.Policy, a.Intent.Verb, string(a.Verdict))
	}
	for i := range d.Rejected {
		r := &d.Rejected[i]
		c.metrics.Rejected(r.Policy, r.Intent.Verb, string(r.Invariant))
	}
	c.metrics.Decided(s, len(d.Problems))
}

func (c *controller) countAction(a journal.Action) {
	c.metrics.Ended(a.Kind, string(a.State), a.Ended.Sub(a.Created))
}

func (c *controller) countRequest(e slurmrest.Exchange) {
	c.metrics.Requested(e.Method, e.Endpoint, outcomeOf(e.Err), e.Took)
}

// outcomeOf is the result of a request, in few words.
func outcomeOf(err error) string {
	switch {
	case err == nil, errors.Is(err, slurmrest.ErrNoChange):
		return "ok"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.Is(err, slurmrest.ErrUnreachable), errors.Is(err, slurmrest.ErrUncertain):
		return "unreachable"
	}
	return "refused"
}

// withStopwatch returns the policies, with the time of each answer counted.
func (c *controller) withStopwatch(all []chain.NamedPolicy) []chain.NamedPolicy {
	for i := range all {
		all[i].Policy = &stopwatch{all[i].Policy, all[i].Name, c}
	}
	return all
}

// stopwatch is a policy with a clock on its answers.
type stopwatch struct {
	chain.Policy
	name string
	*controller
}

func (w *stopwatch) Ask(ctx context.Context, s *policypb.Snapshot) ([]sdk.Intent, error) {
	began := time.Now()
	intents, err := w.Policy.Ask(ctx, s)
	w.metrics.Answered(w.name, time.Since(began))
	return intents, err
}
