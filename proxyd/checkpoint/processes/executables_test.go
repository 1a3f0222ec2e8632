// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// startSleeper runs a program and returns a capsule's program, in a folder that looks like
// its cgroup.
func startSleeper(t *testing.T, path string) capsule.Program {
	t.Helper()
	cmd := exec.Command(path, "1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = path
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		out.Close()
		cmd.Wait()
	})
	group := t.TempDir()
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return capsule.Program{Name: records.BatchProgram, Cgroup: group}
}

// TestSystemExecutables: the system files with the code that a job runs are compared at a restore, and its user's files
// are not.
func TestSystemExecutables(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of different owners")
	}
	sleep, err := filepath.EvalSymlinks("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "sleep")
	if err := os.WriteFile(users, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(users, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	programs := []capsule.Program{startSleeper(t, sleep), startSleeper(t, users), {Name: "gone", Cgroup: "/nowhere"}}
	libc := func(p string) bool { return strings.HasSuffix(p, "/libc.so.6") }
	var got []string
	for range 1000 { // until the loader has done its work
		if got = SystemExecutables(os.Getpid(), programs, func(path string) bool { return path == "/ours" }); slices.ContainsFunc(got, libc) {
			break
		}
	}
	if !slices.Contains(got, sleep) || !slices.ContainsFunc(got, libc) || slices.Contains(got, users) {
		t.Fatalf("system executables: %v", got)
	}
	then, err := host.FingerprintOf("/", got...)
	if err != nil || then.Files[sleep] == "" {
		t.Fatalf("FingerprintOf the system executables: %v, %v; want the hash of sleep", then.Files, err)
	}
	check := func() error {
		here, err := host.FingerprintOf("/", slices.Collect(maps.Keys(then.Files))...)
		if err != nil {
			return err
		}
		return host.Compatible(then, here)
	}
	if err := check(); err != nil {
		t.Errorf("on the same node: %v", err)
	}
	then.Files[sleep] = "0123456789abcdef"
	if err := check(); err == nil || !strings.Contains(err.Error(), "incompatible node: "+sleep+" is another build (") {
		t.Errorf("on a node with another build: %v", err)
	}
}
