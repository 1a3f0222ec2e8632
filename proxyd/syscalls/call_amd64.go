// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Values of a frozen thread's result register (include/linux/errno.h).
const (
	resultRestartBlock = -516
	resultNoHandler    = -514
	resultInterrupted  = -int64(unix.EINTR)
)

// call is a system call in which a thread was stopped.
type call struct {
	number    int64
	result    int64
	arguments [6]uint64
}

// Operations of futex(2), without their flags.
const (
	futexWait       = 0
	futexWaitBitset = 9
	futexFlags      = 128 | 256 // FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
)

// remedy is the way in which a call goes on.
type remedy struct {
	// again is the call that is made; nil: the call returns result in its place.
	again  *call
	result int64

	// A timed call has a deadline, in nanoseconds of clock, and gets the time that is left: as milliseconds in an
	// argument, or, for a sleep, in the caller's memory at left.
	timed        bool
	clock        int32
	deadline     int64
	milliseconds int // number of the argument
	left         uint64
	inMicros     bool // the fraction at left is in microseconds

	// relative says that the memory at left holds the time that was left when the thread was stopped, from which
	// reckonDeadline computes the deadline.
	relative bool
}

// callFacts has the facts about a call that are not in its registers.
type callFacts struct {
	block    *block // nil if the block could not be read
	begin    int64  // of the wait, in nanoseconds of CLOCK_MONOTONIC, with hasBegin
	hasBegin bool
	filtered bool // the thread has a seccomp filter, which may know the call's own number only
}

// chooseRemedy decides how a call goes on. ok is false if the call is left unchanged: it was not interrupted, or this
// package cannot continue it.
func chooseRemedy(c call, k callFacts) (r remedy, ok bool) {
	b, filtered := k.block, k.filtered
	switch c.result {
	case resultInterrupted:
		switch {
		case isTimedEpoll(c) && k.hasBegin:
			deadline := k.begin + int64(c.arguments[epollTimeout])*int64(time.Millisecond)
			return remedy{again: &c, timed: true, clock: unix.CLOCK_MONOTONIC, deadline: deadline, milliseconds: epollTimeout}, true
		case mayRepeat(c):
			return remedy{again: &c}, true
		}
		return remedy{}, false
	case resultNoHandler:
		return repeatSelect(c)
	case resultRestartBlock:
	default:
		return remedy{}, false
	}
	switch kindOf(c, b) {
	case pollBlock:
		return repeatPoll(c, b)
	case futexBlock:
		return repeatFutex(c)
	case sleepBlock:
		return repeatSleep(c, b, filtered)
	}
	return remedy{}, false
}

// kindOf returns the kind of a call with a restart block. The number of a call that was continued
// before is restart_syscall's.
func kindOf(c call, b *block) blockKind {
	if b != nil && b.kind != unknownBlock {
		return b.kind
	}
	switch c.number {
	case unix.SYS_POLL:
		return pollBlock
	case unix.SYS_FUTEX:
		return futexBlock
	case unix.SYS_NANOSLEEP:
		return sleepBlock
	case unix.SYS_CLOCK_NANOSLEEP:
		if b != nil && c.arguments[0] <= unix.CLOCK_MONOTONIC {
			return sleepBlock
		}
	}
	return unknownBlock
}

func repeatPoll(c call, b *block) (remedy, bool) {
	const timeout = 2
	c.number = unix.SYS_POLL
	switch {
	case int32(c.arguments[timeout]) < 0:
		return remedy{again: &c}, true
	case b == nil || !b.timed:
		return remedy{}, false
	}
	return remedy{again: &c, timed: true, clock: unix.CLOCK_MONOTONIC, deadline: b.deadline, milliseconds: timeout}, true
}

func repeatFutex(c call) (remedy, bool) {
	switch c.arguments[1] &^ futexFlags {
	case futexWaitBitset:
		c.number = unix.SYS_FUTEX
		return remedy{again: &c}, true
	case futexWait:
		return remedy{result: 0}, true
	}
	return remedy{}, false
}

func repeatSleep(c call, b *block, filtered bool) (remedy, bool) {
	switch {
	case b == nil || filtered:
		return remedy{}, false
	case b.wantsLeft && b.native:
		again := call{number: unix.SYS_NANOSLEEP, arguments: [6]uint64{b.left, b.left}}
		return remedy{again: &again, timed: true, clock: b.clock, deadline: b.expires, left: b.left}, true
	case b.wantsLeft:
		return remedy{}, false
	}
	// poll(NULL, 0, milliseconds)
	again := call{number: unix.SYS_POLL}
	r := remedy{again: &again, timed: true, clock: b.clock, deadline: b.expires, milliseconds: 2}
	if now, err := readClock(b.clock); err == nil && b.expires-now < math.MaxInt32*int64(time.Millisecond) {
		return r, true
	}
	if c.number != unix.SYS_NANOSLEEP && c.number != unix.SYS_CLOCK_NANOSLEEP {
		return remedy{}, false
	}
	return remedy{again: &c}, true
}

// repeatSelect repeats calls that CRIU repeats, too, and for which the kernel stores the time that was left when they
// were interrupted.
func repeatSelect(c call) (remedy, bool) {
	at := timeoutOf(c)
	if at == 0 {
		return remedy{}, false
	}
	return remedy{
		again: &c, timed: true, clock: unix.CLOCK_MONOTONIC, left: at, inMicros: c.number == unix.SYS_SELECT, relative: true,
	}, true
}

// timeoutOf returns the address of the timeout of a call of the family of select, 0 if the call has no timeout.
func timeoutOf(c call) uint64 {
	switch c.number {
	case unix.SYS_SELECT, unix.SYS_PSELECT6:
		return c.arguments[4]
	case unix.SYS_PPOLL:
		return c.arguments[2]
	}
	return 0
}

// epollTimeout is the number of the argument with the milliseconds.
const epollTimeout = 3

func isTimedEpoll(c call) bool {
	return (c.number == unix.SYS_EPOLL_WAIT || c.number == unix.SYS_EPOLL_PWAIT) && int32(c.arguments[epollTimeout]) > 0
}

// mayRepeat tells whether a call that the kernel does not continue after a stop can be made again as it was: it has had
// no effect yet, and has no timeout of its own.
func mayRepeat(c call) bool {
	switch c.number {
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT:
		return int32(c.arguments[epollTimeout]) < 0
	case unix.SYS_EPOLL_PWAIT2, unix.SYS_SEMTIMEDOP:
		return c.arguments[3] == 0
	case unix.SYS_SEMOP:
		return true
	case unix.SYS_RT_SIGTIMEDWAIT:
		return c.arguments[2] == 0
	case unix.SYS_IO_GETEVENTS:
		return c.arguments[4] == 0
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_SENDMSG,
		unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT:
		return true
	}
	return false
}

// timeLeft returns the time from the moment (now - ago) to the deadline: at least 0.
func (r remedy) timeLeft(ago time.Duration) (time.Duration, error) {
	now, err := readClock(r.clock)
	if err != nil {
		return 0, err
	}
	return max(time.Duration(r.deadline-now)+ago, 0), nil
}

// setTimeout puts the time that is left into the argument of a call that has milliseconds.
func (r remedy) setTimeout(left time.Duration) {
	whole := (left + time.Millisecond - 1) / time.Millisecond // a sleep never ends early
	r.again.arguments[r.milliseconds] = uint64(min(whole, math.MaxInt32))
}
