// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// TestScriptStarts: the environment of the run is saved once, and the line for the job's log is
// written once, also if the script started before the watch.
func TestScriptStarts(t *testing.T) {
	n1 := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	warden := exec.Command("cat") // until its input ends
	warden.Env = []string{"SLURM_JOB_ID=7", "HOME=/"}
	input, err := warden.StdinPipe()
	noError(t, err)
	noError(t, warden.Start())
	t.Cleanup(func() {
		input.Close()
		_ = warden.Wait()
	})
	for _, tt := range []struct {
		name    string
		kind    capsule.Kind
		program string
		noted   map[string]string // before
		want    string
	}{
		{"the script is started", capsule.Started, records.BatchProgram, nil, "7"},
		{"it was there", capsule.Present, records.BatchProgram, nil, "7"},
		{"a predecessor has noted it", capsule.Present, records.BatchProgram, map[string]string{"SLURM_JOB_ID": "6"}, "6"},
		{"a task was there", capsule.Present, "s0-1.0", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := n1.jobFor(7)
			j.report.SetStartLine("this run begins anew")
			lc := &localCapsule{j: j, note: capsuleNote{Job: 7, WardenPIDs: map[string]int{}, FirstEnv: tt.noted, RunEnv: tt.noted}}
			task, err := processes.NewProcess(warden.Process.Pid)
			noError(t, err)
			lc.note.setWarden(records.BatchProgram, task)
			lc.handleEvent(capsule.Event{Kind: tt.kind, Program: capsule.Program{Name: tt.program}})
			if lc.note.RunEnv["SLURM_JOB_ID"] != tt.want || lc.note.FirstEnv["SLURM_JOB_ID"] != tt.want {
				t.Errorf("environment of this run %q, of the first run %q, want %q", lc.note.RunEnv, lc.note.FirstEnv, tt.want)
			}
			if written := j.report.StartLine() == ""; written != (tt.program == records.BatchProgram) {
				t.Errorf("line for the log written: %v", written)
			}
		})
	}
}

// answers is a NodeCaller of a node that answers each call by the error that the test sets for the call.
type answers map[string]error

func (r answers) Call(_ context.Context, _ string, req *rpc.CallRequest) (*rpc.CallReply, error) {
	return &rpc.CallReply{}, r[calls.NameOf(req)]
}

// TestScriptEndedOnLeader: a node with steps of a job that Slurm requeues asks the leader for a checkpoint. If the
// batch script had ended by itself, no checkpoint is missing: the node tells the user of no failure, and the next run
// begins anew.
func TestScriptEndedOnLeader(t *testing.T) {
	for name, tt := range map[string]struct {
		answer error
		want   bool // the run counts as terminated without a checkpoint
	}{
		"the script has ended":      {&rpc.Error{Kind: rpc.ErrScriptEnded, Text: "job 7: checkpoint 1: dump: the batch script has ended"}, false},
		"the run is over":           {&rpc.Error{Kind: rpc.ErrNotHere, Text: "job 7: no such protected job"}, false},
		"it cannot be captured":     {&rpc.Error{Kind: rpc.ErrInternal, Text: "job 7: checkpoint 1: dump: criu failed"}, true},
		"a checkpoint was captured": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := conductorOn(t, "n2", t.TempDir())
			q := slurmtest.NewQueue(t)
			q.Set(t, map[uint32]string{7: "COMPLETING"})
			c.Slurm = q.Slurm()
			c.Remote = answers{calls.RequestCheckpoint.Name(): tt.answer}
			j := c.jobFor(7)
			j.beginRun(recordOf(7), 0, []string{"n1", "n2"}, nil)
			j.handleTermination(t.Context())
			if got := j.run.Snapshot().HasBeen(runs.Terminated); got != tt.want {
				t.Errorf("terminated without a checkpoint: %v, want %v", got, tt.want)
			}
		})
	}
}

// stopsDaemon is a NodeCaller that ends the daemon's context during each call.
type stopsDaemon struct{ stop context.CancelFunc }

func (s stopsDaemon) Call(ctx context.Context, _ string, _ *rpc.CallRequest) (*rpc.CallReply, error) {
	s.stop()
	return nil, ctx.Err()
}

// TestStoppedWhileAsked: a daemon that is stopped while it asks the leader for the checkpoint that a requeue needs ends
// neither the job's programs nor the waits of its tasks, and tells of no failure: the leader takes the checkpoint when the
// next daemon is there.
func TestStoppedWhileAsked(t *testing.T) {
	c := conductorOn(t, "n2", t.TempDir())
	q := slurmtest.NewQueue(t)
	q.Set(t, map[uint32]string{7: "COMPLETING"})
	c.Slurm = q.Slurm()
	ctx, stop := context.WithCancel(t.Context())
	c.Remote = stopsDaemon{stop}
	j := c.jobFor(7)
	j.beginRun(recordOf(7), 0, []string{"n1", "n2"}, nil)
	ended := false
	j.termination.WithholdFor(withheldSignal{endWait: func() { ended = true }})
	j.handleTermination(ctx)
	if ctx.Err() == nil {
		t.Fatal("the leader was not asked")
	}
	if ended || j.run.Snapshot().HasBeen(runs.Terminated) {
		t.Errorf("the wait was ended: %v; the run counts as terminated: %v; want neither", ended, j.run.Snapshot().HasBeen(runs.Terminated))
	}
}

// TestEndLogged: proxyd's log names a program's exit code or signal, as Slurm does, and not the number of wait(2).
func TestEndLogged(t *testing.T) {
	j := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil).jobFor(7)
	for status, want := range map[syscall.WaitStatus]string{
		0:                                   `status="exit code 0"`,
		3 << 8:                              `status="exit code 3"`,
		syscall.WaitStatus(syscall.SIGTERM): `status="signal SIGTERM"`,
		syscall.WaitStatus(syscall.SIGSEGV) | 0x80: `status="signal SIGSEGV"`,
		40: `status="signal 40"`,
	} {
		var log bytes.Buffer
		j.log = slog.New(slog.NewTextHandler(&log, nil))
		lc := &localCapsule{j: j}
		lc.handleEvent(capsule.Event{Kind: capsule.Ended, Program: capsule.Program{Name: "s0-1.0", Status: status}})
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log of status %#x is %q, want %s", int(status), log.String(), want)
		}
	}
}
