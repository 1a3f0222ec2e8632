// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// departure is a member that was given up. Others of its communicator need its counts.
type departure struct {
	cut.Place
	pid int
}

// commName is the barrier's name of a communicator, of collective's, which is the same everywhere.
func commName(id string) barrier.Comm {
	sum := sha256.Sum256([]byte(id))
	return barrier.Comm(binary.LittleEndian.Uint64(sum[:]))
}

// place is a member as the leader knows it: one whose communicator is there, or that asks for it. It is nil while a split makes it, and if there is
// nothing any more.
func (m *member) place() *cut.Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &cut.Place{Process: m.p.id, Broken: m.err != nil}
	switch {
	case m.comm != nil:
		p.Comm, p.Size, p.Member, p.Made = commName(m.comm.ID()), m.comm.Size(), int32(m.rank), true
		p.Broken = p.Broken || m.comm.Err() != nil && !m.leaving
	case m.asks != nil:
		p.Comm, p.Size, p.Member = commName(m.asks.id), m.asks.size, int32(m.asks.rank)
	default:
		return nil
	}
	return p
}

// counts gives a ring's counts the barrier's keys. What is counted for a communicator that is none is left out: nothing was issued for it.
func (p *ncclCalls) counts(of map[uint64]uint64) map[barrier.Key]uint64 {
	handles, members := sorted(&p.members)
	places := map[uint64]*cut.Place{}
	for i, h := range handles {
		if p := members[i].place(); p != nil && p.Made {
			places[wire.ParseCount(uint64(h)).Comm] = p
		}
	}
	out := map[barrier.Key]uint64{}
	for key, n := range of {
		c := wire.ParseCount(key)
		if p := places[c.Comm]; p != nil && n > 0 {
			out[keyAt(p, c)] = n
		}
	}
	return out
}

// keyAt is the barrier's name of one of a member's numbers.
func keyAt(p *cut.Place, c wire.Count) barrier.Key {
	return barrier.Key{Comm: p.Comm, Member: p.Member, Kind: barrier.Kind(c.Kind), Peer: int32(c.Peer)}
}

// places are a process's members when an attempt is opened. The caller holds cuts.mu, as of all that follows in this file
// with an attempt for its receiver.
func (a *attempt) places(p *ncclCalls) []cut.Place {
	var all []cut.Place
	for _, m := range p.members.values() {
		place := m.place()
		switch {
		case place == nil:
		case m.isKnown():
			all = append(all, *place)
			a.attend(m)
		case m.arrived:
			place.Made = false // not for the program yet: that will be told
			all = append(all, *place)
		}
	}
	return all
}

// isKnown tells whether its making has ended, well or not, and whether the leader of an attempt then was told so. The caller holds cuts.mu.
func (m *member) isKnown() bool { return m.known || m.connected() }

// attend tells when a member's communicator fails.
func (a *attempt) attend(m *member) {
	m.mu.Lock()
	comm := m.comm
	m.mu.Unlock()
	if comm == nil {
		return
	}
	a.work.Go(func() {
		select {
		case <-comm.Failed():
		case <-a.ctx.Done():
			return
		}
		if p := m.place(); p.Broken {
			a.s.cuts.mu.Lock()
			a.tell(cut.Event{Kind: cut.Broken, Place: p})
			a.s.cuts.mu.Unlock()
		}
	})
}

// creation is what those wait for who arrive to make a communicator.
func (a *attempt) creation(c barrier.Comm) chan struct{} {
	if a.created[c] == nil {
		a.created[c] = make(chan struct{})
	}
	return a.created[c]
}

// Arrive is before a member meets the others. During an attempt it is held until the leader has the communicator made, or the attempt is over.
func (s *cutKeeper) Arrive(m *member) {
	s.mu.Lock()
	a := s.now
	m.arrived = true
	var hold chan struct{}
	if a != nil {
		p := m.place()
		hold = a.creation(p.Comm)
		a.tell(cut.Event{Kind: cut.Arrived, Process: m.p.id, Place: p})
	}
	s.mu.Unlock()
	if a == nil {
		return
	}
	m.barred.Store(true)
	defer m.barred.Store(false)
	select {
	case <-hold:
	case <-m.ctx.Done():
	}
}

// IsMade tells of a member that is made, or will not be, before the program can know.
func (s *cutKeeper) IsMade(m *member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.known = true
	a, p := s.now, m.place()
	if a == nil || p == nil {
		return
	}
	p.Made, p.Broken = err == nil, err != nil
	a.tell(cut.Event{Kind: cut.Made, Process: m.p.id, Place: p})
	if p.Made && a.ctx.Err() == nil {
		a.attend(m)
	}
}

// GiveUp drops a member from its process, which has destroyed it or has ended, and takes note of it. broken: nobody is to wait for what it
// has not issued, or not carried out.
func (s *cutKeeper) GiveUp(p *ncclCalls, h dispatch.Comm, broken bool) (*member, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := p.members.drop(h)
	if !ok || p.ring == nil {
		return m, ok
	}
	if place := m.place(); place != nil && place.Made && m.isKnown() {
		s.depart(p, h, place, broken)
	}
	return m, true
}

// depart takes note of a place that is given up. The caller holds cuts.mu.
func (s *cutKeeper) depart(p *ncclCalls, h dispatch.Comm, place *cut.Place, broken bool) {
	t, _ := p.ring.Tally() // of a ring that is closed, the last
	d := departure{*place, p.pid()}
	d.Left, d.Made, d.Broken = true, false, d.Broken || broken
	low := wire.ParseCount(uint64(h)).Comm
	for key, n := range t.Counts {
		if c := wire.ParseCount(key); c.Comm == low {
			p.ring.Forget(key)
			if n > 0 {
				d.Counts = append(d.Counts, barrier.Count{Key: keyAt(place, c), N: n})
			}
		}
	}
	if a := s.now; a != nil {
		if d.Broken {
			place.Made, place.Broken = false, true
			a.tell(cut.Event{Kind: cut.Broken, Process: p.id, Place: place})
		}
		a.tell(cut.Event{Kind: cut.Left, Process: p.id, Place: &d.Place})
	}
	s.left = append(s.left, d)
	here := 0
	for _, o := range s.left {
		if o.Comm == d.Comm {
			here++
		}
	}
	if here >= d.Size || len(s.left) > maxDepartures {
		first := s.left[0].Comm
		s.left = slices.DeleteFunc(s.left, func(o departure) bool {
			return o.Comm == d.Comm && here >= d.Size || o.Comm == first && here < d.Size
		})
	}
}

// remember forgets communicators in which nobody is any more.
func (s *cutKeeper) remember(past []barrier.Comm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = slices.DeleteFunc(s.left, func(d departure) bool { return slices.Contains(past, d.Comm) })
}

// departures are the members that were given up, for a save.
func (s *cutKeeper) departures() []cut.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []cut.Place
	for _, d := range s.left {
		all = append(all, d.Place)
	}
	return all
}

// hasLeft takes those of a save. What their processes were is not known any more.
func (s *cutKeeper) hasLeft(all []cut.Place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		if p := &all[i]; !p.Left || p.Size < 1 || p.Size > maxCommSize || p.Member < 0 || int(p.Member) >= p.Size || len(all) > maxDepartures {
			return fmt.Errorf("a member that has left, %d of %d, or too many: %w", p.Member, p.Size, ErrRestore)
		}
		s.left = append(s.left, departure{all[i], 0})
	}
	return nil
}

// ended tells that a process has, when all that it had is gone. killed: what it had posted last was not carried out.
func (s *cutKeeper) ended(process uint64, killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.now
	if a == nil || a.gates[process] == nil {
		return
	}
	a.gates[process].over = true
	kind := cut.Ended
	if killed {
		kind = cut.Died
	}
	a.tell(cut.Event{Kind: kind, Process: process})
}
