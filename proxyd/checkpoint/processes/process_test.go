// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// processOf returns the process that has the PID now.
func processOf(t *testing.T, pid int) Process {
	t.Helper()
	p, err := NewProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHasEnded: a process has ended before its parent notices.
func TestHasEnded(t *testing.T) {
	if processOf(t, os.Getpid()).HasEnded() {
		t.Error("this process has ended")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := processOf(t, cmd.Process.Pid)
	if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !p.HasEnded() {
		t.Error("a process that its parent has not waited for has not ended")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !p.HasEnded() {
		t.Error("a process that is gone has not ended")
	}
}

// TestPIDOfAnother: after the end of a process its PID may be that of a process of another user. Neither the cgroups of
// that process, which the job's srun would join, nor its variables are taken.
func TestPIDOfAnother(t *testing.T) {
	stranger := exec.Command("cat")
	stranger.Env = []string{"SLURM_JOB_ID=8"}
	in, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := stranger.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer stranger.Wait()
	defer in.Close()
	// While a program is loaded, /proc has no variables of the process: only a program that answers is loaded.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	now := processOf(t, stranger.Process.Pid)
	if env, err := SlurmEnv(now); err != nil || env["SLURM_JOB_ID"] != "8" {
		t.Errorf("the process itself: %q, %v", env, err)
	}
	if _, err := CgroupsOf(now); err != nil {
		t.Errorf("the process itself: %v", err)
	}
	before := Process{now.PID, now.Started - 1}
	if !before.HasEnded() {
		t.Error("the process that had the PID before has not ended")
	}
	if env, err := SlurmEnv(before); !errors.Is(err, ErrEnded) || env != nil {
		t.Errorf("SlurmEnv of a process that has ended = %q, %v", env, err)
	}
	if all, err := CgroupsOf(before); !errors.Is(err, ErrEnded) || all != nil {
		t.Errorf("cgroups %q, %v", all, err)
	}
	if group := OwnCgroup("/sys/fs/cgroup", before); group != "" {
		t.Errorf("cgroup %q", group)
	}
	for name, none := range map[string]Process{"not noted": {}, "noted by an older release": {PID: now.PID}} {
		if !none.HasEnded() {
			t.Errorf("%s: has not ended", name)
		}
	}
}
