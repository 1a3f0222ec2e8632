// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// policyConfigs are the policies that are configured, in their order, with their settings as
// they are on disk now. All that is wrong is reported at once.
func policyConfigs(cfg *config.Config) ([]policy.Config, error) {
	var all []policy.Config
	var errs []error
	for _, name := range cfg.Policies {
		c := policy.Config{
			Name: name, Path: filepath.Join(cfg.Policy.Folder, "sing-policy-"+name),
			Timeout: cfg.Policy.Timeout, Memory: int64(cfg.Policy.Memory),
		}
		var err error
		if c.Settings, err = policySettings(filepath.Join(cfg.Policy.Settings, name+".yaml")); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", name, err))
		}
		if st, err := os.Stat(c.Path); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", name, err))
		} else if st.Mode()&0o111 == 0 || !st.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("policy %s: %s is no program", name, c.Path))
		}
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

// policySettings reads a policy's YAML and returns it as JSON; nothing if there is none.
func policySettings(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := yaml.Unmarshal(raw, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if settings == nil {
		return nil, nil
	}
	out, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// policies are the processes of policies, as the configuration has them.
type policies struct {
	log *slog.Logger

	mu   sync.Mutex
	all  map[string]*policy.Policy
	said string // of what is wrong with them, last
}

func newPolicies(log *slog.Logger) *policies {
	return &policies{log: log, all: map[string]*policy.Policy{}}
}

// now returns the policies as they are configured now. Settings that cannot be read are
// said, and the policy goes on with those that it has.
func (p *policies) now(cfg *config.Config) []reconcile.Named {
	p.mu.Lock()
	defer p.mu.Unlock()
	configs, err := policyConfigs(cfg)
	if said := fmt.Sprint(err); said != p.said {
		p.said = said
		if err != nil {
			p.log.Warn("policies", "error", err)
		}
	}
	var named []reconcile.Named
	for _, c := range configs {
		is := p.all[c.Name]
		switch {
		case is == nil:
			is = policy.New(c, p.log)
			p.all[c.Name] = is
		case err == nil:
			is.Configure(c)
		}
		named = append(named, reconcile.Named{Name: c.Name, Policy: is})
	}
	for name, is := range p.all {
		if !slices.Contains(cfg.Policies, name) {
			is.Close()
			delete(p.all, name)
		}
	}
	return named
}

// status says how the policies do, in the order of names.
func (p *policies) status(names []string) []*rpc.Policy {
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

func (p *policies) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, is := range p.all {
		is.Close()
	}
}
