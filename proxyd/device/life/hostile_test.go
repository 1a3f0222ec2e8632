// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attempts are the attacks of another process, which has the server's folder as descriptor 3 and the folder
// of the server's socket as descriptor 4.
var attempts = map[string]func(pid int) error{
	"enter": func(int) error {
		_, err := os.ReadDir("/proc/self/fd/3")
		return err
	},
	"control": func(int) error { return connectAndWait("/proc/self/fd/3/" + controlName) },
	"devices": func(int) error { return connectAndWait("/proc/self/fd/4/" + socketName) },
	"replace": func(int) error { return os.Remove("/proc/self/fd/4/" + socketName) },
	"beside":  func(int) error { return os.WriteFile("/proc/self/fd/4/x", nil, 0o600) },
	"trace": func(pid int) error {
		runtime.LockOSThread()
		return unix.PtraceSeize(pid)
	},
	"memory": func(pid int) error {
		_, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
		return err
	},
	"write": func(pid int) error {
		b := []byte{0}
		_, err := unix.ProcessVMWritev(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
		return err
	},
	"descriptors": func(pid int) error {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		return err
	},
	"take one": func(pid int) error {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(pidfd, controlFD, 0)
		return err
	},
	"signal": func(pid int) error { return unix.Kill(pid, 0) },
}

// connectAndWait connects and reports how the connection ends.
func connectAndWait(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	if err := unix.Send(fd, []byte(`{"do":"status"}`+"\n"), unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	n, err := unix.Read(fd, make([]byte, 100))
	if err == nil && n == 0 {
		err = io.EOF
	}
	return err
}

// beHostile prints the outcome of each attempt.
func beHostile(args []string) int {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return 1
	}
	for _, name := range args[1:] {
		fmt.Fprintf(os.Stdout, "%s: %v\n", name, attempts[name](pid))
	}
	return 0
}

// attemptAs has a user carry out an attempt, and returns the outcome.
func attemptAs(t *testing.T, s *Server, uid uint32, what string) string {
	t.Helper()
	c := exec.CommandContext(testDeadline(t), "/proc/self/exe", hostileArg, fmt.Sprint(s.PID()), what)
	for _, dir := range []string{s.Dir(), s.SocketDir()} {
		f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: group0}}
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("an attempt did not run: %v\n%s", err, &said)
	}
	_, got, _ := strings.Cut(strings.TrimSpace(string(out)), ": ")
	return got
}

// TestHostile: which attempts succeed for the server's own user, and which for another user. The attempts
// that succeed show that the refused attempts do not fail for an unrelated reason.
func TestHostile(t *testing.T) {
	w := makeWorld(t)
	s := startServer(t, specOf(t, w))
	for _, tt := range []struct {
		what       string
		own, other string // the end of the message that each user gets
	}{
		{"enter", "permission denied", "permission denied"},
		{"control", "permission denied", "permission denied"},
		{"devices", "EOF", "permission denied"}, // the server drops bytes that are not a shim's message
		{"replace", "permission denied", "permission denied"},
		{"beside", "permission denied", "permission denied"},
		{"trace", "operation not permitted", "operation not permitted"},
		{"memory", "permission denied", "permission denied"},
		{"write", "operation not permitted", "operation not permitted"},
		{"descriptors", "permission denied", "permission denied"},
		{"take one", "operation not permitted", "operation not permitted"},
		{"signal", "<nil>", "operation not permitted"},
	} {
		if got := attemptAs(t, s, user, tt.what); !strings.HasSuffix(got, tt.own) {
			t.Errorf("%s: the server's user got %q, want an error that ends in %q", tt.what, got, tt.own)
		}
		if got := attemptAs(t, s, other, tt.what); !strings.HasSuffix(got, tt.other) {
			t.Errorf("%s: another user got %q, want an error that ends in %q", tt.what, got, tt.other)
		}
	}
	// The modes of the folders and sockets are the first lock, and the server's check of the peer is the
	// second. Open modes show that the second lock holds alone.
	for path, mode := range map[string]os.FileMode{"": 0o777, controlName: 0o666, filepath.Join(socketDir, socketName): 0o666} {
		if err := os.Chmod(filepath.Join(s.Dir(), path), mode); err != nil {
			t.Fatal(err)
		}
	}
	for uid, what := range map[uint32][]string{user: {"control"}, other: {"control", "devices"}} {
		for _, name := range what {
			got := attemptAs(t, s, uid, name)
			// Whether the server refuses the connection before or after the first bytes is a matter of time.
			if !slices.ContainsFunc([]string{"EOF", "connection reset by peer", "broken pipe"}, func(end string) bool { return strings.HasSuffix(got, end) }) {
				t.Errorf("%s: user %d got %q, want a closed connection", name, uid, got)
			}
		}
	}
	if _, err := s.Status(testDeadline(t)); err != nil {
		t.Error(err)
	}
	if log := logOf(s); !strings.Contains(log, "user 12345 has connected, and not 0") || !strings.Contains(log, "user 12347 has connected, and not 0") {
		t.Errorf("the log does not name both strangers:\n%s", log)
	}
}

// TestTraceable: the user can trace its own ordinary processes, so TestHostile sees refusals because the
// server is protected, and not because the host forbids tracing.
func TestTraceable(t *testing.T) {
	makeWorld(t)
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: group0}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Kill()
		c.Wait()
	}()
	s := &Server{dir: t.TempDir(), rec: record{PID: c.Process.Pid}}
	if err := os.Mkdir(s.SocketDir(), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	for _, what := range []string{"trace", "memory", "descriptors"} {
		if got := attemptAs(t, s, user, what); got != "<nil>" {
			t.Errorf("attempt %q on a traceable process: %s, want success", what, got)
		}
	}
}
