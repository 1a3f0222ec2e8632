// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

import "time"

// Swap counts the bytes that a device has moved, in all, to have room for the space that is mapped.
type Swap struct {
	Out, In uint64 // bytes, to the host's memory and back
	Took    time.Duration
	Most    uint64 // bytes of spaces on the device at once
	Now     bool   // bytes were moved lately: in the last RecentTurns turns
	// Spared counts bytes that had to leave or to come, and were not moved, because equal bytes were there. Alike: some
	// were spared lately.
	Spared uint64
	Alike  bool
}

// Swapper is a Device that counts the bytes that it moves.
type Swapper interface{ Swapped() Swap }

// RecentTurns is the number of turns of spaces on a device for which the device counts as swapping after bytes were
// moved. With eight ranks, a mini-batch has some sixteen turns.
const RecentTurns = 64

// SwapCounter counts for a Swapper. The caller holds a lock.
type SwapCounter struct {
	counts Swap
	turns  int // since bytes were moved
	alike  int // turns since bytes were spared
}

// CountTurn notes that a space is mapped.
func (c *SwapCounter) CountTurn() {
	c.turns++
	c.alike++
	c.counts.Now = c.counts.Now && c.turns < RecentTurns
	c.counts.Alike = c.counts.Alike && c.alike < RecentTurns
}

// CountMoved notes bytes that were moved out and in, and how long that took.
func (c *SwapCounter) CountMoved(out, in uint64, took time.Duration) {
	c.counts.Out, c.counts.In, c.counts.Took = c.counts.Out+out, c.counts.In+in, c.counts.Took+took
	if out+in > 0 {
		c.counts.Now, c.turns = true, 0
	}
}

// CountSpared notes bytes that were not moved, because equal bytes were there.
func (c *SwapCounter) CountSpared(bytes uint64) {
	c.counts.Spared += bytes
	if bytes > 0 {
		c.counts.Alike, c.alike = true, 0
	}
}

// CountHeld notes the bytes of spaces that are on the device.
func (c *SwapCounter) CountHeld(bytes uint64) { c.counts.Most = max(c.counts.Most, bytes) }

// Counts returns all counts.
func (c *SwapCounter) Counts() Swap { return c.counts }
