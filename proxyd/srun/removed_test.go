// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// TestRemovedIsIdle: a step ends, and its srun is removed, while a checkpoint that has seen the srun waits for its
// output. No output of the step is on the way any more, and its runner has ended, so requests to it need no answer.
func TestRemovedIsIdle(t *testing.T) {
	runner := exec.Command("/bin/true")
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(runner.Process.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	began, err := procfs.StartTime(runner.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s0-10")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &Runner{dir: dir, rec: record{Key: "s0-10", Srun: runner.Process.Pid, Began: began}, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	if err := runner.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Idle(testDeadline(t)); err != nil {
		t.Errorf("Idle of a removed srun: %v", err)
	}
	if err := r.Quiet(t.Context()); err != nil {
		t.Errorf("Quiet of a removed srun: %v", err)
	}
}
