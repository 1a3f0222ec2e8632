//go:build cluster

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBadInput: bad input gets a single clear line and an exit code, and leaves nothing behind.
func TestBadInput(t *testing.T) {
	before := listTraces(t)
	cases := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown suite", []string{"up", "--suite", "sid"}, 2, `unknown suite "sid": known are forky`},
		{"zero nodes", []string{"up", "--nodes", "0"}, 2, "--nodes 0: want 1 to 64"},
		{"nodes not a number", []string{"up", "--nodes", "two"}, 2, `invalid argument "two"`},
		{"negative GPUs", []string{"up", "--gpus", "-1"}, 2, "--gpus -1: want 0 to 64"},
		{"unknown flag", []string{"up", "--node", "2"}, 2, "unknown flag: --node (see: minicluster up --help)"},
		{"stray argument", []string{"up", "3"}, 2, "up wants no arguments (see: minicluster up --help)"},
		{"bad name", []string{"up", "--name", "../x"}, 2, `cluster name "../x": want a lower-case letter`},
		{"install is no folder", []string{"up", "--install", "/no/such"}, 2, "--install /no/such: not a folder"},
		{"cache is a file", []string{"up", "--cache", "/etc/passwd"}, 1, "/etc/passwd"},
		{"unknown verb", []string{"raise"}, 2, `unknown verb "raise" (see: minicluster --help)`},
		{"not running", []string{"status", "--name", "t-none"}, 1, "cluster t-none is not running"},
		{"down of nothing", []string{"down", "--name", "t-none"}, 1, "cluster t-none is not running"},
		{"exec on nothing", []string{"exec", "n1", "--name", "t-none", "--", "id"}, 125, "cluster t-none is not running"},
		{"fail without host", []string{"fail"}, 2, "fail wants HOST"},
		{"logs of nothing", []string{"logs", "n1", "--name", "t-none"}, 1, `no logs of a host "n1"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := runMinicluster(t, c.args...)
			assertRefused(t, r, c.code, c.says)
		})
	}
	t.Run("not root", func(t *testing.T) {
		dir := t.TempDir()
		unix.Chmod(filepath.Dir(dir), 0o755)
		unix.Chmod(dir, 0o755)
		copied := filepath.Join(dir, "minicluster")
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, data, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copied, "up")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		assertRefused(t, runProgram(t, cmd, ""), 1, "needs root")
	})
	t.Run("cache disk full", func(t *testing.T) {
		small := t.TempDir()
		if err := unix.Mount("small", small, "tmpfs", 0, "size=20m"); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(small, unix.MNT_DETACH)
		assertRefused(t, runMinicluster(t, "up", "--cache", small), 1, "MiB free")
	})
	before.assertNothingLeft(t)
	left, _ := filepath.Glob("/var/lib/minicluster/mini*")
	if len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

func assertRefused(t *testing.T, r result, code int, says string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.err, says) {
		t.Errorf("code %d, want %d; said %q, want %q in it", r.code, code, r.err, says)
	}
	if lines := strings.Count(r.err, "\n"); lines != 1 || !strings.HasPrefix(r.err, "minicluster: ") || r.out != "" {
		t.Errorf("want one line on standard error, got %d: %q, and %q on standard output", lines, r.err, r.out)
	}
}
