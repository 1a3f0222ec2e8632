// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// Config of the relay.
type Config struct {
	Policy  Policy
	PerUser int // connections of a user at a time
	Clients Clients
	Keep    time.Duration // how long a job is kept after a daemon has last named it
	Log     *slog.Logger
}

// Admission is a daemon's description of a capsule on its node.
type Admission struct {
	Job     string `json:"job"` // distinguishes the job from all other jobs of all clusters
	UID     uint32 `json:"uid"`
	Run     int    `json:"run"`
	Capsule int    `json:"capsule"`
	Ticket  string `json:"ticket"` // HashTicket of the ticket
	// Connections has the names of the capsule's connections that the run has from its checkpoint.
	Connections []string `json:"connections,omitempty"`
	// Listen has the ports of the capsule that clients shall reach.
	Listen []uint16 `json:"listen,omitempty"`
}

// HashTicket returns the hash by which a relay knows a ticket.
func HashTicket(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}

// Holder has the connections of all jobs.
type Holder struct {
	cfg Config
	ctx context.Context

	mu      sync.Mutex
	jobs    map[string]*job
	tickets map[string]ticket // by their hashes
	users   map[uint32]int    // connections
	// failed has, by user, the connections that have failed while no forwarder asked for them, the oldest first.
	failed  map[uint32][]*connection
	taken   map[uint16]bool // ports of this host at which clients of jobs come
	callers *strangers.List // links that have not said hello
}

// job is a job with its connections.
type job struct {
	name        string
	uid         uint32
	run         int
	named       time.Time // when a daemon last named it
	connections map[string]*connection
	seen        map[int]int // the newest run in which each capsule was named, plus 1

	ports     map[uint16]*clientPort // by the job's ports
	clients   chan struct{}          // closed and renewed when a client comes
	endOffers func()                 // ends the link that offers clients to the forwarder
}

type ticket struct {
	job     *job
	run     int
	capsule int
}

// connection is a TCP connection of a job to the other side. The relay keeps connections while their job is away.
type connection struct {
	job     *job
	capsule int
	id      string
	to      netip.AddrPort // of the other side
	stream  *stream.Stream
	client  *client // nil: the job has made the connection

	dialed chan struct{} // closed when dialing has ended
	cause  stream.Cause  // why dialing has failed. Set before dialed is closed
	linked sync.Mutex    // held by the link that carries frames
	unlink func()        // ends the present link. Needs Holder.mu
	run    int           // of the present link. Needs Holder.mu
	expiry *time.Timer   // set when the connection has failed and is in Holder.failed. Needs Holder.mu
}

// New returns a Holder without connections, which ends with ctx.
func New(ctx context.Context, cfg Config) *Holder {
	h := &Holder{cfg: cfg, ctx: ctx, jobs: map[string]*job{}, tickets: map[string]ticket{}, users: map[uint32]int{}, failed: map[uint32][]*connection{}, taken: map[uint16]bool{}, callers: strangers.New(maxCallers)}
	go h.forgetUnnamed()
	return h
}

// Admit admits links with a ticket. The daemon repeats the call while the capsule runs. A newer run voids the tickets
// of earlier runs.
func (h *Holder) Admit(a Admission) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[a.Job]
	if j == nil {
		j = &job{name: a.Job, uid: a.UID, run: a.Run, connections: map[string]*connection{}, seen: map[int]int{}, ports: map[uint16]*clientPort{}, clients: make(chan struct{})}
		h.jobs[a.Job] = j
	}
	if j.uid != a.UID {
		return fmt.Errorf("job %s is another user's", a.Job)
	}
	if a.Run < j.run {
		return fmt.Errorf("job %s: run %d is over, run %d has begun", a.Job, a.Run+1, j.run+1) // for people, the first run is run 1
	}
	if a.Run > j.run {
		j.run = a.Run
		for hash, t := range h.tickets {
			if t.job == j {
				delete(h.tickets, hash)
			}
		}
		if j.endOffers != nil {
			j.endOffers()
		}
		for _, k := range j.connections {
			if k.unlink != nil && k.run < a.Run {
				k.unlink()
			}
		}
	}
	if j.seen[a.Capsule] < a.Run+1 {
		j.seen[a.Capsule] = a.Run + 1
		for _, k := range j.connections {
			if k.capsule == a.Capsule && !k.isWaiting() && !slices.Contains(a.Connections, k.id) {
				k.stream.Fail(errAbandoned)
			}
		}
	}
	h.openPorts(j, a)
	j.named = time.Now()
	h.tickets[a.Ticket] = ticket{job: j, run: a.Run, capsule: a.Capsule}
	return nil
}

// Reasons for which the relay ends a connection that no program of a job has any more.
var (
	errForgotten = errors.New("the job is over")
	errAbandoned = errors.New("the job has resumed from a checkpoint without the connection")
)

// Forget ends the connections of a job that is over. A second call is harmless.
func (h *Holder) Forget(name string) {
	h.mu.Lock()
	j := h.jobs[name]
	h.mu.Unlock()
	if j != nil {
		h.forgetJob(j)
	}
}

func (h *Holder) forgetJob(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, j.name)
	for _, p := range j.ports {
		h.closePort(p)
	}
	if j.endOffers != nil {
		j.endOffers()
	}
	for hash, t := range h.tickets {
		if t.job == j {
			delete(h.tickets, hash)
		}
	}
	for _, k := range j.connections {
		k.stream.Fail(errForgotten)
		if k.expiry != nil {
			h.dropLocked(k)
		}
	}
}

// forgetUnnamed ends the connections of jobs that no daemon has named for the time Keep.
func (h *Holder) forgetUnnamed() {
	tick := time.NewTicker(max(h.cfg.Keep/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		var old []*job
		for _, j := range h.jobs {
			if time.Since(j.named) > h.cfg.Keep {
				old = append(old, j)
			}
		}
		h.mu.Unlock()
		for _, j := range old {
			h.cfg.Log.Info("no daemon names the job any more", "job", j.name)
			h.forgetJob(j)
		}
	}
}

// Counts returns the numbers of jobs and connections.
func (h *Holder) Counts() (jobs, connections int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range h.jobs {
		connections += len(j.connections)
	}
	return len(h.jobs), connections
}

// findConnection returns the connection of a hello; a new connection is to be dialed. An error with retry is about this
// link only: the forwarder may try again.
func (h *Holder) findConnection(hello *stream.Hello) (k *connection, t ticket, isNew, retry bool, err error) {
	to, err := netip.ParseAddrPort(hello.To)
	if err != nil {
		return nil, t, false, false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.tickets[HashTicket(hello.Ticket)]
	if !ok {
		return nil, t, false, true, errors.New("the relay does not know the ticket (yet)")
	}
	j := t.job
	if k := j.connections[hello.ID]; k != nil {
		return k, t, false, false, nil
	}
	switch {
	case hello.Opened:
		return nil, t, false, false, errors.New("it is not there any more: the other side has ended it, or the relay was started again")
	case hello.Over != "":
		return nil, t, false, false, errors.New("it was never there")
	case len(hello.ID) < 16 || len(hello.ID) > 64:
		return nil, t, false, false, errors.New("a name that is none")
	case h.users[j.uid] >= h.cfg.PerUser:
		return nil, t, false, false, fmt.Errorf("user %d has %d connections already, as many as the site allows (relay.per_user)", j.uid, h.cfg.PerUser)
	}
	if err := h.cfg.Policy.checkAddress(to); err != nil {
		return nil, t, false, false, err
	}
	k = &connection{job: j, capsule: t.capsule, id: hello.ID, to: to, stream: stream.NewStream(stream.End{}, nil), dialed: make(chan struct{})}
	j.connections[hello.ID] = k
	h.users[j.uid]++
	return k, t, true, false, nil
}

// dropConnection forgets a connection that is over. A second call is harmless.
func (h *Holder) dropConnection(k *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(k)
}

// dropLocked is dropConnection, for a caller that holds mu.
func (h *Holder) dropLocked(k *connection) {
	if k.job.connections[k.id] == k {
		delete(k.job.connections, k.id)
	}
	if k.expiry != nil {
		k.expiry.Stop() // the timer would keep the whole connection in memory
		k.expiry = nil
		uid := k.job.uid
		h.failed[uid] = slices.DeleteFunc(h.failed[uid], func(x *connection) bool { return x == k })
		if len(h.failed[uid]) == 0 {
			delete(h.failed, uid)
		}
	}
}

// dialTimeout bounds the time for which the relay tries to reach the other side.
const dialTimeout = 30 * time.Second

// carryConnection connects to the other side, and carries bytes until both directions have ended, or the connection
// fails.
func (h *Holder) carryConnection(k *connection) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	to := net.TCPAddrFromAddrPort(k.to)
	outer, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", to.String())
	socket, _ := outer.(*net.TCPConn)
	if err == nil && socket == nil {
		err = errors.New("not TCP")
	}
	if err != nil {
		k.cause = causeOf(err)
		k.stream.Fail(err)
		close(k.dialed)
		h.afterEnd(k, err)
		return
	}
	close(k.dialed)
	h.carrySocket(ctx, k, socket)
}

// carrySocket carries bytes of a connection to the other side, and closes the socket.
func (h *Holder) carrySocket(ctx context.Context, k *connection, socket *net.TCPConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context, *connection, *net.TCPConn) error{copyFromOutside, copyToOutside} {
		loops.Go(func() {
			if err := loop(ctx, k, socket); err != nil && ctx.Err() == nil {
				k.stream.Fail(err)
			}
		})
	}
	err := k.stream.Wait(ctx, func(e *stream.End) bool { return e.Done() })
	if err != nil {
		_ = socket.SetLinger(0) // the other side gets a reset
	}
	cancel()
	socket.Close()
	loops.Wait()
	h.afterEnd(k, err)
}

// overPatience is how long the relay remembers the reason why a connection has failed, for a forwarder that is away.
const overPatience = 24 * time.Hour

// afterEnd forgets a connection that has ended in order. A failed connection is kept for a while, for its forwarder. At
// most PerUser failed connections of a user are kept.
func (h *Holder) afterEnd(k *connection, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waited := k.isWaiting()
	if k.client != nil {
		k.client.stopWaiting()
		k.client.port.clients--
	} else if h.users[k.job.uid]--; h.users[k.job.uid] == 0 {
		delete(h.users, k.job.uid)
	}
	if err != nil {
		h.cfg.Log.Debug("connection has failed", "job", k.job.name, "to", k.to, "reason", err)
		k.stream.Forget()
	}
	switch j := k.job; {
	case err == nil, waited, h.jobs[j.name] != j:
		h.dropLocked(k)
	case j.connections[k.id] == k: // else the forwarder knows of the failure already
		if old := h.failed[j.uid]; len(old) >= h.cfg.PerUser {
			h.dropLocked(old[0])
		}
		k.expiry = time.AfterFunc(overPatience, func() { h.dropConnection(k) })
		h.failed[j.uid] = append(h.failed[j.uid], k)
	}
}
