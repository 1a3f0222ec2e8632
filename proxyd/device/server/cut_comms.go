// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// departure is a member that was given up. Other members of its communicator need its counts.
type departure struct {
	cut.Place
	pid int
}

// openPlaces are a process's members when an attempt is opened. The caller holds cuts.mu, as for all methods of an
// attempt in this file.
func (a *cutAttempt) openPlaces(p *ncclCalls) []cut.Place {
	var all []cut.Place
	for _, m := range p.Members.Values() {
		place := m.Place()
		switch {
		case place == nil:
		case m.IsKnown():
			all = append(all, *place)
			a.watchMember(m)
		case m.Arrived:
			place.Made = false // not for the program yet: the news of it will follow
			all = append(all, *place)
		}
	}
	return all
}

// watchMember reports the failure of a member's communicator.
func (a *cutAttempt) watchMember(m *nccl.Member) {
	comm, _ := m.Communicator()
	if comm == nil {
		return
	}
	a.work.Go(func() {
		select {
		case <-comm.Failed():
		case <-a.ctx.Done():
			return
		}
		if p := m.Place(); p.Broken {
			a.s.cuts.mu.Lock()
			a.addEvent(cut.Event{Kind: cut.Broken, Place: p})
			a.s.cuts.mu.Unlock()
		}
	})
}

// creationChannel is closed when the leader orders the communicator to be made; processes that arrive to make it wait
// for that.
func (a *cutAttempt) creationChannel(c barrier.Comm) chan struct{} {
	if a.created[c] == nil {
		a.created[c] = make(chan struct{})
	}
	return a.created[c]
}

// AwaitCreation is called before a member meets the other members. During an attempt, AwaitCreation waits until the leader
// has the communicator made, or the attempt is over.
func (s *cutKeeper) AwaitCreation(m *nccl.Member) {
	s.mu.Lock()
	a := s.now
	m.Arrived = true
	var hold chan struct{}
	if a != nil {
		p := m.Place()
		hold = a.creationChannel(p.Comm)
		a.addEvent(cut.Event{Kind: cut.Arrived, Process: m.Calls.ID, Place: p})
	}
	s.mu.Unlock()
	if a == nil {
		return
	}
	m.Held.Store(true)
	defer m.Held.Store(false)
	select {
	case <-hold:
	case <-m.MakingCtx.Done():
	}
}

// NoteMade notes that a member is made, or that its creation failed with err, before the program can know.
func (s *cutKeeper) NoteMade(m *nccl.Member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Known = true
	a, p := s.now, m.Place()
	if a == nil || p == nil {
		return
	}
	p.Made, p.Broken = err == nil, err != nil
	a.addEvent(cut.Event{Kind: cut.Made, Process: m.Calls.ID, Place: p})
	if p.Made && a.ctx.Err() == nil {
		a.watchMember(m)
	}
}

// GiveUp drops a member from its process, which has destroyed the member or has ended, and takes note of that. broken:
// no process is to wait for operations that the member has not issued, or not carried out.
func (s *cutKeeper) GiveUp(p *ncclCalls, h dispatch.Comm, broken bool) (*nccl.Member, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := p.Members.Drop(h)
	if !ok || p.Ring == nil {
		return m, ok
	}
	if place := m.Place(); place != nil && place.Made && m.IsKnown() {
		s.recordDeparture(p, h, place, broken)
	}
	return m, true
}

// recordDeparture takes note of a place that is given up. The caller holds cuts.mu.
func (s *cutKeeper) recordDeparture(p *ncclCalls, h dispatch.Comm, place *cut.Place, broken bool) {
	t, _ := p.Ring.Tally() // of a closed ring: its last counts
	d := departure{*place, p.PID()}
	d.Left, d.Made, d.Broken = true, false, d.Broken || broken
	low := wire.ParseCount(uint64(h)).Comm
	for key, n := range t.Counts {
		if c := wire.ParseCount(key); c.Comm == low {
			p.Ring.Forget(key)
			if n > 0 {
				d.Counts = append(d.Counts, barrier.Count{Key: nccl.KeyAt(place, c), N: n})
			}
		}
	}
	if a := s.now; a != nil {
		if d.Broken {
			place.Made, place.Broken = false, true
			a.addEvent(cut.Event{Kind: cut.Broken, Process: p.ID, Place: place})
		}
		a.addEvent(cut.Event{Kind: cut.Left, Process: p.ID, Place: &d.Place})
	}
	s.departures = append(s.departures, d)
	here := 0
	for _, o := range s.departures {
		if o.Comm == d.Comm {
			here++
		}
	}
	if here >= d.Size || len(s.departures) > maxDepartures {
		first := s.departures[0].Comm
		s.departures = slices.DeleteFunc(s.departures, func(o departure) bool {
			return o.Comm == d.Comm && here >= d.Size || o.Comm == first && here < d.Size
		})
	}
}

// forgetPast forgets communicators that no process is in any more.
func (s *cutKeeper) forgetPast(past []barrier.Comm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.departures = slices.DeleteFunc(s.departures, func(d departure) bool { return slices.Contains(past, d.Comm) })
}

// listDepartures are the members that were given up, for a save.
func (s *cutKeeper) listDepartures() []cut.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []cut.Place
	for _, d := range s.departures {
		all = append(all, d.Place)
	}
	return all
}

// restoreDepartures takes the members of a save that have left. Their processes are not known any more.
func (s *cutKeeper) restoreDepartures(all []cut.Place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if p := &all[i]; !p.Left || p.Size < 1 || p.Size > nccl.MaxCommSize || p.Member < 0 || int(p.Member) >= p.Size || len(all) > maxDepartures {
			return fmt.Errorf("a member that has left, %d of %d, or too many: %w", p.Member, p.Size, ErrRestore)
		}
		s.departures = append(s.departures, departure{all[i], 0})
	}
	return nil
}

// reportProcessEnd tells the attempt that a process has ended, when all objects of the process are gone. killed: the
// last messages that it had posted were not carried out.
func (s *cutKeeper) reportProcessEnd(p *process, killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.endIsReported = true
	a := s.now
	if a == nil || a.gates[p.ID] == nil {
		return
	}
	a.gates[p.ID].over = true
	kind := cut.Ended
	if killed {
		kind = cut.Died
	}
	a.addEvent(cut.Event{Kind: kind, Process: p.ID})
}
