// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestSlurmDevices: in a real Slurm's cgroup of a job, a cgroup beside the steps has the job's limits, and is gone
// after the end of the job. tests/cluster has a guest that is a node with cgroup v2.
func TestSlurmDevices(t *testing.T) {
	conf, err := os.ReadFile("/etc/slurm/cgroup.conf")
	if err != nil || !strings.Contains(string(conf), "CgroupPlugin=cgroup/v2") {
		t.Skip("SKIP: needs a node of Slurm with CgroupPlugin=cgroup/v2: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	root, err := capsule.CgroupRoot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	srun := exec.CommandContext(ctx, "srun", "-n1", "--mem=30", "-J", "devices", "sleep", "1000")
	if err := srun.Start(); err != nil {
		t.Fatal(err)
	}
	defer srun.Process.Kill()
	var id uint32
	var job string
	waitFor(t, ctx, "the job has a cgroup", func() bool {
		out, _ := exec.CommandContext(ctx, "squeue", "-h", "-n", "devices", "-o", "%A").Output()
		n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
		if id = uint32(n); err == nil {
			job = JobCgroupHere(root, id)
		}
		return job != ""
	})
	waitFor(t, ctx, "the job has its limit", func() bool { // the group is there before
		limit, err := os.ReadFile(filepath.Join(job, "memory.max"))
		return err == nil && strings.TrimSpace(string(limit)) == strconv.Itoa(30<<20)
	})
	group := DeviceCgroup(job, 0)
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	glutton := exec.CommandContext(ctx, "sh", "-c", `echo $$ >"$0" && exec tail /dev/zero`, filepath.Join(group, "cgroup.procs"))
	err = glutton.Run()
	if status, ok := glutton.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("a process that uses all memory ended with: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(group, "memory.events")); err != nil || !strings.Contains(string(b), "\noom_kill 1\n") {
		t.Errorf("memory.events of the cgroup beside the steps: %s, %v; want 1 oom_kill", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(job, "memory.events.local")); err != nil || strings.Contains(string(b), "\noom 0\n") {
		t.Errorf("the job was not at its limit: %s, %v", b, err)
	}
	if out, err := exec.CommandContext(ctx, "scancel", strconv.Itoa(int(id))).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %s, %v", out, err)
	}
	_ = srun.Wait() // the step was cancelled
	waitFor(t, ctx, "Slurm is done with the job", func() bool {
		steps, err := filepath.Glob(filepath.Join(job, stepPrefix+"*"))
		return err == nil && len(steps) == 0
	})
	if err := os.Remove(group); err != nil {
		t.Error(err)
	}
	if err := RemoveEmptyCgroup(job); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(job); err == nil {
		t.Errorf("cgroup %s stays", job)
	}
}

// waitFor polls until done returns true.
func waitFor(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("timeout: waited until %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
