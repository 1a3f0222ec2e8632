// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// talkScript is a stand-in's script: the stand-in writes two parts of that many lines, the second at SIGUSR1, and exits
// with status 3 at another SIGUSR1.
func talkScript(lines int) string {
	return fmt.Sprintf(`exec perl -e '$| = 1; $SIG{USR1} = sub { $go++ };
		for $part (1, 2) { print "part $part, line $_\n" for 1..%d; sleep 1 until $go >= $part } exit 3'`, lines)
}

func talkOutput(parts, lines int) string {
	var b strings.Builder
	for part := 1; part <= parts; part++ {
		for i := 1; i <= lines; i++ {
			fmt.Fprintf(&b, "part %d, line %d\n", part, i)
		}
	}
	return b.String()
}

// writeEnds returns a reader's end and sing-srun's end of a pipe or a socket. The pipe is the user's own, or root's,
// which a process of the user cannot open again.
func writeEnds(t *testing.T, kind string) (r, w *os.File) {
	t.Helper()
	var err error
	switch kind {
	case "pipe":
		if r, w, err = os.Pipe(); err == nil {
			err = w.Chown(user, group)
		}
	case "pipe of root":
		r, w, err = os.Pipe()
	default:
		var ends [2]int
		ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		r, w = os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// isStuck tells whether an srun waits for a reader of its output.
func isStuck(r *Runner) bool {
	l, err := inspectProcess(r.PID())
	return err == nil && strings.Contains(l.busy, "waits to write to descriptor")
}

// TestSlowReader: output that a reader does not take blocks srun, except while all output is to be taken. The reader
// gets each byte once, and srun's end last.
func TestSlowReader(t *testing.T) {
	needHangup(t)
	const lines = 100_000 // 2 MB: more than pipes and sockets hold
	for _, kind := range []string{"pipe", "pipe of root", "socket"} {
		t.Run(kind, func(t *testing.T) {
			s := newServer(t, standIn(t))
			r, w := writeEnds(t, kind)
			cmd := caller{args: []string{talkScript(lines)}}.newCommand()
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			run := s.expectRequest("srun").run
			waitFor(t, 30*time.Second, "srun is held back", func() bool { return isStuck(run) })
			if err := run.TakeAllOutput(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			if err := run.Idle(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			if err := run.PaceOutput(testDeadline(t)); err != nil {
				t.Fatal(err)
			}
			if err := run.Signal(testDeadline(t), syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			waitFor(t, 30*time.Second, "srun is held back again", func() bool { return isStuck(run) })
			if err := run.Signal(testDeadline(t), syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			read, err := io.ReadAll(r)
			if how := waitForCommand(t, cmd); exitCodeOf(how) != 3 {
				t.Errorf("exit code of sing-srun = %d, want 3", exitCodeOf(how))
			}
			if got, want := string(read), talkOutput(2, lines); err != nil || got != want {
				t.Errorf("read %d bytes, want %d, %v", len(got), len(want), err)
			}
		})
	}
}

// TestSlowReaderAtEnd: sing-srun ends when all output has been read, or by a signal before that.
func TestSlowReaderAtEnd(t *testing.T) {
	needHangup(t)
	const script = `head -c 150000 /dev/zero; echo error >&2; exit 7`
	begin := func(t *testing.T) (*exec.Cmd, *os.File) {
		s := newServer(t, standIn(t))
		r, w := writeEnds(t, "pipe")
		cmd := caller{args: []string{script}}.newCommand()
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		run := s.expectRequest("srun").run
		if err := run.TakeAllOutput(testDeadline(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(testDeadline(t)); err != nil {
			t.Fatal(err)
		}
		return cmd, r
	}
	cmd, r := begin(t)
	read, _ := io.ReadAll(r)
	if how := waitForCommand(t, cmd); exitCodeOf(how) != 7 || !bytes.HasSuffix(read, []byte("\x00error\n")) || len(read) != 150006 {
		t.Errorf("status %d, %d bytes", exitCodeOf(how), len(read))
	}
	cmd, _ = begin(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -int(syscall.SIGTERM) {
		t.Errorf("exit code of sing-srun = %d, want death by SIGTERM", exitCodeOf(how))
	}
}

// TestReaderGone: srun sees that its reader has gone.
func TestReaderGone(t *testing.T) {
	needHangup(t)
	s := newServer(t, standIn(t))
	r, w := writeEnds(t, "pipe")
	cmd := caller{args: []string{"exec yes"}}.newCommand()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.expectRequest("srun")
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if how := waitForCommand(t, cmd); exitCodeOf(how) != -int(syscall.SIGPIPE) {
		t.Errorf("exit code of sing-srun = %d, want death by SIGPIPE", exitCodeOf(how))
	}
}

// TestWholeLines: the output of several sruns to a single pipe is mixed line by line.
func TestWholeLines(t *testing.T) {
	s := newServer(t, standIn(t))
	r, w := writeEnds(t, "pipe")
	var all []*exec.Cmd
	for i := range 3 {
		cmd := caller{args: []string{fmt.Sprintf(`exec perl -e '$| = 1; print %d x 70, "\n" for 1..20000'`, i)}}.newCommand()
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.expectRequest("srun")
		all = append(all, cmd)
	}
	w.Close()
	read, err := io.ReadAll(r)
	for _, cmd := range all {
		if how := waitForCommand(t, cmd); exitCodeOf(how) != 0 {
			t.Errorf("exit code of an srun = %d, want 0", exitCodeOf(how))
		}
	}
	n := 0
	for line := range bytes.Lines(read) {
		if n++; string(line) != strings.Repeat(string(line[:1]), 70)+"\n" {
			t.Fatalf("line %d is %q, want a whole line of one srun", n, line)
		}
	}
	if n != 60000 || err != nil {
		t.Errorf("the reader got %d lines, %v, want 60000", n, err)
	}
}
