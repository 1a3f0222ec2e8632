// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package splice

import "slices"

// Block names a block of memory by its address, which is the same in all ranks of a group.
type Block uint64

// Kind is what an operation is.
type Kind uint8

// The kinds of operations.
const (
	Work       Kind = iota // a kernel, a fill, a copy within the memory
	Read                   // a copy to the program, which sees the bytes
	Alloc                  // makes the blocks of Writes, which are zero
	Free                   // ends the blocks of Writes
	Collective             // reads each rank's Reads; all ranks get the same bytes in Writes. With Record "": among ranks of which one is here
)

// Op is an operation that a rank asks for.
type Op struct {
	Kind Kind
	// Record says what the operation does: two with equal records and operands write the same bytes if they read the same bytes. "" is
	// for what is different for each rank, or not known to be equal: it never runs once.
	Record string
	Reads  []Block // all blocks that the operation may read
	Writes []Block // all blocks that the operation may write
	// Fills are those of Writes whose every byte is written, and which are not read.
	Fills []Block
	ID    uint64 // the caller's
}

// isAlike tells whether two operations may be one.
func (o *Op) isAlike(p *Op) bool {
	return o.Kind == p.Kind && o.Record != "" && o.Record == p.Record &&
		slices.Equal(o.Reads, p.Reads) && slices.Equal(o.Writes, p.Writes) && slices.Equal(o.Fills, p.Fills)
}

// neededBlocks are the blocks whose bytes have an influence on what the operation writes, or stay in what it writes.
func (o *Op) neededBlocks() []Block {
	out := slices.Clone(o.Reads)
	for _, b := range o.Writes {
		if !slices.Contains(o.Fills, b) {
			out = append(out, b)
		}
	}
	return out
}

// Event is something that happened. It is one of Post, TimeOut, End and Compared.
type Event interface{ isEvent() }

// Post is an operation that a rank asks for, behind all that it has asked for before.
type Post struct {
	Rank int
	Op   Op
}

// TimeOut says that a rank has waited for others as long as it may since it was parked. Where it is not parked any more, nothing
// happens.
type TimeOut struct{ Rank int }

// End says that a rank is gone. What it has asked for and what was not carried out is dropped.
type End struct{ Rank int }

// Compared says that all ranks' views of a block held the same bytes when its stamps, by Group.Stamps, were these.
type Compared struct {
	Block  Block
	Stamps []uint64
}

func (Post) isEvent()     {}
func (TimeOut) isEvent()  {}
func (End) isEvent()      {}
func (Compared) isEvent() {}

// Act is what an effect asks for.
type Act uint8

// The acts.
const (
	RunOnce Act = iota // carry out Op on the common memory; IDs are those of all ranks, 0 for a rank that is gone
	RunOwn             // carry out Op in Rank's view
	Unshare            // give Rank memory of its own for Block, with the bytes of the common memory
	Share              // let all ranks' views of Block be the common memory, with the bytes of From's view, or with those it has if From is -1
	Park               // Rank waits for the others: send TimeOut when it has waited for long enough
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
