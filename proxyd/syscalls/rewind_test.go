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

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen: ", what)
		}
	}
}

// TestSleepGoesOn: a frozen sleep that is rewound ends when it would have ended, also when it was
// frozen before and the kernel has continued it.
func TestSleepGoesOn(t *testing.T) {
	g := newCgroup(t)
	if _, err := loadBlockReader(); err != nil {
		t.Skip("SKIP: needs BPF and BTF: ", err)
	}
	const last = 2 * time.Second
	begin := time.Now()
	cmd := exec.Command("sleep", "2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	tid := cmd.Process.Pid
	write(t, g+"/cgroup.procs", fmt.Sprint(tid))
	sleeps := func() bool {
		c, ok := readProcCall(tid)
		return ok && slices.Contains([]int64{unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_POLL}, c.number)
	}
	frozen := func(word string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(g + "/cgroup.events")
			return strings.Contains(string(b), "frozen "+word)
		}
	}
	for range 2 {
		eventually(t, "sleep", sleeps)
		write(t, g+"/cgroup.freeze", "1")
		eventually(t, "frozen", frozen("1"))
		r, err := Rewind([]int{tid}, Observed{})
		if err != nil || r.Count() != 1 {
			t.Fatalf("%d calls rewound, %v", r.Count(), err)
		}
		if err := r.SetTimeLeft(); err != nil || r.Count() != 1 {
			t.Fatalf("%d calls have time left, %v", r.Count(), err)
		}
		write(t, g+"/cgroup.freeze", "0")
		eventually(t, "thawed", frozen("0"))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("sleep: %v", err)
	}
	if took := time.Since(begin); took < last {
		t.Errorf("sleep 2 has ended after %v", took)
	}
}
