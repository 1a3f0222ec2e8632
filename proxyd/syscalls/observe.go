// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel keeps no deadline of an epoll_wait that a stop has interrupted. So Observe looks at threads before they
// are frozen: a thread that waits began to wait when it last gave up its core. The number of its waits tells later
// whether the freezer interrupted that same wait: the thread has then waited exactly once more, in the freezer.

// Observed records when threads began to wait. The zero value has no threads.
type Observed struct{ threads map[threadID]observation }

type observation struct {
	begin    int64 // in nanoseconds of CLOCK_MONOTONIC
	switches uint64
}

// Observe looks at the threads in the PID namespace of a process. The caller calls Observe just before it freezes a
// program of that namespace, for Rewind. The result is empty if the kernel does not record the times.
func Observe(pid int) (Observed, error) {
	reader, err := loadBlockReader()
	if err != nil || !reader.observes {
		return Observed{}, err
	}
	namespace := namespaceOf(pid)
	// The goroutine's thread waits for a moment: its own arrival relates the scheduler's clock, which differs from
	// CLOCK_MONOTONIC, to CLOCK_MONOTONIC.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := readStatus(unix.Gettid())
	if err != nil {
		return Observed{}, fmt.Errorf("observe threads: %w", err)
	}
	own := threadID{namespaceOf(os.Getpid()), uint32(self.innermost)}
	moment := unix.NsecToTimespec(int64(50 * time.Microsecond))
	_ = unix.Nanosleep(&moment, nil) // an interrupted wait serves as well
	arrived, err := readClock(unix.CLOCK_MONOTONIC)
	if err != nil {
		return Observed{}, err
	}
	all := Observed{map[threadID]observation{}}
	ahead, known := int64(0), false
	err = reader.readThreads(func(id threadID, r threadRecord) {
		if id == own {
			ahead, known = r.arrival-arrived, true
		}
		if id.namespace == namespace {
			all.threads[id] = observation{r.arrival + r.ran, r.switches}
		}
	})
	if err != nil || !known {
		return Observed{}, err
	}
	for id, o := range all.threads {
		o.begin -= ahead
		all.threads[id] = o
	}
	return all, nil
}

// beginOf returns when a thread that has been frozen since began its wait, in nanoseconds of CLOCK_MONOTONIC. ok is
// false if Observe did not see the thread in the wait that the freezer interrupted.
func (o Observed) beginOf(id threadID, now threadRecord) (begin int64, ok bool) {
	seen, ok := o.threads[id]
	return seen.begin, ok && now.switches == seen.switches+1
}

// namespaceOf returns the inode of a thread's PID namespace, 0 if the thread is gone.
func namespaceOf(tid int) uint32 {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", tid), &st); err != nil {
		return 0
	}
	return uint32(st.Ino)
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
