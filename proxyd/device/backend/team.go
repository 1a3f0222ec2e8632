// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import "context"

// Teams is a Device that can carry out collectives with other devices, of this process and of other processes, without
// the host's memory in between: NCCL. For devices that cannot, and jobs that are to have no teams, Stream.Exchange
// hands the bytes to other code.
type Teams interface {
	Device
	// Teams returns nil if the device can be in teams, else an error with the reason.
	Teams() error
	// NewTeamID makes the identity that the members of a team must know.
	NewTeamID() (TeamID, error)
	// Join makes the device a member of a team of members; no two are on the same device. Join returns when all
	// members have come, or ctx is done.
	Join(ctx context.Context, id TeamID, members, member int) (Team, error)
}

// TeamID is the identity of a team: an NCCL unique id.
type TeamID [128]byte

// Team is a device's part in a team. Close and Abort may be called at any time, more than once.
type Team interface {
	// Do carries out operations, all at the same time, and returns when the device's part in them is done. Groups
	// follow each other: only one goroutine at a time calls Do. After an error the team can do no more.
	Do(ops []TeamOp) error
	// Close leaves the team when all is done that is under way; other members may still finish operations with this
	// member's part. Do must not be called any more.
	Close()
	// Abort ends the operations under way here, for all members.
	Abort()
}

// TeamOp is a member's part in an operation. Kinds, types and reductions are numbered as in NCCL's interface, the kinds
// as listed; counts mean the same as there. A member needs only the spans that the operation reads or writes here.
type TeamOp struct {
	Kind       TeamKind
	Type       uint8
	Reduction  uint8
	Scale      []byte // a factor for the member's own elements, then the sum: instead of Reduction
	Count      int
	Root       int // or the peer of a message
	Send, Recv Span
}

// TeamKind is the kind of an operation.
type TeamKind uint8

// The kinds.
const (
	TeamAllReduce TeamKind = iota
	TeamReduce
	TeamReduceScatter
	TeamBroadcast
	TeamAllGather
	TeamAllToAll
	TeamGather
	TeamScatter
	TeamSend
	TeamRecv
)

// Span is a buffer of a Lend, until that is done.
type Span interface {
	// Bytes returns the memory's bytes in the host's memory, as an Exchange has them. Bytes written there are in the
	// device's memory when the stream goes on.
	Bytes() ([]byte, error)
}

// Lender is a Stream of a device that can be in a Team.
type Lender interface {
	Stream
	// Lend is Exchange on memory in place: begin gets spans, for Team.Do of the same device, or for code that wants
	// their bytes. begin may block for the time of copying them.
	Lend(buffers []Buffer, begin func(spans []Span, done func(error))) error
}
