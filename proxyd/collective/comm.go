// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Spec says which communicator is made, and which of its ranks are here. ID is its identity: the
// same in all processes, unique among the communicators that exist at a time; a communicator that
// has ended may be made again under the same ID, here or elsewhere.
type Spec struct {
	ID    string
	Size  int
	Ranks []int
	// Splits is the number of splits so far, of a communicator that is made again: see Description
	Splits int
}

// Comm is a process's part of a communicator: all ranks that the process holds. A Comm is safe for
// concurrent use. See the package comment for the order in which operations are carried out.
//
// A Comm ends by Destroy of all its ranks, or fails: by Abort, by Close of its Node, by a peer that
// dies or aborts, by operations that do not fit together. A failure reaches every process of the
// communicator. Incomplete operations return the failure; their receive buffers hold undefined
// bytes.
type Comm struct {
	id    string
	node  *Node
	size  int
	local []int // ascending

	// Known after the rendezvous, constant since.
	*layout
	me  int // this process's number
	key []byte
	tag tag

	ctx     context.Context // until the Comm fails or ends
	cancel  context.CancelFunc
	ready   chan struct{}
	leaving chan struct{}
	over    chan struct{}
	full    chan struct{} // a collective may be complete, or vectors can be merged: check again
	work    sync.WaitGroup
	readers sync.WaitGroup
	writers sync.WaitGroup
	scratch pool // of the goroutine that carries out collectives

	mu       sync.Mutex // before a link's
	err      error
	started  bool
	missing  int // links that are not there; attached is called when missing falls to 0
	attached func()
	links    []*link // by process; the own link is nil
	ranks    map[int]*queue
	colls    map[uint64]*collective
	pairs    map[[2]int]*pair
	exited   bool // leaving is closed
	splits   int  // number of splits so far
}

// Start begins to make a communicator and returns at once, as a non-blocking ncclCommInitRank
// does. Operations may be issued; they begin when the communicator is ready. ctx bounds the making
// only.
func (n *Node) Start(ctx context.Context, spec Spec, r Rendezvous) (*Comm, error) {
	if err := spec.checkSpec(); err != nil {
		return nil, err
	}
	me := Member{Ranks: slices.Clone(spec.Ranks), Address: n.cfg.Address}
	return n.startComm(ctx, spec, func(ctx context.Context) (Roster, error) {
		return r.Meet(ctx, spec.ID, spec.Size, me)
	})
}

func (s *Spec) checkSpec() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("communicator %s: %w: %s", s.ID, ErrArgument, fmt.Sprintf(format, args...))
	}
	if s.Size < 1 || s.Size > maxRanks {
		return bad("%d ranks", s.Size)
	}
	if len(s.Ranks) == 0 {
		return bad("no rank of it is here")
	}
	seen := make(map[int]bool, len(s.Ranks))
	for _, r := range s.Ranks {
		if r < 0 || r >= s.Size || seen[r] {
			return bad("rank %d of %d, or twice", r, s.Size)
		}
		seen[r] = true
	}
	return nil
}

// Create is Start and Wait. If it fails, all of the communicator is removed, and Create may be
// called again.
func (n *Node) Create(ctx context.Context, spec Spec, r Rendezvous) (*Comm, error) {
	c, err := n.Start(ctx, spec, r)
	if err != nil {
		return nil, err
	}
	if err := c.Wait(ctx); err != nil {
		c.Abort()
		<-c.over
		return nil, err
	}
	return c, nil
}

func (n *Node) startComm(ctx context.Context, spec Spec, meet func(context.Context) (Roster, error)) (*Comm, error) {
	c := &Comm{
		id: spec.ID, node: n, size: spec.Size, local: slices.Sorted(slices.Values(spec.Ranks)),
		ready: make(chan struct{}), leaving: make(chan struct{}), over: make(chan struct{}), full: make(chan struct{}, 1),
		ranks: make(map[int]*queue), colls: make(map[uint64]*collective), pairs: make(map[[2]int]*pair),
		splits: spec.Splits,
	}
	for _, r := range c.local {
		c.ranks[r] = &queue{rank: r}
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(n.ctx))
	n.mu.Lock()
	if n.ctx.Err() != nil {
		n.mu.Unlock()
		c.cancel()
		return nil, fmt.Errorf("communicator %s: %w", c.id, ErrClosed)
	}
	n.comms[c] = struct{}{}
	n.mu.Unlock()
	stop := context.AfterFunc(n.ctx, func() { c.failComm(ErrClosed) })
	go func() {
		defer stop()
		c.runComm(ctx, meet)
	}()
	return c, nil
}

// runComm is the life of a communicator.
func (c *Comm) runComm(ctx context.Context, meet func(context.Context) (Roster, error)) {
	if err := c.joinComm(ctx, meet); err != nil {
		c.failComm(err)
	} else {
		close(c.ready)
		c.mu.Lock()
		c.started = true
		c.mu.Unlock()
		c.work.Go(c.executeAll)
		for _, r := range c.local {
			c.beginNext(c.ranks[r])
		}
	}
	select {
	case <-c.leaving:
		c.sayGoodbye()
	case <-c.ctx.Done():
	}
	c.endComm()
}

// joinComm meets the other processes and connects to all of them: the higher number dials. Each pair of
// processes has a connection for each communicator, so that communicators cannot hold up each other,
// and a peer can harm its own communicators only. All connections are made at once, so that every process
// notices the death of every other.
func (c *Comm) joinComm(ctx context.Context, meet func(context.Context) (Roster, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(c.Err()) })
	defer stop()
	roster, err := meet(ctx)
	if err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	if len(roster.Key) < 16 {
		return fmt.Errorf("%w: a key of %d bytes", ErrRoster, len(roster.Key))
	}
	if c.layout, err = arrangeRoster(c.size, roster.Members); err != nil {
		return err
	}
	c.me = c.home[c.local[0]]
	if !slices.Equal(c.layout.ranks[c.me], c.local) {
		return fmt.Errorf("%w: it gives us the ranks %v, not %v", ErrRoster, c.layout.ranks[c.me], c.local)
	}
	processes := len(c.address)
	c.key, c.tag = slices.Clone(roster.Key), makeTag(roster.Key, c.id)
	c.links = make([]*link, processes)
	if c.missing = c.replaceDepartedLinks(processes - 1); c.missing == 0 {
		return nil
	}
	ctx, cancelTime := context.WithTimeoutCause(ctx, c.node.cfg.Connect, fmt.Errorf("after %s: %w", c.node.cfg.Connect, context.DeadlineExceeded))
	defer cancelTime()
	all := make(chan struct{})
	c.attached = func() { close(all) }
	if err := c.node.expectComm(c.tag, c); err != nil {
		return err
	}
	for p := range c.me {
		if c.gone[p] {
			continue
		}
		c.work.Go(func() {
			conn, err := c.node.dialProcess(ctx, c.address[p], c.key, c.tag, c.me, p)
			if err == nil {
				err = c.attachConn(p, conn)
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", c.peerName(p), err))
			}
		})
	}
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Comm) peerName(p int) string {
	return fmt.Sprintf("process of rank %d (%s)", c.layout.ranks[p][0], c.address[p])
}

// attachConn takes a connection of process p, which has proved its identity. On an error the caller
// keeps the connection.
func (c *Comm) attachConn(p int, conn net.Conn) error {
	if err := c.node.watchConn(conn); err != nil {
		return err
	}
	if c.node.wrap != nil {
		conn = c.node.wrap(conn)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if p >= len(c.links) || c.links[p] != nil {
		return fmt.Errorf("%w: a second connection", ErrProtocol)
	}
	fail := func(err error) { c.failComm(fmt.Errorf("%s: %w", c.peerName(p), err)) }
	rooms := collectiveRooms + pairRooms*len(c.local)*len(c.layout.ranks[p])
	l := newLink(p, conn, rooms, fail)
	c.links[p] = l
	c.readers.Go(func() {
		if err := l.readFrames(); err != nil {
			fail(err)
		}
	})
	c.writers.Go(func() {
		if err := l.writeFrames(); err != nil {
			fail(err)
		}
	})
	c.missing--
	if c.missing == 0 {
		c.attached()
	}
	return nil
}

// ID returns the communicator's identity.
func (c *Comm) ID() string { return c.id }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Failed is closed when the Comm has failed or ended; Err tells which.
func (c *Comm) Failed() <-chan struct{} { return c.ctx.Done() }

// Done is closed when the Comm has ended completely: all operations have returned, and memory given
// to it is not used any more.
func (c *Comm) Done() <-chan struct{} { return c.over }

// Wait returns when the communicator is ready, or with the reason why it will never be ready, or with ctx's
// error.
func (c *Comm) Wait(ctx context.Context) error {
	select {
	case <-c.ready:
		return c.Err()
	case <-c.ctx.Done():
		return c.Err()
	case <-ctx.Done():
		return fmt.Errorf("communicator %s: %w", c.id, context.Cause(ctx))
	}
}

// Err returns nil while the Comm has not failed, for ncclCommGetAsyncError. After Destroy Err
// returns ErrClosed.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort ends the communicator at once, everywhere. Abort may be called at any time, more than once.
// Done is closed when the communicator has ended, within a second.
func (c *Comm) Abort() { c.failComm(ErrAborted) }

// Fail is Abort with a reason. The text of the reason reaches all processes.
func (c *Comm) Fail(reason error) { c.failComm(fmt.Errorf("%w: %s", ErrAborted, reason.Error())) }

// failComm makes err the communicator's result, unless there is an earlier one.
func (c *Comm) failComm(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = fmt.Errorf("communicator %s: %w", c.id, err)
	}
	c.mu.Unlock()
	c.cancel()
}

// sayGoodbye says goodbye and waits until all other processes have done so.
func (c *Comm) sayGoodbye() {
	c.mu.Lock()
	if c.err == nil {
		c.err = fmt.Errorf("communicator %s: %w", c.id, ErrClosed)
	}
	c.mu.Unlock()
	for _, l := range c.links {
		if l != nil {
			l.closeAfterWrites()
		}
	}
	gone := make(chan struct{})
	go func() {
		c.readers.Wait()
		c.writers.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-c.ctx.Done():
	case <-time.After(c.node.cfg.Linger):
	}
}

// abortNoticeTimeout bounds the time for telling the other processes the reason of an abort.
const abortNoticeTimeout = 300 * time.Millisecond

// endComm closes all connections. It lets the operations return only when no goroutine can touch
// their memory any more.
func (c *Comm) endComm() {
	c.failComm(ErrClosed)
	c.mu.Lock()
	links, reason := slices.Clone(c.links), c.err.Error()
	c.mu.Unlock()
	for _, l := range links {
		if l != nil {
			l.abortLink(reason, abortNoticeTimeout)
		}
	}
	c.writers.Wait()
	for _, l := range links {
		if l != nil {
			l.conn.Close()
		}
	}
	c.readers.Wait()
	c.work.Wait()
	c.node.forgetComm(c)
	c.failOperations()
	close(c.over)
}

// errStopped ends a goroutine of the communicator after a failure elsewhere.
var errStopped = errors.New("stopped")
