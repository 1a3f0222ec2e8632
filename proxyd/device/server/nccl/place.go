// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/barrier"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/cut"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// CommName is the barrier's name of a communicator of package collective, the same on all servers.
func CommName(id string) barrier.Comm {
	sum := sha256.Sum256([]byte(id))
	return barrier.Comm(binary.LittleEndian.Uint64(sum[:]))
}

// Place is a member as the leader knows it: a member with an existing communicator, or that asks for a communicator.
// Place is nil while a split makes the communicator, and for a member without a communicator that asks for no
// communicator.
func (m *Member) Place() *cut.Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &cut.Place{Process: m.Calls.ID, Broken: m.err != nil}
	switch {
	case m.comm != nil:
		p.Comm, p.Size, p.Member, p.Made = CommName(m.comm.ID()), m.comm.Size(), int32(m.rank), true
		p.Broken = p.Broken || m.comm.Err() != nil && !m.leaving
	case m.asks != nil:
		p.Comm, p.Size, p.Member = CommName(m.asks.id), m.asks.size, int32(m.asks.rank)
	default:
		return nil
	}
	return p
}

// Counts gives a ring's counts the barrier's keys. The counts of a communicator that does not exist are left out: no
// operation was issued there.
func (p *Calls) Counts(of map[uint64]uint64) map[barrier.Key]uint64 {
	handles, members := handles.Sorted(&p.Members)
	places := map[uint64]*cut.Place{}
	for i, h := range handles {
		if p := members[i].Place(); p != nil && p.Made {
			places[wire.ParseCount(uint64(h)).Comm] = p
		}
	}
	out := map[barrier.Key]uint64{}
	for key, n := range of {
		c := wire.ParseCount(key)
		if p := places[c.Comm]; p != nil && n > 0 {
			out[KeyAt(p, c)] = n
		}
	}
	return out
}

// KeyAt is the barrier's name of a member's number.
func KeyAt(p *cut.Place, c wire.Count) barrier.Key {
	return barrier.Key{Comm: p.Comm, Member: p.Member, Kind: barrier.Kind(c.Kind), Peer: int32(c.Peer)}
}

// IsKnown tells whether the member's making has ended, with success or not, and whether the leader of an attempt then
// was told. The caller holds cuts.mu.
func (m *Member) IsKnown() bool { return m.Known || m.Connected() }
