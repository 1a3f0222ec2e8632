// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package pmitest holds tests of slurm-spank/pmi, which is C: they talk to its servers as MPI libraries do.
package pmitest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/tests/compiled"
)

// patience is the longest time that an answer may take on a busy machine.
const patience = time.Minute

var buildHarness = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pmitest-")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "harness")
	command := []string{"cc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", out, "testdata/harness.c"}
	for _, part := range []string{"buffer", "command", "frame", "pairs", "server", "hub", "collective"} {
		command = append(command, "../pmi/"+part+".c")
	}
	return out, compiled.MakeFiles(dir, []string{"harness"}, command...)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if out, _ := buildHarness(); out != "" {
		os.RemoveAll(filepath.Dir(out))
	}
	os.Exit(code)
}

// harnessCommand returns a command of testdata/harness.c, under sanitizers.
func harnessCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("SKIP: no C compiler")
	}
	program, err := buildHarness()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // not every host lets the sanitizer look for leaks
	cmd.Stderr = os.Stderr
	return cmd
}

// startHub starts a hub and returns its place. The hub ends at the test's end, with exit code 0 or the test fails.
func startHub(t testing.TB) string {
	t.Helper()
	hub, place := startHubProcess(t)
	t.Cleanup(func() {
		hub.stdin.Close()
		if err := hub.Wait(); err != nil {
			t.Errorf("the hub: %v", err)
		}
	})
	return place
}

// hubProcess is a hub, which ends when its standard input does.
type hubProcess struct {
	*exec.Cmd
	stdin io.Closer
}

// startHubProcess starts a hub and returns its place. The caller waits for the hub's end.
func startHubProcess(t testing.TB) (hubProcess, string) {
	t.Helper()
	cmd := harnessCommand(t, "hub")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	place, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return hubProcess{cmd, stdin}, strings.TrimSpace(place)
}

// task is the end of a server's socketpair that an MPI program has.
type task struct {
	net.Conn
	in     *bufio.Reader
	server *exec.Cmd
	t      testing.TB
}

// startTask starts the server of a task. program is the PID that the server kills when another task aborts; 0 if the
// task has no program.
func startTask(t testing.TB, place string, rank, size, program int) *task {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(ends[0]), "task"), os.NewFile(uintptr(ends[1]), "server")
	defer theirs.Close()
	conn, err := net.FileConn(mine)
	mine.Close()
	if err != nil {
		t.Fatal(err)
	}
	cmd := harnessCommand(t, "server", place, fmt.Sprint(rank), fmt.Sprint(size), fmt.Sprint(program))
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &task{Conn: conn, in: bufio.NewReader(conn), server: cmd, t: t}
	t.Cleanup(func() { s.closeTask(0) })
	return s
}

// closeTask closes the task's end and checks how the server ends.
func (s *task) closeTask(code int) {
	s.t.Helper()
	s.Close()
	if s.server.ProcessState != nil {
		return
	}
	_ = s.server.Wait()
	if got := s.server.ProcessState.ExitCode(); got != code {
		s.t.Errorf("the server ends with %d, want %d", got, code)
	}
}

// sendCommand sends a command: a line of PMI-1, or fields of PMI-2.
func (s *task) sendCommand(version int, text string) {
	s.t.Helper()
	if version == 1 {
		text += "\n"
	} else {
		text = fmt.Sprintf("%6d%s", len(text), text)
	}
	if _, err := s.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// readAnswer returns the next answer.
func (s *task) readAnswer(version int) string {
	s.t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(patience))
	if version == 1 {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("reading an answer of PMI-1: got %q, %v", line, err)
		}
		return strings.TrimSuffix(line, "\n")
	}
	var digits [6]byte
	var n int
	if _, err := readFull(s.in, digits[:]); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(digits[:]), &n); err != nil {
		s.t.Fatalf("reading an answer of PMI-2: length %q: %v", digits, err)
	}
	body := make([]byte, n)
	if _, err := readFull(s.in, body); err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

func readFull(r *bufio.Reader, b []byte) (int, error) {
	for n := 0; n < len(b); {
		got, err := r.Read(b[n:])
		if err != nil {
			return n, err
		}
		n += got
	}
	return len(b), nil
}

// askServer sends a command and returns its answer.
func (s *task) askServer(version int, text string) string {
	s.t.Helper()
	s.sendCommand(version, text)
	return s.readAnswer(version)
}

// initialize initializes PMI-1 or PMI-2.
func (s *task) initialize(version int) {
	s.t.Helper()
	want := fmt.Sprintf("cmd=response_to_init pmi_version=%d pmi_subversion=%d rc=0", version, 2-version)
	if got := s.askServer(1, fmt.Sprintf("cmd=init pmi_version=%d pmi_subversion=%d", version, 2-version)); got != want {
		s.t.Fatalf("answer to init = %q, want %q", got, want)
	}
}
