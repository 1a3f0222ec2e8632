// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

// lockTurns locks the turns that the space takes part in, and returns them. Until they are unlocked the space does not
// move to other turns.
func (s *Space) lockTurns() *TimeSlices {
	for {
		t := s.turns.Load()
		t.mu.Lock()
		if s.turns.Load() == t {
			return t
		}
		t.mu.Unlock()
	}
}

// mustStayUnmapped tells whether the space must not be mapped. The caller holds the mu of its turns.
func (s *Space) mustStayUnmapped() bool { return s.paused || s.moving }

// joinTurns has a space take part in the turns on its device.
func (s *Space) joinTurns() {
	t := s.lockTurns()
	defer t.mu.Unlock()
	t.addSpace(s)
}

// leaveTurns undoes joinTurns; end closes the space.
func (s *Space) leaveTurns(end func()) {
	t := s.lockTurns()
	t.removeSpace(s) // and so the space does not move any more
	t.mu.Unlock()
	end()
	t.mu.Lock()
	delete(t.meetings, s)
	if t.holder == s {
		t.releaseHolder()
		t.holder = nil
		if len(t.spaces) > 0 {
			t.giveTurn(t.spaces[0])
		}
	}
	t.mu.Unlock()
	t.wakeRunner()
}

// EnterMeeting notes that the space has a rank of a communicator. LeaveMeeting undoes it.
func (s *Space) EnterMeeting(communicator string) {
	t := s.lockTurns()
	defer t.mu.Unlock()
	if t.meetings[s] == nil {
		t.meetings[s] = map[string]int{}
	}
	t.meetings[s][communicator]++
}

// LeaveMeeting notes that a rank of a communicator is gone. A rank that was not noted, or is gone with the space, is
// ignored.
func (s *Space) LeaveMeeting(communicator string) {
	t := s.lockTurns()
	defer t.mu.Unlock()
	switch all := t.meetings[s]; {
	case all[communicator] > 1:
		all[communicator]--
	default:
		delete(all, communicator)
	}
}

// pauseWork has the space give way and stay away until resumeWork, as soon as its work can be interrupted: true when the
// space is not mapped.
func (s *Space) pauseWork() bool {
	t := s.lockTurns()
	defer t.mu.Unlock()
	s.paused = true
	return t.unmapIdleSpace(s)
}

// resumeWork undoes pauseWork.
func (s *Space) resumeWork() {
	t := s.lockTurns()
	s.paused = false
	t.returnTurn(s)
	t.mu.Unlock()
	t.wakeRunner()
}
