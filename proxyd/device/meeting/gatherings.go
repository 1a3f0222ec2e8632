// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

var (
	// ErrLeft means that a rank that had come went away before all were there.
	ErrLeft = errors.New("a rank left before all had come")
	// ErrDisagree means that ranks do not mean the same communicator: they state different sizes, or a rank
	// came twice.
	ErrDisagree = errors.New("ranks do not agree on the communicator")
)

// maxRanks is the size of the largest communicator of package collective.
const maxRanks = 1 << 16

// Rendezvous makes communicators for a device server. It is safe for concurrent use.
type Rendezvous interface {
	// NewID makes a communicator's identity.
	NewID() (ID, error)
	// Meet announces a rank of the communicator id, which has size ranks, and waits for the other ranks. Each rank
	// calls Meet once. All ranks get the same roster. If ctx is done first, or a rank leaves, or ranks disagree,
	// all get an error. An identity is good for a single communicator.
	Meet(ctx context.Context, id ID, size, rank int) (collective.Roster, error)

	// Assume gives the Rendezvous the number of its server among the job's servers. Unless id is nil, ranks with an
	// identity that the earlier server made are met here. Assume is called before all other methods.
	Assume(number int, id *Identity)
	// Identity returns the Identity that a later server passes to Assume to take the place of this server.
	Identity() Identity
	// Hold keeps communicators from being made: ranks come, and wait, even when all are there. Release lets them be
	// made again.
	Hold()
	Release()
	// Waits tells whether ranks with an identity still wait for other ranks. If they are met at another server, Waits
	// returns true.
	Waits(id ID) bool

	// Address is where the Rendezvous and the process's collective.Node are reached, in the form that Move takes. Each
	// life of a server has another address.
	Address() string
	// Move gives the present addresses of all of the job's servers, by their numbers. Ranks with an identity
	// that one of these servers has made meet at these addresses.
	Move(peers map[int]string) error
	// Again brings the servers together of a communicator that is to be made again. It fails when ctx is
	// done, with the names of the servers that did not come.
	Again(ctx context.Context, r Reconnection) (collective.Roster, error)
}

// gathering holds the ranks of a communicator that have come.
type gathering struct {
	addresses []string // by rank
	servers   []int    // by rank
	there     []bool
	missing   int
	over      chan struct{} // closed when all are there, or err is set
	nonce     [32]byte
	err       error
}

// gatherings holds the gatherings of a process.
type gatherings struct {
	mu       sync.Mutex
	open     map[string]*gathering // by the identity's nonce
	past     map[string]error      // how the latest gatherings ended: a rank that comes late must not wait
	old      []string              // keys of past, oldest first
	keptOpen bool                  // full gatherings stay open
}

// remembered bounds how many endings a process remembers.
const remembered = 4096

// enterRank adds a rank to the gathering of a nonce.
func (r *gatherings) enterRank(nonce []byte, h rankAnnouncement) (*gathering, error) {
	size, rank := h.size, h.rank
	if size < 1 || size > maxRanks || rank < 0 || rank >= size {
		return nil, fmt.Errorf("%w: rank %d of %d", ErrDisagree, rank, size)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err, over := r.past[string(nonce)]; over {
		return nil, fmt.Errorf("rank %d comes late: %w", rank, err)
	}
	g := r.open[string(nonce)]
	if g == nil {
		g = &gathering{
			addresses: make([]string, size), servers: make([]int, size), there: make([]bool, size), missing: size, over: make(chan struct{}),
		}
		rand.Read(g.nonce[:]) //nolint:errcheck // crypto/rand's Read never fails
		if r.open == nil {
			r.open = make(map[string]*gathering)
		}
		r.open[string(nonce)] = g
	}
	switch {
	case len(g.there) != size:
		r.endGathering(nonce, g, fmt.Errorf("%w: of %d ranks says rank %d, of %d another", ErrDisagree, size, rank, len(g.there)))
		return nil, g.err
	case g.there[rank]:
		r.endGathering(nonce, g, fmt.Errorf("%w: rank %d came twice", ErrDisagree, rank))
		return nil, g.err
	}
	g.there[rank], g.addresses[rank], g.servers[rank] = true, h.address, h.server
	g.missing--
	if g.missing == 0 && !r.keptOpen {
		r.endGathering(nonce, g, nil)
	}
	return g, nil
}

// setKeptOpen makes full gatherings wait (kept), or ends them.
func (r *gatherings) setKeptOpen(kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keptOpen = kept
	for nonce, g := range r.open {
		if !kept && g.missing == 0 {
			r.endGathering([]byte(nonce), g, nil)
		}
	}
}

// endGathering ends a gathering, with success if err is nil. The caller holds mu.
func (r *gatherings) endGathering(nonce []byte, g *gathering, err error) {
	if r.open[string(nonce)] == g {
		delete(r.open, string(nonce))
		g.err = err
		close(g.over)
		r.rememberEnding(string(nonce), err)
	}
}

// rememberEnding keeps how a gathering has ended. The caller holds mu.
func (r *gatherings) rememberEnding(nonce string, err error) {
	if err == nil {
		err = fmt.Errorf("%w: all its ranks had come before", ErrDisagree)
	}
	if r.past == nil {
		r.past = make(map[string]error)
	}
	r.past[nonce] = err
	if r.old = append(r.old, nonce); len(r.old) > remembered {
		delete(r.past, r.old[0])
		r.old = r.old[1:]
	}
}

// removeRank removes a rank. The gathering fails if ranks were still missing.
func (r *gatherings) removeRank(nonce []byte, g *gathering, rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endGathering(nonce, g, fmt.Errorf("%w: rank %d", ErrLeft, rank))
}

// awaitRoster announces a rank of this process, waits, and returns the roster.
func (r *gatherings) awaitRoster(ctx context.Context, id *ID, h rankAnnouncement) (collective.Roster, error) {
	g, err := r.enterRank(id.nonceBytes(), h)
	if err != nil {
		return collective.Roster{}, err
	}
	select {
	case <-g.over:
	case <-ctx.Done():
		r.removeRank(id.nonceBytes(), g, h.rank)
		<-g.over
		if g.err != nil {
			return collective.Roster{}, context.Cause(ctx)
		}
	}
	if g.err != nil {
		return collective.Roster{}, g.err
	}
	return makeRoster(id.secretBytes(), gatheringResult{g.nonce[:], g.addresses, g.servers}), nil
}

// makeRoster makes the roster from the address of each rank: ranks with the same address are in the same
// process.
func makeRoster(secret []byte, e gatheringResult) collective.Roster {
	r := collective.Roster{Key: collective.AuthCode(secret, []byte("communicator"), e.nonce)}
	member := make(map[string]int)
	for rank, a := range e.addresses {
		i, known := member[a]
		if !known {
			i = len(r.Members)
			member[a] = i
			r.Members = append(r.Members, collective.Member{Address: a, Server: e.servers[rank]})
		}
		r.Members[i].Ranks = append(r.Members[i].Ranks, rank)
	}
	return r
}

// Local is a Rendezvous within a process: Local opens no connection. NewLocal makes one.
type Local struct{ maker }

// NewLocal makes a Local.
func NewLocal() *Local {
	l := &Local{}
	l.drawKeys()
	return l
}

// NewID implements Rendezvous.
func (l *Local) NewID() (ID, error) { return newID(l.token, &l.key, "") }

// Meet implements Rendezvous. For an identity of another maker it returns ErrID.
func (l *Local) Meet(ctx context.Context, id ID, size, rank int) (collective.Roster, error) {
	if err := id.checkID(); err != nil {
		return collective.Roster{}, err
	}
	if id.makerToken() != l.token {
		return collective.Roster{}, fmt.Errorf("%w: it was made by another device server, and this one talks to none", ErrID)
	}
	return l.gatherings.awaitRoster(ctx, &id, rankAnnouncement{size, rank, l.number, ""})
}

// Address implements Rendezvous: no other process reaches a Local.
func (l *Local) Address() string { return "" }

// Move implements Rendezvous.
func (l *Local) Move(map[int]string) error { return nil }

// Again implements Rendezvous.
func (l *Local) Again(context.Context, Reconnection) (collective.Roster, error) {
	return collective.Roster{}, errors.New("it has other servers' ranks, and this server talks to none")
}
