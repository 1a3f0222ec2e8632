// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestReadsInput(t *testing.T) {
	table := NewTable("24.11")
	for _, k := range []struct {
		args, env []string
		want      bool
	}{
		{nil, nil, true},
		{[]string{"-n1"}, []string{"SLURM_STDINMODE="}, true},
		{[]string{"--input=all"}, nil, true},
		{[]string{"-i", "ALL"}, nil, true},
		{[]string{"-i3"}, nil, true},
		{[]string{"--input=none"}, nil, false},
		{[]string{"--inp", "none"}, nil, false},
		{[]string{"-n1", "-inone"}, nil, false},
		{[]string{"-i", "file"}, nil, false},
		{[]string{"-i", "none", "--input", "0"}, nil, true},
		{[]string{"-n1"}, []string{"SLURM_STDINMODE=none"}, false},
		{[]string{"-i", "all"}, []string{"SLURM_STDINMODE=none"}, true},
		{[]string{"true", "--input=none"}, nil, true},
	} {
		opts, _ := table.parseWords(k.args)
		if got := readsInput(opts, k.env); got != k.want {
			t.Errorf("readsInput of %q with environment %q = %v", k.args, k.env, got)
		}
	}
}

// readEnds returns a file for sing-srun's standard input, which gives data, and then ends.
func readEnds(t *testing.T, kind string, data []byte) *os.File {
	t.Helper()
	var r, w *os.File
	var err error
	switch kind {
	case "file":
		path := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err = os.Open(path)
	case "pipe":
		r, w, err = os.Pipe()
	default:
		var ends [2]int
		ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		r, w = os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if w != nil {
		go func() {
			_, _ = w.Write(data)
			w.Close()
		}()
	}
	return r
}

// TestFed: srun gets each byte of sing-srun's standard input, and its end.
func TestFed(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef\n"), 300_000)
	want := fmt.Sprintf("%x  -\n", sha256.Sum256(data))
	for _, kind := range []string{"file", "pipe", "socket"} {
		t.Run(kind, func(t *testing.T) {
			s := newServer(t, standIn(t))
			out, errs, how := caller{args: []string{"exec sha256sum"}, in: readEnds(t, kind, data)}.runCall(t)
			if out != want || errs != "" || how != 0 {
				t.Errorf("stdout %q, stderr %q, status %#x, want the input echoed", out, errs, int(how))
			}
			s.expectRequest("srun")
		})
	}
}

// TestInputHeld: no input is passed on while all output is taken, and the whole input later.
func TestInputHeld(t *testing.T) {
	s := newServer(t, standIn(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := caller{args: []string{"exec cat"}}.newCommand()
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = r, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	run := s.expectRequest("srun").run
	if err := run.TakeAllOutput(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	waitFor(t, 30*time.Second, "input is held", func() bool {
		fmt.Fprintln(io.MultiWriter(w, &want), want.Len())
		time.Sleep(20 * time.Millisecond)
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n > 0
	})
	if err := run.Idle(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := run.PaceOutput(testDeadline(t)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	if how := waitForCommand(t, cmd); how != 0 || out.String() != want.String() {
		t.Errorf("got %q, want %q, status %#x", out.String(), want.String(), int(how))
	}
}

// TestInputLeft: sing-srun does not read its input if srun does not.
func TestInputLeft(t *testing.T) {
	s := newServer(t, standIn(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprint(w, "left")
	w.Close()
	// The stand-in's script is its first argument, so the input is named by the variable.
	cmd := caller{args: []string{"exec sleep 0.2"}, env: []string{"PATH=/usr/bin:/bin", inputVariable + "=none"}}.newCommand()
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.expectRequest("srun")
	if how := waitForCommand(t, cmd); how != 0 {
		t.Errorf("status of sing-srun = %#x, want 0", int(how))
	}
	if left, err := io.ReadAll(r); string(left) != "left" || err != nil {
		t.Errorf("input left in the pipe = %q, %v, want all of it", left, err)
	}
}

// TestWardenIdle: a process that waits in poll is idle, also for room in a pipe, and when stopped there. A process that
// was stopped elsewhere may hold input.
func TestWardenIdle(t *testing.T) {
	for _, k := range []struct {
		name, script string
		stop, idle   bool
	}{
		{"waits", `$p->poll`, false, true},
		{"has been stopped while it waited", `$p->poll`, true, true},
		{"has been stopped", `1 while 1`, true, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			fill := make([]byte, 1<<16)
			if _, err := w.Write(fill); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("perl", "-MIO::Poll", "-e", `$| = 1; print "begins\n"; $p = IO::Poll->new; $p->mask(*STDERR => POLLOUT); `+k.script)
			cmd.Stderr = w
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); r.Close() }()
			if _, err := io.ReadFull(out, make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			if k.idle {
				waitFor(t, 30*time.Second, "the program waits", func() bool { return processState(pid) == "S" })
			}
			if k.stop {
				if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				waitFor(t, 30*time.Second, "the program is stopped", func() bool { return processState(pid) == "T" })
			}
			limit := 30 * time.Second
			if !k.idle {
				limit = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := WardenIdle(ctx, pid); (err == nil) != k.idle {
				t.Error(err)
			}
		})
	}
}
