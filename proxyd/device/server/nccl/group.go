// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// part is the operations of a group in one communicator.
type part struct {
	m       *Member
	ops     []collective.Op
	spans   []exchangedSpans // of each operation
	missing int              // streams that wait for their turn
	visits  []*visit         // a visit for each stream that the part uses
	split   func()           // instead of ops: begins a split
	group   []*part          // all parts of the group, this part too
	fixed   bool             // the part is given as soon as its turn has come, also while parts are kept back
	given   bool             // to the communicator; of Calls.pace.mu
	factors []*redop         // that the operations use

	wrong  atomic.Pointer[error]
	halves atomic.Int32 // that are not over: the team's, and the communicator's
}

// visit is the operations of a group on one stream: the visit has the stream's turn until all of its parts are over.
type visit struct {
	st      *driver.Stream
	buffers []backend.Buffer
	slots   []slot // the use of each buffer
	parts   []*part
	turn    sync.Mutex  // held while the turn comes, or is put back
	begun   atomic.Bool // its turn has come, or will not
	done    func(error)

	mu     sync.Mutex // held together with no other lock
	left   int        // parts that are not over
	failed *Member    // the member of a failed part
	err    error      // the error of the failed part
}

// slot is a place in an operation for the bytes of a buffer.
type slot struct {
	part *part
	op   int
	kind slotKind
}

type slotKind uint8

const (
	sends slotKind = iota
	receives
	scales
)

// Group is a group being put together. A Group is not used concurrently.
type Group struct {
	p      *Calls
	call   *dispatch.Call
	parts  map[*Member]*part
	order  []*part
	visits map[backend.Stream]*visit
	turns  []*visit
}

var errOperation = errors.New("invalid operation")

// NewGroup begins a group, which a call of the process issues.
func NewGroup(p *Calls, c *dispatch.Call) *Group {
	return &Group{p: p, call: c, parts: map[*Member]*part{}, visits: map[backend.Stream]*visit{}}
}

// Add checks an operation and notes its buffers. An error is the member's.
func (g *Group) Add(m *Member, o *dispatch.Ncclop) error {
	op := collective.Op{Kind: collective.Kind(o.Kind), Type: collective.Type(o.Type), Root: int(o.Root), Peer: int(o.Root)}
	one, n := op.Type.Size(), m.size
	switch {
	case o.Kind < 0 || o.Kind > int32(collective.Recv) || o.Type < 0 || o.Type > math.MaxUint8 || one == 0:
		return fmt.Errorf("%w: kind %d of type %d", errOperation, o.Kind, o.Type)
	case o.Count > uint64(math.MaxInt/16/n):
		return fmt.Errorf("%w: %d elements", errOperation, o.Count)
	case op.Root < 0 || op.Root >= n:
		return fmt.Errorf("%w: rank %d of %d", errOperation, op.Root, n)
	}
	op.Count = int(o.Count)
	var factor *redop
	if op.Kind <= collective.ReduceScatter {
		var err error
		if factor, err = m.fillReduction(o.Op, &op, g.call.Into != nil, g.call.Again); err != nil {
			return err
		}
	}
	call := *g.call
	if o.Stream <= driver.PerThreadStream {
		call.Context = m.context.Handle
	}
	st, r := g.p.Stream(&call, o.Stream)
	if r != 0 {
		return fmt.Errorf("%w: no stream %#x", errOperation, uint64(o.Stream))
	}
	if st.Context.Space != m.context.Space {
		return fmt.Errorf("%w: the stream is on device %d, the communicator on %d", errOperation, st.Context.Space.Ordinal, m.context.Space.Ordinal)
	}
	q := g.partOf(m)
	if factor != nil && g.call.Into == nil {
		q.useFactor(factor)
	}
	v := g.visitOf(st, q)
	at := len(q.ops)
	q.ops, q.spans = append(q.ops, op), append(q.spans, exchangedSpans{})
	send, recv := op.Needs(m.rank, n)
	v.useBuffer(slot{q, at, sends}, backend.Addr(o.Src), send, false)
	v.useBuffer(slot{q, at, receives}, backend.Addr(o.Dst), recv, true)
	if factor != nil && factor.value == nil {
		v.useBuffer(slot{q, at, scales}, factor.at, one, false)
	}
	return nil
}

// fillReduction fills in the operator by which o reduces. fillReduction returns the reduction that has the factor, if
// any. again: the operation was issued before the process was restored, so the factor may have been destroyed since.
func (m *Member) fillReduction(o dispatch.Redop, op *collective.Op, recorded, again bool) (*redop, error) {
	if o >= 0 && o < firstRedop {
		op.Reduction = collective.Reduction(o)
		return nil, nil
	}
	m.mu.Lock()
	f := m.redops[o]
	if f == nil && (m.Calls.Restoring != nil || again) {
		f = m.oldOps[o]
	}
	m.mu.Unlock()
	if f == nil || f.t != op.Type {
		return nil, fmt.Errorf("%w: reduction %d", errOperation, o)
	}
	op.Reduction, op.Scale = collective.PreMulSum, f.value
	if recorded {
		m.mu.Lock()
		f.recorded = true
		m.mu.Unlock()
	}
	return f, nil
}

func (g *Group) partOf(m *Member) *part {
	q := g.parts[m]
	if q == nil {
		q = &part{m: m}
		g.parts[m] = q
		g.order = append(g.order, q)
	}
	return q
}

func (g *Group) visitOf(st *driver.Stream, q *part) *visit {
	v := g.visits[st.Backend]
	if v == nil {
		v = &visit{st: st}
		g.visits[st.Backend] = v
		g.turns = append(g.turns, v)
	}
	for _, other := range v.parts {
		if other == q {
			return v
		}
	}
	v.parts = append(v.parts, q)
	v.left++
	q.visits = append(q.visits, v)
	q.missing++
	return v
}

// useBuffer notes that a buffer is for a slot.
func (v *visit) useBuffer(s slot, at backend.Addr, n int, write bool) {
	if n > 0 {
		v.buffers = append(v.buffers, backend.Buffer{Addr: at, Size: uint64(n), Write: write})
		v.slots = append(v.slots, s)
	}
}

// issueGroup gives the group to its members and streams. If a stream refuses its visit, that is an illegal address, as
// if a kernel had found it, and the end of the communicators that wait there.
func (g *Group) issueGroup() {
	for _, q := range g.order {
		q.group = g.order
		q.enterQueue()
	}
	for _, v := range g.turns {
		err := v.queueExchange()
		if err == nil {
			err = v.st.Backend.Host(v.failMissedTurn)
		}
		if err == nil {
			continue
		}
		if backend.ResultOf(err) == backend.InvalidValue {
			err = fmt.Errorf("a collective's buffer: %w", backend.IllegalAddress)
			_ = v.st.Backend.Exchange(nil, func(_ [][]byte, done func(error)) { done(err) }) // fails only if the stream has a fault already
		}
		for _, q := range v.parts {
			q.m.failCommunicator(err)
		}
		v.skipTurn()
	}
}

// queueExchange queues the visit: on memory in place, if the stream's device can have a team.
func (v *visit) queueExchange() error {
	if st, is := v.st.Backend.(backend.Lender); is {
		for _, q := range v.parts {
			q.m.Calls.pace.fixPart(q)
		}
		return st.Lend(v.buffers, v.lendTurn)
	}
	return v.st.Backend.Exchange(v.buffers, v.beginTurn)
}

// enterQueue puts the part behind the parts that its member has issued before.
func (q *part) enterQueue() {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	q.m.queue = append(q.m.queue, q)
	q.m.open++
	q.m.countSums(q.ops)
	q.m.Calls.pace.addPart(q)
}

// beginTurn is called when the stream's turn has come. beginTurn does not wait.
func (v *visit) beginTurn(bytes [][]byte, done func(error)) {
	v.turn.Lock()
	defer v.turn.Unlock()
	if v.begun.Swap(true) {
		done(nil)
		return
	}
	for i, s := range v.slots {
		op := &s.part.ops[s.op]
		switch s.kind {
		case sends:
			op.Send = bytes[i]
		case receives:
			op.Recv = bytes[i]
		case scales:
			op.Scale = bytes[i]
		}
	}
	v.done = done
	v.arriveAtParts()
}

// failMissedTurn is called after the turn. If that has never come, then the context has a fault, and the other ranks
// would wait for ever.
func (v *visit) failMissedTurn() {
	if v.begun.Load() {
		return
	}
	for _, q := range v.parts {
		q.m.failCommunicator(fmt.Errorf("a rank's context has a fault: %w", backend.ResultOf(v.st.Context.Backend.Err())))
	}
	v.skipTurn()
}

// skipTurn takes the place of beginTurn if the turn does not come.
func (v *visit) skipTurn() {
	v.turn.Lock()
	defer v.turn.Unlock()
	if v.begun.Swap(true) {
		return
	}
	for _, q := range v.parts {
		q.m.Calls.pace.fixPart(q)
	}
	v.done = func(error) {}
	v.arriveAtParts()
}

func (v *visit) arriveAtParts() {
	for _, q := range v.parts {
		q.m.mu.Lock()
		q.missing--
		q.m.mu.Unlock()
		q.m.issueReady()
	}
}

// issueReady gives the communicator, in order, the parts that have their turn on all streams. Issue may wait for a
// connection, and so the stream's goroutine does not call issueReady.
func (m *Member) issueReady() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving || !m.hasTurn() {
		return
	}
	m.moving = true
	go func() {
		for {
			m.mu.Lock()
			if !m.hasTurn() {
				m.moving = false
				m.mu.Unlock()
				return
			}
			q := m.queue[0]
			m.queue = m.queue[1:]
			m.mu.Unlock()
			q.beginPart()
		}
	}()
}

// hasTurn tells whether the first part of the queue is to be given to the communicator now. The caller holds mu.
func (m *Member) hasTurn() bool {
	return len(m.queue) > 0 && m.queue[0].missing == 0 && m.Calls.pace.admitPart(m.queue[0])
}

// beginPart gives the part to the communicator, and to its team. beginPart returns when the team is done: as with NCCL,
// operations that are issued later wait.
func (q *part) beginPart() {
	if q.split != nil {
		q.split()
		return
	}
	comm, err := q.m.Communicator()
	if err != nil {
		q.finishPart(err)
		return
	}
	lent, rest := q.divideOps()
	q.halves.Store(1)
	if len(rest) > 0 || len(lent) == 0 {
		q.halves.Add(1)
		if err := comm.Issue(q.m.rank, rest, q.finishHalf); err != nil {
			if errors.Is(err, collective.ErrArgument) {
				q.m.failCommunicator(err)
			}
			q.finishHalf(err)
		}
	}
	if len(lent) > 0 {
		if err = q.m.teamOrNil().Do(lent); err != nil {
			comm.Fail(err)
		}
	}
	q.finishHalf(err)
}

// finishHalf is called when the communicator or the team is done. The part's result is the first error.
func (q *part) finishHalf(err error) {
	if err != nil {
		q.wrong.CompareAndSwap(nil, &err)
	}
	if q.halves.Add(-1) > 0 {
		return
	}
	if first := q.wrong.Load(); first != nil {
		err = *first
	}
	q.finishPart(err)
}

// finishPart is called when the whole part is complete, or the communicator has failed.
func (q *part) finishPart(err error) {
	q.noteCompleted()
	for _, v := range q.visits {
		v.countPartEnd(q, err)
	}
}

// countPartEnd notes that a part is over. With the last part the stream goes on, or is held.
func (v *visit) countPartEnd(q *part, err error) {
	v.mu.Lock()
	v.left--
	if err != nil && v.failed == nil {
		v.failed, v.err = q.m, err
	}
	last := v.left == 0
	v.mu.Unlock()
	switch {
	case !last:
	case v.failed == nil:
		v.done(nil)
	default:
		v.failed.holdStream(v.done, v.err)
	}
}
