// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHasEnded: a process has ended before its parent notices.
func TestHasEnded(t *testing.T) {
	if HasEnded(os.Getpid()) {
		t.Error("this process has ended")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !HasEnded(pid) {
		t.Error("a process that its parent has not waited for has not ended")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !HasEnded(pid) {
		t.Error("a process that is gone has not ended")
	}
}
