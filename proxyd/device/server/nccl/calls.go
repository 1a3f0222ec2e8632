// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
)

// NCCLVersion is the version of NCCL that programs are told: 2.28.3.
const NCCLVersion = 22803

// ncclResult is NCCL's number for the error of a communicator.
func ncclResult(err error) dispatch.Result {
	var before *failedBefore
	switch {
	case err == nil:
		return 0
	case errors.As(err, &before):
		return before.result
	case errors.Is(err, errBusy):
		return dispatch.ResultNcclInProgress
	case errors.Is(err, meeting.ErrID), errors.Is(err, collective.ErrArgument), errors.Is(err, errOperation):
		return dispatch.ResultNcclInvalidArgument
	case errors.Is(err, collective.ErrMismatch), errors.Is(err, meeting.ErrDisagree), errors.Is(err, collective.ErrRoster):
		return dispatch.ResultNcclInvalidUsage
	case backend.ResultOf(err) != backend.Unknown:
		return dispatch.ResultNcclUnhandledCudaError
	}
	return dispatch.ResultNcclRemoteError
}

// Comm finds a member: InvalidArgument if there is none.
func (p *Calls) Comm(h dispatch.Comm) (*Member, dispatch.Result) {
	m, ok := p.Members.Get(h)
	if !ok {
		return nil, dispatch.ResultNcclInvalidArgument
	}
	return m, 0
}

// readyComm finds a member with a communicator that is made and has not failed.
func (p *Calls) readyComm(h dispatch.Comm) (*Member, dispatch.Result) {
	m, r := p.Comm(h)
	if r != 0 {
		return nil, r
	}
	if err := m.stateError(); err != nil {
		if errors.Is(err, errBusy) {
			return nil, dispatch.ResultNcclInvalidArgument
		}
		return nil, ncclResult(err)
	}
	return m, 0
}

// NcclGetVersion implements dispatch.Backend, as all below.
func (p *Calls) NcclGetVersion(*dispatch.Call) (int32, dispatch.Result) { return NCCLVersion, 0 }

func (p *Calls) NcclGetUniqueId(*dispatch.Call) (dispatch.Uniqueid, dispatch.Result) {
	n, err := p.collectives.openNetwork()
	if err == nil {
		var id meeting.ID
		if id, err = n.Rendezvous.NewID(); err == nil {
			return dispatch.Uniqueid{Bytes: id}, 0
		}
	}
	p.Log.Error("no communicators can be made", "error", err)
	return dispatch.Uniqueid{}, dispatch.ResultNcclSystemError
}

// CommInit begins to make a communicator; CommState tells the progress.
func (p *Calls) CommInit(c *dispatch.Call, comm dispatch.Comm, ranks, rank int32, ids []dispatch.Uniqueid, _ int32, _ []int32, _ []uint64, _ uint32) dispatch.Result {
	x, r := p.Current(c)
	switch {
	case r != 0:
		return dispatch.ResultNcclUnhandledCudaError
	case ranks < 1 || rank < 0 || rank >= ranks || len(ids) == 0:
		return dispatch.ResultNcclInvalidArgument
	case p.Restoring != nil:
		return p.restoreMember(comm, x, int(ranks))
	}
	m := p.newMember(x)
	m.waits = &waitState{ids[0].Bytes[:], int(ranks), int(rank)}
	m.asks = m.waits.describeWait()
	if p.Members.Put(comm, m) != 0 {
		return dispatch.ResultNcclInvalidArgument
	}
	go m.meetRanks()
	return 0
}

// CommSplit begins a split, in its turn among the operations that the rank has issued. For a rank that is in no part of
// the split, the split is done then.
func (p *Calls) CommSplit(_ *dispatch.Call, comm dispatch.Comm, color, key int32, h dispatch.Comm, _ []int32, _ []uint64, _ uint32) dispatch.Result {
	if p.Restoring != nil {
		return p.restorePart(comm, h, color)
	}
	m, r := p.readyComm(comm)
	switch {
	case r != 0:
		return r
	case color < collective.NoColour:
		return dispatch.ResultNcclInvalidArgument
	}
	var next *Member
	if color != collective.NoColour {
		next = p.newMember(m.context)
		if p.Members.Put(h, next) != 0 {
			return dispatch.ResultNcclInvalidArgument
		}
	}
	q := &part{m: m}
	over := func(c *collective.Comm, rank int, err error) {
		q.noteCompleted()
		if next != nil {
			go next.connectRank(c, rank, err)
		}
	}
	q.split = func() {
		comm, err := m.Communicator()
		if err == nil {
			err = comm.Split(m.rank, int(color), int(key), over)
		}
		if err != nil {
			over(nil, 0, err)
		}
	}
	q.enterQueue()
	m.issueReady()
	return 0
}

// askAgain is how long a call waits for a communicator; a program that is told "in progress" asks again.
const askAgain = 10 * time.Second

func (p *Calls) CommState(c *dispatch.Call, comm dispatch.Comm, wait uint32) (state, ranks, rank, dev int32, r dispatch.Result) {
	m, r := p.Comm(comm)
	if r != 0 {
		return 0, 0, 0, 0, r
	}
	err := m.stateError()
	if wait != 0 && errors.Is(err, errBusy) {
		p.BeginWait(c)
		ctx, stop := p.UntilCut()
		m.awaitState(ctx, askAgain)
		stop()
		err = m.stateError()
	}
	if err != nil {
		return int32(ncclResult(err)), 0, 0, 0, 0
	}
	return 0, int32(m.size), int32(m.rank), m.context.Space.Ordinal, 0
}

func (p *Calls) CommError(_ *dispatch.Call, comm dispatch.Comm, room uint32) (string, dispatch.Result) {
	m, r := p.Comm(comm)
	if r != 0 {
		return "", r
	}
	if err := m.stateError(); err != nil {
		return strings.ToValidUTF8(err.Error(), "?"), 0
	}
	return "", 0
}

func (p *Calls) CommFinalize(_ *dispatch.Call, comm dispatch.Comm) dispatch.Result {
	m, r := p.readyComm(comm)
	if r != 0 {
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finalized = true
	return 0
}

func (p *Calls) NcclCommDestroy(_ *dispatch.Call, comm dispatch.Comm) dispatch.Result {
	m, ok := p.cuts.GiveUp(p, comm, false)
	if !ok {
		return dispatch.ResultNcclInvalidArgument
	}
	m.leaveWhenComplete()
	m.dropBuffers()
	return 0
}

func (p *Calls) NcclCommAbort(_ *dispatch.Call, comm dispatch.Comm) dispatch.Result {
	m, ok := p.cuts.GiveUp(p, comm, true)
	if !ok {
		return dispatch.ResultNcclInvalidArgument
	}
	m.abortCommunicator()
	m.dropBuffers()
	return 0
}

// NcclGroup issues a group. The streams of a failed communicator are held like the streams that were waiting at the
// failure. If one operation cannot be issued, then no operation is, and the communicators of the group fail: the
// program was told that the group is issued.
func (p *Calls) NcclGroup(c *dispatch.Call, _ []dispatch.Ncclcount, _ uint32, ops []dispatch.Ncclop, _ uint32, _ dispatch.Stream) dispatch.Result {
	g := NewGroup(p, c)
	var bad error
	var members []*Member
	for i := range ops {
		m, r := p.Comm(ops[i].Comm)
		switch {
		case r != 0:
			bad = errOperation
			continue
		case !slices.Contains(members, m):
			members = append(members, m)
		}
		if !m.Connected() {
			bad = errOperation
			continue
		}
		if err := g.Add(m, &ops[i]); err != nil && bad == nil {
			bad = err
		}
	}
	if bad != nil {
		for _, m := range members {
			m.failCommunicator(bad)
			p.FailLater(m.context, "nccl_group", dispatch.ResultInvalidValue)
		}
		p.Log.Warn("a group of collectives was not issued", "error", bad)
		return ncclResult(bad)
	}
	if rec, is := g.findRecorder(); is {
		return g.recordNode(rec)
	}
	g.issueGroup()
	return 0
}

// maxRedops is how many reductions of its own a communicator may have.
const maxRedops = 1 << 16

func (p *Calls) RedopCreate(_ *dispatch.Call, scalar []byte, _ uint32, at dispatch.Devptr, typ, residence int32, comm dispatch.Comm) (dispatch.Redop, dispatch.Result) {
	const inDevice, immediate = 0, 1
	m, r := p.Comm(comm)
	if r != 0 {
		return 0, r
	}
	t := collective.Type(max(typ, 0))
	switch {
	case typ < 0 || typ > 255 || t.Size() == 0,
		residence == immediate && len(scalar) != t.Size(),
		residence == inDevice && at == 0,
		residence != immediate && residence != inDevice:
		return 0, dispatch.ResultNcclInvalidArgument
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.redops) >= maxRedops {
		return 0, dispatch.ResultNcclInvalidUsage
	}
	f := &redop{t: t, at: backend.Addr(at)}
	if residence == immediate {
		f.value = slices.Clone(scalar)
	}
	m.lastOp++
	f.op = m.lastOp
	m.redops[m.lastOp] = f
	return m.lastOp, 0
}

func (p *Calls) NcclRedOpDestroy(_ *dispatch.Call, op dispatch.Redop, comm dispatch.Comm) dispatch.Result {
	m, r := p.Comm(comm)
	if r != 0 {
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.redops[op] == nil {
		return dispatch.ResultNcclInvalidArgument
	}
	if f := m.redops[op]; f.recorded || f.uses > 0 {
		m.oldOps[op] = m.redops[op]
	}
	delete(m.redops, op)
	return 0
}

// NcclCommRegister takes note of a buffer. A registered buffer is not faster: collectives reach all memory.
func (p *Calls) NcclCommRegister(_ *dispatch.Call, comm dispatch.Comm, ptr dispatch.Devptr, n uint64) (dispatch.Commreg, dispatch.Result) {
	m, r := p.Comm(comm)
	if r != 0 {
		return 0, r
	}
	if s := p.SpaceAt(backend.Addr(ptr)); s == nil || n == 0 {
		return 0, dispatch.ResultNcclInvalidArgument
	}
	h, r := p.buffers.Make(m)
	if r != 0 {
		return 0, dispatch.ResultNcclSystemError
	}
	return h, 0
}

func (p *Calls) NcclCommDeregister(_ *dispatch.Call, comm dispatch.Comm, handle dispatch.Commreg) dispatch.Result {
	m, r := p.Comm(comm)
	if r != 0 {
		return r
	}
	if of, ok := p.buffers.Get(handle); !ok || of != m {
		return dispatch.ResultNcclInvalidArgument
	}
	p.buffers.Drop(handle)
	return 0
}

func (m *Member) dropBuffers() {
	m.Calls.buffers.DropIf(func(of *Member) bool { return of == m })
}
