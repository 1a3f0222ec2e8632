// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// The kernel keeps no deadline of an epoll_wait that a stop has interrupted. So Observe looks at threads before they
// are frozen: a thread that waits began to wait when it last gave up its core. The number of its waits tells later
// whether the freezer interrupted that same wait: the thread has then waited exactly once more, in the freezer.

// WaitObservations records when threads began to wait. The zero value has no threads.
type WaitObservations struct{ threads map[threaddata.ID]observation }

type observation struct {
	begin    int64 // in nanoseconds of CLOCK_MONOTONIC
	switches uint64
}

// Observe looks at the threads in the PID namespace of a process. The caller calls Observe just before it freezes a
// program of that namespace, for Rewind. The result is empty if the kernel does not record the times.
func Observe(pid int) (WaitObservations, error) {
	reader, err := loadBlockReader()
	if err != nil || !reader.observes {
		return WaitObservations{}, err
	}
	namespace := threaddata.NamespaceOf(pid)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := readStatus(unix.Gettid())
	if err != nil {
		return WaitObservations{}, fmt.Errorf("observe threads: %w", err)
	}
	own := threaddata.ID{Namespace: threaddata.NamespaceOf(os.Getpid()), Number: uint32(self.innermost)}
	for range observeTries {
		all, undisturbed, err := reader.observeOnce(namespace, own)
		if err != nil || undisturbed {
			return all, err
		}
	}
	return WaitObservations{}, nil
}

// observeTries bounds how often Observe begins anew because the kernel has preempted the observing thread.
const observeTries = 20

// observeOnce looks at the threads of a namespace. own is the calling thread. It waits for a moment: its arrival on a core
// relates the scheduler's clock, which differs from CLOCK_MONOTONIC, to CLOCK_MONOTONIC. undisturbed is false if the
// thread left the core after it read CLOCK_MONOTONIC: its arrival is then a later one, all waits would seem to have begun
// earlier than they did, and calls with a timeout would end too early.
func (r *blockReader) observeOnce(namespace uint32, own threaddata.ID) (all WaitObservations, undisturbed bool, err error) {
	moment := unix.NsecToTimespec(int64(50 * time.Microsecond))
	_ = unix.Nanosleep(&moment, nil) // an interrupted wait serves as well
	before, err := countSwitches()
	if err != nil {
		return WaitObservations{}, false, err
	}
	arrived, err := readClock(unix.CLOCK_MONOTONIC)
	if err != nil {
		return WaitObservations{}, false, err
	}
	all = WaitObservations{map[threaddata.ID]observation{}}
	ahead, known := int64(0), false
	err = r.readThreads(func(id threaddata.ID, r threadRecord) {
		if id == own {
			ahead, known = r.arrival-arrived, true
		}
		if id.Namespace == namespace {
			all.threads[id] = observation{r.arrival + r.ran, r.switches}
		}
	})
	if err != nil || !known {
		return WaitObservations{}, true, err
	}
	after, err := countSwitches()
	if err != nil {
		return WaitObservations{}, false, err
	}
	for id, o := range all.threads {
		o.begin -= ahead
		all.threads[id] = o
	}
	return all, after == before, nil
}

// countSwitches returns how often the calling thread has left a core.
func countSwitches() (int64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0, fmt.Errorf("count the thread's preemptions: %w", err)
	}
	return u.Nvcsw + u.Nivcsw, nil
}

// beginOf returns when a thread that has been frozen since began its wait, in nanoseconds of CLOCK_MONOTONIC. ok is
// false if Observe did not see the thread in the wait that the freezer interrupted.
func (o WaitObservations) beginOf(id threaddata.ID, now threadRecord) (begin int64, ok bool) {
	seen, ok := o.threads[id]
	return seen.begin, ok && now.switches == seen.switches+1
}

func readClock(clock int32) (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, err
	}
	return t.Nano(), nil
}

// ReadMonotonic reads CLOCK_MONOTONIC, for Rewind.
func ReadMonotonic() (time.Duration, error) {
	now, err := readClock(unix.CLOCK_MONOTONIC)
	return time.Duration(now), err
}

// timeSince returns the time that has passed since ReadMonotonic has returned a value, 0 if the value is 0.
func timeSince(read time.Duration) (time.Duration, error) {
	if read == 0 {
		return 0, nil
	}
	now, err := ReadMonotonic()
	return now - read, err
}
