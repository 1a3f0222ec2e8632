// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"encoding/binary"
	"time"
)

// blockKind is the kind of call that a restart block belongs to.
type blockKind int

const (
	unknownBlock blockKind = iota
	pollBlock
	sleepBlock
	futexBlock
	otherBlock // of another kind of clock: this package does not continue such a call
)

// kindsByFunction are the kernel's functions with which restart_syscall continues a call.
var kindsByFunction = map[string]blockKind{
	"do_restart_poll":            pollBlock,
	"hrtimer_nanosleep_restart":  sleepBlock,
	"futex_wait_restart":         futexBlock,
	"alarm_timer_nsleep_restart": otherBlock, "posix_cpu_nsleep_restart": otherBlock, "do_no_restart_syscall": otherBlock,
}

// block is a restart block: the kernel's record of a call that is to be continued.
type block struct {
	kind blockKind

	// of a sleep
	clock     int32
	expires   int64  // in nanoseconds of clock
	wantsLeft bool   // the caller asks for the time that is left
	left      uint64 // the address for the time that is left
	native    bool   // left has the form of 64-bit programs
	timed     bool   // of a poll: there is a deadline
	deadline  int64  // in nanoseconds of CLOCK_MONOTONIC
}

// blockLayout has the offsets of the members of a restart block.
type blockLayout struct {
	size                           uint32
	fn, clock, kind, left, expires uint32
	timed, seconds, nanoseconds    uint32
}

// Forms in which a sleep returns the time that is left (include/linux/restart_block.h).
const (
	leftUnwanted = 0
	leftNative   = 1
)

func (l blockLayout) parseBlock(b []byte, symbols map[uint64]blockKind) block {
	word := func(at uint32) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	long := func(at uint32) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	form := word(l.kind)
	return block{
		kind:  symbols[long(l.fn)],
		clock: int32(word(l.clock)), expires: int64(long(l.expires)),
		wantsLeft: form != leftUnwanted, left: long(l.left), native: form == leftNative,
		timed: word(l.timed) != 0, deadline: int64(long(l.seconds))*int64(time.Second) + int64(long(l.nanoseconds)),
	}
}
