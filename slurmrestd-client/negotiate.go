// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// negotiation finds the newest version that both sides speak, and finds another when the server no
// longer knows that version. Readers take no lock; a single goroutine probes at a time, and
// goroutines that wait for the probe can give up with their context.
type negotiation struct {
	offers  []dialect // newest first
	current atomic.Pointer[peer]
	probing chan struct{} // holds a single token
}

// peer is the result of a negotiation: the server's version, release and cluster.
type peer struct {
	dialect
	release string // of Slurm, from the answer to the ping
	cluster string // "" over v0.0.38
}

func newNegotiation(offers []dialect) *negotiation {
	n := &negotiation{offers: offers, probing: make(chan struct{}, 1)}
	n.probing <- struct{}{}
	return n
}

// chooseDialects returns the dialects named, newest first; all for nil.
func chooseDialects(versions []string) ([]dialect, error) {
	if versions == nil {
		return dialects, nil
	}
	var offers []dialect
	for _, d := range dialects {
		if slices.Contains(versions, d.versionName()) {
			offers = append(offers, d)
		}
	}
	if len(offers) != len(versions) || len(offers) == 0 {
		return nil, fmt.Errorf("%q: want some of %s", versions, strings.Join(spokenVersions(dialects), ", "))
	}
	return offers, nil
}

func spokenVersions(all []dialect) []string {
	var names []string
	for _, d := range all {
		names = append(names, d.versionName())
	}
	return names
}

// currentPeer returns the server's version, and probes if no version is known.
func (c *Client) currentPeer(ctx context.Context) (*peer, error) {
	n := c.server
	if p := n.current.Load(); p != nil {
		return p, nil
	}
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("negotiate: %w", ctx.Err())
	case <-n.probing:
	}
	defer func() { n.probing <- struct{}{} }()
	if p := n.current.Load(); p != nil {
		return p, nil
	}
	p, err := c.probeDialects(ctx)
	if err != nil {
		return nil, fmt.Errorf("negotiate: %w", err)
	}
	n.current.Store(p)
	return p, nil
}

// forgetPeer makes the next request probe again, unless another request has found a new peer
// already.
func (n *negotiation) forgetPeer(stale *peer) { n.current.CompareAndSwap(stale, nil) }

// probeDialects pings each version, newest first. 404 means that the server does not serve the version; any
// other answer of Slurm's means that the server does. (22.05 checks the token before the path, so
// that a bad token is 401 for every version.)
func (c *Client) probeDialects(ctx context.Context) (*peer, error) {
	for _, d := range c.server.offers {
		a, err := c.exchangeObserved(ctx, getCall(d, "ping", "ping", ""), answerFields)
		var refused *Error
		switch {
		case errors.Is(err, errUnknownVersion):
			continue
		case errors.Is(err, ErrAuth):
			return nil, err
		case errors.As(err, &refused) && !refused.foreign: // slurmctld may be down, but slurmrestd serves the version
		case err != nil:
			return nil, err
		}
		return &peer{dialect: d, release: a.Release, cluster: a.Cluster}, nil
	}
	return nil, &UnsupportedError{
		Feature: "slurmrestd at " + c.cfg.Address,
		Needs:   "one of " + strings.Join(spokenVersions(c.server.offers), ", "),
		Found:   "none of them",
	}
}

// errUnknownVersion is a 404 of the router's, as opposed to Slurm's 404 about a job. The request
// was not carried out.
var errUnknownVersion = errors.New("the server does not serve this path")

// unknownVersion reports whether an answer is the router's: a path that the router does not know.
// Slurm's own 404s carry errors[].
func unknownVersion(status int, slurm bool) bool {
	return status == http.StatusNotFound && !slurm
}
