// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// signedSocket returns the two ends of a datagram socket. The kernel tells the reader the user id of each writer.
func signedSocket(t *testing.T) (reader int, writer *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	writer = os.NewFile(uintptr(ends[1]), "writer")
	t.Cleanup(func() {
		unix.Close(ends[0])
		writer.Close()
	})
	if err := unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(ends[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		t.Fatal(err)
	}
	return ends[0], writer
}

// signedLine reads a datagram, and says which user has sent the datagram.
func signedLine(t *testing.T, reader int) string {
	t.Helper()
	b, oob := make([]byte, 4096), make([]byte, 256)
	n, oobn, _, _, err := unix.Recvmsg(reader, b, oob, 0)
	for errors.Is(err, unix.EINTR) { // a signal of Go's scheduler: with a time limit, the kernel does not begin the call again
		n, oobn, _, _, err = unix.Recvmsg(reader, b, oob, 0)
	}
	if err != nil {
		t.Fatal("receive: ", err)
	}
	parts, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(parts) != 1 {
		t.Fatalf("control messages = %v, %v, want the sender's credentials", parts, err)
	}
	cred, err := unix.ParseUnixCredentials(&parts[0])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d %s", cred.Uid, cred.Gid, b[:n])
}

// TestWritesAsUser: root writes into no descriptor that came from a user. srun's standard error and the messages to
// sing-srun are written by a process of the user: the kernel checks the rights of the writer.
func TestWritesAsUser(t *testing.T) {
	needRoot(t)
	ctx := testDeadline(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	errs, stderr := signedSocket(t)
	told, status := signedSocket(t)
	expect := func(reader int, want string) {
		t.Helper()
		if got := signedLine(t, reader); got != fmt.Sprintf("%d:%d %s", user, group, want) {
			t.Errorf("got %q, want %q of user %d", got, want, user)
		}
	}
	begin := func(script string) *Caller {
		t.Helper()
		c, err := newCaller(ctx, describeRequest("/", "0", "2", "srun", script, "PATH=/usr/bin:/bin"), null, null, stderr, status)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(ctx) })
		return c
	}
	r, err := begin("echo -1000 >&2; echo srun: error: an end >&2; exit 3").Start(ctx, StartSpec{
		Dir: filepath.Join(t.TempDir(), "s1"), Program: standIn(t), Rewriting: RewriteParameters{Key: "s1"}, UID: user, GID: group,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Remove(ctx)
	expect(told, "key s1\n")
	expect(errs, "-1000\n")
	expect(errs, "srun: error: an end\n")
	expect(told, "exit 3\n")
	if err := begin("true").Refuse("not now"); err != nil {
		t.Fatal(err)
	}
	expect(told, "no not now\n")
	if err := begin("true").Report("s1", 3<<8); err != nil {
		t.Fatal(err)
	}
	expect(told, "key s1\nexit 3\n")
	failing := begin("true")
	if _, err := failing.Start(ctx, StartSpec{Dir: filepath.Join(t.TempDir(), "s2"), Program: "/usr/bin/no-srun", Rewriting: RewriteParameters{Key: "s2"}, UID: user, GID: group}); err == nil {
		t.Fatal("an srun that does not exist was started")
	}
	if err := failing.Refuse("there is none"); err != nil {
		t.Fatal(err)
	}
	expect(told, "no there is none\n")
}

// TestWriterHasLimits: srun's standard error is written under the limits of its caller.
func TestWriterHasLimits(t *testing.T) {
	needRoot(t)
	ctx := testDeadline(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	told, status := signedSocket(t)
	c, err := newCaller(ctx, describeRequest("/", "0", "2", "srun", "echo 1234567890 >&2; echo more >&2", "PATH=/usr/bin:/bin"), null, null, out, status)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	r, err := c.Start(ctx, StartSpec{
		Dir: filepath.Join(t.TempDir(), "s1"), Program: standIn(t), Rewriting: RewriteParameters{Key: "s1"}, UID: user, GID: group,
		Inherited: &InheritedLimits{Limits: []Limit{{unix.RLIMIT_FSIZE, 4, 4}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Remove(ctx)
	for _, want := range []string{"key s1\n", "exit 0\n"} {
		if got := signedLine(t, told); !strings.HasSuffix(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	if b, err := os.ReadFile(out.Name()); err != nil || string(b) != "1234" {
		t.Errorf("the file has %q, %v, want only the bytes below the limit", b, err)
	}
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		b, _ := os.ReadFile(name)
		for _, word := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, child)
		}
	}
	return all
}

// TestWriterKilled: the user may kill the process that writes for the runner. Another writer takes its place: sing-srun
// is still told of srun's end.
func TestWriterKilled(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "trap 'echo last; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
	writers := slices.DeleteFunc(childrenOf(t, run.rec.PID), func(pid int) bool { return pid == run.PID() })
	if len(writers) != 1 {
		t.Fatalf("the runner has the children %v besides srun, want the writer", writers)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", writers[0]))
	if want := fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", user); err != nil || !strings.Contains(string(b), want) || !strings.Contains(string(b), "\nCapEff:\t0000000000000000\n") {
		t.Errorf("the writer: %s %v", b, err)
	}
	if err := unix.Kill(writers[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := run.Signal(testDeadline(t), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 5 {
		t.Errorf("exit code of sing-srun = %d, want 5", exitCodeOf(how))
	}
}

// TestWriterGivenUp: a writer that the user has stopped takes words until its socket is full, and is given up then.
func TestWriterGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: takes the patience of a write")
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[1]) // the end that no process reads
	conn := os.NewFile(uintptr(ends[0]), "writer")
	p := &writer{conn: conn, to: gob.NewEncoder(conn)}
	sent := 0
	for p.sendWords(words{Text: make([]byte, maxPart)}) {
		sent++
	}
	if err := conn.Close(); sent == 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("after %d parts: close: %v, want one that was closed before", sent, err)
	}
}
