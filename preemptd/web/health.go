// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

func serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "alive")
}

// check is a line of readyz.
type check struct {
	name string
	err  error
	said string // the text if there is no fault
}

var errNotYet = errors.New("not reached yet")

// serveReady says whether this preemptd could do its part, and if not, why.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	now := s.opt.State()
	checks := []check{s.checkRole(&now), checkJournal(r.Context(), &now), {name: "slurmrestd", err: s.slurm.pingOnce(r.Context(), now.Slurm), said: "answers"}}
	if now.Rights != nil {
		checks = append(checks, check{name: "rights", err: s.rights.pingOnce(r.Context(), now.Rights), said: "Slurm accepts its requests"})
	}
	if now.Role == Works || now.Role == DryRun {
		checks = append(checks, s.checkLoop(&now))
	}
	var text strings.Builder
	code := http.StatusOK
	for _, c := range checks {
		if c.err != nil {
			code, c.said = http.StatusServiceUnavailable, "not ready: "+c.err.Error()
		}
		fmt.Fprintf(&text, "%s: %s\n", c.name, strings.ReplaceAll(c.said, "\n", " "))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, text.String())
}

func (s *Server) checkRole(now *State) check {
	c := check{name: "role", said: string(now.Role)}
	switch {
	case now.Role == Starts:
		c.err = errors.New("it starts")
	case now.Holder != "":
		c.said += " for " + now.Holder
	}
	return c
}

func checkJournal(ctx context.Context, now *State) check {
	c := check{name: "journal", said: "open"}
	if now.Journal == nil {
		c.err = errNotYet
		return c
	}
	mandate, err := now.Journal.Mandate(ctx)
	c.err = err
	if err == nil && mandate.Name != "" {
		c.said = "open; the mandate is of " + mandate.Name
	}
	return c
}

// slow is after how many intervals without a successful look preemptd is not ready.
const slow = 10

func (s *Server) checkLoop(now *State) check {
	c := check{name: "loop"}
	last := s.currentSnapshot(now)
	if last == nil {
		c.err = errors.New("it has not seen the cluster yet")
		return c
	}
	ago := time.Since(last.Time).Round(time.Second)
	c.said = fmt.Sprintf("saw the cluster %s ago", ago)
	if ago > max(slow*now.Interval, time.Minute) {
		c.err = errors.New(c.said)
	}
	return c
}

// slurmrestdHealth remembers for a moment whether slurmrestd answers: requests to this port must not be
// able to keep slurmrestd busy.
type slurmrestdHealth struct {
	mu   sync.Mutex
	then time.Time
	err  error
}

const (
	pingHolds = 2 * time.Second
	pingTakes = 5 * time.Second
)

func (p *slurmrestdHealth) pingOnce(ctx context.Context, ping func(context.Context) error) error {
	if ping == nil {
		return errNotYet
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.then) < pingHolds {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTakes) // other requests wait for the same answer
	defer cancel()
	p.err = ping(ctx)
	p.then = time.Now()
	return p.err
}
