// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"errors"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// A communicator has a team beside it if each of its ranks is on a device of its own, and the devices can: NCCL's
// communicator on real GPUs. Package collective still brings its ranks together, and tells every process of a failure.
// Its state is saved; a team is made anew wherever the communicator is made:
//
//	connected      each rank tells all other ranks its device and whether that can be in a team; the first also the team's id.
//	               Every rank draws the same conclusion, and either all ranks join or no rank does
//	issued         carries says of each operation, on all ranks the same, whether the team does it or package collective
//	failed         here or elsewhere, the team or the connections: each ends the other
//
// Where ranks share a device they have no team: their bytes go through the host's memory, and each server merges the
// data of its ranks along whole subtrees of the tree. So they do where Config.Exact asks for sums that do not depend on
// where ranks are.

// Fields of a card, by which a rank tells the other ranks of its device.
const (
	cardAble = 0  // 1 if its device can be in a team
	cardUUID = 8  // of its device
	cardID   = 64 // of the first rank: the team's
	cardSize = cardID + len(backend.TeamID{})
)

// joinTeam lets a rank of a communicator that was just connected join its team, or returns nil if the communicator has
// no team. d is nil for a rank when its process has left the communicator. All ranks do so at the same time.
func (f *Collectives) joinTeam(ctx context.Context, comm *collective.Comm, rank int, d backend.Device) (backend.Team, error) {
	if !f.Teams || comm.Size() == 1 {
		return nil, nil
	}
	all, err := f.exchangeCards(ctx, comm, rank, d)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for r := range comm.Size() {
		card := all[r*cardSize:][:cardSize]
		device := string(card[cardUUID:][:16])
		if card[cardAble] == 0 || seen[device] {
			return nil, nil
		}
		seen[device] = true
	}
	// A rank that cannot join tells the other ranks, which would wait for it.
	joining, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-comm.Failed():
			cancel(comm.Err())
		case <-joining.Done():
		}
	}()
	team, err := d.(backend.Teams).Join(joining, backend.TeamID(all[cardID:cardSize]), comm.Size(), rank)
	if err != nil {
		comm.Fail(err)
		return nil, err
	}
	go func() {
		<-comm.Failed()
		if !errors.Is(comm.Err(), collective.ErrClosed) {
			team.Abort()
		}
	}()
	return team, nil
}

// exchangeCards has all ranks tell each other their cards.
func (f *Collectives) exchangeCards(ctx context.Context, comm *collective.Comm, rank int, d backend.Device) ([]byte, error) {
	card, all := make([]byte, cardSize), make([]byte, cardSize*comm.Size())
	if t, is := d.(backend.Teams); is && t.Teams() == nil {
		info := d.Info()
		copy(card[cardUUID:], info.UUID[:])
		card[cardAble] = 1
		if rank == 0 {
			id, err := t.NewTeamID()
			if err != nil {
				return nil, err
			}
			copy(card[cardID:], id[:])
		}
	}
	over := make(chan error, 1)
	op := collective.Op{Kind: collective.AllGather, Type: collective.Uint8, Count: cardSize, Send: card, Recv: all}
	if err := comm.Issue(rank, []collective.Op{op}, func(err error) { over <- err }); err != nil {
		return nil, err
	}
	select {
	case err := <-over:
		return all, err
	case <-ctx.Done():
		comm.Fail(context.Cause(ctx))
		return nil, errors.Join(context.Cause(ctx), <-over)
	}
}

// makeTeams has the ranks of a communicator that was made again join their team.
func (f *Collectives) makeTeams(ctx context.Context, comm *collective.Comm, b *commToRemake) (map[int]backend.Team, error) {
	var mu sync.Mutex
	teams := map[int]backend.Team{}
	var errs []error
	var all sync.WaitGroup
	for _, rank := range b.Ranks {
		var d backend.Device
		if m := b.members[rank]; m != nil {
			d = m.context.Space.Device.Place().Device
		}
		all.Go(func() {
			team, err := f.joinTeam(ctx, comm, rank, d)
			mu.Lock()
			defer mu.Unlock()
			teams[rank] = team
			errs = append(errs, err)
		})
	}
	all.Wait()
	return teams, errors.Join(errs...)
}

// teamCarries tells whether the member's team does an operation.
func (m *Member) teamCarries(op *collective.Op) bool {
	switch {
	case m.teamOrNil() == nil:
		return false
	case op.Kind > collective.ReduceScatter:
		return true
	case op.Type >= collective.Float8E4M3:
		return false // which not every NCCL has
	}
	return !m.Calls.collectives.Exact || isExact(op)
}

// isExact tells whether a reduction has the same result in any order.
func isExact(op *collective.Op) bool {
	return op.Type <= collective.Uint64 && op.Reduction <= collective.Min
}

// InTeam tells whether a device of the job is in a team for one of the process's members, or may be in a team that is
// being made: the team would stay on the device when the spaces move to another one.
func (p *Calls) InTeam(d *driver.Device) bool {
	if !p.collectives.Teams {
		return false
	}
	_, members := handles.Sorted(&p.Members)
	for _, m := range members {
		if m.context.Space.Device == d && (m.teamOrNil() != nil || errors.Is(m.stateError(), errBusy)) {
			return true
		}
	}
	return false
}

// teamOrNil is the member's team, or nil.
func (m *Member) teamOrNil() backend.Team {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.team
}

// exchangedSpans are the bytes that an operation exchanges: by slotKind, the bytes sent and the bytes received.
type exchangedSpans [receives + 1]backend.Span

// lendTurn is beginTurn on memory in place. Operations that no team can carry out are copied.
func (v *visit) lendTurn(spans []backend.Span, done func(error)) {
	v.turn.Lock()
	defer v.turn.Unlock()
	if v.begun.Swap(true) {
		done(nil)
		return
	}
	v.done = done
	for i, s := range v.slots {
		if err := s.fillOp(spans[i]); err != nil {
			for _, q := range v.parts {
				q.m.failCommunicator(err)
			}
			v.done = func(error) { done(err) }
			break
		}
	}
	v.arriveAtParts()
}

// fillOp gives an operation its memory.
func (s slot) fillOp(x backend.Span) error {
	op := &s.part.ops[s.op]
	if s.kind != scales && s.part.m.teamCarries(op) {
		s.part.spans[s.op][s.kind] = x
		return nil
	}
	bytes, err := x.Bytes()
	switch s.kind {
	case sends:
		op.Send = bytes
	case receives:
		op.Recv = bytes
	case scales:
		op.Scale = bytes
	}
	return err
}

// teamKinds are the kinds as a team numbers them.
var teamKinds = map[collective.Kind]backend.TeamKind{
	collective.AllReduce: backend.TeamAllReduce, collective.Reduce: backend.TeamReduce, collective.ReduceScatter: backend.TeamReduceScatter,
	collective.Broadcast: backend.TeamBroadcast, collective.AllGather: backend.TeamAllGather, collective.AllToAll: backend.TeamAllToAll,
	collective.Gather: backend.TeamGather, collective.Scatter: backend.TeamScatter, collective.Send: backend.TeamSend, collective.Recv: backend.TeamRecv,
}

// lentOp is an operation in the team's form.
func (q *part) lentOp(i int) backend.TeamOp {
	op := &q.ops[i]
	t := backend.TeamOp{
		Kind: teamKinds[op.Kind], Type: uint8(op.Type), Count: op.Count, Root: op.Root, Send: q.spans[i][sends], Recv: q.spans[i][receives],
	}
	switch {
	case op.Kind > collective.ReduceScatter:
		t.Type, t.Count = uint8(collective.Uint8), op.Count*op.Type.Size() // bytes are bytes
	case op.Reduction == collective.PreMulSum:
		t.Scale = op.Scale
	default:
		t.Reduction = uint8(op.Reduction)
	}
	return t
}

// divideOps returns the operations that the member's team carries out, and the operations for package collective.
func (q *part) divideOps() (lent []backend.TeamOp, rest []collective.Op) {
	for i := range q.ops {
		op := &q.ops[i]
		switch {
		case !q.m.teamCarries(op):
			rest = append(rest, *op)
		case op.Count > 0:
			lent = append(lent, q.lentOp(i))
			if op.Kind <= collective.ReduceScatter && !isExact(op) {
				q.m.Calls.collectives.Rounded.Store(true)
			}
		}
	}
	return lent, rest
}
