// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// maxState bounds a description, and maxCalls the bytes of a process's calls.
const (
	maxState = 1 << 30
	maxCalls = 16 << 30
)

// Restore builds the state that Save has written, in a server that has served no process: Config.Awaits makes sure of
// that. The job is stopped then: its processes come back by Adopt, and Resume lets them go on. Restore fails with an
// error that wraps ErrRestore, or the source's, and then the server can only be closed. No other method may be called
// meanwhile.
func (s *Server) Restore(ctx context.Context, src Source) error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.stopped || len(s.allProcesses()) > 0 {
		return errors.New("restore: the server is in use")
	}
	if err := s.restoreFrom(ctx, src); err != nil {
		err = fmt.Errorf("restore: %w", err)
		s.seen.noteFailure(err)
		return err
	}
	return nil
}

// restoreFrom is the body of Restore. The caller holds state.mu.
func (s *Server) restoreFrom(ctx context.Context, src Source) error {
	st, err := readState(src)
	if err == nil {
		err = s.restoreDevices(st)
	}
	if err != nil {
		return err
	}
	if !s.state.awaits {
		s.state.admission.Lock()
	}
	s.state.awaits, s.state.stopped = false, true
	if err := checkShared(st); err != nil {
		return fmt.Errorf("%w: %w", err, ErrRestore)
	}
	targets := map[int][]target{}
	for i := range st.Processes {
		ps := &st.Processes[i]
		if err := s.buildProcess(ctx, src, ps, targets); err != nil {
			return fmt.Errorf("process %d, which was %d: %w", ps.ID, ps.PID, err)
		}
	}
	return s.readBlocks(ctx, src, st.Blocks, targets)
}

func readState(src Source) (*serverState, error) {
	f, err := src.Open(stateName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stateName, err)
	}
	st := &serverState{}
	if err := json.Unmarshal(b, st); err != nil || len(b) > maxState {
		return nil, fmt.Errorf("%s is damaged (%w): %w", stateName, err, ErrRestore)
	}
	if st.Version != stateVersion && st.Version != workless {
		return nil, fmt.Errorf("%s is of version %d, this is %d: %w", stateName, st.Version, stateVersion, ErrRestore)
	}
	return st, nil
}

// restoreDevices compares the devices, and gives them the saved properties.
func (s *Server) restoreDevices(st *serverState) error {
	bad := func(format string, args ...any) error { return fmt.Errorf(format+": %w", append(args, ErrRestore)...) }
	if len(st.Devices) > len(s.devices) && s.cfg.Order == nil {
		s.placeAlike(st)
	}
	if len(st.Devices) > len(s.devices) {
		return bad("the job had %d devices, here are %d", len(st.Devices), len(s.devices))
	}
	for i := range st.Devices {
		was, is := &st.Devices[i], s.devices[i].Place().Info()
		major, minor := was.Attributes[backend.ComputeMajor], was.Attributes[backend.ComputeMinor]
		switch {
		case major != is.Attributes[backend.ComputeMajor] || minor != is.Attributes[backend.ComputeMinor]:
			return bad("device %d had compute capability %d.%d (%s), here it has %d.%d (%s)", i, major, minor, was.Name,
				is.Attributes[backend.ComputeMajor], is.Attributes[backend.ComputeMinor], is.Name)
		case was.Memory > is.Memory:
			return bad("device %d had %d bytes of memory, here it has %d", i, was.Memory, is.Memory)
		}
	}
	if len(st.Key) != len(s.state.key) {
		return bad("a key of %d bytes", len(st.Key))
	}
	from, err := newEarlier(st.ID, st.Blocks, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(s.collectives.Restore(st.Network), s.cuts.restoreDepartures(st.Left)); err != nil {
		return err
	}
	if st.Sharing != (driver.RandomID{}) {
		s.sharing.ID = st.Sharing
	}
	s.devices = s.devices[:len(st.Devices)]
	s.recordAlikeMemory(st)
	for i := range st.Devices {
		saved := &st.Devices[i]
		s.devices[i].ShownInfo, s.devices[i].Base = &saved.Info, saved.Base
		s.devices[i].Size = cmp.Or(saved.Size, backend.SpaceSize(saved.Memory))
	}
	k := &s.state
	k.key, k.saves = (*[32]byte)(st.Key), st.Saves
	k.rememberSave(from)
	k.shift += st.Clock - s.stateClock()
	k.awaiting = map[uint64]*process{}
	s.seen.recallSeen(st.Missed, st.Faults)
	s.mu.Lock()
	s.last = st.Last
	s.mu.Unlock()
	return nil
}

// absentPeer is the peer of a process that has not come back.
type absentPeer struct{}

func (absentPeer) Memory() wire.Process { return 0 }
func (absentPeer) Print(int, []byte)    {}
func (absentPeer) Watch() string        { return "" }
func (absentPeer) Close()               {}

// buildProcess makes a process as before, without its ring and the bytes of its memory.
func (s *Server) buildProcess(ctx context.Context, src Source, ps *processState, targets map[int][]target) error {
	calls, held, err := readCalls(src, ps)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.processes[ps.ID] != nil || ps.ID > s.last {
		s.mu.Unlock()
		return fmt.Errorf("there is another one, or %d are said to have been there: %w", s.last, ErrRestore)
	}
	if err := s.checkView(ps.View); err != nil {
		s.mu.Unlock()
		return err
	}
	p := newProcess(s, ps.ID, nil, absentPeer{}, ps.View)
	s.processes[ps.ID] = p
	s.mu.Unlock()
	s.state.awaiting[ps.ID] = p
	p.back, p.heldWork = ps, held
	r := newRebuild(p, ps, s.state.shift)
	p.Restoring = r
	p.RestoreMembers(ps.Members)
	defer func() {
		p.Restoring = nil
		p.RestoreMembers(nil)
	}()
	if err := r.rebuildAll(ctx, calls); err != nil {
		return err
	}
	for i := range ps.Devices {
		d := &ps.Devices[i]
		for _, at := range d.Memory {
			if d.State == nil {
				return fmt.Errorf("memory of device %d, which it has not used: %w", d.Ordinal, ErrRestore)
			}
			sp := p.SpaceIfUsed(d.Ordinal)
			to := backend.SpaceBlock{Space: sp.Space, ID: at.ID}
			targets[at.Block] = append(targets[at.Block], target{sp.Device.Place().Device, to})
		}
		d.State, d.Memory = nil, nil // they can be large
	}
	return nil
}

// readCalls reads the calls of a process, and the calls with unfinished work.
func readCalls(src Source, ps *processState) (out []replay.Call, held []driver.QueuedCall, err error) {
	f, err := src.Open(ps.File)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	total := 0
	part := func(n int) ([]byte, error) {
		if n < 0 || n > maxCalls-total {
			return nil, fmt.Errorf("a call of %d bytes: %w", n, ErrRestore)
		}
		total += n
		// ReadAll takes memory for the bytes that are there, not for n bytes.
		b, err := io.ReadAll(io.LimitReader(f, int64(n)))
		if err == nil && len(b) < n {
			err = io.ErrUnexpectedEOF
		}
		return b, err
	}
	for _, c := range ps.Calls {
		in, err := part(c.In)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", ps.File, c.Symbol, err)
		}
		answer, err := part(c.Out)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", ps.File, c.Symbol, err)
		}
		out = append(out, replay.Call{Op: c.Op, Context: c.Context, In: in, Out: answer})
	}
	for _, w := range ps.Work {
		in, err := part(w.In)
		if err == nil && !holdable[w.Op&^dispatch.PerThread] {
			err = fmt.Errorf("a call that queues nothing: %w", ErrRestore)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: queued work of %s: %w", ps.File, w.Symbol, err)
		}
		held = append(held, w.queuedCall(in))
	}
	ps.Calls, ps.Work = nil, nil
	return out, held, nil
}

// shiftTime converts a time by the saved server's clock into a time by this server's backend.
func shiftTime(at, shift time.Duration) *time.Duration {
	at -= shift
	return &at
}
