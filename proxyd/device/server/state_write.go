// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/replay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// writeState writes the stopped job. The caller holds state.mu.
func (s *Server) writeState(ctx context.Context, sink Sink, o SaveOptions) (*Report, error) {
	k := &s.state
	if k.key == nil {
		k.key = new([32]byte)
		_, _ = rand.Read(k.key[:]) // rand.Read never fails
	}
	st := &serverState{Version: workless, ID: rand.Text(), Saves: k.saves + 1, Key: k.key[:], Clock: s.stateClock()}
	for _, d := range s.devices {
		st.Devices = append(st.Devices, describeDevice(d))
	}
	s.mu.Lock()
	st.Last = s.last
	s.mu.Unlock()
	st.Sharing = s.sharing.ID
	st.Network, st.Left = s.collectives.Describe(), s.cuts.listDepartures()
	st.Missed, st.Faults = s.seen.allSeen()
	r := &Report{ID: st.ID, Owners: []uint64{}}
	w := newBlockWriter(ctx, sink, fmt.Sprintf(BlocksPrefix+"%d", st.Saves), k.key, k.saveByID(o.Upon), r)
	err := s.writeProcesses(sink, st, w, r)
	blocks, failed := w.finishFiles()
	if err == nil {
		err = checkShared(st)
	}
	// The first error of a reader of the blocks is the reason for the rest.
	if err := errors.Join(failed, err); err != nil {
		return nil, err
	}
	st.Blocks = blocks
	if err := writeFile(sink, stateName, func(f io.Writer) error { return json.NewEncoder(f).Encode(st) }); err != nil {
		return nil, err
	}
	r.Files = append(r.Files, stateName)
	e, err := newEarlier(st.ID, blocks, w.lengths)
	if err != nil {
		return nil, err
	}
	for name := range e.files {
		r.Files = append(r.Files, name)
		if w.upon.hasFile(name) {
			r.Kept = append(r.Kept, name)
		}
	}
	slices.Sort(r.Files)
	slices.Sort(r.Kept)
	k.saves = st.Saves
	s.recordAlikeMemory(st)
	planRegrouping(s, st)
	s.estimateNeeds(st, r)
	k.rememberSave(e)
	return r, nil
}

// writeProcesses writes all processes. A process that ends meanwhile is left out.
func (s *Server) writeProcesses(sink Sink, st *serverState, w *blockWriter, r *Report) error {
	all := s.allProcesses()
	slices.SortFunc(all, func(a, b *process) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range all {
		ps, err := s.writeProcess(p, sink, st, w)
		switch {
		case p.IsGone():
			continue
		case err != nil:
			return fmt.Errorf("process %d: %w", int(p.Peer.Memory()), err)
		}
		r.Files = append(r.Files, ps.File)
		r.Processes = append(r.Processes, ps.SavedProcess)
		for _, d := range ps.Devices {
			if d.State != nil {
				r.Owners = append(r.Owners, d.Owner)
			}
		}
		st.Processes = append(st.Processes, *ps)
	}
	return nil
}

func (s *Server) writeProcess(p *process, sink Sink, st *serverState, w *blockWriter) (*processState, error) {
	ps, calls, err := p.describeProcess()
	if err != nil {
		return nil, err
	}
	ps.File = fmt.Sprintf("calls-%d-%d", st.Saves, p.ID)
	var work []driver.QueuedCall
	ps.Work, work = p.describeWork()
	if len(ps.Work) > 0 {
		st.Version = stateVersion
	}
	if err := writeFile(sink, ps.File, func(f io.Writer) error { return writeCalls(f, calls, work) }); err != nil {
		return nil, err
	}
	for i := range ps.Devices {
		d := &ps.Devices[i]
		if d.State == nil {
			continue
		}
		sp := p.SpaceIfUsed(d.Ordinal)
		if d.Memory, err = w.addSpace(sp.Space); err != nil {
			return nil, fmt.Errorf("device %d: %w", d.Ordinal, err)
		}
	}
	return ps, nil
}

func writeCalls(f io.Writer, calls []replay.Call, work []driver.QueuedCall) error {
	for _, c := range calls {
		for _, b := range [][]byte{c.In, c.Out} {
			if _, err := f.Write(b); err != nil {
				return err
			}
		}
	}
	for _, c := range work {
		if _, err := f.Write(c.In); err != nil {
			return err
		}
	}
	return nil
}

// writeFile makes a file. The file is complete only if there is no error.
func writeFile(sink Sink, name string, fill func(io.Writer) error) error {
	f, err := sink.Create(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b := bufio.NewWriterSize(f, 1<<16)
	err = errors.Join(fill(b), b.Flush(), f.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
