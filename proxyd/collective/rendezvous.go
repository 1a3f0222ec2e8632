// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// maxRanks is the size of the largest communicator.
const maxRanks = 1 << 16

// ErrRoster means that a Rendezvous returned members that make no communicator.
var ErrRoster = errors.New("bad roster")

// Member is a process's part of a communicator.
type Member struct {
	Ranks   []int  // which the process holds
	Address string // where its Node listens; empty if the Node does not listen
	Server  int    // the caller's number for the server: see Description
	Gone    bool   // has left: no process connects to it, and operations that need this member return ErrLeft
}

// Roster is a communicator's members, in any order, and the secret that they share.
type Roster struct {
	Key     []byte // at least 16 bytes, new each time
	Members []Member
}

// Rendezvous brings the members of a communicator together. Meet says that me waits for the
// communicator id of size ranks; Meet returns when members with all its ranks have arrived, with
// the same roster for all of them, or else when ctx is done. A Meet that failed may be repeated.
// A Rendezvous must be safe for concurrent use.
//
// The roster is trusted: the roster decides which processes this process connects to, and which may
// connect here.
type Rendezvous interface {
	Meet(ctx context.Context, id string, size int, me Member) (Roster, error)
}

// layout is a roster in order: processes are numbered by their first rank.
type layout struct {
	home    []int    // rank → process
	ranks   [][]int  // process → its ranks, ascending
	address []string // process → where that process listens
	server  []int    // process → the caller's number for the server
	gone    []bool   // process → has left
	covers  [][]node // process → subtrees that the process holds whole
}

// arrangeRoster checks and sorts a roster.
func arrangeRoster(size int, members []Member) (*layout, error) {
	if size < 1 || size > maxRanks {
		return nil, fmt.Errorf("%w: %d ranks", ErrRoster, size)
	}
	by := make([]int, size) // rank → member + 1
	for m, member := range members {
		for _, r := range member.Ranks {
			if r < 0 || r >= size {
				return nil, fmt.Errorf("%w: rank %d of %d", ErrRoster, r, size)
			}
			if by[r] != 0 {
				return nil, fmt.Errorf("%w: rank %d twice", ErrRoster, r)
			}
			by[r] = m + 1
		}
	}
	l := &layout{home: make([]int, size)}
	number := make(map[int]int, len(members))
	for r, m := range by {
		if m == 0 {
			return nil, fmt.Errorf("%w: nobody holds rank %d", ErrRoster, r)
		}
		p, known := number[m]
		if !known {
			p = len(l.ranks)
			number[m] = p
			l.ranks = append(l.ranks, nil)
			l.address = append(l.address, members[m-1].Address)
			l.server = append(l.server, members[m-1].Server)
			l.gone = append(l.gone, members[m-1].Gone)
		}
		l.home[r] = p
		l.ranks[p] = append(l.ranks[p], r)
	}
	if len(l.ranks) != len(members) {
		return nil, fmt.Errorf("%w: a member without a rank", ErrRoster)
	}
	for p, a := range l.address[:len(l.address)-1] {
		if a == "" && !l.gone[p] {
			return nil, fmt.Errorf("%w: the process of rank %d does not listen, and others must dial it", ErrRoster, l.ranks[p][0])
		}
	}
	l.covers = coverRanks(node{0, size}, l.home)
	return l, nil
}

// Room is a Rendezvous for members in a single process. Its zero value is empty and ready; a Room
// is safe for concurrent use.
type Room struct {
	mu    sync.Mutex
	waits map[string]*openRendezvous
}

type openRendezvous struct {
	size, there int
	members     []*Member
	full        chan struct{}
	roster      Roster
}

// Meet implements Rendezvous. An id may be used again when all have met, or left.
func (r *Room) Meet(ctx context.Context, id string, size int, me Member) (Roster, error) {
	r.mu.Lock()
	w := r.waits[id]
	if w == nil {
		w = &openRendezvous{size: size, full: make(chan struct{})}
		if r.waits == nil {
			r.waits = make(map[string]*openRendezvous)
		}
		r.waits[id] = w
	}
	if w.size != size {
		r.mu.Unlock()
		return Roster{}, fmt.Errorf("communicator %s: %w: %d ranks here, %d elsewhere", id, ErrRoster, size, w.size)
	}
	w.members = append(w.members, &me)
	w.there += len(me.Ranks)
	if w.there >= size {
		delete(r.waits, id)
		w.roster.Key = newKey()
		for _, m := range w.members {
			w.roster.Members = append(w.roster.Members, *m)
		}
		close(w.full)
	}
	r.mu.Unlock()
	select {
	case <-w.full:
		return w.roster, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.full: // in the meantime
		return w.roster, nil
	default:
	}
	w.there -= len(me.Ranks)
	for i, m := range w.members {
		if m == &me {
			w.members = append(w.members[:i], w.members[i+1:]...)
			break
		}
	}
	if len(w.members) == 0 {
		delete(r.waits, id)
	}
	return Roster{}, ctx.Err()
}
