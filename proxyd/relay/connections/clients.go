// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// Clients are programs outside that connect to a port of a job. The relay listens for them at a port of its own host,
// from the first admission of the job until Forget, and offers each to the job's forwarder by a link for offers. From
// then on the connection is carried like one that a program has made. A client that no forwarder has taken, because the
// job is away, waits.

// Clients says at which ports the relay listens for clients, and bounds their number.
type Clients struct {
	First      uint16        `json:"first"` // ports of the relay's host, from First to Last; 0: the relay does not listen for clients
	Last       uint16        `json:"last"`
	PerUser    int           `json:"per_user"` // ports of a user at a time
	PerPort    int           `json:"per_port"` // clients of a port at a time
	WaitAtMost time.Duration `json:"wait"`     // how long a client waits for a forwarder
}

// ListeningPort is a port of a job that clients can reach at a port of the relay's host.
type ListeningPort struct {
	Port    uint16 `json:"port"`
	Public  uint16 `json:"public,omitempty"`  // of the relay's host
	Problem string `json:"problem,omitempty"` // why the relay does not listen for it
}

// maxPorts bounds the ports of a job.
const maxPorts = 16

// clientPort is a port of a job.
type clientPort struct {
	job      *job
	listener net.Listener // nil if there is a Problem
	unwatch  func() bool
	clients  int             // Needs Holder.mu
	waiting  *strangers.List // the sockets of the clients that no forwarder has taken
	ListeningPort
}

// client is the part of a connection that a client has made.
type client struct {
	port     *clientPort
	socket   *clientSocket
	came     time.Time
	patience *time.Timer
	taken    bool // by a forwarder. Needs Holder.mu
}

// clientSocket is the socket of a client that waits. To close it is to end the client's connection.
type clientSocket struct {
	*net.TCPConn
	k *connection
}

// Close ends the connection, so that the client gets a reset.
func (s *clientSocket) Close() error {
	s.k.stream.Fail(errMadeWay)
	return nil
}

// stopWaiting is called when a forwarder has taken the client's connection, or the connection has ended. It may be
// called twice.
func (c *client) stopWaiting() {
	c.patience.Stop()
	c.port.waiting.Remove(c.socket)
}

// isWaiting tells whether no forwarder has taken a client's connection. The caller holds Holder.mu.
func (k *connection) isWaiting() bool { return k.client != nil && !k.client.taken }

// openPorts opens the ports of an admission that are not open. The caller holds mu.
func (h *Holder) openPorts(j *job, a Admission) {
	for _, port := range a.Listen {
		if p := j.ports[port]; p != nil && p.listener != nil || len(j.ports) >= maxPorts && p == nil {
			continue
		}
		p := &clientPort{job: j, waiting: strangers.New(h.cfg.Clients.PerPort), ListeningPort: ListeningPort{Port: port}}
		if err := h.openPort(p); err != nil {
			p.Problem = err.Error()
		}
		j.ports[port] = p
	}
}

// openPort has a port listen at a free port of this host: the same each time, if that is free, because people may have
// written down the address.
func (h *Holder) openPort(p *clientPort) error {
	c := h.cfg.Clients
	open := 0
	for _, j := range h.jobs {
		for _, other := range j.ports {
			if j.uid == p.job.uid && other.listener != nil {
				open++
			}
		}
	}
	switch {
	case c.First == 0:
		return errors.New("the site's relay does not listen for clients of jobs (clients.ports)")
	case open >= c.PerUser:
		return fmt.Errorf("user %d has %d ports already, as many as the site allows (clients.per_user)", p.job.uid, open)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint16([]byte(p.job.name), p.Port))
	first, size := int(binary.BigEndian.Uint32(sum[:])), int(c.Last)-int(c.First)+1
	for i := range size {
		public := c.First + uint16((first+i)%size)
		if h.taken[public] {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(int(public)))
		if err != nil {
			continue // another program of this host has the port
		}
		h.taken[public], p.Public, p.listener = true, public, l
		p.unwatch = context.AfterFunc(h.ctx, func() { l.Close() })
		go h.acceptClients(p)
		return nil
	}
	return fmt.Errorf("no port from %d to %d of the relay's host is free", c.First, c.Last)
}

// closePort stops listening when the job is over. The caller holds mu.
func (h *Holder) closePort(p *clientPort) {
	if p.listener != nil {
		p.unwatch()
		p.listener.Close()
		delete(h.taken, p.Public)
	}
}

// Listening returns the ports of a job that clients can reach, or could if there were no Problem.
func (h *Holder) Listening(job string) []ListeningPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[job]
	if j == nil {
		return nil
	}
	var all []ListeningPort
	for _, port := range slices.Sorted(maps.Keys(j.ports)) {
		all = append(all, j.ports[port].ListeningPort)
	}
	return all
}

// acceptClients accepts clients until the port is closed.
func (h *Holder) acceptClients(p *clientPort) {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) || h.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.cfg.Log.Warn("accept", "port", p.Public, "error", err)
			select { // too few descriptors, or too little memory
			case <-h.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if socket, ok := c.(*net.TCPConn); !ok || !h.acceptClient(p, socket) {
			if ok {
				_ = socket.SetLinger(0) // the client gets a reset
			}
			c.Close()
		}
	}
}

// Reasons for which a client stops waiting.
var (
	errNotTaken = errors.New("no forwarder of the job has taken the connection: the job is away")
	errMadeWay  = errors.New("no forwarder of the job has taken the connection, and a client of another host came")
)

// acceptClient begins to carry a client's connection. The result is false if the port has too many clients, and none of
// another host that makes way: waiting clients of a host do not keep out those of other hosts.
func (h *Holder) acceptClient(p *clientPort, socket *net.TCPConn) bool {
	from, err := netip.ParseAddrPort(socket.RemoteAddr().String())
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j := p.job
	if h.jobs[j.name] != j || p.clients >= h.cfg.Clients.PerPort && !p.waiting.Replace(socket) {
		h.cfg.Log.Debug("client refused", "job", j.name, "port", p.Port, "clients", p.clients)
		return false
	}
	p.clients++
	k := &connection{
		job: j, id: rand.Text(), to: netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), stream: stream.NewStream(stream.End{}, nil), dialed: make(chan struct{}),
		client: &client{port: p, came: time.Now()},
	}
	close(k.dialed)
	k.client.socket = &clientSocket{socket, k}
	p.waiting.Add(k.client.socket)
	k.client.patience = time.AfterFunc(h.cfg.Clients.WaitAtMost, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if k.isWaiting() {
			k.stream.Fail(errNotTaken)
		}
	})
	j.connections[k.id] = k
	close(j.clients)
	j.clients = make(chan struct{})
	go h.carrySocket(h.ctx, k, socket)
	return true
}

// serveOffers offers clients to a forwarder, until a newer link for offers comes. hash is the ticket's.
func (h *Holder) serveOffers(link net.Conn, hash string) error {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	j := h.beginOffers(hash, cancel)
	if j == nil {
		return stream.WriteJSON(link, stream.KindOver, stream.ConnectionEnd{Reason: "the relay does not know the ticket (yet)", Retry: true})
	}
	defer context.AfterFunc(ctx, func() { link.Close() })()
	if err := stream.WriteJSON(link, stream.KindWelcome, stream.Welcome{}); err != nil {
		return err
	}
	go func() {
		_, _ = stream.ReadFrame(link) // the forwarder sends no more frames, but hangs up
		cancel()
	}()
	offered := map[string]bool{}
	for {
		var offers []stream.Offer
		var changed <-chan struct{}
		offers, offered, changed = h.waitingClients(j, offered)
		for _, o := range offers {
			if err := stream.WriteJSON(link, stream.KindOffer, o); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// beginOffers ends the job's previous link for offers, and stores end, which ends the new one. The result is nil if no
// job has the ticket.
func (h *Holder) beginOffers(hash string, end func()) *job {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.tickets[hash]
	if !ok || t.capsule != 0 {
		return nil
	}
	if t.job.endOffers != nil {
		t.job.endOffers()
	}
	t.job.endOffers = end
	return t.job
}

// waitingClients returns offers of the waiting clients that are not in offered, in the order in which they came, then
// the names of all that wait, and a channel that is closed when another client comes.
func (h *Holder) waitingClients(j *job, offered map[string]bool) (offers []stream.Offer, all map[string]bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var fresh []*connection
	all = map[string]bool{}
	for id, k := range j.connections {
		if !k.isWaiting() || k.stream.Failed() != nil {
			continue
		}
		if all[id] = true; !offered[id] {
			fresh = append(fresh, k)
		}
	}
	slices.SortFunc(fresh, func(a, b *connection) int { return a.client.came.Compare(b.client.came) })
	for _, k := range fresh {
		offers = append(offers, stream.Offer{ID: k.id, Port: k.client.port.Port, From: k.to.String()})
	}
	return offers, all, j.clients
}
