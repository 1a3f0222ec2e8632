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
	// ErrDisagree means that ranks do not mean the same communicator: another size, or a rank twice.
	ErrDisagree = errors.New("ranks do not agree on the communicator")
)

// maxRanks is the size of the largest communicator: collective's.
const maxRanks = 1 << 16

// Rendezvous is what a device server makes communicators with. It is safe for concurrent use.
type Rendezvous interface {
	// NewID makes a communicator's identity.
	NewID() (ID, error)
	// Meet says that rank of the communicator id, of size ranks, is here, and waits for all others: once for each
	// rank, at the same time. All get the same roster. If ctx is done first, or a rank leaves, or they do not agree,
	// all get an error. An identity serves for one communicator.
	Meet(ctx context.Context, id ID, size, rank int) (collective.Roster, error)
}

// gathering is the ranks of one communicator that have come.
type gathering struct {
	addresses []string // by rank
	there     []bool
	missing   int
	over      chan struct{} // closed when all are there, or err is set
	nonce     [32]byte
	err       error
}

// room holds the gatherings of one process.
type room struct {
	mu   sync.Mutex
	open map[string]*gathering // by the identity's nonce
	past map[string]error      // how the latest ended: who comes late must not wait
	old  []string              // its keys, oldest first
}

// remembered is how many ends a room remembers.
const remembered = 4096

// enter lets a rank come.
func (r *room) enter(nonce []byte, size, rank int, address string) (*gathering, error) {
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
		g = &gathering{addresses: make([]string, size), there: make([]bool, size), missing: size, over: make(chan struct{})}
		rand.Read(g.nonce[:]) //nolint:errcheck // crypto/rand's Read never fails
		if r.open == nil {
			r.open = make(map[string]*gathering)
		}
		r.open[string(nonce)] = g
	}
	switch {
	case len(g.there) != size:
		r.end(nonce, g, fmt.Errorf("%w: of %d ranks says rank %d, of %d another", ErrDisagree, size, rank, len(g.there)))
		return nil, g.err
	case g.there[rank]:
		r.end(nonce, g, fmt.Errorf("%w: rank %d came twice", ErrDisagree, rank))
		return nil, g.err
	}
	g.there[rank], g.addresses[rank] = true, address
	g.missing--
	if g.missing == 0 {
		r.end(nonce, g, nil)
	}
	return g, nil
}

// end is the end of a gathering, good or bad. The caller holds mu.
func (r *room) end(nonce []byte, g *gathering, err error) {
	if r.open[string(nonce)] == g {
		delete(r.open, string(nonce))
		g.err = err
		close(g.over)
		r.remember(string(nonce), err)
	}
}

// remember keeps how a gathering has ended. The caller holds mu.
func (r *room) remember(nonce string, err error) {
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

// leave takes a rank back; if not all were there, nobody gets what he waits for.
func (r *room) leave(nonce []byte, g *gathering, rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(nonce, g, fmt.Errorf("%w: rank %d", ErrLeft, rank))
}

// await is the way of a rank in this process.
func (r *room) await(ctx context.Context, id *ID, size, rank int, address string) (collective.Roster, error) {
	g, err := r.enter(id.nonce(), size, rank, address)
	if err != nil {
		return collective.Roster{}, err
	}
	select {
	case <-g.over:
	case <-ctx.Done():
		r.leave(id.nonce(), g, rank)
		<-g.over
		if g.err != nil {
			return collective.Roster{}, context.Cause(ctx)
		}
	}
	if g.err != nil {
		return collective.Roster{}, g.err
	}
	return roster(id.secret(), g.nonce[:], g.addresses), nil
}

// roster makes one of where each rank is: ranks with one address are of one process.
func roster(secret, nonce []byte, addresses []string) collective.Roster {
	r := collective.Roster{Key: mac(secret, []byte("communicator"), nonce)}
	member := make(map[string]int)
	for rank, a := range addresses {
		i, known := member[a]
		if !known {
			i = len(r.Members)
			member[a] = i
			r.Members = append(r.Members, collective.Member{Address: a})
		}
		r.Members[i].Ranks = append(r.Members[i].Ranks, rank)
	}
	return r
}

// Local is a Rendezvous of one process: it opens no connection. NewLocal makes one.
type Local struct {
	maker [16]byte
	key   key
	room  room
}

// NewLocal makes a Local.
func NewLocal() *Local {
	l := &Local{}
	rand.Read(l.maker[:]) //nolint:errcheck // crypto/rand's Read never fails
	rand.Read(l.key[:])   //nolint:errcheck // crypto/rand's Read never fails
	return l
}

// NewID implements Rendezvous.
func (l *Local) NewID() (ID, error) { return newID(l.maker, &l.key, "") }

// Meet implements Rendezvous. An identity that was made elsewhere is ErrID.
func (l *Local) Meet(ctx context.Context, id ID, size, rank int) (collective.Roster, error) {
	if err := id.check(); err != nil {
		return collective.Roster{}, err
	}
	if id.maker() != l.maker {
		return collective.Roster{}, fmt.Errorf("%w: it was made by another device server, and this one talks to none", ErrID)
	}
	return l.room.await(ctx, &id, size, rank, "")
}
