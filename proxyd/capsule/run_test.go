// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatus(t *testing.T) {
	c := newCapsule(t)
	file := filepath.Join(tools.dir, "not-executable")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name   string
		argv   []string
		want   syscall.WaitStatus
		stderr string
	}{
		{"0", shellCommand("exit 0"), 0, ""},
		{"3", shellCommand("exit 3"), 3 << 8, ""},
		{"7", shellCommand("exit 7"), 7 << 8, ""},
		{"255", shellCommand("exit 255"), 255 << 8, ""},
		{"SEGV", shellCommand("kill -SEGV $$"), syscall.WaitStatus(syscall.SIGSEGV), ""},
		{"TERM", shellCommand("kill -TERM $$"), syscall.WaitStatus(syscall.SIGTERM), ""},
		{"KILL", shellCommand("kill -KILL $$"), syscall.WaitStatus(syscall.SIGKILL), ""},
		{"found in PATH", []string{"true"}, 0, ""},
		{"missing", []string{"/no/such"}, 127 << 8, "slurmstepd: error: execve(): /no/such: No such file or directory\n"},
		{"missing in PATH", []string{"nosuch"}, 127 << 8, "slurmstepd: error: execve(): nosuch: No such file or directory\n"},
		{"not executable", []string{file}, 126 << 8, "slurmstepd: error: execve(): " + file + ": Permission denied\n"},
		{"a folder", []string{"/tmp"}, 126 << 8, "slurmstepd: error: execve(): /tmp: Permission denied\n"},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, stderr, got := task{c: c, argv: k.argv}.runTask(t)
			// The status has the signal without the bit for a core dump.
			if got&^0x80 != k.want || stderr != k.stderr {
				t.Errorf("status %#x, stderr %q; want %#x, %q", int(got), stderr, int(k.want), k.stderr)
			}
		})
	}
}

func TestStdinPipe(t *testing.T) {
	c := newCapsule(t)
	data := make([]byte, 50<<20)
	for i := range data {
		data[i] = byte(i * 2654435761 >> 13)
	}
	out, _, status := task{c: c, argv: []string{"sha256sum"}, in: bytes.NewReader(data)}.runTask(t)
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(data)); out != want || status != 0 {
		t.Errorf("got %q, status %#x; want %q", out, int(status), want)
	}
}

// TestStdoutFile: a file for the standard output is opened in the capsule's mount namespace, and processes
// that shared a file offset still share it.
func TestStdoutFile(t *testing.T) {
	c := newCapsule(t)
	for _, k := range []struct {
		name  string
		flags int
		want  string
	}{
		{"append", os.O_APPEND, "before\nout\nerr\nout\n"},
		{"no append", 0, "out\nerr\nout\n"},
	} {
		t.Run(k.name, func(t *testing.T) {
			path := filepath.Join(tools.dir, "out-"+strings.ReplaceAll(k.name, " ", "-"))
			if err := os.WriteFile(path, []byte("before\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			os.Chmod(path, 0o666)
			f, err := os.OpenFile(path, os.O_WRONLY|k.flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, _, status := task{c: c, out: f, err: f, argv: shellCommand(
				`echo out; echo err >&2; echo out
				for fd in 0 1 2; do sed -n s/mnt_id:.//p /proc/$$/fdinfo/$fd; done >/tmp/mounts
				sed 's/ .*//' /proc/self/mountinfo >/tmp/known; grep -qvxFf /tmp/known /tmp/mounts && exit 9
				exit 0`)}.runTask(t)
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if withoutWarnings(string(got)) != k.want || status != 0 {
				t.Errorf("file %q, status %#x; want %q, 0 (0x900: a descriptor of another mount namespace)", got, int(status), k.want)
			}
		})
	}
}

// TestSameAsOutside: a program finds the same surroundings in a capsule as outside, except for its cgroup v2.
func TestSameAsOutside(t *testing.T) {
	if sanitized {
		t.Skip("SKIP: the sanitizers' own descriptor would be seen")
	}
	// Descriptors that the test's caller has left open are visible outside of the capsule only.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	c := newCapsule(t)
	script := filepath.Join(tools.dir, "lookaround")
	look := `#!/bin/bash
id; pwd; umask; echo "argv: $0 $*"
grep -E '^(Umask|Uid|Gid|Groups|Sig|Shd|Cap|NoNewPrivs|Seccomp|Cpus_allowed|Mems_allowed|CoreDumping|THP|untag)' /proc/self/status | grep -v SigQ
cat /proc/self/limits /proc/self/oom_score_adj /proc/self/personality; grep -v ^0: /proc/self/cgroup
tr '\0' '\n' </proc/self/environ | sort
nice; chrt -p 0 2>&1 | sed 's/pid [0-9]*/pid/'; ionice
ls /proc/$$/fd; readlink /proc/self/fd/0 /proc/self/cwd /proc/self/root
cut -d ' ' -f 8 /proc/$$/stat
trap
`
	if err := os.WriteFile(script, []byte(look), 0o755); err != nil {
		t.Fatal(err)
	}
	// slurmstepd would have set all of this up.
	setUp := func(k task) string {
		k.enter = []string{"-b", "10", "-b", "40", "-i", "1", "-i", "13", "-i", "17"}
		k.dir, k.env, k.argv = "/usr/share", []string{"PATH=/bin:" + tools.dir, "A=b c", "EMPTY=", "ODD==\n="}, []string{"lookaround", "-x", "", "a b"}
		cmd := k.taskCommand(t)
		sh := `umask 027; ulimit -n 777; ulimit -s 4096; ulimit -c 0; ulimit -u 5000; exec nice -n 5 taskset -c 1 "$@"`
		cmd.Args = append([]string{"/bin/bash", "-c", sh, "x"}, cmd.Args...)
		cmd.Path = "/bin/bash"
		cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin:"+tools.dir)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatal(err, out.String())
		}
		return out.String()
	}
	inside, outside := setUp(task{c: c}), setUp(task{})
	if inside != outside {
		t.Errorf("inside:\n%s\noutside:\n%s", inside, outside)
	}
	if !strings.Contains(outside, "0000008000000200") || !strings.Contains(outside, "23456") {
		t.Errorf("the set-up did not work:\n%s", outside)
	}
}

func TestOwnView(t *testing.T) {
	if sanitized {
		t.Skip("SKIP: the sanitizers' log would be seen")
	}
	srun := filepath.Join(tools.dir, "srun")
	if err := os.WriteFile(srun, []byte("#!/bin/sh\necho wrapper\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	spool := filepath.Join(tools.dir, "spool", "job00001", "slurm_script")
	c := newCapsule(t, func(s *Spec) {
		s.Hosts = []byte("10.88.1.1 n1\n")
		s.Binds = []Bind{{Source: srun, Target: "/usr/bin/env", ReadOnly: true}, {Source: srun, Target: spool}}
	})
	got, stderr, _ := task{c: c, argv: shellCommand(`hostname; cat /etc/hosts; /usr/bin/env; ` + spool + `; ls -A /tmp /var/tmp /dev/shm /dev/pts
		touch /tmp/mine /var/tmp/mine /dev/shm/mine; stat -c %a /tmp /var/tmp /dev/shm
		cat /proc/1/comm >/dev/null && ls -d /proc/[0-9]* | wc -l; ls /sys/class/net >/dev/null; cat /proc/net/dev | grep -c lo:
		(: </dev/tcp/127.0.0.1/1) 2>&1 | grep -o refused; echo $PPID`)}.runTask(t)
	want := "cap1\n10.88.1.1 n1\nwrapper\nwrapper\n/dev/pts:\nptmx\n\n/dev/shm:\n\n/tmp:\n\n/var/tmp:\n1777\n1777\n1777\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q; stderr %q", got, want, stderr)
	}
	if !strings.Contains(got, "refused") {
		t.Errorf("loopback is not up: %q %q", got, stderr)
	}
	if _, err := os.Stat(filepath.Join(c.Dir(), "tmp", "mine")); err != nil {
		t.Error(err)
	}
	if err := c.Remove(testDeadline(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(tools.dir, "spool")); err == nil {
		t.Error("mount point is still there")
	}
}

// TestFirstPID: the first program's PIDs are above the PIDs of CRIU's helpers.
func TestFirstPID(t *testing.T) {
	c := newCapsule(t)
	out, _, _ := task{c: c, argv: shellCommand("echo $$ $PPID")}.runTask(t)
	var pid, steward int
	fmt.Sscan(out, &pid, &steward)
	if steward < firstPID || pid <= steward || pid > firstPID+20 {
		t.Errorf("program %d, steward %d; want just above %d", pid, steward, firstPID)
	}
	last, err := c.LastPID(testDeadline(t))
	if err != nil || last < pid {
		t.Errorf("LastPID = %d, %v; want at least %d", last, err, pid)
	}
	if err := c.LoadLastPID(testDeadline(t), 5000); err != nil {
		t.Fatal(err)
	}
	out, _, _ = task{c: c, argv: shellCommand("echo $$")}.runTask(t)
	if fmt.Sscan(out, &pid); pid <= 5000 {
		t.Errorf("after LoadLastPID(5000) a program has PID %d", pid)
	}
}
