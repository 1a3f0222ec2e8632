// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/action"
	"github.com/singularity-slurm/singularity-slurm/preemptd/racks"
	"github.com/singularity-slurm/singularity-slurm/preemptd/reconcile"
	"github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// webPage is the web page. Its socket listens before any other work begins, so that the page shows for which other
// part preemptd waits.
type webPage struct {
	*web.Server
	keys   *web.Keys
	wanted bool // by the configuration

	mu      sync.Mutex
	address string // in the form that a browser takes
	now     web.State
}

// openPage starts the page, if the configuration wants a page. While the port is taken, for example by the preemptd
// that works, openPage waits for the port: no other part depends on the page.
func (c *controller) openPage(ctx context.Context) (func(), error) {
	cfg := c.cfg.Load()
	p := &webPage{keys: web.NewKeys(), wanted: cfg.Web.Address != "", now: web.State{Role: web.Starts, Interval: cfg.Interval}}
	places, err := racks.Load(cfg.Web.Racks)
	if err != nil {
		c.log.Warn("the web page shows no racks", "error", err)
	}
	p.Server = web.New(web.Options{Version: version, State: p.currentState, Keys: p.keys, Hosts: cfg.Web.Hosts, Racks: places, StepWords: action.StepWords, Log: c.log})
	c.page = p
	if !p.wanted {
		return nil, nil
	}
	var certificate *web.Certificate
	if cfg.Web.TLSCert != "" {
		var err error
		if certificate, err = web.LoadCertificate(cfg.Web.TLSCert, cfg.Web.TLSKey); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { c.servePageRetrying(ctx, cfg.Web.Address, certificate) })
	return func() { cancel(); all.Wait() }, nil
}

// servePageRetrying serves the page until ctx ends. An obstacle is logged once: a standby has the same
// port as the working preemptd, and waits for that too.
func (c *controller) servePageRetrying(ctx context.Context, address string, certificate *web.Certificate) {
	said := ""
	for {
		err := c.servePage(ctx, address, certificate)
		if ctx.Err() != nil {
			return
		}
		if now := fmt.Sprint(err); now != said {
			said = now
			c.log.Warn("the web page is not served", "address", address, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryInterval):
		}
	}
}

func (c *controller) servePage(ctx context.Context, address string, certificate *web.Certificate) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	c.log.Info("web page", "address", l.Addr().String(), "tls", certificate != nil)
	c.page.setAddress(l.Addr(), certificate != nil)
	return c.page.Serve(ctx, l, certificate)
}

// setAddress notes where the page is.
func (p *webPage) setAddress(a net.Addr, tls bool) {
	u := url.URL{Scheme: "http", Host: a.String(), Path: "/"}
	if tls {
		u.Scheme = "https"
	}
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		if host, err := os.Hostname(); err == nil {
			u.Host = net.JoinHostPort(host, strconv.Itoa(t.Port))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = u.String()
}

// currentState is the page's state at each request.
func (p *webPage) currentState() web.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// changeState changes the page's state.
func (p *webPage) changeState(change func(*web.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.now)
}

// setRole makes the page show preemptd's role, and which other preemptd has the mandate that this preemptd waits for.
func (p *webPage) setRole(is web.Role, holder string) {
	if is == web.Waits {
		p.Forget()
	}
	p.changeState(func(s *web.State) { s.Role, s.Holder = is, holder })
}

// makeToken makes the token by which a browser acts as a user.
func (p *webPage) makeToken(uid uint32) *rpc.TokenReply {
	token, until := p.keys.Sign(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	return &rpc.TokenReply{Token: token, Until: timestamppb.New(until), Page: p.address}
}

// showDecision shows the decision of a tick.
func (p *webPage) showDecision(d reconcile.Decision, s *sdk.Snapshot) {
	if !p.wanted {
		return
	}
	t := web.Tick{Snapshot: s}
	for _, c := range d.Accepted {
		t.Decisions = append(t.Decisions, web.Decision{
			Policy: c.Policy, Job: int64(c.Intent.Job), What: c.Intent.String(), Reason: c.Intent.Reason, Outcome: c.Outcome,
		})
	}
	for _, r := range d.Rejected {
		t.Decisions = append(t.Decisions, web.Decision{
			Policy: r.Policy, Job: int64(r.Intent.Job), What: r.Intent.String(), Reason: r.Intent.Reason,
			Rejected: true, Outcome: r.Detail, Invariant: string(r.Invariant),
		})
	}
	p.Tell(t)
}

var errNoSlurmctld = errors.New("slurmctld does not answer it")

// pingSlurm asks whether slurmrestd answers, and a slurmctld behind slurmrestd.
func pingSlurm(ctx context.Context, slurm *slurmrest.Client) error {
	controllers, err := slurm.Ping(ctx)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	for _, c := range controllers {
		if c.Up {
			return nil
		}
	}
	return errNoSlurmctld
}
