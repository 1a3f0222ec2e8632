// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package meeting

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// Config configures a Host. Zero durations mean the defaults.
type Config struct {
	// Listen is host:port; port 0 takes any free port.
	Listen string
	// Node is the address of the process's collective.Node, which the roster tells the other ranks.
	Node string
	// Dial bounds the attempts to reach the maker of an identity, and to be heard there; 30 s.
	Dial time.Duration
	// Handshake bounds the time in which a peer that has connected must show that it knows a secret; 10 s.
	Handshake time.Duration
}

// maxHandshakes bounds the connections that may be in their handshake.
const maxHandshakes = 1024

// Host is a Rendezvous between processes. Ranks with an identity that the Host has made meet at the Host's
// own address, so no further service is needed. The Host's own ranks may meet at other Hosts.
type Host struct {
	maker
	reconnections
	cfg      Config
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	callers  *strangers.List // in their handshake
}

// Listen makes a Host. The Host works until ctx is done or Close is called.
func Listen(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.Dial == 0 {
		cfg.Dial = 30 * time.Second
	}
	if cfg.Handshake == 0 {
		cfg.Handshake = 10 * time.Second
	}
	if cfg.Node == "" || len(cfg.Node) > math.MaxUint16 {
		return nil, errors.New("meeting: no other process could connect to this process")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("meeting: %w", err)
	}
	h := &Host{cfg: cfg, listener: l, callers: strangers.New(maxHandshakes)}
	h.drawKeys()
	rand.Read(h.life[:]) //nolint:errcheck // crypto/rand's Read never fails
	h.ctx, h.cancel = context.WithCancel(ctx)
	context.AfterFunc(h.ctx, func() { l.Close() })
	h.wg.Go(h.acceptRanks)
	return h, nil
}

// Close ends all calls that wait, with an error, and returns when the Host has no connection and no goroutine
// left. It may be called twice.
func (h *Host) Close() {
	h.cancel()
	h.wg.Wait()
}

// NewID implements Rendezvous.
func (h *Host) NewID() (ID, error) { return newID(h.token, &h.key, h.listener.Addr().String()) }

// Meet implements Rendezvous. It also ends when the Host is closed.
func (h *Host) Meet(ctx context.Context, id ID, size, rank int) (collective.Roster, error) {
	if err := id.checkID(); err != nil {
		return collective.Roster{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(collective.ErrClosed) })()
	me := rankAnnouncement{size, rank, h.number, h.cfg.Node}
	if id.makerToken() == h.token {
		return h.gatherings.awaitRoster(ctx, &id, me)
	}
	at := h.currentAddress(id.makerToken(), id.makerAddress())
	if at == "" {
		return collective.Roster{}, fmt.Errorf("%w: its maker has no address", ErrID)
	}
	e, err := h.visitHost(ctx, at, id.nonceBytes(), id.secretBytes(), me)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return collective.Roster{}, fmt.Errorf("meeting at %s: %w", at, err)
	}
	return makeRoster(id.secretBytes(), e), nil
}

// visitHost announces a rank at another Host and waits for the result. visitHost tries again for a while: the other
// Host may be reachable later than the identity has arrived, and a Host that has too many connections in their
// handshake closes the oldest of them. A Host that has accepted a connection and cannot be reached any more has ended.
func (h *Host) visitHost(ctx context.Context, at string, nonce, secret []byte, me rankAnnouncement) (gatheringResult, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.Dial)
	defer cancel()
	var lost error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, err := (&net.Dialer{}).DialContext(limited, "tcp", at)
		if err != nil && lost != nil {
			return gatheringResult{}, lost
		}
		if err == nil {
			var e gatheringResult
			e, err = h.announceOn(ctx, conn, nonce, secret, me)
			if err == nil || errors.Is(err, ErrFailed) || errors.Is(err, ErrProtocol) {
				return e, err
			}
			lost = err
		}
		select {
		case <-limited.Done():
			return gatheringResult{}, err
		case <-time.After(pause):
		}
	}
}

// announceOn announces a rank on a connection to another Host and waits for the result. The connection is closed then.
func (h *Host) announceOn(ctx context.Context, conn net.Conn, nonce, secret []byte, me rankAnnouncement) (gatheringResult, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(h.cfg.Handshake)) //nolint:errcheck // fails on a closed connection only
	t, err := callHost(conn, nonce, secret)
	if err == nil {
		err = t.announceRank(me)
	}
	if err != nil {
		return gatheringResult{}, err
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // likewise
	return t.readReply(me.size)
}

func (h *Host) acceptRanks() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			if h.ctx.Err() != nil {
				return
			}
			// Most likely the process has no free descriptors: wait until it has some.
			select {
			case <-h.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		h.callers.Add(conn)
		h.wg.Go(func() { h.receiveRank(conn) })
	}
}

// receiveRank serves the connection of a rank of another process. A peer that does not know the secret gets
// no reason.
func (h *Host) receiveRank(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(h.ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(h.cfg.Handshake)) //nolint:errcheck // fails on a closed connection only
	gathered := &h.gatherings
	nonce, t, who, err := greetRank(conn, func(nonce []byte) []byte {
		if w := h.findReconnection(nonce); w != nil {
			gathered = &w.gatherings
			return w.secret
		}
		return h.key.deriveSecret(nonce)
	})
	h.callers.Remove(conn)
	if err != nil {
		return
	}
	g, err := gathered.enterRank(nonce, who)
	if err != nil {
		t.replyEnding(&gathering{err: err}) //nolint:errcheck // if this fails, the rank sees the connection end
		return
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // likewise
	gone := make(chan struct{})
	h.wg.Go(func() {
		conn.Read(make([]byte, 1)) //nolint:errcheck // the rank sends no more bytes: Read returns when the connection ends
		close(gone)
	})
	select {
	case <-g.over:
	case <-gone:
		gathered.removeRank(nonce, g, who.rank)
		return
	}
	conn.SetDeadline(time.Now().Add(h.cfg.Handshake)) //nolint:errcheck // likewise
	t.replyEnding(g)                                  //nolint:errcheck // likewise
}
