// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// A space moves to another device of the backend while its program runs:
//
//	rest     its work is interrupted where the backend can, and the space is unmapped
//	move     the backend has the space be on the other device
//	join     the space takes part in the turns there
//
// Its addresses, contexts and streams stay, and queued work stays queued. The program sees a delay at most.

// MoveSpaces moves the process's spaces that are not where their devices are (see Device.SetPlace), as far as their work
// can be interrupted now: true when all are there. Of all servers of a machine, one goroutine may be in MoveSpaces, and of a
// server, one in MoveSpaces or StayPut.
func (p *Process) MoveSpaces() (bool, error) {
	there := true
	for _, s := range p.Spaces() {
		moved, err := s.moveTo(s.Device.Place())
		if err != nil {
			return false, fmt.Errorf("device %d: %w", s.Ordinal, err)
		}
		there = there && moved
	}
	return there, nil
}

// StayPut lets spaces that MoveSpaces could not move yet go on where they are.
func (p *Process) StayPut() {
	for _, s := range p.Spaces() {
		t := s.lockTurns()
		s.moving = false
		t.returnTurn(s)
		t.mu.Unlock()
		t.wakeRunner()
	}
}

// moveTo moves the space, as soon as its work can be interrupted: true when the space is there, or has ended.
func (s *Space) moveTo(to Place) (bool, error) {
	t := s.lockTurns()
	defer t.wakeRunner()
	defer t.mu.Unlock()
	if t == to.TimeSlices || !slices.Contains(t.spaces, s) {
		return true, nil
	}
	mover, is := s.Space.(backend.Mover)
	if !is {
		return false, backend.NotSupported
	}
	s.moving = true
	if !t.unmapIdleSpace(s) {
		return false, nil
	}
	s.moving = false
	if err := mover.Move(to.Device); err != nil {
		t.returnTurn(s)
		if backend.ResultOf(err) == backend.NotReady {
			return false, nil // work or a call uses what would move
		}
		return false, fmt.Errorf("move a space: %w", err)
	}
	meetings := t.meetings[s]
	delete(t.meetings, s)
	t.removeSpace(s)
	// No other caller holds the locks of two turns.
	to.TimeSlices.mu.Lock()
	defer to.TimeSlices.mu.Unlock()
	s.turns.Store(to.TimeSlices)
	if len(meetings) > 0 {
		to.TimeSlices.meetings[s] = meetings
	}
	to.TimeSlices.addSpace(s)
	to.TimeSlices.wakeRunner()
	return true, nil
}
