// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"encoding/binary"
	"time"
)

// blockKind tells which call a restart block is of.
type blockKind int

const (
	unknownBlock blockKind = iota
	pollBlock
	sleepBlock
	futexBlock
	otherBlock // of a clock of another kind: nothing here continues it
)

// kindsByFunction are the functions of the kernel by which restart_syscall goes on.
var kindsByFunction = map[string]blockKind{
	"do_restart_poll":            pollBlock,
	"hrtimer_nanosleep_restart":  sleepBlock,
	"futex_wait_restart":         futexBlock,
	"alarm_timer_nsleep_restart": otherBlock, "posix_cpu_nsleep_restart": otherBlock, "do_no_restart_syscall": otherBlock,
}

// block is a restart block: what the kernel notes of a call that is to go on.
type block struct {
	kind blockKind

	// of a sleep
	clock     int32
	expires   int64  // in nanoseconds of clock
	wantsLeft bool   // the caller is to know the time that is left
	left      uint64 // at this address
	native    bool   // left has the form of 64-bit programs
	timed     bool   // of a poll: there is a deadline
	deadline  int64  // in nanoseconds of CLOCK_MONOTONIC
}

// blockLayout tells where in a restart block its members are.
type blockLayout struct {
	size                           uint32
	fn, clock, kind, left, expires uint32
	timed, seconds, nanoseconds    uint32
}

// Forms in which a sleep tells the time that is left (include/linux/restart_block.h).
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
