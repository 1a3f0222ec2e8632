// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// sendAnswer returns the error of a call as the calling node gets it: the text, and the kind that the node has given it.
func sendAnswer(t *testing.T, err error) error {
	t.Helper()
	sent := markTransient(err)
	for _, kind := range []error{rpc.ErrNotHere, rpc.ErrGivenUp, rpc.ErrTransient, rpc.ErrLasting} {
		if errors.Is(sent, kind) {
			return fmt.Errorf("node n2: %w", &rpc.Error{Kind: kind, Text: sent.Error()})
		}
	}
	t.Fatalf("an answer without a kind: %v", err)
	return nil
}

// TestRestoreTriedAgain: a restore that failed because slurmctld or a daemon was away is tried again
// by the job's next run, three times at most; a restore that fails for another reason holds the job.
func TestRestoreTriedAgain(t *testing.T) {
	damaged := errors.New("chunk 7 is damaged")
	stepFailed := fmt.Errorf("step s0-1 %w", errStepNotStarted)
	kill := exec.Command("sh", "-c", "kill -KILL $$").Run()
	ofCRIU := func(obstacle string, err error) error {
		return fmt.Errorf("restore program s0-1.0 on n1: %w", &criu.Error{Op: "restore", PID: 12, Obstacle: obstacle, Lines: []string{"files: " + obstacle}, Err: err})
	}
	oldRelease := func(text string) error {
		return fmt.Errorf("node n2: %w", &rpc.Error{Kind: rpc.ErrInternal, Text: text})
	}
	for _, tt := range []struct {
		name string
		why  []error // of the job's runs in turn
		want []string
	}{
		{"slurmctld was away", []error{slurm.ErrSilent}, []string{"requeue 7"}},
		{"a daemon was away", []error{ErrAway}, []string{"requeue 7"}},
		{"a daemon was away for another node", []error{sendAnswer(t, fmt.Errorf("node n3: %w", ErrAway))}, []string{"requeue 7"}},
		{"a daemon was away for a node of an older release", []error{oldRelease("node n3: " + ErrAway.Error())}, []string{"requeue 7"}},
		{"a node was started again", []error{sendAnswer(t, notHereError{7})}, []string{"requeue 7"}},
		{"a node was started again meanwhile", []error{sendAnswer(t, fmt.Errorf("node n1: %w", sendAnswer(t, ErrNoJob)))}, []string{"requeue 7"}},
		{"a step was killed", []error{ofCRIU("", kill)}, []string{"requeue 7"}},
		{"a step was killed on another node", []error{sendAnswer(t, ofCRIU("", kill))}, []string{"requeue 7"}},
		{"a step was killed on a node of an older release", []error{oldRelease("restore of process 306: signal: killed")}, []string{"requeue 7"}},
		{"Slurm ended a task", []error{fmt.Errorf("restore program s0-1.34 on n5: %w: restored: no warden waits for it", errTaskEnded)}, []string{"requeue 7"}},
		{"no task came", []error{fmt.Errorf("restore checkpoint 3: %w s0-1.4", errTasksLate)}, []string{"requeue 7"}},
		{"a node's munge was away", []error{fmt.Errorf("node n2: %w", munge.ErrNoMunge)}, []string{"requeue 7"}},
		{"an answer took too long", []error{fmt.Errorf("node n2: %w", context.DeadlineExceeded)}, []string{"requeue 7"}},
		{"an answer of another node took too long", []error{sendAnswer(t, context.DeadlineExceeded)}, []string{"requeue 7"}},
		{"a file server was away", []error{ofCRIU("file /home/a: Stale file handle", exec.ErrNotFound)}, []string{"requeue 7"}},
		{"a file server was away for another node", []error{sendAnswer(t, ofCRIU("file /home/a: Stale file handle", exec.ErrNotFound))}, []string{"requeue 7"}},
		{"a file server was away for a node of an older release", []error{oldRelease("restore of process 12: file /home/a: Stale file handle")}, []string{"requeue 7"}},
		{"a device server met the network", []error{&server.OrderError{Text: "no peer", Errno: syscall.EHOSTUNREACH}}, []string{"requeue 7"}},
		{"the relay was away", []error{&rpc.Error{Kind: rpc.ErrUnreachable, Text: "the relay does not answer at relay:6833: EOF"}}, []string{"requeue 7"}},
		{"a node had no memory", []error{fmt.Errorf("capsule 1: fork: %w", syscall.ENOMEM)}, []string{"requeue 7"}},
		{"the site does not let root restore", []error{fmt.Errorf("restore program batch on n1: %w", &criu.UnsupportedHost{Reason: "the program has System V objects", Advice: "set restore_as_root: allow"})}, []string{"requeuehold 7"}},
		{"damaged", []error{damaged}, []string{"requeuehold 7"}},
		{"damaged, on another node", []error{sendAnswer(t, damaged)}, []string{"requeuehold 7"}},
		{"damaged, on a node of an older release", []error{oldRelease(damaged.Error())}, []string{"requeuehold 7"}},
		{"a file has the name of a transient error", []error{errors.New("/home/connection refused/i/o error: " + ErrAway.Error() + ": missing")}, []string{"requeuehold 7"}},
		{"a file of another node has that name", []error{sendAnswer(t, errors.New("/home/connection refused/i/o error: signal: killed: missing"))}, []string{"requeuehold 7"}},
		{"criu names a file with that name", []error{ofCRIU("file /home/Stale file handle: Input/output error: is another version", exec.ErrNotFound)}, []string{"requeuehold 7"}},
		{"the disk is full", []error{fmt.Errorf("tmp: write: %w", syscall.ENOSPC)}, []string{"requeuehold 7"}},
		{"again and again", []error{stepFailed, stepFailed, stepFailed, stepFailed}, []string{"requeue 7", "requeue 7", "requeue 7", "requeuehold 7"}},
		{"released after that", []error{stepFailed, stepFailed, stepFailed, stepFailed, stepFailed}, []string{"requeue 7", "requeue 7", "requeue 7", "requeuehold 7", "requeue 7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			q.Set(t, map[uint32]string{7: "RUNNING"})
			recordCommands(t, q)
			c := tidyOn(t, "n1", t.TempDir(), q, 7)
			for number, why := range tt.why {
				j := (&job{c: c, id: 7, run: runOf(number, recordOf(7)), log: c.Log}).linkPartsToJob()
				if err := j.failed.giveUpRun(why); err != nil {
					t.Fatal(err)
				}
				if err := j.failed.giveUpRun(why); err != nil { // by another program
					t.Fatal(err)
				}
			}
			if got := requestedRequeues(t, q); !slices.Equal(got, tt.want) {
				t.Errorf("commands to Slurm: %q, want %q", got, tt.want)
			}
			c.background.Wait()
		})
	}
}

// TestLaunchFailsLate: srun says that Slurm has failed the launch of a restored step only after all programs are back. The
// script does not learn that, and the job's next run tries again; but not for ever, for a task may write the same words, nor
// for a step that has begun in this run, nor without these words.
func TestLaunchFailsLate(t *testing.T) {
	q := slurmtest.NewQueue(t)
	q.Set(t, map[uint32]string{7: "RUNNING"})
	recordCommands(t, q)
	c := tidyOn(t, "n1", t.TempDir(), q, 7)
	rec := recordOf(7)
	stepFailed := fmt.Errorf("step s0-1 %w", errStepNotStarted)
	meta := &records.Meta{Capsules: []records.CapsuleMeta{{Programs: []records.ProgramMeta{{Name: records.BatchProgram}, {Name: "s0-1.0"}}}}}
	for run, k := range []struct {
		key  string
		said bool
		told bool
	}{
		{"s0-1", false, true},
		{"s0-2", true, true},
		{"s0-1", true, false},
		{"s0-1", true, false},
		{"s0-1", true, false},
		{"s0-1", true, true},
	} {
		j := (&job{c: c, id: 7, log: c.Log, run: runs.NewRunAt(runs.Snapshot{
			Number: run, Record: rec, State: runs.Running, Point: &runs.ResumePoint{Meta: meta},
		})}).linkPartsToJob()
		dir := t.TempDir()
		if k.said {
			if err := os.WriteFile(filepath.Join(dir, "launch_failed"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		retry := j.failed.isLaunchToRetry(t.Context(), k.key, dir)
		if retry == k.told {
			t.Errorf("run %d: tried again %v", run, retry)
		}
		if retry {
			if err := j.failed.giveUpRun(stepFailed); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if rec, err = c.records.Load(7); err != nil || rec == nil {
			t.Fatalf("record before a complete restore: %v, %v", rec, err)
		}
		rec.UnrestoredRuns = 0 // as after a restore that is complete
		if err := c.records.Save(rec); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := requestedRequeues(t, q), []string{"requeue 7", "requeue 7", "requeue 7"}; !slices.Equal(got, want) {
		t.Errorf("commands to Slurm: %q, want %q", got, want)
	}
}

// TestNodesAgree: two nodes of a run give the run up. Both requeue the job, and after too many runs both hold the job.
func TestNodesAgree(t *testing.T) {
	q := slurmtest.NewQueue(t)
	q.Set(t, map[uint32]string{7: "RUNNING"})
	recordCommands(t, q)
	c := tidyOn(t, "n1", t.TempDir(), q, 7)
	want := []string{}
	for run := 1; run <= 4; run++ {
		for range 2 {
			j := (&job{c: c, id: 7, run: runOf(run, recordOf(7)), log: c.Log}).linkPartsToJob()
			if err := j.failed.giveUpRun(ErrAway); err != nil {
				t.Fatal(err)
			}
			want = append(want, map[bool]string{false: "requeue 7", true: "requeuehold 7"}[run == 4])
		}
	}
	if got := requestedRequeues(t, q); !slices.Equal(got, want) {
		t.Errorf("commands to Slurm: %q, want %q", got, want)
	}
	c.background.Wait()
}

// TestRestoreTriedAgainWithoutFolder: a restore that failed because a node does not see the shared folder is tried
// again, with any error of that node.
func TestRestoreTriedAgainWithoutFolder(t *testing.T) {
	missing := errors.New("journal: open jobs/7.0.files: no such file or directory")
	away := func() error { return shared.ErrUnmarked }
	for _, tt := range []struct {
		name  string
		check func() error
		want  []string
	}{
		{"it is away", away, []string{"requeue 7"}},
		{"it is there", func() error { return nil }, []string{"requeuehold 7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			q.Set(t, map[uint32]string{7: "RUNNING"})
			recordCommands(t, q)
			c := tidyOn(t, "n1", t.TempDir(), q, 7)
			c.CheckShared = tt.check
			j := (&job{c: c, id: 7, run: runOf(0, recordOf(7)), log: c.Log}).linkPartsToJob()
			if err := j.failed.giveUpRun(missing); err != nil {
				t.Fatal(err)
			}
			if got := requestedRequeues(t, q); !slices.Equal(got, tt.want) {
				t.Errorf("commands to Slurm: %q, want %q", got, tt.want)
			}
			c.background.Wait()
		})
	}
	c := &Conductor{Deps: Deps{CheckShared: away}, Config: Config{Node: "n2"}}
	said := withSharedFolder(t.Context(), c, missing)
	if !clusterMayRecover(sendAnswer(t, said)) || !strings.Contains(said.Error(), "n2") { // as the leader sees it
		t.Errorf("error on a node without the shared folder: %v", said)
	}
}

// TestRunGivenUpElsewhere: if a restore failed on a node because another node has given up the
// run, the decision is left to that other node.
func TestRunGivenUpElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name string
		why  error
		want []string
	}{
		{"another node", sendAnswer(t, errGivenUp), nil},
		{"a node of an older release", fmt.Errorf("node n2: %w", &rpc.Error{Kind: rpc.ErrInternal, Text: errGivenUp.Error()}), nil},
		{"a file's name", errors.New("/home/" + errGivenUp.Error() + ": missing"), []string{"requeuehold 7"}},
		{"a file's name on another node", sendAnswer(t, errors.New("/home/"+errGivenUp.Error()+": missing")), []string{"requeuehold 7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			q.Set(t, map[uint32]string{7: "COMPLETING"})
			recordCommands(t, q)
			c := tidyOn(t, "n1", t.TempDir(), q, 7)
			j := (&job{c: c, id: 7, run: runOf(0, recordOf(7)), log: c.Log}).linkPartsToJob()
			if err := j.failed.giveUpRun(tt.why); err != nil {
				t.Fatal(err)
			}
			if got := requestedRequeues(t, q); !slices.Equal(got, tt.want) {
				t.Errorf("commands to Slurm: %q, want %q", got, tt.want)
			}
			c.background.Wait()
		})
	}
}

// recordCommands makes an scontrol that accepts all commands and writes them down.
func recordCommands(t *testing.T, q slurmtest.Queue) {
	t.Helper()
	const scontrol = "#!/bin/sh\ncd \"$(dirname \"$0\")\"; echo \"$*\" >>asked\n"
	if err := os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(scontrol), 0o755); err != nil {
		t.Fatal(err)
	}
}

// requestedRequeues returns the requeues that Slurm was asked for.
func requestedRequeues(t *testing.T, q slurmtest.Queue) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(q.Dir, "asked"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "requeue") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// TestProgramsAtOnce: of two programs that CRIU has restored at once, and that are both left in the note still, the second finds that
// the programs of the capsule may reach each other. Before, neither did.
func TestProgramsAtOnce(t *testing.T) {
	lc := &localCapsule{criuRestored: map[string]bool{}, note: capsuleNote{ProgramsToRestore: []string{"s0-1.0", "s0-1.1"}}}
	lc.criuRestored["s0-1.0"] = true
	if lc.hasCRIURestoredAll() {
		t.Error("s0-1.1 is not there yet")
	}
	lc.criuRestored["s0-1.1"] = true
	if !lc.hasCRIURestoredAll() {
		t.Error("hasCRIURestoredAll is false after both programs were restored")
	}
}
