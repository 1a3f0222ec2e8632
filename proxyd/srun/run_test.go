// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// These tests need no Slurm: sh stands in for srun.

// standIn is a program that acts as srun: its first argument is a script.
func standIn(t testing.TB) string {
	t.Helper()
	path := filepath.Join(tools.dir, "stand-in")
	if err := os.WriteFile(path, []byte("#!/bin/bash\neval \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEndsLikeSrun(t *testing.T) {
	needHangup(t)
	s := newServer(t, standIn(t))
	for _, tc := range []struct {
		script    string
		in        string
		out, errs string
		code      int
	}{
		{script: "echo hello; echo well >&2", out: "hello\n", errs: "well\n"},
		{script: "exit 7", code: 7},
		{script: "exit 255", code: 255},
		{script: "kill -SEGV $$", code: -11},
		{script: "kill -TERM $$", code: -15},
		{script: "wc -c", in: strings.Repeat("x", 1000000), out: "1000000\n"},
		{script: "id -u; id -g; id -G", out: "1001\n1001\n1001\n"},
		{script: "pwd; umask", out: "/usr/lib\n0027\n"},
		{script: "echo $SINGULARITY_SLURM_STEP | tr -d 0-9", out: "s\n"},
		{script: "echo $MINE; echo $0 $#", out: "so\n" + tools.srun + " 1\n"},
		{script: "ls /proc/self/fd | wc -l", out: "4\n"}, // 0, 1, 2 and the folder
		{script: "cat /proc/self/oom_score_adj; ulimit -n; ulimit -Hc", out: "77\n333\n0\n"},
		{script: "grep -h Cap /proc/self/status | cut -f2 | sort -u | head -n 1", out: "0000000000000000\n"},
		// No signal; 32 (80000000) is libc's own, which a race-enabled Go may leave ignored.
		{script: `exec grep -cE '^Sig(Ign|Blk):.00000000[08]0000000$' /proc/self/status`, out: "2\n"},
	} {
		c := caller{args: []string{tc.script}, in: strings.NewReader(tc.in), dir: "/usr/lib", env: []string{"PATH=/usr/bin:/bin", "MINE=so"}}
		c.before = []string{"/bin/bash", "-c", `umask 027; ulimit -n 333; ulimit -Hc 0; echo 77 >/proc/self/oom_score_adj; exec "$@"`, "-"}
		out, errs, how := c.runCall(t)
		// bash names its script in $0.
		if strings.Contains(tc.script, "$0") {
			out = strings.Replace(out, filepath.Join(tools.dir, "stand-in"), tools.srun, 1)
		}
		if out != tc.out || errs != tc.errs || exitCodeOf(how) != tc.code {
			t.Errorf("%s: got %q, %q, %d, want %q, %q, %d", tc.script, out, errs, exitCodeOf(how), tc.out, tc.errs, tc.code)
		}
		s.expectRequest("srun")
	}
}

func TestRefused(t *testing.T) {
	s := newServer(t, standIn(t))
	s.mu.Lock()
	s.refuse = "no\nmore steps" + strings.Repeat("!", 5000)
	s.mu.Unlock()
	out, errs, how := caller{args: []string{"echo no"}}.runCall(t)
	if out != "" || !strings.HasPrefix(errs, "singularity: srun: no more steps!!!") || strings.Count(errs, "\n") != 1 || exitCodeOf(how) != 1 {
		t.Errorf("stdout %q, stderr %q, exit code %d, want the refusal in one line", out, errs, exitCodeOf(how))
	}
}

// TestUselessStandardError: srun runs also where the caller's standard error takes nothing, with a notice for it and
// without.
func TestUselessStandardError(t *testing.T) {
	s := newServer(t, standIn(t))
	for _, args := range [][]string{{"exit 5"}, {"--pty", "exit 5"}} {
		errs, err := os.Open(os.DevNull) // cannot be written to
		if err != nil {
			t.Fatal(err)
		}
		defer errs.Close()
		cmd := caller{args: args, env: protectedEnv}.newCommand()
		cmd.Stderr = errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.expectRequest("srun")
		if how := waitForCommand(t, cmd); exitCodeOf(how) != 5 {
			t.Errorf("%q: exit code %d, want 5", args, exitCodeOf(how))
		}
	}
}

func TestCannotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		program, dir, want string
	}{
		"no srun":      {"/usr/bin/no-srun", "/", "singularity: srun: exec: /usr/bin/no-srun: no such file or directory\n"},
		"no programme": {"/etc/passwd", "/", "singularity: srun: exec: /etc/passwd: permission denied\n"},
	} {
		t.Run(name, func(t *testing.T) {
			newServer(t, tc.program)
			out, errs, how := caller{args: []string{"x"}, dir: tc.dir}.runCall(t)
			if out != "" || errs != tc.want || exitCodeOf(how) != 1 {
				t.Errorf("stdout %q, stderr %q, exit code %d, want an error", out, errs, exitCodeOf(how))
			}
		})
	}
}

// TestFolderOfOthers: srun is in the caller's folder with the caller's rights only.
func TestFolderOfOthers(t *testing.T) {
	s := newServer(t, standIn(t))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	defer null.Close()
	caller, err := newCaller(testDeadline(t), describeRequest(secret, "0", "2", "srun", "pwd"), null, null, null, null)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close(testDeadline(t))
	_, err = caller.Start(testDeadline(t), StartSpec{Dir: filepath.Join(s.dir, "x"), Program: s.program, UID: user, GID: group})
	if err == nil || !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "folder: permission denied") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something is left of it: ", err)
	}
}

// TestLinkedOutput: a link that a user has put in the place of a step's output file leads where the user may go.
func TestLinkedOutput(t *testing.T) {
	const said = "1\n[2026-11-20T18:08:10.552] error: *** STEP 147.1 ON n11 CANCELLED AT 2026-11-20T18:08:10 DUE TO JOB REQUEUE ***\n2\n"
	for name, tc := range map[string]struct {
		owner      int
		want, errs string
		code       int
	}{
		"to root's file":     {0, said, ": permission denied\n", 1},
		"to the user's file": {user, "1\n2\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, standIn(t))
			dir := t.TempDir()
			file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
			if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.WriteFile(file, []byte(said), 0o600), os.Chown(file, tc.owner, tc.owner), os.Symlink(file, link)); err != nil {
				t.Fatal(err)
			}
			s.clean = []string{link}
			_, errs, how := caller{args: []string{"true"}}.runCall(t)
			if !strings.HasSuffix(errs, tc.errs) || tc.errs != "" && !strings.Contains(errs, link) || exitCodeOf(how) != tc.code {
				t.Errorf("stderr %q, exit code %d, want %q and %d", errs, exitCodeOf(how), tc.errs, tc.code)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != tc.want {
				t.Errorf("the file has %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestClosedStdio(t *testing.T) {
	s := newServer(t, standIn(t))
	c := caller{args: []string{"readlink /proc/self/fd/0 >&2; echo nowhere"}}
	c.before = []string{"/bin/bash", "-c", `exec "$@" <&- >&-`, "-"}
	_, errs, how := c.runCall(t)
	if errs != "/dev/null\n" || exitCodeOf(how) != 0 {
		t.Errorf("stderr %q, exit code %d, want /dev/null as the closed standard input", errs, exitCodeOf(how))
	}
	s.expectRequest("srun")
}

// TestNonblock: the user's descriptors keep their flags.
func TestNonblock(t *testing.T) {
	s := newServer(t, standIn(t))
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	cmd := caller{args: []string{"true"}}.newCommand()
	w := os.NewFile(uintptr(p[1]), "w")
	// A shell makes the descriptor, for exec.Cmd would clear the flag itself.
	cmd.ExtraFiles = []*os.File{w}
	cmd.Args = append([]string{"/bin/sh", "-c", `exec "$@" >&3 3>&-`, "-"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	unix.SetNonblock(p[1], true)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(p[1], true)
	waitForCommand(t, cmd)
	s.expectRequest("srun")
	if flags, _ := unix.FcntlInt(uintptr(p[1]), unix.F_GETFL, 0); flags&unix.O_NONBLOCK == 0 {
		t.Error("O_NONBLOCK is gone")
	}
	w.Close()
}

// TestCgroup: srun and its runner's writer are in the cgroup that was given, the runner is not.
func TestCgroup(t *testing.T) {
	needRoot(t)
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			root = f[1]
		}
	}
	if root == "" {
		t.Skip("SKIP: needs a cgroup2 mount")
	}
	name := fmt.Sprintf("srun-test-%d", os.Getpid())
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("SKIP: needs a cgroup2 mount to write to: ", err)
	}
	defer os.Remove(dir)
	s := newServer(t, standIn(t))
	s.mu.Lock()
	s.cgroups = []string{dir}
	s.mu.Unlock()
	cmd, run, _ := startCall(t, s, "echo ready; exec sleep 1000")
	want := map[int]bool{run.rec.PID: false}
	for _, child := range childrenOf(t, run.rec.PID) {
		want[child] = true
	}
	if len(want) != 3 || !want[run.PID()] {
		t.Errorf("want a runner with srun and a writer, got %v", want)
	}
	for pid, want := range want {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || strings.Contains(string(b), name) != want {
			t.Errorf("cgroup of PID %d = %q, %v", pid, b, err)
		}
	}
	run.Kill(testDeadline(t))
	waitForCommand(t, cmd)
}
