// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge

import (
	"context"
	"net"
	"slices"
	"sync"
)

// The caller is known only when munged has decoded a credential, which takes a process. So a user
// that opens many connections could keep munged, and all other users, busy. Until a credential is
// decoded, turns are taken by host, and among the connections of a host in turn: a user that
// floods makes other users of the same host wait for a round. A connection on which a daemon has
// been vouched for is a daemon's from then on (connections.go); such connections go first, and have
// places of their own.
const (
	atOnce    = 8 // unmunge processes side by side; more would only wait for munged's threads
	forOthers = 6 // of them, for connections that are not known as a daemon's
)

// turns hands out the places of unmunge processes. It is safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	busy    int          // places taken
	others  int          // of them, by connections that are not known as a daemon's
	daemons []*turn      // that wait, first come first served
	hosts   []*hostTurns // that have waiting requests; the first is next
}

type hostTurns struct {
	host  string
	conns []*connTurns // the first is next
}

type connTurns struct {
	remote  string
	waiting []*turn
}

// turn is a request that waits.
type turn struct {
	daemon bool
	comes  chan struct{} // closed when the request has a place; protected by turns.mu
}

func newTurns() *turns { return &turns{} }

// waitForPlace returns when a request that came by a connection, which may be known as a daemon's,
// has a place. The caller must call the returned function.
func (t *turns) waitForPlace(ctx context.Context, remote string, daemon bool) (done func(), err error) {
	t.mu.Lock()
	w := &turn{daemon: daemon, comes: make(chan struct{})}
	t.enqueueTurn(w, remote)
	t.giveFreePlaces()
	t.mu.Unlock()
	select {
	case <-w.comes:
		return func() { t.leaveQueue(w) }, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.comes: // meanwhile
		t.freePlace(w)
		t.giveFreePlaces()
	default:
		t.removeTurn(w)
	}
	return nil, ctx.Err()
}

func (t *turns) enqueueTurn(w *turn, remote string) {
	if w.daemon {
		t.daemons = append(t.daemons, w)
		return
	}
	name, _, err := net.SplitHostPort(remote)
	if err != nil {
		name = remote
	}
	i := slices.IndexFunc(t.hosts, func(h *hostTurns) bool { return h.host == name })
	if i < 0 {
		i = len(t.hosts)
		t.hosts = append(t.hosts, &hostTurns{host: name})
	}
	h := t.hosts[i]
	k := slices.IndexFunc(h.conns, func(c *connTurns) bool { return c.remote == remote })
	if k < 0 {
		k = len(h.conns)
		h.conns = append(h.conns, &connTurns{remote: remote})
	}
	c := h.conns[k]
	c.waiting = append(c.waiting, w)
}

// giveFreePlaces gives the free places to waiting requests. The caller holds mu.
func (t *turns) giveFreePlaces() {
	for t.busy < atOnce && len(t.daemons) > 0 {
		w := t.daemons[0]
		t.daemons = t.daemons[1:]
		t.givePlace(w)
	}
	for t.busy < atOnce && t.others < forOthers && len(t.hosts) > 0 {
		h := t.hosts[0]
		c := h.conns[0]
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		if h.conns = h.conns[1:]; len(c.waiting) > 0 {
			h.conns = append(h.conns, c)
		}
		if t.hosts = t.hosts[1:]; len(h.conns) > 0 {
			t.hosts = append(t.hosts, h)
		}
		t.givePlace(w)
	}
}

func (t *turns) givePlace(w *turn) {
	t.busy++
	if !w.daemon {
		t.others++
	}
	close(w.comes)
}

func (t *turns) freePlace(w *turn) {
	t.busy--
	if !w.daemon {
		t.others--
	}
}

func (t *turns) leaveQueue(w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freePlace(w)
	t.giveFreePlaces()
}

// removeTurn takes out a request that waits no more. The caller holds mu.
func (t *turns) removeTurn(w *turn) {
	is := func(o *turn) bool { return o == w }
	t.daemons = slices.DeleteFunc(t.daemons, is)
	for _, h := range t.hosts {
		for _, c := range h.conns {
			c.waiting = slices.DeleteFunc(c.waiting, is)
		}
		h.conns = slices.DeleteFunc(h.conns, func(c *connTurns) bool { return len(c.waiting) == 0 })
	}
	t.hosts = slices.DeleteFunc(t.hosts, func(h *hostTurns) bool { return len(h.conns) == 0 })
}
