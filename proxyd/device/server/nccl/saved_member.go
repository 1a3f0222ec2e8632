// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// MemberState is a member of a communicator. The calls that made the member are among the process's calls, to keep the
// order of all calls: see ncclCalls.restoreMember. Its configuration stands in these calls.
type MemberState struct {
	Handle     dispatch.Comm      `json:"handle"`
	Comm       string             `json:"comm,omitempty"` // its communicator's name; "": none, or a failed communicator
	Rank       int                `json:"rank"`
	Size       int                `json:"size"`
	Waits      *waitState         `json:"waits,omitempty"`
	Result     int32              `json:"result,omitempty"` // of a member that has failed
	Why        string             `json:"why,omitempty"`
	Finalized  bool               `json:"finalized,omitempty"`
	Leaving    bool               `json:"leaving,omitempty"`
	Released   bool               `json:"released,omitempty"`
	Redops     []redopState       `json:"redops,omitempty"`
	LastOp     dispatch.Redop     `json:"last_op"`
	Registered []dispatch.Commreg `json:"registered,omitempty"`
	Ordinal    int32              `json:"ordinal,omitempty"` // of its device in the process
	Sums       Sums               `json:"sums,omitzero"`
}

// waitState is the state of a member that waits for the other members.
type waitState struct {
	ID   []byte `json:"id"`
	Size int    `json:"size"`
	Rank int    `json:"rank"`
}

// describeWait describes the wait for an attempt at a cut.
func (w *waitState) describeWait() *commRequest {
	id := meeting.ID(w.ID)
	return &commRequest{id.Name(), w.Size, w.Rank}
}

// redopState is a reduction with a factor.
type redopState struct {
	Op    dispatch.Redop  `json:"op"`
	Type  collective.Type `json:"type"`
	Value []byte          `json:"value,omitempty"`
	At    backend.Addr    `json:"at,omitempty"`
	Old   bool            `json:"old,omitempty"` // destroyed: graphs or queued operations use the reduction
	// Queued is set if only queued operations use the reduction.
	Queued bool `json:"queued,omitempty"`
}

// failedBefore is the error of a communicator that failed before its server was replaced.
type failedBefore struct {
	result dispatch.Result
	why    string
}

func (e *failedBefore) Error() string { return e.why }

// maxWhy is the length to which a reason is cut.
const maxWhy = 1024

// describeMember writes a member down. The member is settled.
func (m *Member) describeMember(h dispatch.Comm) MemberState {
	err := m.stateError()
	m.mu.Lock()
	defer m.mu.Unlock()
	st := MemberState{
		Handle: h, Rank: m.rank, Size: m.size, Waits: m.waits, Finalized: m.finalized, Leaving: m.leaving, Released: m.released, LastOp: m.lastOp,
		Ordinal: m.context.Space.Ordinal, Sums: m.sums,
	}
	for op, f := range m.redops {
		st.Redops = append(st.Redops, redopState{Op: op, Type: f.t, Value: f.value, At: f.at})
	}
	for op, f := range m.oldOps {
		st.Redops = append(st.Redops, redopState{op, f.t, f.value, f.at, true, !f.recorded})
	}
	slices.SortFunc(st.Redops, func(a, b redopState) int { return cmp.Compare(a.Op, b.Op) })
	buffers, of := handles.Sorted(&m.Calls.buffers)
	for i := range of {
		if of[i] == m {
			st.Registered = append(st.Registered, buffers[i])
		}
	}
	switch {
	case st.Waits != nil:
	case m.name != "":
		st.Comm = m.name
	case err != nil && !m.leaving:
		st.Result, st.Why = int32(ncclResult(err)), err.Error()
		st.Why = st.Why[:min(len(st.Why), maxWhy)]
	case m.comm != nil:
		st.Comm = m.comm.ID()
	}
	return st
}

// Settled tells why the members cannot be described yet: an operation is under way. No operation is issued meanwhile.
// Parts that are kept back are not under way.
func (s *Calls) Settled() error {
	for _, m := range s.Members.Values() {
		made := m.stateError()
		m.mu.Lock()
		waits, open := m.waits, m.open > 0
		m.mu.Unlock()
		switch {
		case open && !s.pace.isFrozen():
			return errors.New("it has not done all that was issued")
		case waits != nil && !m.Held.Load() && !s.collectives.isWaiting(meeting.ID(waits.ID)):
			return errors.New("its members have just met")
		case waits == nil && errors.Is(made, errBusy):
			return errors.New("its members are being connected")
		}
	}
	return nil
}

// Unsaved says why a member cannot be described, or "".
func (s *Calls) Unsaved() string {
	for _, m := range s.Members.Values() {
		comm, err := m.Communicator()
		if err != nil {
			continue
		}
		d, known := comm.Describe()
		if !known || len(d.Ranks) == d.Size {
			continue
		}
		for rank, n := range d.Servers {
			if n == m.Calls.collectives.Self != slices.Contains(d.Ranks, rank) {
				return fmt.Sprintf("communicator %s: two of its device servers have the number %d", d.ID, n)
			}
		}
	}
	return ""
}

// restoreMember is comm_init of a process that is restored: x is its context, and size the planned number of ranks.
func (p *Calls) restoreMember(h dispatch.Comm, x *driver.Context, size int) dispatch.Result {
	st := p.restoring[h]
	if st == nil {
		// The member was destroyed, and only captured work names it.
		st = &MemberState{Size: size, Result: int32(dispatch.ResultNcclInvalidArgument), Why: "it was destroyed"}
	}
	m := p.newMember(x)
	if err := m.restoreMember(st); err != nil {
		p.Log.Warn("a communicator has changed since the save", "comm", h, "error", err)
		return dispatch.ResultNcclInvalidArgument
	}
	if p.Members.Put(h, m) != 0 {
		return dispatch.ResultNcclInvalidArgument
	}
	for _, b := range st.Registered {
		p.buffers.PutAt(b, m)
	}
	return 0
}

// restorePart is comm_split of a process that is restored.
func (p *Calls) restorePart(of, h dispatch.Comm, colour int32) dispatch.Result {
	m, result := p.Comm(of)
	if result != 0 || colour == collective.NoColour {
		return result
	}
	return p.restoreMember(h, m.context, m.size)
}

// restoreMember makes a new member equal to the saved member. The communicator comes when the server is reconnected.
func (m *Member) restoreMember(st *MemberState) error {
	if st.Size < 0 || st.Size > MaxCommSize || st.Rank < 0 || st.Rank > st.Size || len(st.Redops) > 2*maxRedops {
		return fmt.Errorf("rank %d of %d: %w", st.Rank, st.Size, driver.ErrRestore)
	}
	m.rank, m.size, m.lastOp = st.Rank, st.Size, st.LastOp
	m.finalized, m.leaving, m.released, m.sums = st.Finalized, st.Leaving, st.Released, st.Sums
	for _, s := range st.Redops {
		f := &redop{t: s.Type, value: s.Value, at: s.At, recorded: s.Old && !s.Queued, op: s.Op}
		if n := s.Type.Size(); n == 0 || s.Op < firstRedop || s.Op > st.LastOp || len(s.Value) != n && (s.Value != nil || s.At == 0) {
			return fmt.Errorf("a reduction %d: %w", s.Op, driver.ErrRestore)
		}
		if s.Old {
			m.oldOps[s.Op] = f
		} else {
			m.redops[s.Op] = f
		}
	}
	f := m.Calls.collectives
	switch {
	case st.Waits != nil:
		if len(st.Waits.ID) != len(meeting.ID{}) {
			return fmt.Errorf("it waits at an id of %d bytes: %w", len(st.Waits.ID), driver.ErrRestore)
		}
		m.waits, m.asks, m.size = st.Waits, st.Waits.describeWait(), 0
		f.resumeMeeting(m)
		return nil // the communicator is not made
	case st.Comm != "":
		if err := f.enterRestoredMember(st.Comm, m); err != nil {
			return err
		}
		m.name = st.Comm
	case st.Result != 0:
		m.err = &failedBefore{dispatch.Result(st.Result), st.Why}
	default:
		m.err = &failedBefore{dispatch.ResultNcclInvalidArgument, "it was destroyed"}
	}
	close(m.made)
	m.cancel(nil)
	return nil
}

// noteReconnected gives a restored member its communicator and its team, or the reason why there is no communicator.
func (m *Member) noteReconnected(comm *collective.Comm, team backend.Team, err error) {
	m.mu.Lock()
	m.comm, m.team, m.name = comm, team, ""
	if comm == nil && m.err == nil {
		m.err = err
	}
	leaving := m.leaving
	m.mu.Unlock()
	if comm != nil {
		m.enterTurns(comm)
	}
	if leaving {
		m.leaveCommunicator()
	}
}

// DescribeMembers writes the members down. They are settled.
func (p *Calls) DescribeMembers() []MemberState {
	return handles.Each(&p.Members, func(h dispatch.Comm, m *Member) MemberState { return m.describeMember(h) })
}

// RestoreMembers has the calls that made the members restore their state, until it is called with nil.
func (p *Calls) RestoreMembers(all []MemberState) {
	if all == nil {
		p.restoring = nil
		return
	}
	p.restoring = make(map[dispatch.Comm]*MemberState, len(all))
	for i := range all {
		p.restoring[all[i].Handle] = &all[i]
	}
}
