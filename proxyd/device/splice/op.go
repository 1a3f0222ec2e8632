// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// Block names a block of memory by its address, which is the same in all ranks of a group.
type Block uint64

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations.
const (
	Work       Kind = iota // a kernel, a fill, a copy within the memory
	Read                   // a copy to the program, which sees the bytes
	Alloc                  // makes the blocks of Writes, which are zero
	Free                   // ends the blocks of Writes
	Collective             // writes the same bytes for all ranks; Record "": only one of its ranks is in the group
)

// Op is an operation that a rank asks for.
type Op struct {
	Kind Kind
	// Record identifies the computation: operations with equal records and operands write the same bytes if
	// they read the same bytes. "" means that the computation is different for each rank, or not known to be
	// equal; such an operation never runs once.
	Record string
	Reads  []Block // all blocks that the operation may read
	Writes []Block // all blocks that the operation may write
	// Fills has those of Writes in which the operation writes every byte and reads none.
	Fills []Block
	ID    uint64 // the caller's
}

// isAlike tells whether two operations may run as one.
func (o *Op) isAlike(p *Op) bool {
	return o.Kind == p.Kind && o.Record != "" && o.Record == p.Record &&
		slices.Equal(o.Reads, p.Reads) && slices.Equal(o.Writes, p.Writes) && slices.Equal(o.Fills, p.Fills)
}

// neededBlocks returns the blocks with bytes that influence what the operation writes, and the written blocks
// that keep old bytes.
func (o *Op) neededBlocks() []Block {
	out := slices.Clone(o.Reads)
	for _, b := range o.Writes {
		if !slices.Contains(o.Fills, b) {
			out = append(out, b)
		}
	}
	return out
}

// Event is an event of a rank or of the caller: Post, TimeOut, End or Compared.
type Event interface{ isEvent() }

// Post says that a rank asks for an operation, after all operations that it has asked for before.
type Post struct {
	Rank int
	Op   Op
}

// TimeOut says that a parked rank has waited for other ranks for as long as it may. It has no effect on a
// rank that is not parked.
type TimeOut struct{ Rank int }

// End says that a rank is gone. Its operations that have not been carried out are dropped.
type End struct{ Rank int }

// Compared says that all ranks' views of a block held the same bytes when its stamps, by Group.Stamps, were
// these.
type Compared struct {
	Block  Block
	Stamps []uint64
}

func (Post) isEvent()     {}
func (TimeOut) isEvent()  {}
func (End) isEvent()      {}
func (Compared) isEvent() {}

// Act says what an effect asks for.
type Act uint8

// The acts.
const (
	RunOnce Act = iota // carry out Op on the common memory; IDs has each rank's operation, 0 for a rank that is gone
	RunOwn             // carry out Op in Rank's view
	Unshare            // give Rank memory of its own for Block, with the bytes of the common memory
	Share              // make Block common memory of all ranks, with the bytes of From's view; -1: of the common memory
	Park               // Rank waits for the other ranks: send TimeOut when it has waited for long enough
)

// Effect is something to do. Effects are carried out in their order.
type Effect struct {
	Act   Act
	Rank  int
	From  int
	Block Block
	Op    *Op
	IDs   []uint64
}
