// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/metrics"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// policySite has the policies of the configuration.
func policySite(cfg *config.Config) policy.Site {
	return policy.Site{
		Folder: cfg.Policy.Folder, Settings: cfg.Policy.Settings,
		Timeout: cfg.Policy.Timeout, Memory: int64(cfg.Policy.Memory),
	}
}

// policySet are the processes of policies, as the configuration has them.
type policySet struct {
	log *slog.Logger

	mu   sync.Mutex
	all  map[string]*policy.Policy
	said string // the error about them that was logged last
}

func newPolicies(log *slog.Logger) *policySet {
	return &policySet{log: log, all: map[string]*policy.Policy{}}
}

// readConfigured returns the policies as they are configured now. Settings that cannot be read are
// logged, and the policy keeps its settings.
func (p *policySet) readConfigured(cfg *config.Config) []chain.NamedPolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	configs, err := policySite(cfg).Configs(cfg.Policies)
	if said := fmt.Sprint(err); said != p.said {
		p.said = said
		if err != nil {
			p.log.Warn("policies are not as configured", "error", err)
		}
	}
	var named []chain.NamedPolicy
	for _, c := range configs {
		is := p.all[c.Name]
		switch {
		case is == nil:
			is = policy.New(c, p.log)
			p.all[c.Name] = is
		case err == nil:
			is.Configure(c)
		}
		named = append(named, chain.NamedPolicy{Name: c.Name, Policy: is})
	}
	for name, is := range p.all {
		if !slices.Contains(cfg.Policies, name) {
			is.Close()
			delete(p.all, name)
		}
	}
	return named
}

// collectStatus says how the policies do, in the order of names.
func (p *policySet) collectStatus(names []string) []*rpc.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*rpc.Policy
	for _, name := range names {
		one := &rpc.Policy{Name: name}
		if is := p.all[name]; is != nil {
			st := is.Status()
			one.Running, one.Problem = st.PID != "", st.Problem
			one.Starts, one.Failures = int32(st.Starts), int32(st.Failures) //nolint:gosec // they count processes
			if !st.Until.IsZero() {
				one.Until = timestamppb.New(st.Until)
			}
		}
		all = append(all, one)
	}
	return all
}

// collectMetrics say how the policies do, for Prometheus.
func (p *policySet) collectMetrics() []metrics.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]metrics.Policy, 0, len(p.all))
	for name, is := range p.all {
		st := is.Status()
		one := metrics.Policy{Name: name, Running: st.PID != "", Starts: st.Starts, Failures: map[string]int{}}
		for _, kind := range policy.Kinds() {
			one.Failures[string(kind)] = st.Kinds[kind]
		}
		all = append(all, one)
	}
	return all
}

func (p *policySet) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, is := range p.all {
		is.Close()
	}
}
