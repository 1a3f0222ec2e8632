// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
)

// ErrOver means that one of the servers reports the communicator as failed.
var ErrOver = errors.New("the communicator has failed")

// Reconnection describes a communicator that is to be made again, from the view of one of its servers.
type Reconnection struct {
	Key   []byte // key of the earlier communicator
	Homes []int  // rank → the number of its server
	Is    Attendance
}

// Attendance is the state of a communicator on one of its servers.
type Attendance uint8

// Present: the server takes part. Left: all ranks of the server have left, and the other servers must not
// wait for them. Over: the communicator has failed on the server.
const (
	Present Attendance = iota
	Left
	Over
)

// A server that does not take part sends such a word in the place of its address. Every address has a colon, so
// the words cannot be taken for addresses.
const (
	saysLeft = "left"
	saysOver = "over"
)

// serverAddress is the address of a server, in one life of the server.
type serverAddress struct {
	meeting, node string
	maker, life   [16]byte
}

func (p *serverAddress) String() string {
	return strings.Join([]string{p.meeting, p.node, hex.EncodeToString(p.maker[:]), hex.EncodeToString(p.life[:])}, ",")
}

func parseAddress(s string) (p serverAddress, err error) {
	bad := fmt.Errorf("%q is no address of a device server", s)
	f := strings.Split(s, ",")
	if len(f) != 4 || !strings.Contains(f[0], ":") || !strings.Contains(f[1], ":") || len(f[2]) != 32 || len(f[3]) != 32 {
		return p, bad
	}
	p.meeting, p.node = f[0], f[1]
	if _, err := hex.Decode(p.maker[:], []byte(f[2])); err != nil {
		return p, bad
	}
	if _, err := hex.Decode(p.life[:], []byte(f[3])); err != nil {
		return p, bad
	}
	return p, nil
}

// reconnections holds a Host's communicators that are being made again.
type reconnections struct {
	life [16]byte

	mu    sync.Mutex
	peers map[int]serverAddress
	here  map[string]*reconnection // gatherings at this host, by the nonce that the visitors send
}

// reconnection is a gathering of servers, in the order of their numbers.
type reconnection struct {
	secret     []byte
	gatherings gatherings
}

// findReconnection returns the reconnection of a nonce, or nil.
func (r *reconnections) findReconnection(nonce []byte) *reconnection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.here[string(nonce)]
}

// currentAddress returns the address at which ranks with an identity meet: the present address of the identity's
// maker, if Move has told it, and otherwise the address in the identity.
func (r *reconnections) currentAddress(maker [16]byte, address string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.peers {
		if p.maker == maker {
			return p.meeting
		}
	}
	return address
}

// Address implements Rendezvous, as do the methods below.
func (h *Host) Address() string {
	p := serverAddress{h.listener.Addr().String(), h.cfg.Node, h.token, h.life}
	return p.String()
}

// Move may be called again. An entry for this server itself is not used.
func (h *Host) Move(peers map[int]string) error {
	all := map[int]serverAddress{}
	for n, s := range peers {
		p, err := parseAddress(s)
		if err != nil {
			return fmt.Errorf("server %d: %w", n, err)
		}
		all[n] = p
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers = all
	return nil
}

// Again has the servers of a communicator meet at the server with the lowest number. The nonce of the
// meeting, and the secret by which the servers authenticate each other, are derived from the communicator's
// key and the life of that server. So a server that knows only another life of it is refused.
func (h *Host) Again(ctx context.Context, r Reconnection) (collective.Roster, error) {
	parties := slices.Compact(slices.Sorted(slices.Values(r.Homes)))
	rank := slices.Index(parties, h.number)
	if rank < 0 || len(r.Key) < 16 {
		return collective.Roster{}, fmt.Errorf("%w: server %d has none of its ranks", ErrDisagree, h.number)
	}
	addresses, err := h.addressesOf(parties)
	if err != nil {
		return collective.Roster{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(collective.ErrClosed) })()
	me := rankAnnouncement{len(parties), rank, h.number, h.cfg.Node}
	switch r.Is {
	case Left:
		me.address = saysLeft
	case Over:
		me.address = saysOver
	}
	life := addresses[0].life
	nonce, secret := collective.AuthCode(r.Key, []byte("again"), life[:])[:16], collective.AuthCode(r.Key, []byte("again, secret"), life[:])
	var e gatheringResult
	if rank == 0 {
		e, err = h.hostReconnection(ctx, parties, nonce, secret, me)
	} else {
		e, err = h.visitReconnection(ctx, addresses[0].meeting, nonce, secret, me)
		if err != nil {
			err = fmt.Errorf("server %d at %s: %w", parties[0], addresses[0].meeting, err)
		}
	}
	if err != nil {
		return collective.Roster{}, err
	}
	return reconnectedRoster(secret, e, parties, addresses, r.Homes)
}

func (h *Host) addressesOf(parties []int) ([]serverAddress, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []serverAddress
	for _, n := range parties {
		p, known := h.peers[n]
		if n == h.number {
			p, known = serverAddress{h.listener.Addr().String(), h.cfg.Node, h.token, h.life}, true
		}
		if !known {
			return nil, fmt.Errorf("the address of server %d is not known", n)
		}
		all = append(all, p)
	}
	return all, nil
}

// hostReconnection waits for the other servers, on the server with the lowest number. It gives up a little earlier
// than the visitors do, so that they still get its error, which names the servers that are missing.
func (h *Host) hostReconnection(ctx context.Context, parties []int, nonce, secret []byte, me rankAnnouncement) (gatheringResult, error) {
	w := &reconnection{secret: secret}
	h.mu.Lock()
	if h.here == nil {
		h.here = map[string]*reconnection{}
	}
	h.here[string(nonce)] = w
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.here[string(nonce)] == w {
			delete(h.here, string(nonce))
		}
	}()
	g, err := w.gatherings.enterRank(nonce, me)
	if err != nil {
		return gatheringResult{}, err
	}
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*9/10)
		defer cancel()
	}
	select {
	case <-g.over:
	case <-ctx.Done():
		w.gatherings.giveUp(nonce, g, parties, context.Cause(ctx))
	}
	return gatheringResult{g.nonce[:], g.addresses, g.servers}, g.err
}

// giveUp ends a gathering with an error that names the servers that did not come.
func (r *gatherings) giveUp(nonce []byte, g *gathering, parties []int, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for i, there := range g.there {
		if !there {
			missing = append(missing, fmt.Sprint(parties[i]))
		}
	}
	r.endGathering(nonce, g, fmt.Errorf("server %s has not come: %w", strings.Join(missing, ", "), why))
}

// visitReconnection joins the gathering at the host. It tries again if the host does not know the communicator
// yet: the host may only be slower.
func (h *Host) visitReconnection(ctx context.Context, at string, nonce, secret []byte, me rankAnnouncement) (gatheringResult, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		e, err := h.visitHost(ctx, at, nonce, secret, me)
		if err == nil || errors.Is(err, ErrFailed) {
			return e, err
		}
		select {
		case <-ctx.Done():
			return gatheringResult{}, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// reconnectedRoster makes the roster. It fails if a server is at another address than Move told.
func reconnectedRoster(secret []byte, e gatheringResult, parties []int, addresses []serverAddress, homes []int) (collective.Roster, error) {
	r := collective.Roster{Key: collective.AuthCode(secret, []byte("communicator"), e.nonce)}
	for i, n := range parties {
		m := collective.Member{Address: addresses[i].node, Server: n}
		switch {
		case e.addresses[i] == saysLeft:
			m.Gone = true
		case e.addresses[i] == saysOver:
			return collective.Roster{}, ErrOver
		case e.addresses[i] != m.Address || e.servers[i] != n:
			return collective.Roster{}, fmt.Errorf("%w: server %d is at %s, and who came is server %d at %s", ErrDisagree, n, m.Address, e.servers[i], e.addresses[i])
		}
		for rank, home := range homes {
			if home == n {
				m.Ranks = append(m.Ranks, rank)
			}
		}
		r.Members = append(r.Members, m)
	}
	return r, nil
}
