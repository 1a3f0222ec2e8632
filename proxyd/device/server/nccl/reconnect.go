// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
)

// How a communicator comes back:
//
//	Save       its name, its key, its splits, for each rank the number of its device server
//	Restore    members without a communicator
//	Reconnect  its servers meet again (meeting.Host.Again), by the saved key and where they are today; servers that
//	           have all of its ranks need no other. All are connected when Reconnect returns; members have
//	           their communicators
//	Resume     members that were waiting in the rendezvous go there again

// farewellTime is how long a server stands by to say that no ranks of a communicator are left here.
const farewellTime = 10 * time.Minute

// Address is where the other servers reach this server, "" if no other server has to.
func (f *Collectives) Address() (string, error) {
	f.mu.Lock()
	needed := f.net != nil || f.identity != nil
	f.mu.Unlock()
	if !needed {
		return "", nil
	}
	n, err := f.openNetwork()
	if err != nil {
		return "", err
	}
	return n.Rendezvous.Address(), nil
}

// Reconnect makes all communicators again. After a failure no communicator is left, and Reconnect may be called again.
func (f *Collectives) Reconnect(ctx context.Context, peers map[int]string) error {
	reached := map[int]string{}
	for n, at := range peers {
		if at != "" {
			reached[n] = at
		}
	}
	f.mu.Lock()
	f.peers = reached
	back, needed := f.back, f.net != nil || f.identity != nil
	f.mu.Unlock()
	if !needed {
		return nil // a connected network knows its peers
	}
	n, err := f.openNetwork()
	if err == nil {
		err = n.Rendezvous.Move(reached)
	}
	if err != nil {
		return err
	}
	made, err := f.remakeCommunicators(ctx, n, back)
	if err != nil {
		for _, c := range made {
			c.comm.Abort()
		}
		return err
	}
	for name, b := range back {
		f.reconnectMembers(n, b, made[name])
	}
	f.mu.Lock()
	f.back = nil
	f.mu.Unlock()
	return nil
}

// ReconnectAlone is Reconnect for a server that needs no other server.
func (f *Collectives) ReconnectAlone() error {
	f.mu.Lock()
	back, self := f.back, f.Self
	f.mu.Unlock()
	for name, b := range back {
		if b.Is != meeting.Present || b.isHere() {
			continue
		}
		for rank, n := range b.Servers {
			if n != self {
				return fmt.Errorf("communicator %s: rank %d was at device server %d, with which nobody has reconnected this one", name, rank, n)
			}
		}
	}
	if len(back) == 0 {
		return nil
	}
	return f.Reconnect(f.ctx, f.peers)
}

// remadeComm is a communicator that was made again, and its ranks' parts in its team.
type remadeComm struct {
	comm  *collective.Comm
	teams map[int]backend.Team
}

// remakeCommunicators makes communicators, all at the same time. The result lacks the communicators that have failed
// elsewhere.
func (f *Collectives) remakeCommunicators(ctx context.Context, n *Network, back map[string]*commToRemake) (map[string]remadeComm, error) {
	type result struct {
		name  string
		comm  *collective.Comm
		teams map[int]backend.Team
		err   error
	}
	results := make(chan result)
	left := 0
	for name, b := range back {
		if b.Is != meeting.Present {
			continue
		}
		left++
		go func() {
			c, err := f.remakeCommunicator(ctx, n, &b.commState)
			var teams map[int]backend.Team
			if err == nil {
				teams, err = f.makeTeams(ctx, c, b)
			}
			results <- result{name, c, teams, err}
		}()
	}
	made := map[string]remadeComm{}
	var errs []error
	for range left {
		switch r := <-results; {
		case r.comm != nil:
			made[r.name] = remadeComm{r.comm, r.teams}
			if r.err != nil {
				errs = append(errs, fmt.Errorf("communicator %s: %w", r.name, r.err))
			}
		case !errors.Is(r.err, meeting.ErrOver):
			errs = append(errs, fmt.Errorf("communicator %s: %w", r.name, r.err))
		}
	}
	return made, errors.Join(errs...)
}

// remakeCommunicator makes a communicator again, and waits for its connections.
func (f *Collectives) remakeCommunicator(ctx context.Context, n *Network, st *commState) (*collective.Comm, error) {
	roster := collective.Roster{Key: make([]byte, 32), Members: []collective.Member{{Ranks: st.Ranks, Server: f.Self}}}
	if st.isHere() {
		_, _ = rand.Read(roster.Key) // rand.Read never fails
	} else {
		var err error
		if roster, err = n.Rendezvous.Again(ctx, meeting.Reconnection{Key: st.Key, Homes: st.Servers}); err != nil {
			return nil, err
		}
	}
	c, err := n.Node.Start(f.ctx, collective.Spec{ID: st.Name, Size: st.Size, Ranks: st.Ranks, Splits: st.Splits}, finishedMeeting(roster))
	if err != nil {
		return nil, err
	}
	if err := c.Wait(ctx); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}

// reconnectMembers gives a communicator to its members. Missing members have left the communicator; if no member is
// left, the other servers are told why, whenever they ask.
func (f *Collectives) reconnectMembers(n *Network, b *commToRemake, r remadeComm) {
	c := r.comm
	if c == nil {
		for _, m := range b.members {
			m.noteReconnected(nil, nil, &failedBefore{dispatch.ResultNcclRemoteError, "it has failed elsewhere"})
		}
		if b.Is != meeting.Present && !b.isHere() {
			f.mu.Lock()
			f.past = append(f.past, b.commState)
			f.mu.Unlock()
			go func() {
				ctx, cancel := context.WithTimeout(f.ctx, farewellTime)
				defer cancel()
				_, _ = n.Rendezvous.Again(ctx, meeting.Reconnection{Key: b.Key, Homes: b.Servers, Is: b.Is}) // there may be no question
			}()
		}
		return
	}
	f.describeUntilEnd(c)
	for _, rank := range b.Ranks {
		if m := b.members[rank]; m != nil {
			m.noteReconnected(c, r.teams[rank], nil)
		} else {
			_ = c.Destroy(rank) // rank is a rank of c
		}
	}
}
