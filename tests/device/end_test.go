// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/device/soft"
)

// TestServerEnds: a device server with a kernel that never ends can still be ended: the server ends by SIGTERM, and
// with "proxyd run", also if that is killed.
func TestServerEnds(t *testing.T) {
	w := soft.Need(t)
	path := w.Compile(t, "testdata/parts/spin.c")
	for name, end := range map[string]func(run *exec.Cmd, server int) error{
		"SIGTERM":               func(_ *exec.Cmd, server int) error { return unix.Kill(server, unix.SIGTERM) },
		"proxyd run is killed":  func(run *exec.Cmd, _ int) error { return run.Process.Kill() },
		"the program is killed": func(run *exec.Cmd, _ int) error { return run.Process.Signal(unix.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(filepath.Join(w.Dir, "proxyd"), "run", "--", path)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
				_ = c.Wait()
			})
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "spinning\n" {
				t.Fatalf("the program's first line = %q, %v, want \"spinning\\n\"", line, err)
			}
			server := serverOf(t, c.Process.Pid)
			fd, err := unix.PidfdOpen(server, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			t.Cleanup(func() { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
			if err := end(c, server); err != nil {
				t.Fatal(err)
			}
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, 60_000)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Poll(fds, 60_000)
			}
			if n != 1 {
				t.Fatalf("the device server still runs (%v)", err)
			}
		})
	}
}

// serverOf finds the device server that "proxyd run" has started.
func serverOf(t *testing.T, run int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", run, run))
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", run))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		more, err := os.ReadFile(path)
		if err == nil {
			b = append(append(b, ' '), more...)
		}
	}
	for _, pid := range strings.Fields(string(b)) {
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && strings.Contains(string(line), "\x00device\x00") {
			var n int
			if _, err := fmt.Sscan(pid, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("there is no device server")
	return 0
}
