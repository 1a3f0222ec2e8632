// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build amd64

package syscalls

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newCgroup makes a cgroup v2.
func newCgroup(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it freezes a cgroup")
	}
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		t.Skip("SKIP: needs cgroup v2: ", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	g := filepath.Join(root, fmt.Sprintf("syscalls-test-%d", os.Getpid()))
	if err := os.Mkdir(g, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Rmdir(g) })
	return g
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this did not happen within 30 s: ", what)
		}
	}
}

// sleeper is a process that sleeps for sleepLast, and can be frozen.
type sleeper struct {
	*exec.Cmd
	cgroup string
	begin  time.Time
}

const sleepLast = 2 * time.Second

func startSleep(t *testing.T) *sleeper {
	t.Helper()
	g := newCgroup(t)
	if _, err := loadBlockReader(); err != nil {
		t.Skip("SKIP: needs BPF and BTF: ", err)
	}
	s := &sleeper{exec.Command("sleep", fmt.Sprint(sleepLast.Seconds())), g, time.Now()}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Process.Kill(); s.Wait() })
	writeFile(t, g+"/cgroup.procs", fmt.Sprint(s.Process.Pid))
	return s
}

// rewindCall freezes the process while it sleeps, and rewinds its call.
func (s *sleeper) rewindCall(t *testing.T, clocksRead time.Duration) *Rewound {
	t.Helper()
	waitFor(t, "sleep", func() bool {
		c, ok := readProcCall(s.Process.Pid)
		return ok && slices.Contains([]int64{unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_POLL}, c.number)
	})
	s.setFrozen(t, "1")
	r, err := Rewind([]int{s.Process.Pid}, WaitObservations{}, clocksRead)
	if err != nil || r.Count() != 1 {
		t.Fatalf("%d calls rewound, %v", r.Count(), err)
	}
	return r
}

func (s *sleeper) setFrozen(t *testing.T, word string) {
	t.Helper()
	writeFile(t, s.cgroup+"/cgroup.freeze", word)
	waitFor(t, "frozen "+word, func() bool {
		b, _ := os.ReadFile(s.cgroup + "/cgroup.events")
		return strings.Contains(string(b), "frozen "+word)
	})
}

// checkSlept waits for the process, which must have slept for at least that long.
func (s *sleeper) checkSlept(t *testing.T, want time.Duration) {
	t.Helper()
	if err := s.Wait(); err != nil {
		t.Errorf("the sleeping process failed: %v", err)
	}
	if took := time.Since(s.begin); took < want {
		t.Errorf("sleep has ended after %v, want %v", took, want)
	}
}

// TestSleepGoesOn: a sleep that is frozen and rewound ends when it would have ended without that, also if it was frozen
// before and the kernel has continued the call.
func TestSleepGoesOn(t *testing.T) {
	s := startSleep(t)
	for range 2 {
		r := s.rewindCall(t, 0)
		if err := r.SetTimeLeft(); err != nil || r.Count() != 1 {
			t.Fatalf("%d calls have time left, %v", r.Count(), err)
		}
		s.setFrozen(t, "0")
	}
	s.checkSlept(t, sleepLast)
}

// TestTimeLeftByClocks: a sleep that goes on with clocks of a moment ago has the time left that it had then.
func TestTimeLeftByClocks(t *testing.T) {
	const ago = 500 * time.Millisecond
	s := startSleep(t)
	now, err := ReadMonotonic()
	if err != nil {
		t.Fatal(err)
	}
	s.rewindCall(t, now-ago)
	s.setFrozen(t, "0")
	s.checkSlept(t, sleepLast+ago)
}
