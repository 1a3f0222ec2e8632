// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/policypb"
)

// Config is a policy of a site.
type Config struct {
	Name     string   // the site's name for the policy: "tiers"
	Path     string   // of its program
	Args     []string //
	Settings []byte   // JSON, handed over unchanged
	Watch    []string // more files than its program that the policy reads: a change of any reloads the policy
	Timeout  time.Duration
	Memory   int64 // bytes that its process may write to; 0: no bound
}

// sameProcess reports whether all that the process can see is the same.
func (c *Config) sameProcess(o *Config) bool {
	return c.Path == o.Path && slices.Equal(c.Args, o.Args) && bytes.Equal(c.Settings, o.Settings) &&
		slices.Equal(c.Watch, o.Watch) && c.Memory == o.Memory
}

// How long a policy that fails rests: twice as long each time, until an answer.
const (
	firstRest = time.Second
	maxRest   = 5 * time.Minute
)

// Policy is a policy of a site, which lasts while its processes come and go. A Policy is safe for concurrent use, and
// asks a single question at a time: mu is held meanwhile.
type Policy struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	config  Config
	running *instance // or nil
	refused string    // why a change does not start, while the process before goes on
	files   string    // the fingerprint of its files at the last start, or attempt to start
	rest    time.Duration
	until   time.Time // the policy rests
	last    error     // why
	closed  bool
	output  *output // of the newest process

	noting sync.Mutex // taken last; no code waits under the lock
	status Status
}

// Status is how a policy does, for people.
type Status struct {
	Name     string
	Who      sdk.Description // as the process describes itself; empty until a process has started
	PID      string          // of its process; empty: there is no process
	Starts   int             // of processes
	Failures int             //
	Kinds    map[Kind]int    // the same failures, by kind
	Problem  string          // the present fault; empty: no fault
	Until    time.Time       // the end of the policy's rest; zero: the policy does not rest
}

// ErrClosed is the answer of a policy that was closed.
var ErrClosed = errors.New("the policy was closed")

// New makes a policy. Its process starts with the first question.
func New(c Config, log *slog.Logger) *Policy {
	return &Policy{config: c, log: log.With("policy", c.Name), now: time.Now, status: Status{Name: c.Name}}
}

// Configure gives the policy another configuration. If the change concerns its process, the next question starts
// another process, which takes over on success.
func (p *Policy) Configure(c Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.config.sameProcess(&c) {
		p.files = "" // no files have this fingerprint: the process is stale
	}
	p.config = c
}

// Ask asks for intents. The snapshot is not changed. An error is a *Failure, which may be wrapped in a *RestingError,
// or ctx's own: then there are no intents, and the rest of the daemon goes on.
func (p *Policy) Ask(ctx context.Context, pb *policypb.Snapshot) ([]sdk.Intent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if err := p.ensureRunning(ctx); err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.config.Name, err)
	}
	intents, sane, err := p.running.askIntents(ctx, p.config.Timeout, pb)
	switch {
	case err == nil:
		p.rest = 0
		p.changeStatus(func(s *Status) { s.Problem = p.refused })
	case ctx.Err() != nil:
		return nil, err
	default:
		err = p.noteFailure(err, sane)
	}
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.config.Name, err)
	}
	return intents, nil
}

// ensureRunning makes sure that there is a process to ask, of the files as they are now. Caller
// holds p.mu.
func (p *Policy) ensureRunning(ctx context.Context) error {
	if p.running != nil && !p.running.isAlive() {
		return p.noteFailure(p.running.explainFailure("wait", errors.New("it is gone")), false)
	}
	files := fileFingerprint(append([]string{p.config.Path}, p.config.Watch...))
	changed := files != p.files
	if p.running != nil && !changed {
		return nil
	}
	if !changed && p.now().Before(p.until) {
		return &RestingError{p.until, p.last}
	}
	next, err := startInstance(ctx, p.config, &output{log: p.log})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.files = files
	switch {
	case err == nil:
	case p.running == nil:
		return p.noteFailure(err, false)
	default: // the old process goes on
		p.log.Error("the changed policy does not start; the one before goes on", "error", err)
		p.refused = "changed, and the change does not start: " + err.Error()
		p.changeStatus(func(s *Status) { s.countFailure(err); s.Problem = p.refused })
		return nil
	}
	p.replaceInstance(next)
	return nil
}

// replaceInstance puts another process in the place of the running process. Caller holds p.mu.
func (p *Policy) replaceInstance(next *instance) {
	if p.running != nil {
		p.running.killProcess()
	}
	p.running, p.refused, p.output = next, "", next.output
	p.until = time.Time{}
	p.changeStatus(func(s *Status) {
		*s = Status{Name: s.Name, Who: next.who, PID: next.process.ID(), Starts: s.Starts + 1, Failures: s.Failures, Kinds: s.Kinds}
	})
	p.log.Info("policy started", "name", next.who.Name, "version", next.who.Version, "pid", next.process.ID())
}

// noteFailure notes a failure, and kills a process that is not sane. Caller holds p.mu.
func (p *Policy) noteFailure(err error, sane bool) error {
	p.changeStatus(func(s *Status) {
		s.countFailure(err)
		s.Problem = err.Error()
	})
	if sane {
		p.log.Error("policy cannot decide", "error", err)
		return err
	}
	if p.running != nil {
		p.running.killProcess()
		p.running = nil
	}
	p.rest = min(max(firstRest, 2*p.rest), maxRest)
	p.until, p.last = p.now().Add(p.rest), err
	p.changeStatus(func(s *Status) { s.PID, s.Until = "", p.until })
	p.log.Error("policy failed", "error", err, "rests", p.rest.String())
	return err
}

// countFailure counts a failure.
func (s *Status) countFailure(err error) {
	s.Failures++
	if f := (*Failure)(nil); errors.As(err, &f) {
		if s.Kinds == nil {
			s.Kinds = map[Kind]int{}
		}
		s.Kinds[f.Kind]++
	}
}

// changeStatus changes the status.
func (p *Policy) changeStatus(change func(*Status)) {
	p.noting.Lock()
	defer p.noting.Unlock()
	change(&p.status)
}

// Status says how the policy does, without waiting for a question under way.
func (p *Policy) Status() Status {
	p.noting.Lock()
	defer p.noting.Unlock()
	s := p.status
	s.Kinds = maps.Clone(s.Kinds)
	return s
}

// Close ends the policy's process, and may be called twice.
func (p *Policy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		p.running.killProcess()
		p.running = nil
		p.changeStatus(func(s *Status) { s.PID = "" })
	}
	p.closed = true
}

// Printed returns the lines that the policy wrote since it was asked last. All of them are there once
// the policy is closed; before, some may be under way.
func (p *Policy) Printed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.output == nil {
		return nil
	}
	return p.output.linesSaid()
}

// fileFingerprint is stat's answer about files, never empty.
func fileFingerprint(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", path, err)
			continue
		}
		fmt.Fprintf(&b, "%s: %d %d %v\n", path, info.Size(), info.ModTime().UnixNano(), fileIdentity(info))
	}
	return b.String()
}
