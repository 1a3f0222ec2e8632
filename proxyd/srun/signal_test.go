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

// calling starts a call and waits until it has said "ready".
func calling(t testing.TB, s *server, script string) (*exec.Cmd, *Runner, *os.File) {
	t.Helper()
	cmd := caller{args: []string{script}}.command()
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
	run := s.expect("srun").run
	ready(t, r)
	return cmd, run, r
}

func ready(t testing.TB, r *os.File) {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "ready\n" {
		t.Fatalf("%q, %v", buf, err)
	}
}

func TestSignals(t *testing.T) {
	needHangup(t)
	s := newServer(t, standIn(t))
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGCONT} {
		cmd, _, out := calling(t, s, fmt.Sprintf("trap 'echo got; exit 5' %d; echo ready; while :; do sleep 0.05; done", sig))
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		s.expect("signal")
		if how := wait(t, cmd); code(how) != 5 {
			t.Errorf("%v: %d", sig, code(how))
		}
		if b, _ := io.ReadAll(out); string(b) != "got\n" {
			t.Errorf("%v: %q", sig, b)
		}
	}
}

// TestOtherSignals: what srun does not handle ends it, and so it does here.
func TestOtherSignals(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := calling(t, s, "echo ready; exec sleep 1000")
	cmd.Process.Signal(unix.SIGXCPU)
	if how := wait(t, cmd); code(how) != -int(unix.SIGXCPU) {
		t.Error(code(how))
	}
	if how, err := run.Wait(deadline(t)); err != nil || code(how) != -int(unix.SIGTERM) {
		t.Error(code(how), err)
	}
}

func TestStopped(t *testing.T) {
	s := newServer(t, standIn(t))
	cmd, run, _ := calling(t, s, "echo ready; exec sleep 1000")
	cmd.Process.Signal(unix.SIGTSTP)
	s.expect("signal")
	within(t, 20*time.Second, "both stopped", func() bool { return state(run.PID()) == "T" && state(cmd.Process.Pid) == "T" })
	cmd.Process.Signal(unix.SIGCONT)
	s.expect("signal")
	within(t, 20*time.Second, "both go on", func() bool { return state(run.PID()) == "S" && state(cmd.Process.Pid) == "S" })
}
