// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package syscalls

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRemedies: which calls are made again, and how.
func TestRemedies(t *testing.T) {
	now, err := readClock(unix.CLOCK_MONOTONIC)
	if err != nil {
		t.Fatal(err)
	}
	soon := now + int64(time.Hour)
	never := now + int64(1000*24*time.Hour)
	stopped := func(number int64, arguments ...uint64) call {
		c := call{number: number, result: resultRestartBlock}
		copy(c.arguments[:], arguments)
		return c
	}
	refused := func(number int64, arguments ...uint64) call {
		c := stopped(number, arguments...)
		c.result = resultInterrupted
		return c
	}
	minus := ^uint64(0)
	poll := &block{kind: pollBlock, timed: true, deadline: soon}
	sleep := &block{kind: sleepBlock, clock: unix.CLOCK_MONOTONIC, expires: soon}
	told := &block{kind: sleepBlock, clock: unix.CLOCK_MONOTONIC, expires: soon, wantsLeft: true, native: true, left: 0x1000}
	for _, c := range []struct {
		name     string
		call     call
		block    *block
		filtered bool
		number   int64 // 0: left alone; -1: returns 0
		timed    bool
	}{
		{"no call", call{number: unix.SYS_NANOSLEEP}, sleep, false, 0, false},
		{"poll", stopped(unix.SYS_POLL, 1, 1, 500), poll, false, unix.SYS_POLL, true},
		{"poll, stopped twice", stopped(unix.SYS_RESTART_SYSCALL, 1, 1, 500), poll, false, unix.SYS_POLL, true},
		{"poll, endless", stopped(unix.SYS_POLL, 1, 1, minus), nil, false, unix.SYS_POLL, false},
		{"poll without BPF", stopped(unix.SYS_POLL, 1, 1, 500), nil, false, 0, false},
		{"poll, the kernel's symbols hidden", stopped(unix.SYS_POLL, 1, 1, 500), &block{timed: true, deadline: soon}, false, unix.SYS_POLL, true},
		{"stopped twice without BPF", stopped(unix.SYS_RESTART_SYSCALL, 1, 1, 500), nil, false, 0, false},
		{"nanosleep", stopped(unix.SYS_NANOSLEEP, 1), sleep, false, unix.SYS_POLL, true},
		{"nanosleep, filtered", stopped(unix.SYS_NANOSLEEP, 1), sleep, true, 0, false},
		{"nanosleep, left", stopped(unix.SYS_NANOSLEEP, 1, 0x1000), told, false, unix.SYS_NANOSLEEP, true},
		{"clock_nanosleep, stopped twice", stopped(unix.SYS_RESTART_SYSCALL, 1), told, false, unix.SYS_NANOSLEEP, true},
		{"nanosleep for years", stopped(unix.SYS_NANOSLEEP, 1), &block{kind: sleepBlock, clock: 1, expires: never}, false, unix.SYS_NANOSLEEP, false},
		{"nanosleep for years, stopped twice", stopped(unix.SYS_RESTART_SYSCALL, 1), &block{kind: sleepBlock, clock: 1, expires: never}, false, 0, false},
		{"by CPU time", stopped(unix.SYS_CLOCK_NANOSLEEP, 2), &block{kind: otherBlock}, false, 0, false},
		{"futex until", stopped(unix.SYS_FUTEX, 1, futexWaitBitset|futexFlags, 0, 1), nil, false, unix.SYS_FUTEX, false},
		{"futex for", stopped(unix.SYS_FUTEX, 1, futexWait|128, 0, 1), nil, false, -1, false},
		{"futex, other", stopped(unix.SYS_FUTEX, 1, 6, 0, 1), nil, false, 0, false},
		{"epoll_wait, endless", refused(unix.SYS_EPOLL_WAIT, 1, 1, 1, uint64(uint32(minus))), nil, false, unix.SYS_EPOLL_WAIT, false},
		{"epoll_wait", refused(unix.SYS_EPOLL_WAIT, 1, 1, 1, 100), nil, false, 0, false},
		{"epoll_wait, seen", refused(unix.SYS_EPOLL_WAIT, 1, 1, 1, 100), nil, false, unix.SYS_EPOLL_WAIT, true},
		{"semop", refused(unix.SYS_SEMOP), nil, false, unix.SYS_SEMOP, false},
		{"close", refused(unix.SYS_CLOSE), nil, false, 0, false},
	} {
		seen := strings.HasSuffix(c.name, ", seen")
		r, ok := chooseRemedy(c.call, callFacts{block: c.block, filtered: c.filtered, begin: now, hasBegin: seen})
		number := int64(0)
		if ok && r.again == nil {
			number = -1
		} else if ok {
			number = r.again.number
		}
		if number != c.number || r.timed != c.timed {
			t.Errorf("%s: call %d, timed %v; want %d, %v", c.name, number, r.timed, c.number, c.timed)
		}
		if !r.timed || r.left != 0 {
			continue
		}
		r.setTimeout(90 * time.Microsecond)
		if ms := r.again.arguments[r.milliseconds]; ms != 1 {
			t.Errorf("%s: %d ms for 90 µs: the wait ends early", c.name, ms)
		}
	}
}

func TestStatus(t *testing.T) {
	const text = "Name:\tx\nNSpid:\t77\t12\nSeccomp:\t2\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000200\nSigBlk:\t%\nSigCgt:\t0000000000000200\n"
	s := parseStatus(text)
	if s.innermost != 12 || !s.filtered || !s.awaitsHandler() {
		t.Errorf("parseStatus = %+v, want thread 12 with a filter and a handler to run", s)
	}
	s.blocked = 0x200
	if s.awaitsHandler() {
		t.Error("a blocked signal calls no handler")
	}
}
