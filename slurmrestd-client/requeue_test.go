// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

// scontrol is a Scontrol for tests.
type scontrol struct {
	calls []string
	err   error  // of every call but --version
	none  error  // of --version
	do    func() // called by each call
}

func (s *scontrol) Run(_ context.Context, args ...string) ([]byte, error) {
	if args[0] == "--version" {
		return []byte("slurm 26.05.3\n"), s.none
	}
	s.calls = append(s.calls, strings.Join(args, " "))
	if s.do != nil && s.err == nil {
		s.do()
	}
	return nil, s.err
}

func clientFor(t *testing.T, s *slurmresttest.Server, edit func(*slurmrest.Config)) *slurmrest.Client {
	t.Helper()
	cfg := s.Config()
	edit(&cfg)
	c, err := slurmrest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	slurmrest.NoPauses(c)
	return c
}

func TestRequeueRoutes(t *testing.T) {
	for _, test := range []struct {
		name     string
		version  string
		scontrol *scontrol
		exit     int
		via      slurmrest.Route
		want     slurmrest.Route // "" is an UnsupportedError
		why      string          // of RequeueResult, or the error
	}{
		{"26.05", slurmrest.V0045, &scontrol{}, 123, "", slurmrest.RouteREST, "the best there is"},
		{"26.05, asked for scontrol", slurmrest.V0045, &scontrol{}, 123, slurmrest.RouteScontrol, slurmrest.RouteScontrol, "asked for"},
		{"26.05, asked for the exit code", slurmrest.V0045, nil, 123, slurmrest.RouteExitCode, slurmrest.RouteExitCode, "asked for"},
		{"24.11 with scontrol", slurmrest.V0042, &scontrol{}, 123, "", slurmrest.RouteScontrol,
			"requeue over REST needs v0.0.45 (Slurm 26.05), found REST API v0.0.42"},
		{"24.11, scontrol is not installed", slurmrest.V0042, &scontrol{none: exec.ErrNotFound}, 123, "", slurmrest.RouteExitCode,
			"requeue by scontrol needs an scontrol, found executable file not found"},
		{"22.05 without scontrol", slurmrest.V0038, nil, 123, "", slurmrest.RouteExitCode, "requeue by scontrol needs Config.Scontrol, found none"},
		{"22.05 with nothing", slurmrest.V0038, nil, 0, "", "", "requeue by exit code needs RequeueExit= in slurm.conf"},
		{"24.11, asked for REST", slurmrest.V0042, &scontrol{}, 0, slurmrest.RouteREST, "", "found REST API v0.0.42"},
		{"asked for nonsense", slurmrest.V0045, nil, 0, "smoke", "?", `route "smoke": want one of`},
		{"scontrol cannot tell", slurmrest.V0042, &scontrol{none: errors.New("out of memory")}, 123, "", "?", "scontrol --version: out of memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := slurmresttest.Start(t, slurmresttest.Options{Versions: []string{test.version}})
			id := s.AddJob(slurmrest.Job{Batch: true, Requeueable: true})
			s.StartJob(id, "n1")
			s.OnSignal(func(id int64, signal string) {
				if signal == "USR2" {
					s.ExitRequeue(id)
				}
			})
			c := clientFor(t, s, func(cfg *slurmrest.Config) {
				cfg.RequeueExit = test.exit
				if test.scontrol != nil {
					test.scontrol.do = func() { s.ExitRequeue(id) }
					cfg.Scontrol = test.scontrol
				}
			})
			done, err := c.Requeue(t.Context(), slurmrest.JobID(id), slurmrest.RequeueOptions{Via: test.via})
			if test.want == "" || test.want == "?" {
				if err == nil || errors.Is(err, slurmrest.ErrUnsupported) != (test.want == "") || !strings.Contains(err.Error(), test.why) {
					t.Errorf("error %v; want one that says %q", err, test.why)
				}
				return
			}
			if err != nil || done.Route != test.want || !strings.Contains(done.Why, test.why) ||
				done.Async != (test.want == slurmrest.RouteExitCode) {
				t.Errorf("%+v, %v; want %s because %q", done, err, test.want, test.why)
			}
			if job, _ := s.Job(id); job.Restarts != 1 || job.State.Base != slurmrest.Pending {
				t.Errorf("the job after Requeue = %+v, want pending with 1 restart", job)
			}
		})
	}
}

func TestRequeueStatus(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{Versions: []string{slurmrest.V0042}})
	c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.Scontrol = &scontrol{} })
	var lines []string
	for _, r := range c.RequeueRoutes(t.Context()) {
		lines = append(lines, r.String())
	}
	want := []string{
		"rest: no: requeue over REST needs v0.0.45 (Slurm 26.05), found REST API v0.0.42",
		"scontrol: yes",
		"exit-code: no: requeue by exit code needs RequeueExit= in slurm.conf and Config.RequeueExit, found Config.RequeueExit 0",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q; want %q", lines, want)
	}
}

// TestRequeueREST: the requeue is a POST, which proxies and retries do not repeat.
func TestRequeueREST(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	id := s.AddJob(slurmrest.Job{Batch: true, Requeueable: true})
	c := s.Client(t)
	ref := slurmrest.JobID(id)
	if _, err := c.Requeue(t.Context(), ref, slurmrest.RequeueOptions{}); !errors.Is(err, slurmrest.ErrJobPending) {
		t.Errorf("a pending job: %v; want ErrJobPending", err)
	}
	if _, err := c.Requeue(t.Context(), ref, slurmrest.RequeueOptions{Incomplete: true}); err != nil {
		t.Errorf("a pending job, incomplete ones only: %v", err)
	}
	s.StartJob(id, "n1")
	if _, err := c.RequeueHold(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if job, _ := s.Job(id); !job.Held || job.Restarts != 1 {
		t.Errorf("the job after RequeueHold = %+v, want held with 1 restart", job)
	}
	last := s.Requests()[len(s.Requests())-1]
	if last.Method != "POST" || last.Path != "/slurm/v0.0.45/jobs/requeue" || last.Body != fmt.Sprintf(`{"flags":["Hold"],"jobs":["%d"]}`, id) {
		t.Errorf("last request = %+v, want POST jobs/requeue with the flag Hold", last)
	}
	s.Fail(slurmresttest.Fault{Path: "/requeue", Drop: true})
	if _, err := c.Requeue(t.Context(), ref, slurmrest.RequeueOptions{}); !errors.Is(err, slurmrest.ErrUncertain) {
		t.Errorf("a lost answer: %v; want ErrUncertain", err)
	}
}

func TestRequeueScontrol(t *testing.T) {
	for _, test := range []struct {
		name string
		ref  slurmrest.Ref
		opt  slurmrest.RequeueOptions
		fail string
		call string
		want error
	}{
		{"plain", slurmrest.JobID(12), slurmrest.RequeueOptions{}, "", "requeue 12", nil},
		{"task", slurmrest.TaskOf(12, 3), slurmrest.RequeueOptions{}, "", "requeue 12_3", nil},
		{"held", slurmrest.JobID(12), slurmrest.RequeueOptions{Hold: true}, "", "requeuehold 12", nil},
		{"incomplete", slurmrest.JobID(12), slurmrest.RequeueOptions{Incomplete: true}, "", "requeue Incomplete 12", nil},
		{"pending", slurmrest.JobID(12), slurmrest.RequeueOptions{}, "Job is pending execution for job 12\n", "requeue 12", slurmrest.ErrJobPending},
		{"no such job", slurmrest.JobID(12), slurmrest.RequeueOptions{}, "Invalid job id specified for job 12", "requeue 12", slurmrest.ErrInvalidJobID},
		{"disabled", slurmrest.JobID(12), slurmrest.RequeueOptions{}, "Requested operation is presently disabled for job 12", "requeue 12", slurmrest.ErrDisabled},
		{"controller down", slurmrest.JobID(12), slurmrest.RequeueOptions{}, "slurm_requeue error: Unable to contact slurm controller (connect failure)", "requeue 12", slurmrest.ErrController},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := &scontrol{}
			if test.fail != "" {
				run.err = fmt.Errorf("wrapped: %w", &slurmrest.ScontrolError{Exit: 1, Output: test.fail})
			}
			s := slurmresttest.Start(t, slurmresttest.Options{Versions: []string{slurmrest.V0038}})
			c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.Scontrol = run })
			test.opt.Via = slurmrest.RouteScontrol
			_, err := c.Requeue(t.Context(), test.ref, test.opt)
			if !errors.Is(err, test.want) || !slices.Equal(run.calls, []string{test.call}) {
				t.Errorf("%q, error %v; want %q and %v", run.calls, err, test.call, test.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "job 12: "+strings.TrimSpace(test.fail)+" (scontrol requeue 12") {
				t.Errorf("error of the requeue = %q", err)
			}
		})
	}
}

func TestRequeueExit(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, _ *slurmrest.Client) {
		c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.RequeueExit, cfg.RequeueSignal = 99, "URG" })
		via := slurmrest.RequeueOptions{Via: slurmrest.RouteExitCode}
		for _, test := range []struct {
			name string
			edit func(*slurmrest.Job)
			want error
		}{
			{"pending", func(j *slurmrest.Job) { j.State = slurmrest.State{Base: slurmrest.Pending} }, slurmrest.ErrJobPending},
			{"completing", func(j *slurmrest.Job) { j.State.Flags = slurmrest.Completing }, slurmrest.ErrTransition},
			{"over", func(j *slurmrest.Job) { j.State.Base = slurmrest.Failed }, slurmrest.ErrJobNotRunning},
			{"no batch script", func(j *slurmrest.Job) { j.Batch = false }, slurmrest.ErrBatchOnly},
			{"--no-requeue", func(j *slurmrest.Job) { j.Requeueable = false }, slurmrest.ErrDisabled},
			{"component", func(j *slurmrest.Job) { j.Het = slurmrest.Het{JobID: 1, Offset: 1} }, slurmrest.ErrNotHetLeader},
		} {
			s.EditJob(1, func(j *slurmrest.Job) {
				*j = slurmrest.Job{ID: 1, Batch: true, Requeueable: true, State: slurmrest.State{Base: slurmrest.Running}}
				test.edit(j)
			})
			if _, err := c.Requeue(t.Context(), slurmrest.JobID(1), via); !errors.Is(err, test.want) {
				t.Errorf("%s: %v; want %v", test.name, err, test.want)
			}
		}
		if got := s.Signals(1); len(got) != 0 {
			t.Errorf("signals %v; want none", got)
		}
		s.EditJob(1, func(j *slurmrest.Job) {
			*j = slurmrest.Job{ID: 1, Batch: true, Requeueable: true, State: slurmrest.State{Base: slurmrest.Running}}
		})
		s.OnSignal(func(id int64, _ string) { s.ExitRequeue(id) })
		via.Hold = true
		done, err := c.Requeue(t.Context(), slurmrest.JobID(1), via)
		if err != nil || !done.Async {
			t.Fatalf("Requeue by the exit code = %+v, %v; want Async", done, err)
		}
		if got := s.Signals(1); !slices.Equal(got, []string{"URG"}) {
			t.Errorf("signals of the job = %v, want URG", got)
		}
		if job, _ := s.Job(1); !job.Held || job.Restarts != 1 {
			t.Errorf("the job after the requeue = %+v, want held with 1 restart", job)
		}
	})
}

// TestRequeueExitUndoesHold: a job that could not be signalled is not left held.
func TestRequeueExitUndoesHold(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	id := s.AddJob(slurmrest.Job{Batch: true, Requeueable: true})
	s.StartJob(id, "n1")
	s.EditJob(id, func(j *slurmrest.Job) { j.State.Base = slurmrest.Running })
	s.Fail(slurmresttest.Fault{Method: "DELETE", Slurm: 2002})
	c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.RequeueExit = 99 })
	_, err := c.Requeue(t.Context(), slurmrest.JobID(id), slurmrest.RequeueOptions{Via: slurmrest.RouteExitCode, Hold: true})
	if !errors.Is(err, slurmrest.ErrAccessDenied) {
		t.Errorf("error %v; want ErrAccessDenied", err)
	}
	if job, _ := s.Job(id); job.Held {
		t.Error("the job is still held")
	}
}

func TestWaitRequeued(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		before, err := c.Job(t.Context(), slurmrest.JobID(1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.WaitRequeued(ctx, before.Ref(), before.Restarts); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("not requeued: %v; want the deadline's", err)
		}
		s.ExitRequeue(1)
		go func() {
			time.Sleep(20 * time.Millisecond)
			s.Settle(1)
		}()
		after, err := c.WaitRequeued(t.Context(), before.Ref(), before.Restarts)
		if err != nil || after.Restarts != 1 || after.State != (slurmrest.State{Base: slurmrest.Pending}) {
			t.Errorf("WaitRequeued = %+v, %v; want a pending job with 1 restart", after, err)
		}
		s.EndJob(1, slurmrest.Failed, slurmrest.ExitCode{Code: 1})
		if _, err := c.WaitRequeued(t.Context(), before.Ref(), 1); !errors.Is(err, slurmrest.ErrJobFinished) {
			t.Errorf("a job that failed: %v; want ErrJobFinished", err)
		}
	})
}

func TestScontrolNodes(t *testing.T) {
	run := &scontrol{}
	s := slurmresttest.Start(t, slurmresttest.Options{Versions: []string{slurmrest.V0038}})
	c := clientFor(t, s, func(cfg *slurmrest.Config) { cfg.Scontrol = run })
	if err := c.DrainNode(t.Context(), "n1", "two words"); err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateNode(t.Context(), "n1", slurmrest.NodeUpdate{Comment: new("x"), Weight: new(int64(3))}); err != nil {
		t.Fatal(err)
	}
	want := []string{"update NodeName=n1 State=DRAIN Reason=two words", "update NodeName=n1 Comment=x Weight=3"}
	if !slices.Equal(run.calls, want) {
		t.Errorf("%q; want %q", run.calls, want)
	}
	run.err = &slurmrest.ScontrolError{Exit: 1, Output: "slurm_update error: Invalid node state specified"}
	if err := c.ResumeNode(t.Context(), "n1"); !errors.Is(err, slurmrest.ErrNodeState) {
		t.Errorf("error %v; want ErrNodeState", err)
	}
}

func TestExecScontrol(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) string {
		path := filepath.Join(dir, "scontrol")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, err := slurmrest.ExecScontrol{Path: script(`echo "$1 $SLURM_JWT $HOME"`), Env: []string{"SLURM_JWT=x"}}.Run(t.Context(), "requeue")
	if err != nil || string(out) != "requeue x \n" {
		t.Errorf("%q, %v; want nothing of this process's environment", out, err)
	}
	_, err = slurmrest.ExecScontrol{Path: script("echo no >&2; exit 3")}.Run(t.Context())
	var failed *slurmrest.ScontrolError
	if !errors.As(err, &failed) || failed.Exit != 3 || failed.Error() != "no (exit 3)" {
		t.Errorf("Run of a program that fails: %v; want a ScontrolError", err)
	}
	out, err = slurmrest.ExecScontrol{Path: script("head -c 3000000 /dev/zero")}.Run(t.Context())
	if err != nil || len(out) != 1<<20 {
		t.Errorf("%d bytes, %v; want 1 MiB of them", len(out), err)
	}
	// A child of the command keeps its output open. A busy process that reads late looks the same.
	out, err = slurmrest.ExecScontrol{Path: script("sleep 3 & echo n1")}.Run(t.Context())
	if err != nil || string(out) != "n1\n" {
		t.Errorf("its output stays open: %q, %v; want what it has written", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (slurmrest.ExecScontrol{Path: script("exec sleep 60")}).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v; want the deadline's", err)
	}
	if _, err := (slurmrest.ExecScontrol{Path: filepath.Join(dir, "none")}).Run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run without a program: %v; want ErrNotExist", err)
	}
}
