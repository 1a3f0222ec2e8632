// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
)

// Network brings a server's communicators about, and carries their bytes to other servers.
type Network struct {
	Rendezvous meeting.Rendezvous
	Node       *collective.Node
	Close      func() // closes Rendezvous and Node; nil if neither has to be closed
}

// Alone is the network of a server that is alone in its job. Alone opens no socket.
func Alone(ctx context.Context) (*Network, error) {
	n, err := collective.Listen(ctx, collective.Config{})
	if err != nil {
		return nil, err
	}
	return &Network{Rendezvous: meeting.NewLocal(), Node: n, Close: n.Close}, nil
}

// OverTCP is the network of servers that find each other by the contents of NCCL's unique ids. host is the address, of
// this host, at which the other servers reach this server; if host is "", the first address that is known beyond this
// host, else the loopback's.
func OverTCP(host string) func(context.Context) (*Network, error) {
	return func(ctx context.Context) (*Network, error) {
		if host == "" {
			host = ownAddress()
		}
		at := net.JoinHostPort(host, "0")
		n, err := collective.Listen(ctx, collective.Config{Listen: at})
		if err != nil {
			return nil, err
		}
		h, err := meeting.Listen(ctx, meeting.Config{Listen: at, Node: n.Address()})
		if err != nil {
			n.Close()
			return nil, err
		}
		return &Network{Rendezvous: h, Node: n, Close: func() {
			h.Close()
			n.Close()
		}}, nil
	}
}

// ownAddress is an address of this host that other hosts may reach.
func ownAddress() string {
	const loopback = "127.0.0.1"
	all, err := net.InterfaceAddrs()
	if err != nil {
		return loopback
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	return loopback
}

// Default times of Collectives.
const (
	// meetingTime bounds the time from the first rank of a communicator to the last.
	meetingTime = 10 * time.Minute
	// abortGrace is how long work is held on the streams of a failed communicator, for the program to find out and
	// abort the communicator, as it must with NCCL. Then the work is a fault of its context: the data that it should
	// have received is missing.
	abortGrace = 10 * time.Second
)

// Collectives is the state by which all processes of a server make communicators.
type Collectives struct {
	ctx         context.Context
	Open        func(context.Context) (*Network, error)
	Self        int // the server's number
	MeetingTime time.Duration
	AbortTime   time.Duration
	Teams       bool              // the devices implement backend.Teams; one may still be unable to join a team
	Exact       bool              // sums do not depend on where ranks are
	Memory      collective.Memory // of ranks that share a device; nil: none is shared
	Rounded     atomic.Bool       // a team has rounded a reduction
	// SumsNews has an item when members may have added up twice as often as when there was one before.
	SumsNews chan struct{}

	mu                 sync.Mutex
	net                *Network
	closed             bool
	shared             map[string]*sharedComm // by its key
	savedCommunicators                        // for saves
}

// sharedComm is a communicator which some of the ranks that are here have not taken yet.
type sharedComm struct {
	comm *collective.Comm
	err  error
	left int
}

// NewCollectives makes the collectives of the server of this number. open is called when they are first used; nil: Alone.
func NewCollectives(ctx context.Context, self int, open func(context.Context) (*Network, error)) *Collectives {
	if open == nil {
		open = Alone
	}
	return &Collectives{ctx: ctx, Open: open, Self: self, MeetingTime: meetingTime, AbortTime: abortGrace, shared: map[string]*sharedComm{}, SumsNews: make(chan struct{}, 1)}
}

// openNetwork opens the network at its first use: a server of programs without collectives opens no network.
func (f *Collectives) openNetwork() (*Network, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, collective.ErrClosed
	}
	if f.net == nil {
		n, err := f.Open(f.ctx)
		if err != nil {
			return nil, err
		}
		n.Node.UseMemory(f.Memory)
		n.Rendezvous.Assume(f.Self, f.identity)
		if err := n.Rendezvous.Move(f.peers); err != nil {
			return nil, err // an earlier call took the network
		}
		f.net = n
	}
	return f.net, nil
}

// Close ends all communicators.
func (f *Collectives) Close() {
	f.mu.Lock()
	n := f.net
	f.closed = true
	f.mu.Unlock()
	if n != nil && n.Close != nil {
		n.Close()
	}
}

// finishedMeeting is a meeting that is over.
type finishedMeeting collective.Roster

// Meet implements collective.Rendezvous.
func (r finishedMeeting) Meet(context.Context, string, int, collective.Member) (collective.Roster, error) {
	return collective.Roster(r), nil
}

// joinRanks meets the other ranks, and returns the communicator that all ranks of this server share. The communicator
// may still be connecting.
func (f *Collectives) joinRanks(ctx context.Context, id meeting.ID, size, rank int) (*collective.Comm, error) {
	n, err := f.openNetwork()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.MeetingTime, errors.New("not all ranks have come in time"))
	defer cancel()
	roster, err := n.Rendezvous.Meet(ctx, id, size, rank)
	if err != nil {
		return nil, err
	}
	var here []int
	for _, m := range roster.Members {
		if slices.Contains(m.Ranks, rank) {
			here = m.Ranks
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := string(roster.Key)
	s := f.shared[key]
	if s == nil {
		s = &sharedComm{left: len(here)}
		s.comm, s.err = n.Node.Start(f.ctx, collective.Spec{ID: id.Name(), Size: size, Ranks: here}, finishedMeeting(roster))
		f.shared[key] = s
	}
	if s.left--; s.left <= 0 {
		delete(f.shared, key)
	}
	return s.comm, s.err
}
