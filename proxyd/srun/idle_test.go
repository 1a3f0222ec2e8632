// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	writerArg = "write-much" // a task: writes lines, stops itself, writes as many again
	stepdArg  = "stepd-idle" // waits until the slurmstepds of this node are idle

	lineSize = 64
	lines    = 400_000 // 25.6 MB, twice
)

// writeMuch stops itself when half is written, so that the number of written lines is known exactly.
func writeMuch(args []string) int {
	runtime.LockOSThread()
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	rank := os.Getenv("SLURM_PROCID") //nolint:forbidigo // a task has no other argument
	for i := range 2 * lines {
		if i == lines {
			out.Flush()
			if err := os.WriteFile(filepath.Join(args[0], rank), nil, 0o644); err != nil {
				return 1
			}
			unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) // this thread, which then writes no more
		}
		fmt.Fprintf(out, "%s %-*d\n", rank, lineSize-len(rank)-2, i)
	}
	out.Flush()
	return 0
}

// waitForStepds waits as a member of a job's checkpoint does: first until the pipes of the stopped tasks are empty,
// then until their slurmstepds have passed on all output.
func waitForStepds() int {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	procs, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range procs {
		comm, _ := os.ReadFile(path)
		var pid int
		fmt.Sscanf(path, "/proc/%d/comm", &pid)
		if string(comm) == "srun.test\n" && processState(pid) == "T" {
			waitUntilEmpty(pid)
		}
	}
	for _, path := range procs {
		comm, _ := os.ReadFile(path)
		var pid int
		fmt.Sscanf(path, "/proc/%d/comm", &pid)
		if !strings.HasPrefix(string(comm), "slurmstepd") || isOwnStepd(pid) {
			continue
		}
		if err := StepdIdle(ctx, pid); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// isOwnStepd tells whether a slurmstepd is the one of this process, which sleeps as long as this process runs. Tests
// leave its output out.
func isOwnStepd(pid int) bool { return pid == os.Getppid() }

func processState(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(len(rest), 1)]
}

// waitUntilEmpty waits until the pipe that is a process's standard output is empty.
func waitUntilEmpty(pid int) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/1", pid), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err != nil || n == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// slowReader counts the lines of each rank, and checks that no line is missing or comes twice.
type slowReader struct {
	mu    sync.Mutex
	count map[string]int
	err   error
	done  chan struct{}
	hold  chan struct{} // closed: the reader may read
}

func (s *slowReader) read(r io.Reader) {
	defer close(s.done)
	<-s.hold
	buf := make([]byte, 64<<10)
	var rest []byte
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		rest = append(rest, buf[:n]...)
		for len(rest) >= lineSize && s.err == nil {
			var rank string
			var i int
			if _, err := fmt.Sscan(string(rest[:lineSize]), &rank, &i); err != nil || rest[lineSize-1] != '\n' || i != s.count[rank] {
				s.err = fmt.Errorf("line %q, wanted %d", rest[:lineSize], s.count[rank])
			}
			s.count[rank]++
			rest = rest[lineSize:]
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *slowReader) readCounts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.count)
}

// TestIdle: two tasks have written 51 MB and stopped; a slow reader reads srun's output. When Idle returns, the reader
// has read all output except the bytes in its pipe.
func TestIdle(t *testing.T) {
	needSlurm(t)
	for _, tc := range []struct{ name, where string }{
		{"near", "-N1 -n2 -w n1"},
		{"far", "-N1 -n2 -w n2"},
		{"both", "-N2 -n2"},
	} {
		t.Run(tc.name, func(t *testing.T) { testIdle(t, strings.Fields(tc.where)) })
	}
}

func testIdle(t *testing.T, where []string) {
	j := newJob(t, "-N2", "--ntasks-per-node=2")
	s := newServer(t, "")
	dir, err := os.MkdirTemp("/shared", "srun-idle-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := caller{args: append(where, self, writerArg, dir), env: j.env}.newCommand()
	r, w, _ := os.Pipe()
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	run := s.expectRequest("srun").run
	reader := &slowReader{count: map[string]int{}, done: make(chan struct{}), hold: make(chan struct{})}
	go reader.read(r)

	// No process reads the output: Idle must not return before its context ends, and must name the reason.
	waitFor(t, 30*time.Second, "srun's output is stuck", func() bool {
		l, err := inspectProcess(run.PID())
		return err == nil && strings.Contains(l.busy, "descriptor 1 (pipe:")
	})
	waitFor(t, time.Minute, "Idle says why", func() bool { // a look at the processes takes as long as the machine is slow
		short, cancel := context.WithTimeout(testDeadline(t), time.Second)
		defer cancel()
		err := run.Idle(short)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return strings.Contains(err.Error(), "waits to write to descriptor 1 (pipe:")
	})
	close(reader.hold)

	waitFor(t, 60*time.Second, "the tasks have stopped", func() bool {
		files, _ := os.ReadDir(dir)
		return len(files) == 2
	})
	if code := waitForStepds(); code != 0 {
		t.Fatal("slurmstepds of n1: ", code)
	}
	if !slices.Contains(where, "n1") {
		stepd := exec.Command("srun", "--quiet", "-N1", "-n1", "-w", "n2", self, stepdArg)
		if out, err := stepd.CombinedOutput(); err != nil {
			t.Fatalf("slurmstepds of n2: %v %s", err, out)
		}
	}
	at := reader.readCounts()
	if err := run.Idle(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	left := -1
	if raw, err := r.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	t.Logf("read %s when asked, %s when idle, and %d bytes in the pipe", at, reader.readCounts(), left)
	// The reader takes the bytes in the pipe, and no more come.
	want := fmt.Sprint(map[string]int{"0": lines, "1": lines})
	for end := time.Now().Add(time.Minute); reader.readCounts() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("read %s, want %s, %v", reader.readCounts(), want, reader.err)
		}
	}

	if out, err := exec.Command("scancel", "--signal=CONT", j.id).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v", string(out))
	}
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 0 {
		t.Errorf("exit code of srun = %d, want 0", exitCodeOf(how))
	}
	<-reader.done
	if want := fmt.Sprint(map[string]int{"0": 2 * lines, "1": 2 * lines}); reader.readCounts() != want || reader.err != nil {
		t.Errorf("lines read in the end = %s, %v, want all lines of both tasks", reader.readCounts(), reader.err)
	}
	if err := run.Idle(testDeadline(t)); err != nil {
		t.Error("after the end: ", err)
	}
}

func TestParseTCP(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1A0A 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1A0A 0100007F:C350 01 000000FF:00000010 01:00000014 00000000  1001        0 23456 4 0000000000000000 20 4 30 10 -1
   2: cut off
`
	got := fmt.Sprint(parseTCP(table))
	want := fmt.Sprint([]tcpSocket{
		{"0100007F:1A0A", "00000000:0000", 0, 3, 12345},
		{"0100007F:1A0A", "0100007F:C350", 255, 16, 23456},
	})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestIdleAlone: a process that sleeps is idle, a process that runs or cannot write is not.
func TestIdleAlone(t *testing.T) {
	needRoot(t)
	begin := func(script string) *exec.Cmd {
		cmd := exec.Command("/bin/bash", "-c", script)
		r, w, _ := os.Pipe()
		t.Cleanup(func() { r.Close(); w.Close() })
		cmd.Stdout = w // never read
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	for _, tc := range []struct{ script, want string }{
		{"exec sleep 1000", ""},
		{"while :; do :; done", "a thread runs"},
		{"exec cat /dev/zero", "it waits to write to descriptor 1 (pipe:"},
	} {
		cmd := begin(tc.script)
		if tc.want == "" {
			if err := StepdIdle(testDeadline(t), cmd.Process.Pid); err != nil {
				t.Errorf("StepdIdle of %s: error %v, want idle", tc.script, err)
			}
			continue
		}
		waitFor(t, time.Minute, tc.script+" is "+tc.want, func() bool { // the process has to reach that state first
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			err := StepdIdle(ctx, cmd.Process.Pid)
			return err != nil && strings.Contains(err.Error(), tc.want)
		})
	}
	cmd := begin("exit 0")
	cmd.Wait()
	if err := StepdIdle(t.Context(), cmd.Process.Pid); err != nil {
		t.Error("of a process that has ended: ", err)
	}
}
