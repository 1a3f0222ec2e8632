// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

func TestProgress(t *testing.T) {
	steps := []struct {
		at time.Duration
		p  *rpc.Progress
	}{
		{0, &rpc.Progress{Phase: "freeze"}},
		{100 * time.Millisecond, &rpc.Progress{Phase: "dump", Done: 1 << 29, Total: 4 << 30, Unit: "bytes"}},
		{1 * time.Second, &rpc.Progress{Phase: "dump", Done: 1 << 30, Total: 4 << 30, Unit: "bytes"}},
		{2200 * time.Millisecond, &rpc.Progress{Phase: "dump", Done: 5 << 30, Total: 4 << 30, Unit: "bytes", Text: "n1\nn2"}},
		{2300 * time.Millisecond, &rpc.Progress{Phase: "commit", Done: 3}},
	}
	play := func(terminal bool) string {
		var b bytes.Buffer
		now := apitest.Then
		a := &app{stderr: &b, terminal: terminal, now: func() time.Time { return now }}
		p := a.newProgress()
		for _, s := range steps {
			now = apitest.Then.Add(s.at)
			p.showProgress(s.p)
		}
		p.endLine()
		p.endLine()
		return b.String()
	}
	const log = "stopping its tasks\ncapturing its memory\nwriting the checkpoint's list … 2 s\n"
	if got := play(false); got != log {
		t.Errorf("in a log:\n%s\nwant:\n%s", got, log)
	}
	want := strings.Join([]string{"", "stopping its tasks", "capturing its memory [###---------------------] 512 MiB of 4.0 GiB", "capturing its memory [######------------------] 1.0 GiB of 4.0 GiB … 1 s",
		"capturing its memory [########################] 5.0 GiB of 4.0 GiB: n1 n2 … 2 s", "writing the checkpoint's list 3 … 2 s", ""}, "\r\x1b[K")
	if got := play(true); got != want {
		t.Errorf("on a terminal:\n%q\nwant:\n%q", got, want)
	}
}

// TestProgressOfACheckpoint: the daemon's progress is shown, in a log each phase once.
func TestProgressOfACheckpoint(t *testing.T) {
	c := newCluster(t)
	out := c.runLine(t.Context(), "alice", "checkpoint", "812")
	if strings.Count(out, "! capturing its memory\n") != 1 || !strings.Contains(out, "checkpoint mini/812/3:") {
		t.Errorf("checkpoint printed %q, want one line of the dump, and the checkpoint", out)
	}
}

func TestInterrupted(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := c.runLine(ctx, "alice", "checkpoint", "812"); out != "exit 130\n" {
		t.Errorf("interrupted checkpoint = %q, want exit 130", out)
	}
}

// TestInterruptedCheckpoint: a checkpoint that has begun goes on when no person waits any more, and the person is
// told so.
func TestInterruptedCheckpoint(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ name, phase, want string }{
		{"one that has begun", "freeze", "stopping its tasks\nsingctl: the checkpoint of job 812_3 goes on\nhint: singctl show 812_3 says how it ends; singctl delete removes it\n"},
		{"one that waits for another", rpc.Waiting, "waiting for the checkpoint before, which is on its way to the store\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.two.First = tt.phase
			var out bytes.Buffer
			errs := &interrupting{cancel: cancel}
			if code := c.newApp("alice", &out, errs).runCommand(ctx, []string{"checkpoint", "812_3"}); code != 130 || errs.String() != tt.want || out.Len() > 0 {
				t.Errorf("exit %d:\n%s%s\nwant:\n%s", code, out.String(), errs.String(), tt.want)
			}
		})
	}
}

// interrupting is a person that stops a command at its first output.
type interrupting struct {
	bytes.Buffer
	cancel func()
}

func (w *interrupting) Write(b []byte) (int, error) {
	defer w.cancel()
	return w.Buffer.Write(b)
}

// TestManual: a page for each command, with all its flags.
func TestManual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, now: time.Now}
	if code := a.runCommand(t.Context(), []string{"man", dir}); code != 0 {
		t.Fatalf("singctl man: exit code %v", code)
	}
	for _, name := range []string{"singctl", "singctl-doctor", "singctl-show", "singctl-checkpoint", "singctl-checkpoints", "singctl-verify", "singctl-gc", "singctl-export"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{".TH " + manual.EscapeText(strings.ToUpper(name)) + " 1", ".SH NAME\n" + manual.EscapeText(name) + " \\- ", ".SH SYNOPSIS", `\-\-json`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s.1 lacks %q", name, want)
			}
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "singctl-gc.1"))
	if !strings.Contains(string(text), ".B \\-\\-older\\-than AGE\n") {
		t.Errorf("singctl-gc.1 lacks --older-than:\n%s", text)
	}
	text, _ = os.ReadFile(filepath.Join(dir, "singctl.1"))
	if !strings.Contains(string(text), ".SH EXIT STATUS\n.TP\n.B 0\ndone\n") {
		t.Errorf("singctl.1 lacks the exit codes:\n%s", text)
	}
}

// TestProgressOfDrain: drain says that it waits for jobs, and not for a phase of a checkpoint.
func TestProgressOfDrain(t *testing.T) {
	c := newCluster(t)
	busy := filepath.Join(t.TempDir(), "busy")
	if err := os.WriteFile(busy, []byte("once\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BUSY", busy)
	want := "NODE  STATE    REASON\nn4    drained  maintenance\n! waiting until the nodes are empty\n"
	if out := c.runLine(t.Context(), "root", "drain", "n4"); out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
}
