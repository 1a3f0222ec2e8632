// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"errors"
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// ErrUneven means that ranks have issued different operations: an operation that only some ranks have issued waits for
// the other ranks, behind their gates.
var ErrUneven = errors.New("its ranks have not issued the same")

// issuedOperations counts the operations that the ranks on this server have issued in a communicator.
type issuedOperations struct {
	collectives map[int]uint64
	sends       map[[2]int]uint64 // from, to
	receives    map[[2]int]uint64
}

// handleMask is the part of a handle that is in the keys of counts.
const handleMask = 1<<handles.ClassShift - 1

// Uneven tells whether ranks on this server have issued different numbers of operations. The gates are shut. So it is
// known at once that work will not end, and the gates open again.
func Uneven(all []*Calls) error {
	lines := map[*collective.Comm]*issuedOperations{}
	for _, p := range all {
		if p.IsGone() {
			continue
		}
		counts, err := p.Ring.Counts()
		if err != nil {
			continue // the process is gone
		}
		members := map[uint64]*Member{}
		hs, ms := handles.Sorted(&p.Members)
		for i, h := range hs {
			members[uint64(h)&handleMask] = ms[i]
			ms[i].countsOf(lines)
		}
		for key, n := range counts {
			c := wire.ParseCount(key)
			if m := members[c.Comm]; m != nil {
				m.countsOf(lines).addCount(m.rank, c, n)
			}
		}
	}
	for c, l := range lines {
		if c.Err() == nil && !l.isEven() {
			return fmt.Errorf("communicator %s: %w", c.ID(), ErrUneven)
		}
	}
	return nil
}

// countsOf is the record of the member's communicator. The counts of a member that is not ready go into a record that
// is not in lines.
func (m *Member) countsOf(lines map[*collective.Comm]*issuedOperations) *issuedOperations {
	none := &issuedOperations{map[int]uint64{}, map[[2]int]uint64{}, map[[2]int]uint64{}}
	comm, err := m.Communicator()
	if err != nil || !m.Connected() {
		return none
	}
	if lines[comm] == nil {
		lines[comm] = none
	}
	l := lines[comm]
	if _, known := l.collectives[m.rank]; !known {
		l.collectives[m.rank] = 0
	}
	return l
}

func (l *issuedOperations) addCount(rank int, c wire.Count, n uint64) {
	switch c.Kind {
	case wire.CountCollective:
		l.collectives[rank] = n
	case wire.CountSend:
		l.sends[[2]int{rank, c.Peer}] = n
	case wire.CountRecv:
		l.receives[[2]int{c.Peer, rank}] = n
	}
}

// isEven compares the counts of the ranks on this server.
func (l *issuedOperations) isEven() bool {
	first, some := uint64(0), false
	for _, n := range l.collectives {
		if some && n != first {
			return false
		}
		first, some = n, true
	}
	for _, both := range [][2]map[[2]int]uint64{{l.sends, l.receives}, {l.receives, l.sends}} {
		for pair, n := range both[0] {
			_, from := l.collectives[pair[0]]
			_, to := l.collectives[pair[1]]
			if from && to && both[1][pair] != n {
				return false
			}
		}
	}
	return true
}
