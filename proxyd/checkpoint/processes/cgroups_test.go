// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package processes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
)

// TestJobCgroup: the cgroup of a job is found from the cgroup of any process of its steps, with the names of all releases of Slurm.
func TestJobCgroup(t *testing.T) {
	const scope = "/system.slice/n1_slurmstepd.scope"
	for path, want := range map[string]string{
		scope + "/job_7/step_batch/slurm":                      "/root" + scope + "/job_7",
		scope + "/job_7/step_0/user/task_3":                    "/root" + scope + "/job_7",
		scope + "/job_7/step_extern/user/task_special":         "/root" + scope + "/job_7",
		scope + "/sEW5M7WGM8E100/step_batch/user/task_0":       "/root" + scope + "/sEW5M7WGM8E100",
		scope + "/job_7/step_0/user/task_0/sing-a-0/step_mine": "/root" + scope + "/job_7",
		"/system.slice/slurmd.service":                         "",
		"/step_0":                                              "",
		"/../../job_7/step_0/slurm":                            "",
		"/":                                                    "",
	} {
		if got := jobCgroupPath("/root", path); got != want {
			t.Errorf("path %s: job cgroup %q, want %q", path, got, want)
		}
	}
	if got := DeviceCgroup("", 2); got != "" {
		t.Errorf("job cgroup %q without a cgroup hierarchy", got)
	}
}

// TestJobCgroupHere: the cgroup of a job is found by its slurmstepd, which runs as root, and is removed when empty.
func TestJobCgroupHere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: cgroups")
	}
	root, err := capsule.CgroupRoot(t.Context())
	if err != nil {
		t.Skip("needs cgroup v2: ", err)
	}
	id := uint32(os.Getpid())
	job := filepath.Join(root, fmt.Sprintf("sing-test-%d-%d", id, time.Now().UnixNano()))
	step := filepath.Join(job, "step_batch")
	if err := os.MkdirAll(filepath.Join(step, "slurm"), 0o755); err != nil {
		t.Skip("needs a cgroup v2 to write to: ", err)
	}
	stepd := &exec.Cmd{Path: copyProgram(t, "/bin/sleep", "slurmstepd", 0o755), Args: []string{fmt.Sprintf("slurmstepd: [%d.batch]", id), "1000"}}
	if err := stepd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stepd.Process.Kill()
		stepd.Wait()
		for _, dir := range []string{filepath.Join(step, "slurm"), step, job} {
			os.Remove(dir)
		}
	})
	waitForArguments(t, stepd.Process.Pid)
	if got := JobCgroupHere(root, id); got != "" {
		t.Errorf("job cgroup %q before it exists", got)
	}
	if err := os.WriteFile(filepath.Join(step, "slurm", "cgroup.procs"), []byte(strconv.Itoa(stepd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if got := JobCgroupHere(root, id); got != job {
		t.Errorf("job cgroup %q, want %q", got, job)
	}
	if got := JobCgroupHere(root, id/10); got != "" {
		t.Errorf("cgroup of another job: %q", got)
	}
	checkInFilesCgroup(t, root, id, job)
	if err := RemoveEmptyCgroup(job); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(job); err != nil {
		t.Error(err)
	}
	stepd.Process.Kill()
	stepd.Wait()
	for _, dir := range []string{filepath.Join(step, "slurm"), step} {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := RemoveEmptyCgroup(job); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(job); err == nil {
		t.Error("the empty cgroup was not removed")
	}
}

// checkInFilesCgroup checks that InFilesCgroup makes a cgroup in a job's, which takes processes, also after a daemon that
// has left the cgroup behind, and removes it.
func checkInFilesCgroup(t *testing.T, root string, id uint32, job string) {
	t.Helper()
	errWork := errors.New("the work fails")
	for _, want := range []error{nil, errWork} {
		group := filepath.Join(job, "sing-files-2")
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Fatal(err)
		}
		var got string
		err := InFilesCgroup(root, id, 2, func(cgroup string) error {
			got = cgroup
			cmd := exec.Command("/bin/true")
			f, err := os.Open(cgroup)
			if err != nil {
				return err
			}
			defer f.Close()
			cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
			return errors.Join(cmd.Run(), want)
		})
		if !errors.Is(err, want) || want == nil && err != nil || got != group {
			t.Errorf("InFilesCgroup = %v, in the cgroup %q; want %v, in %q", err, got, want, group)
		}
		if _, err := os.Stat(group); err == nil {
			t.Error("the cgroup is still there after the work")
		}
	}
	if err := InFilesCgroup(root, id/10, 2, func(cgroup string) error {
		if cgroup != "" {
			t.Errorf("a job without a cgroup has %q", cgroup)
		}
		return errWork
	}); !errors.Is(err, errWork) {
		t.Errorf("InFilesCgroup without a job's cgroup = %v, want the work's error", err)
	}
}

// TestFalseStepd: a user calls a process slurmstepd, also a process of a set-user-ID program, of which /proc names root
// as the owner. The process is not taken for the slurmstepd of another user's job: the job's device server would be put into the
// first user's cgroup.
func TestFalseStepd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: needs root: it starts processes of other users")
	}
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	for _, tt := range []struct {
		name, program string
		mode          os.FileMode
		as            *syscall.SysProcAttr
		want          bool
	}{
		{"the real one", "slurmstepd", 0o755, nil, true},
		{"a program of root's", "sleep", 0o755, nil, false},
		{"a user's process", "slurmstepd", 0o755, user, false},
		{"a set-user-ID program", "su", 0o755 | os.ModeSetuid, user, false},
		{"a set-user-ID program by a hard link", "slurmstepd", 0o755 | os.ModeSetuid, user, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := &exec.Cmd{Path: copyProgram(t, "/bin/sleep", tt.program, tt.mode), Args: []string{"slurmstepd: [812.batch]", "1000"}, SysProcAttr: tt.as}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			waitForArguments(t, cmd.Process.Pid)
			if got := isStepdOf(cmd.Process.Pid, 812); got != tt.want {
				t.Errorf("isStepdOf job 812 = %v, want %v", got, tt.want)
			}
			if isStepdOf(cmd.Process.Pid, 81) {
				t.Error("the process is taken for the slurmstepd of job 81")
			}
		})
	}
}

// waitForArguments waits until /proc shows the arguments of a process that was just started: the kernel sets them some
// microseconds after exec has closed the descriptors, which is when Start returns.
func waitForArguments(t *testing.T, pid int) {
	t.Helper()
	waitFor(t, t.Context(), "the process has arguments", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(b) > 0
	})
}

// copyProgram copies a program to a new folder that all users reach, and returns its path.
func copyProgram(t *testing.T, program, name string, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "program-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	err = errors.Join(os.WriteFile(path, data, 0o755), os.Chmod(path, mode), os.Chmod(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
