// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// Member is a rank of a communicator: a handle of NCCL's stands for a Member.
//
// Its groups are carried out in the order in which they were issued. An issued group waits in queue until its turn has
// come on each of its streams; then the group is the communicator's. When the communicator has carried out the group,
// the streams go on; after a failure, the streams are held: see holdStream.
type Member struct {
	Calls   *Calls
	context *driver.Context // the context of its default streams and its device

	MakingCtx context.Context // of its making
	cancel    context.CancelCauseFunc
	made      chan struct{} // closed when comm is there, or err
	unwatch   func() bool   // stops the watch for the process's end
	asks      *commRequest  // the member's contribution to a rendezvous, nil: a split makes the member
	Arrived   bool          // the member has arrived; of cutKeeper.mu, like Known
	Known     bool          // the leader was told that the communicator is made, or will not be
	Held      atomic.Bool   // the member waits before its rendezvous: the leader has not let it in

	// Known when made is closed, constant since.
	rank, size int // size is 0 if the member never was a rank

	mu          sync.Mutex
	waits       *waitState // during the rendezvous, or before
	name        string     // of a restored member: the communicator to get back
	comm        *collective.Comm
	team        backend.Team // carries out the operations that the team can, or nil
	err         error
	queue       []*part
	moving      bool // a goroutine takes parts from queue
	open        int  // parts that are not complete
	sums        Sums // issued, and before a restore
	calm        chan struct{}
	finalized   bool
	meets       bool // the turns on its device know of the communicator
	leaving     bool // destroyed: the member leaves when its last operation is over
	released    bool // aborted, or gone: no stream is held any more
	heldStreams []func(error)
	redops      map[dispatch.Redop]*redop
	oldOps      map[dispatch.Redop]*redop // destroyed, and needed by captured or queued operations
	lastOp      dispatch.Redop
}

// commRequest are the parameters by which a member asks for a communicator.
type commRequest struct {
	id         string
	size, rank int
}

// redop is a reduction with a factor.
type redop struct {
	t     collective.Type
	value []byte       // nil: the value is in device memory, read at its use
	at    backend.Addr // the address of the value

	recorded bool // a graph's node was made with the value
	op       dispatch.Redop
	uses     int // by parts that are not over
}

// firstRedop is ncclNumOps: numbers below are NCCL's own reductions.
const firstRedop dispatch.Redop = 5

// errDeparted is why a communicator fails when a rank is gone.
var errDeparted = errors.New("a rank's process has ended, or destroyed its context")

// newMember makes a member that belongs to a context. A member ends with its process.
func (p *Calls) newMember(x *driver.Context) *Member {
	m := &Member{
		Calls: p, context: x, made: make(chan struct{}), redops: map[dispatch.Redop]*redop{}, oldOps: map[dispatch.Redop]*redop{}, lastOp: firstRedop - 1,
	}
	m.MakingCtx, m.cancel = context.WithCancelCause(p.Lifetime)
	m.unwatch = context.AfterFunc(p.Lifetime, m.departAfterProgram)
	return m
}

// meetRanks makes the communicator that m waits for. meetRanks returns when that is done, or has failed.
func (m *Member) meetRanks() {
	m.Calls.cuts.AwaitCreation(m)
	comm, err := m.Calls.collectives.joinRanks(m.MakingCtx, meeting.ID(m.waits.ID), m.waits.Size, m.waits.Rank)
	m.connectRank(comm, m.waits.Rank, err)
}

// connectRank waits for a communicator that was begun, and makes m its rank.
func (m *Member) connectRank(comm *collective.Comm, rank int, err error) {
	if err == nil {
		err = comm.Wait(m.MakingCtx)
	}
	var team backend.Team
	if err == nil {
		team, err = m.Calls.collectives.joinTeam(m.MakingCtx, comm, rank, m.context.Space.Device.Place().Device)
	}
	m.mu.Lock()
	m.comm, m.team, m.rank, m.waits = comm, team, rank, nil
	if comm != nil {
		m.size = comm.Size()
	}
	if m.err == nil {
		m.err = err
	}
	err = m.err
	m.mu.Unlock()
	if comm != nil && err == nil {
		m.Calls.collectives.describeUntilEnd(comm)
		m.enterTurns(comm)
	}
	if comm != nil && err != nil {
		comm.Fail(err)
	}
	m.Calls.cuts.NoteMade(m, err)
	close(m.made)
	m.cancel(nil)
}

// enterTurns tells the turns on the member's device that its space meets other spaces in the communicator.
func (m *Member) enterTurns(comm *collective.Comm) {
	m.mu.Lock()
	was := m.meets
	m.meets = true
	m.mu.Unlock()
	if !was {
		m.context.Space.EnterMeeting(comm.ID())
	}
}

// leaveTurns undoes enterTurns. leaveTurns may be called twice.
func (m *Member) leaveTurns() {
	m.mu.Lock()
	was, comm := m.meets, m.comm
	m.meets = false
	m.mu.Unlock()
	if was {
		m.context.Space.LeaveMeeting(comm.ID())
	}
}

// stateError is nil if the communicator is ready, errBusy while it is being made or finalized, or else its end.
func (m *Member) stateError() error {
	select {
	case <-m.made:
	default:
		return errBusy
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return m.err
	case m.comm == nil:
		return errBusy // the member is restored
	case m.comm.Err() != nil:
		return m.comm.Err()
	case m.finalized && m.open > 0:
		return errBusy
	}
	return nil
}

// Connected tells whether there is a communicator, which may have failed since.
func (m *Member) Connected() bool {
	select {
	case <-m.made:
		return m.size > 0
	default:
		return false
	}
}

// Communicator is the member's communicator, or the error that ended it.
func (m *Member) Communicator() (*collective.Comm, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.comm != nil:
		return m.comm, nil
	case m.err != nil:
		return nil, m.err
	}
	return nil, errBusy
}

var errBusy = errors.New("in progress")

// awaitState returns when stateError may no longer be errBusy, or the time is over, or ctx is done.
func (m *Member) awaitState(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.made:
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	}
	m.mu.Lock()
	var calm chan struct{}
	if m.finalized && m.open > 0 {
		if m.calm == nil {
			m.calm = make(chan struct{})
		}
		calm = m.calm
	}
	comm := m.comm
	m.mu.Unlock()
	if calm == nil || comm == nil {
		return
	}
	select {
	case <-calm:
	case <-comm.Failed():
	case <-ctx.Done():
	case <-timer.C:
	}
}

// failCommunicator ends the communicator for all its members, with a reason.
func (m *Member) failCommunicator(reason error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = reason
	}
	comm := m.comm
	m.mu.Unlock()
	m.leaveTurns()
	m.cancel(reason)
	if comm != nil {
		comm.Fail(reason)
	}
}

// releaseStreams lets all held streams go on, and holds no stream any more.
func (m *Member) releaseStreams() {
	m.mu.Lock()
	m.released = true
	streams := m.heldStreams
	m.heldStreams = nil
	m.mu.Unlock()
	for _, done := range streams {
		done(nil)
	}
}

// abortCommunicator ends the communicator for all its members, at once.
func (m *Member) abortCommunicator() {
	m.failCommunicator(collective.ErrAborted)
	m.releaseStreams()
	m.unwatch()
}

// departAfterProgram is the end of a member after the end of its program. If all issued operations are complete, the
// member only leaves: other ranks may be reading bytes that the member sent; a rank that needs the member for more gets
// an error.
func (m *Member) departAfterProgram() {
	if m.Calls.Restoring != nil {
		return // the result is known then
	}
	m.mu.Lock()
	idle := m.comm != nil && m.err == nil && m.open == 0
	m.mu.Unlock()
	if idle {
		m.leaveWhenComplete()
	} else {
		m.failCommunicator(errDeparted)
	}
	m.releaseStreams()
}

// leaveWhenComplete destroys the member when all its issued operations are complete.
func (m *Member) leaveWhenComplete() {
	m.mu.Lock()
	m.leaving = true
	comm := m.comm
	now := m.open == 0
	m.mu.Unlock()
	switch {
	case comm == nil:
		m.failCommunicator(collective.ErrAborted)
	case now:
		m.leaveCommunicator()
	}
}

// leaveCommunicator ends the part of a member without open operations in its communicator.
func (m *Member) leaveCommunicator() {
	m.leaveTurns()
	if team := m.teamOrNil(); team != nil {
		team.Close()
	}
	if comm, err := m.Communicator(); err == nil {
		_ = comm.Destroy(m.rank) // m.rank is a rank of comm
	}
	m.unwatch()
}

// noteCompleted notes that a part is over.
func (q *part) noteCompleted() {
	m := q.m
	m.mu.Lock()
	m.open--
	q.dropFactors()
	calm, leave := m.open == 0, m.open == 0 && m.leaving
	if calm && m.calm != nil {
		close(m.calm)
		m.calm = nil
	}
	m.mu.Unlock()
	if leave {
		m.leaveCommunicator()
	}
	m.Calls.pace.removePart(q)
}

// useFactor notes that an operation of the part uses a factor: a part that is kept back is issued again, by the factor's
// number, and needs the factor also if the program has destroyed it.
func (q *part) useFactor(f *redop) {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	f.uses++
	q.factors = append(q.factors, f)
}

// dropFactors undoes useFactor. The caller holds the member's lock.
func (q *part) dropFactors() {
	for _, f := range q.factors {
		if f.uses--; f.uses == 0 && !f.recorded {
			delete(q.m.oldOps, f.op)
		}
	}
	q.factors = nil
}

// holdStream keeps a stream from going on with bytes that were not received. Abort lets the stream go on, because then
// the program knows; as with NCCL, whose kernels end then. A program that does not look at its communicator gets a
// fault.
func (m *Member) holdStream(done func(error), why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released {
		done(nil)
		return
	}
	var once sync.Once
	end := func(err error) { once.Do(func() { done(err) }) }
	m.heldStreams = append(m.heldStreams, end)
	time.AfterFunc(m.Calls.collectives.AbortTime, func() {
		end(fmt.Errorf("nobody has aborted the communicator: %w: %w", why, backend.LaunchFailed))
	})
}
