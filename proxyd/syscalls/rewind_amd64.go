// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// Rewound are threads that make their calls again when they run.
type Rewound struct{ threads []rewoundThread }

type rewoundThread struct {
	tid    int
	with   remedy
	before unix.PtraceRegs // registers behind the call
	after  unix.PtraceRegs // registers before the call
}

// Rewind makes frozen threads make the calls again that they were stopped in. threads are their numbers in the caller's
// PID namespace; they are in a frozen cgroup v2, and no other process traces them. The rewound threads are returned
// also with an error; threads that are not rewound are as they were, and their calls return EINTR after a dump. seen
// was observed before these threads were frozen; with the zero value epoll_wait with a timeout is not rewound.
//
// A process that is restored from a dump goes on with clocks that were read at clocksRead, by ReadMonotonic, and its
// calls get the time that was left then: with the time that is left now they would end too early. 0 stands for now.
func Rewind(threads []int, seen WaitObservations, clocksRead time.Duration) (*Rewound, error) {
	var waiting []int
	for _, tid := range threads {
		if c, ok := readProcCall(tid); ok && mayBeInterrupted(c) {
			waiting = append(waiting, tid)
		}
	}
	all := &Rewound{}
	if len(waiting) == 0 {
		return all, nil
	}
	records, noRecords := readRecords()
	found, err := runTracer(func() traceResult {
		var found traceResult
		for _, tid := range waiting {
			found.addThread(rewindThread(tid, records, seen, clocksRead))
		}
		return found
	})
	all.threads = found.threads
	return all, errors.Join(append(found.problems, noRecords, err)...)
}

// traceResult has the results of a function that traces threads.
type traceResult struct {
	threads  []rewoundThread
	problems []error
}

func (f *traceResult) addThread(t *rewoundThread, err error) {
	if t != nil {
		f.threads = append(f.threads, *t)
	}
	if err != nil {
		f.problems = append(f.problems, err)
	}
}

// Count returns the number of threads that are rewound.
func (r *Rewound) Count() int { return len(r.threads) }

// rewindThread rewinds a thread. It returns nil if the thread is in no call that can be made again.
func rewindThread(tid int, records map[threaddata.ID]threadRecord, seen WaitObservations, clocksRead time.Duration) (*rewoundThread, error) {
	s, err := readStatus(tid)
	if err != nil || s.awaitsHandler() {
		return nil, nil //nolint:nilerr,nilnil // a thread that is gone has no call to rewind
	}
	id := threaddata.ID{Namespace: threaddata.NamespaceOf(tid), Number: uint32(s.innermost)}
	k := callFacts{filtered: s.filtered}
	if record, ok := records[id]; ok {
		k.block = &record.block
		k.begin, k.hasBegin = seen.beginOf(id, record)
	}
	var rewound *rewoundThread
	err = traceThread(tid, func(registers *unix.PtraceRegs) error {
		c, ok := readCall(tid, registers)
		if !ok {
			return nil
		}
		with, ok := chooseRemedy(c, k)
		if !ok {
			return nil
		}
		passed, err := timeSince(clocksRead)
		if err != nil {
			return err
		}
		if with.relative {
			if err := with.reckonDeadline(tid, passed); err != nil {
				return err
			}
		}
		t := &rewoundThread{tid: tid, with: with, before: *registers}
		if err := t.setTimeLeft(passed); err != nil {
			return err
		}
		rewound = t
		return nil
	})
	return rewound, err
}

// SetTimeLeft gives the calls of frozen threads the time that is left by now, for threads that go on in place. A call
// returns EINTR if a signal that its thread has a handler for is pending.
func (r *Rewound) SetTimeLeft() error {
	threads := slices.Clone(r.threads)
	found, err := runTracer(func() traceResult {
		var found traceResult
		for _, t := range threads {
			found.addThread(&t, t.reviseCall())
		}
		return found
	})
	r.threads = found.threads
	return errors.Join(append(found.problems, err)...)
}

// reviseCall sets the time that is left, or the result EINTR if a signal has come since t was rewound.
func (t *rewoundThread) reviseCall() error {
	s, err := readStatus(t.tid)
	handled := err == nil && s.awaitsHandler() && t.with.again != nil
	if err != nil || !handled && !t.with.timed {
		return nil //nolint:nilerr // the thread is gone
	}
	return traceThread(t.tid, func(registers *unix.PtraceRegs) error {
		switch {
		case *registers != t.after:
			return nil // the thread has run, or it is another thread with this number
		case handled:
			return t.interruptCall()
		}
		return t.setTimeLeft(0)
	})
}

// setTimeLeft sets the registers of t, which stands in ptrace, to make the call with the time that was left at the
// moment (now - ago).
func (t *rewoundThread) setTimeLeft(ago time.Duration) error {
	if t.with.timed {
		left, err := t.with.timeLeft(ago)
		switch {
		case err != nil:
			return err
		case t.with.left != 0:
			err = t.with.writeLeft(t.tid, left)
		default:
			t.with.setTimeout(left)
		}
		if err != nil {
			return err
		}
	}
	t.after = t.before
	applyRemedy(&t.after, t.with)
	return os.NewSyscallError("ptrace setregs", unix.PtraceSetRegs(t.tid, &t.after))
}

func (t *rewoundThread) interruptCall() error {
	t.after = t.before
	applyRemedy(&t.after, remedy{result: resultInterrupted})
	return os.NewSyscallError("ptrace setregs", unix.PtraceSetRegs(t.tid, &t.after))
}

func readRecords() (map[threaddata.ID]threadRecord, error) {
	reader, err := loadBlockReader()
	if err != nil {
		return nil, err
	}
	all := map[threaddata.ID]threadRecord{}
	return all, reader.readThreads(func(id threaddata.ID, r threadRecord) { all[id] = r })
}

// mayBeInterrupted tells whether Rewind may have to rewind the call if it was interrupted. Most threads of most
// programs wait in a futex without a timeout: Rewind does not trace these.
func mayBeInterrupted(c call) bool {
	switch c.number {
	case unix.SYS_POLL, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_RESTART_SYSCALL:
		return true
	case unix.SYS_FUTEX:
		return c.arguments[3] != 0
	}
	return timeoutOf(c) != 0 || mayRepeat(c) || isTimedEpoll(c)
}

// readProcCall returns the call of a thread that waits in the kernel, without the result.
func readProcCall(tid int) (call, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return call{}, false
	}
	words := strings.Fields(string(b))
	if len(words) < 7 {
		return call{}, false // the thread runs, or is in no call
	}
	var c call
	if c.number, err = strconv.ParseInt(words[0], 10, 64); err != nil {
		return call{}, false
	}
	for n := range c.arguments {
		if c.arguments[n], err = strconv.ParseUint(words[n+1], 0, 64); err != nil {
			return call{}, false
		}
	}
	return c, true
}
