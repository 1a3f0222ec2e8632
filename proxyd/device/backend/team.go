// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import "context"

// Teams is a Device that can carry out collectives with others, of this process and of other ones, without the host's
// memory in between: NCCL. Where it cannot, or a job is not to have it, Stream.Exchange hands its bytes to somebody who does.
type Teams interface {
	Device
	// Teams is nil if it can, else why not.
	Teams() error
	// NewTeamID makes what the members of one team must know.
	NewTeamID() (TeamID, error)
	// Join makes the device one of so many members; no two are on the same device. It returns when all have come, or ctx is done.
	Join(ctx context.Context, id TeamID, members, member int) (Team, error)
}

// TeamID is the identity of a team: an NCCL unique id.
type TeamID [128]byte

// Team is a device's part in a team. Close and Abort may be called at any time, more than once.
type Team interface {
	// Do carries out operations, all at the same time, and returns when the device's part in them is done. One group
	// follows another: it is called by one goroutine at a time. An error is the team's: it can do no more.
	Do(ops []TeamOp) error
	// Close leaves the team when all is done that is under way; others may go on to do what this one has taken part in.
	// Nobody may call Do any more.
	Close()
	// Abort ends what is under way here, for all members.
	Abort()
}

// TeamOp is a member's part in one operation. Kinds, types and reductions are numbered as in NCCL's interface, the kinds as
// listed; counts mean what they mean there. Of the spans a member needs those that the operation reads or writes here.
type TeamOp struct {
	Kind       TeamKind
	Type       uint8
	Reduction  uint8
	Scale      []byte // a factor for the member's own elements, then the sum: instead of Reduction
	Count      int
	Root       int // or the peer of a message
	Send, Recv Span
}

// TeamKind is what an operation does.
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
	// Bytes is what an Exchange has: the memory's bytes, in the host's memory. What is written there is the memory's when the stream
	// goes on.
	Bytes() ([]byte, error)
}

// Lender is a Stream of a device that can be in a Team.
type Lender interface {
	Stream
	// Lend is Exchange with memory where it is: begin gets spans, for Team.Do of the same device, or for whoever wants their bytes.
	// begin may block for as long as it takes to copy them.
	Lend(buffers []Buffer, begin func(spans []Span, done func(error))) error
}
