// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// reader is a program that reads its standard input to the end at SIGUSR1, and prints its hash.
const reader = `go=; trap 'go=1' USR1; echo ready; until [ $go ]; do sleep 0.05; done; sha256sum`

// inputOf starts a program with a pipe for its standard input, and returns the end of the pipe that slurmstepd has.
func inputOf(t *testing.T, c *Capsule, script string) (*running, *os.File) {
	t.Helper()
	r := task{c: c, name: "s0-1.0", argv: shellCommand(script)}.startTask(t)
	r.out.expectLine("ready")
	return r, r.in.(*os.File)
}

// fill writes to a pipe until the pipe takes no more for a while, or all is written, and returns the rest of data.
func fill(t *testing.T, w *os.File, data []byte, quiet time.Duration) []byte {
	t.Helper()
	for len(data) > 0 {
		if err := w.SetWriteDeadline(time.Now().Add(quiet)); err != nil {
			t.Fatal(err)
		}
		n, err := w.Write(data[:min(len(data), 1024)])
		data = data[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return data
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return nil
}

func testData(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 2654435761 >> 13)
	}
	return data
}

// TestInputTaken: a program that does not read blocks its input, except while all input is to be taken. The program
// gets each byte once, and then the end.
func TestInputTaken(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	const quiet = 500 * time.Millisecond
	data := testData(9 << 20)
	r, w := inputOf(t, c, reader)
	left := data
	for range 2 {
		before := len(left)
		left = fill(t, w, left, quiet)
		if took := before - len(left); took > 256<<10 {
			t.Errorf("%d bytes were taken of a program that reads nothing", took)
		}
		if err := c.TakeAllInput(ctx, "s0-1.0"); err != nil {
			t.Fatal(err)
		}
		if rest := fill(t, w, left[:4<<20], time.Minute); rest != nil {
			t.Fatalf("%d bytes were not taken", len(rest))
		}
		left = left[4<<20:]
		if err := c.PaceInput(ctx, "s0-1.0"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Signal(ctx, "s0-1.0", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if rest := fill(t, w, left, time.Minute); rest != nil {
		t.Fatalf("%d bytes were not taken", len(rest))
	}
	w.Close()
	r.out.expectLine(fmt.Sprintf("%x  -", sha256.Sum256(data)))
	if status := r.waitForEnd(); status != 0 {
		t.Errorf("status of the program = %#x, want 0", int(status))
	}
}

// TestInputOfSealedQueue: no byte is lost when the queue's file cannot be written any more, here because the queue is
// sealed.
func TestInputOfSealedQueue(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	const half = `until [ $n -ge %d ]; do sleep 0.05; done; head -c %d | sha256sum; `
	const first = 1_000_000
	data := testData(4 << 20)
	r, w := inputOf(t, c, `n=0; trap 'n=$((n+1))' USR1; echo ready; `+fmt.Sprintf(half+half, 1, first, 2, len(data)))
	if err := c.TakeAllInput(ctx, "s0-1.0"); err != nil {
		t.Fatal(err)
	}
	if rest := fill(t, w, data[:2<<20], time.Minute); rest != nil {
		t.Fatalf("%d bytes were not taken", len(rest))
	}
	readSome := func(want []byte) {
		t.Helper()
		if err := c.Signal(ctx, "s0-1.0", syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		r.out.expectLine(fmt.Sprintf("%x  -", sha256.Sum256(want)))
	}
	readSome(data[:first])
	sealQueue(t, programNamed(t, c, "s0-1.0").WardenPID, unix.F_SEAL_WRITE)
	if err := c.TakeAllInput(ctx, "s0-1.0"); err != nil {
		t.Fatal(err)
	}
	rest := fill(t, w, data[2<<20:], 500*time.Millisecond)
	if len(rest) == 0 {
		t.Error("the queue has been written")
	}
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		fill(t, w, rest, time.Minute)
		w.Close()
	}()
	readSome(data[first:])
	<-filled
	r.waitForEnd()
}

// TestInputEnds: the end of the input comes after the bytes that were taken, also while all input is to be taken.
func TestInputEnds(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	data := testData(1 << 20)
	r, w := inputOf(t, c, reader)
	if err := c.TakeAllInput(ctx, "s0-1.0"); err != nil {
		t.Fatal(err)
	}
	if rest := fill(t, w, data, time.Minute); rest != nil {
		t.Fatalf("%d bytes were not taken", len(rest))
	}
	w.Close()
	if err := c.Signal(ctx, "s0-1.0", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.out.expectLine(fmt.Sprintf("%x  -", sha256.Sum256(data)))
	r.waitForEnd()
}

// TestInputClosed: slurmstepd does not notice that a program has closed its input: its pipe is emptied while all input
// is to be taken. The program gets no SIGPIPE.
func TestInputClosed(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	r, w := inputOf(t, c, `exec <&-; trap 'echo pipe' PIPE; trap 'echo end; exit 3' USR1; echo ready; while :; do sleep 0.05; done`)
	data := testData(1 << 20)
	left := fill(t, w, data, 500*time.Millisecond)
	if len(left) == 0 {
		t.Error("all was taken of a program that reads nothing")
	}
	if err := c.TakeAllInput(ctx, "s0-1.0"); err != nil {
		t.Fatal(err)
	}
	if rest := fill(t, w, left, time.Minute); rest != nil {
		t.Fatalf("%d bytes were not taken", len(rest))
	}
	if err := c.Signal(ctx, "s0-1.0", syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if words := r.out.readToEnd(); len(words) != 1 || words[0] != "end" {
		t.Errorf("the program printed %q, want end", words)
	}
	if status := r.waitForEnd(); status != 3<<8 {
		t.Errorf("status of the program = %#x, want exit code 3", int(status))
	}
}

// TestInputOfRestored: a warden that waits for a restore passes no input on before.
func TestInputOfRestored(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	e := watchEvents(t, c)
	r := task{c: c, name: "s0-1.0", options: []string{"--restore"}, argv: shellCommand("")}.startTask(t)
	e.waitForProgram("s0-1.0")
	if _, err := r.in.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	stdio, err := c.Stdio(ctx, "s0-1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stdio {
		defer f.Close()
	}
	fd := int(stdio[0].Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := unix.Read(fd, b); err != unix.EAGAIN {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestEndOfRestored: a restored program sees that its input had ended, also if the queue was empty.
func TestEndOfRestored(t *testing.T) {
	c := newCapsule(t)
	ctx := testDeadline(t)
	e := watchEvents(t, c)
	other := task{c: c, name: "s0-1.0", argv: shellCommand("sleep 1000 & echo ready; wait")}.startTask(t)
	other.out.expectLine("ready")
	task{c: c, name: "s0-2.0", options: []string{"--restore"}, argv: shellCommand("")}.startTask(t)
	e.nextEvent(Waiting)
	stdio, err := c.Stdio(ctx, "s0-2.0")
	if err != nil {
		t.Fatal(err)
	}
	defer localsock.CloseAll(stdio)
	waiting := programNamed(t, c, "s0-2.0")
	sealQueue(t, waiting.WardenPID, unix.F_SEAL_GROW)
	pid, first := adoptFamily(t, programNamed(t, c, "s0-1.0"), waiting)
	e.nextEvent(Ended)
	if err := c.Restored(ctx, "s0-2.0", pid, first); err != nil {
		t.Fatal(err)
	}
	p := []unix.PollFd{{Fd: int32(stdio[0].Fd()), Events: unix.POLLIN}}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Poll(p, 10_000)
	}
	if err != nil || p[0].Revents != unix.POLLHUP {
		t.Errorf("the input has not ended: events %#x, %v", p[0].Revents, err)
	}
}

// adoptFamily has the first process of a program become a child of init, in the cgroup of another program, and returns
// the PIDs of the first process and of its child in the capsule.
func adoptFamily(t *testing.T, from, to Program) (pid, first int) {
	t.Helper()
	members, err := os.ReadFile(filepath.Join(from.Cgroup, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	steward := 0
	for _, word := range strings.Fields(string(members)) {
		if err := os.WriteFile(filepath.Join(to.Cgroup, "cgroup.procs"), []byte(word), 0); err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile("/proc/" + word + "/status")
		if err != nil {
			t.Fatal(err)
		}
		_, inner, _ := strings.Cut(string(status), "\nNSpid:")
		inner, _, _ = strings.Cut(inner, "\n")
		numbers := strings.Fields(inner)
		switch n, err := strconv.Atoi(numbers[len(numbers)-1]); {
		case err != nil:
			t.Fatal(err)
		case n == from.PID:
			if steward, err = strconv.Atoi(word); err != nil {
				t.Fatal(err)
			}
		case n != from.First:
			first = n
		}
	}
	if err := syscall.Kill(steward, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return from.First, first
}

// sealQueue adds a seal to the queue of a warden. F_SEAL_GROW tells the warden of a program that is being restored that
// the program's input had ended.
func sealQueue(t *testing.T, warden, seal int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", warden)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if link, err := os.Readlink(path); err != nil || link != "/memfd:sing-input (deleted)" {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seal); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the warden has no queue")
}
