// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startCall starts a call and waits until the script has printed "ready".
func startCall(t testing.TB, s *server, script string) (*exec.Cmd, *Runner, *os.File) {
	t.Helper()
	cmd := caller{args: []string{script}}.newCommand()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	run := s.expectRequest("srun").run
	waitForReady(t, r)
	return cmd, run, r
}

func waitForReady(t testing.TB, r *os.File) {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "ready\n" {
		t.Fatalf("the script printed %q, %v, want ready", buf, err)
	}
}

func TestSignals(t *testing.T) {
	needHangup(t)
	s := newServer(t, standIn(t))
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGCONT} {
		cmd, _, out := startCall(t, s, fmt.Sprintf("trap 'echo got; exit 5' %d; echo ready; while :; do sleep 0.05; done", sig))
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		s.expectRequest("signal")
		if how := waitForCommand(t, cmd); exitCodeOf(how) != 5 {
			t.Errorf("after signal %v: exit code %d, want 5", sig, exitCodeOf(how))
		}
		if b, _ := io.ReadAll(out); string(b) != "got\n" {
			t.Errorf("after signal %v: output %q, want got", sig, b)
		}
	}
}

// TestOtherSignals: a signal that srun does not handle ends srun, and sing-srun, too.
func TestOtherSignals(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "echo ready; exec sleep 1000")
	cmd.Process.Signal(unix.SIGXCPU)
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -int(unix.SIGXCPU) {
		t.Errorf("exit code of sing-srun = %d, want death by SIGXCPU", exitCodeOf(how))
	}
	if how, err := run.Wait(testDeadline(t)); err != nil || exitCodeOf(how) != -int(unix.SIGTERM) {
		t.Errorf("Wait = exit code %d, %v, want death by SIGTERM", exitCodeOf(how), err)
	}
}

func TestStopped(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := startCall(t, s, "echo ready; exec sleep 1000")
	cmd.Process.Signal(unix.SIGTSTP)
	s.expectRequest("signal")
	waitFor(t, 20*time.Second, "both stopped", func() bool { return processState(run.PID()) == "T" && processState(cmd.Process.Pid) == "T" })
	cmd.Process.Signal(unix.SIGCONT)
	s.expectRequest("signal")
	waitFor(t, 20*time.Second, "both go on", func() bool { return processState(run.PID()) == "S" && processState(cmd.Process.Pid) == "S" })
}
