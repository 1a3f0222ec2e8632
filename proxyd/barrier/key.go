// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import "fmt"

// Rank is a process of the job that has a ring. As a rule each rank of the job has a process of its own. A
// process with several devices is a single Rank, and a permission lets it issue an
// operation on any of them. The caller numbers ranks from 0 without gaps.
type Rank int

// Comm names a communicator the same way in all ranks: by a hash of its unique id, or
// of its parent, the index of the split and the colour. Restored jobs keep the names.
type Comm uint64

// Communicator is a communicator and its members: Members[i] is the rank that holds the i-th
// member. A rank with several devices may hold several.
type Communicator struct {
	Comm    Comm
	Members []Rank
}

// Rendezvous is the creation of communicators after all of their members have arrived: a single
// communicator for an init, a communicator per colour for a split. Ranks are all ranks that wait there, also
// ranks of a split that get no communicator.
type Rendezvous struct {
	ID    uint64
	Ranks []Rank
	Makes []Communicator
}

// Kind says which of a member's operations a count is of.
type Kind uint8

// The kinds. Counts of the first are compared among all members of a communicator, the sends of a
// member to a peer with the receives of that peer from the member.
const (
	Collective Kind = iota
	Send
	Recv
)

// Key names a number that a shim keeps.
type Key struct {
	Comm   Comm
	Member int32 // the member of Comm that issues
	Kind   Kind
	Peer   int32 // the other member of a Send or Recv, else 0
}

// String is 7.0 for the collectives of member 0 of communicator 7, 7.0>1 for its sends to
// member 1 and 7.0<1 for its receives from there.
func (k Key) String() string {
	switch k.Kind {
	case Send:
		return fmt.Sprintf("%d.%d>%d", k.Comm, k.Member, k.Peer)
	case Recv:
		return fmt.Sprintf("%d.%d<%d", k.Comm, k.Member, k.Peer)
	default:
		return fmt.Sprintf("%d.%d", k.Comm, k.Member)
	}
}

// Count is how many operations have been issued under Key since its communicator was
// made. A Key that was never counted has 0.
type Count struct {
	Key
	N uint64
}

// line names a group of numbers that have to be equal at a cut: the collectives of a
// communicator, or a direction of a pair of its members.
type line struct {
	comm     Comm
	pair     bool
	from, to int32
}

// comparedLine is the line on which the number is compared.
func (k Key) comparedLine() line {
	switch k.Kind {
	case Send:
		return line{k.Comm, true, k.Member, k.Peer}
	case Recv:
		return line{k.Comm, true, k.Peer, k.Member}
	default:
		return line{comm: k.Comm}
	}
}

// listKeys are all the numbers that are compared on the line, in a communicator of n members.
func (l line) listKeys(n int) []Key {
	if l.pair {
		return []Key{
			{Comm: l.comm, Member: l.from, Kind: Send, Peer: l.to},
			{Comm: l.comm, Member: l.to, Kind: Recv, Peer: l.from},
		}
	}
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Comm: l.comm, Member: int32(i)}
	}
	return keys
}
