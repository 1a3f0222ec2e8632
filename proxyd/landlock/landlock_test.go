// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package landlock

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/threaddata"
)

// startProgram starts a program that ends with the test, in the state into which change brings the starting thread.
func startProgram(t *testing.T, change func() error) (pid int) {
	t.Helper()
	program := exec.Command("cat")
	program.SysProcAttr = &syscall.SysProcAttr{}
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := onOwnThread(func() error {
		if err := change(); err != nil {
			return err
		}
		return program.Start()
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = program.Wait()
	})
	return program.Process.Pid
}

func needReader(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it loads a BPF program")
	}
	if there, err := Prepare(); err != nil || !there {
		t.Skip("SKIP: needs Landlock, BPF and BTF: ", err)
	}
}

// TestConfined: a process with a domain is found, also if the domain is of another thread than its first or comes from its
// parent, and no other process.
func TestConfined(t *testing.T) {
	needReader(t)
	child, plain := startProgram(t, confineThread), startProgram(t, func() error { return nil })
	c := FindConfined(os.Getpid())
	if got := c.Describe(child); got != isConfined {
		t.Errorf("child of a confined thread: %q", got)
	}
	for name, pid := range map[string]int{"another child": plain, "no process": 1 << 30} {
		if got := c.Describe(pid); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := onOwnThread(func() error {
		if err := confineThread(); err != nil {
			return err
		}
		if got := FindConfined(os.Getpid()).Describe(os.Getpid()); got != isConfined {
			t.Errorf("this process, with a confined thread: %q", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// A thread ends a moment after its goroutine.
	for end := time.Now().Add(30 * time.Second); FindConfined(os.Getpid()).Describe(os.Getpid()) != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this process counts as confined after the end of its confined threads")
		}
	}
}

// TestNestedNumber: a process of another PID namespace that has the number of a confined process there is not taken for
// that process.
func TestNestedNumber(t *testing.T) {
	c := ConfinedProcesses{namespace: threaddata.NamespaceOf(os.Getpid()) + 1, numbers: map[int]bool{os.Getpid(): true}}
	if got := c.Describe(os.Getpid()); got != "" {
		t.Errorf("process of another PID namespace: %q", got)
	}
}

// TestHidden: where the kernel does not show domains, a process with no_new_privs counts as perhaps confined.
func TestHidden(t *testing.T) {
	c := ConfinedProcesses{namespace: threaddata.NamespaceOf(os.Getpid()), hidden: true}
	careful := startProgram(t, func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
	if got := c.Describe(careful); got != mayBeConfined || c.IsEmpty() {
		t.Errorf("process with no_new_privs: %q", got)
	}
	if hasSetNoNewPrivileges(os.Getpid()) {
		t.Skip("SKIP: this process has no_new_privs")
	}
	if got := c.Describe(startProgram(t, func() error { return nil })); got != "" {
		t.Errorf("process without no_new_privs: %q", got)
	}
}

// TestPointer: the place of the pointer is the first word that confinement has changed from null.
func TestPointer(t *testing.T) {
	before, after := make([]byte, blobSize), make([]byte, blobSize)
	if _, err := findPointer(before, after); err == nil {
		t.Error("found a pointer where nothing has changed")
	}
	before[7], after[7] = 1, 2 // another module's
	after[23], after[24] = 0xff, 1
	if at, err := findPointer(before, after); at != 16 || err != nil {
		t.Errorf("offset %d, %v; want 16", at, err)
	}
}
