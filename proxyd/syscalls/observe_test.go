// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syscalls

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// TestObserveBusy: also where the observing thread is preempted again and again, no thread is taken to have begun its wait
// before it did: a call with a timeout would end too early after the thaw.
func TestObserveBusy(t *testing.T) {
	reader, err := loadBlockReader()
	if err != nil || !reader.observes {
		t.Skipf("SKIP: this kernel does not record when threads wait: %v", err)
	}
	for range 3 * runtime.NumCPU() {
		hog := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			hog.Process.Kill()
			hog.Wait()
		})
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	type waiter struct {
		tid  int
		from int64 // of CLOCK_MONOTONIC, just before the wait
	}
	waits, done := make(chan waiter, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		from, _ := readClock(unix.CLOCK_MONOTONIC)
		waits <- waiter{unix.Gettid(), from}
		unix.Read(ends[0], make([]byte, 1)) //nolint:errcheck // returns when the pipe is closed
	}()
	w := <-waits
	t.Cleanup(func() {
		unix.Close(ends[1])
		<-done
		unix.Close(ends[0])
	})
	self, err := readStatus(w.tid)
	if err != nil {
		t.Fatal(err)
	}
	id := threaddata.ID{Namespace: threaddata.NamespaceOf(os.Getpid()), Number: uint32(self.innermost)}
	seen := 0
	var earliest time.Duration
	for range 200 {
		all, err := Observe(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := all.threads[id]; ok {
			seen++
			earliest = min(earliest, time.Duration(o.begin-w.from))
		}
	}
	if seen < 100 {
		t.Errorf("%d of 200 observations have the thread, want 100 at least", seen)
	}
	if earliest < -500*time.Microsecond {
		t.Errorf("the wait is observed to begin %v before it did", -earliest)
	}
	t.Logf("%d observations, the earliest begin is %v after the wait's", seen, earliest)
}
