// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/steps"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
)

// TestCheckComplete: a checkpoint that lacks a part of the job is refused.
func TestCheckComplete(t *testing.T) {
	two := func(a, b *calls.PrepareReply) map[string]*calls.PrepareReply {
		return map[string]*calls.PrepareReply{"n1": a, "n2": b}
	}
	restored := &runs.ResumePoint{Meta: &records.Meta{Capsules: []records.CapsuleMeta{{Index: 0}, {Index: 1}}}}
	step := func(tasks, here int, sruns ...string) *calls.PrepareReply {
		return &calls.PrepareReply{Capsules: 1, Steps: sruns, TaskCounts: map[string]int{"s0-1": tasks}, TasksHere: map[string]int{"s0-1": here}}
	}
	for name, c := range map[string]struct {
		from    *runs.ResumePoint
		reports map[string]*calls.PrepareReply
		want    error
	}{
		"a script alone":                    {nil, two(&calls.PrepareReply{Capsules: 1}, &calls.PrepareReply{}), nil},
		"all tasks":                         {nil, two(step(2, 1, "s0-1"), step(2, 1)), nil},
		"a node that was reset":             {nil, two(step(2, 1, "s0-1"), &calls.PrepareReply{}), steps.ErrTasksMissing},
		"tasks on their way":                {nil, two(step(4, 2, "s0-1"), step(4, 1)), steps.ErrTasksMissing},
		"a step that is over":               {nil, two(step(2, 1), &calls.PrepareReply{}), nil},
		"no task yet":                       {nil, two(&calls.PrepareReply{Capsules: 1, Steps: []string{"s0-1"}}, &calls.PrepareReply{}), nil},
		"restored":                          {restored, two(&calls.PrepareReply{Capsules: 1}, &calls.PrepareReply{Capsules: 1}), nil},
		"restored, and a node has ended it": {restored, two(&calls.PrepareReply{Capsules: 1}, &calls.PrepareReply{}), errCapsuleLost},
	} {
		j := (&job{run: runs.NewRunAt(runs.Snapshot{Point: c.from, Placement: records.Placement{FirstRun: []string{"a", "b"}, ThisRun: []string{"n1", "n2"}}})}).linkPartsToJob()
		a := &attempt{j: j, reports: c.reports}
		if err := a.checkComplete(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestCapsuleLost: a node that lost its capsules of the run prevents a checkpoint; a node that never had any does not.
func TestCapsuleLost(t *testing.T) {
	c := (&Conductor{jobs: jobTable{}}).linkPartsToConductor()
	ask := func(run int) error {
		_, err := callNode(t.Context(), c, "", 7, 3, calls.Prepare, calls.PrepareArgs{Run: run})
		return err
	}
	if err := ask(0); err != nil {
		t.Error(err)
	}
	c.jobs.rememberEndedRun(7, 0)
	if err := ask(0); !errors.Is(err, errCapsuleLost) {
		t.Errorf("prepare on a node that has lost its capsules: %v, want %v", err, errCapsuleLost)
	}
	if err := ask(1); err != nil {
		t.Error(err)
	}
}

// TestWithoutScript: a checkpoint without the batch script is not made. As the newest checkpoint, it would
// make the job begin anew.
func TestWithoutScript(t *testing.T) {
	step := records.CapsuleMeta{Programs: []records.ProgramMeta{{Name: "s0-1.0"}}, Ended: map[string]syscall.WaitStatus{records.BatchProgram: 0}}
	a := &attempt{meta: records.Meta{Capsules: []records.CapsuleMeta{step, {Index: 1}}}}
	if err := a.commit(t.Context()); !errors.Is(err, errScriptEnded) {
		t.Errorf("commit without the batch script: %v, want %v", err, errScriptEnded)
	}
	step.Programs = append(step.Programs, records.ProgramMeta{Name: records.BatchProgram})
	if m := (records.Meta{Capsules: []records.CapsuleMeta{step}}); !m.HasScript() {
		t.Error("hasScript without the batch script")
	}
}

func TestKilledMeanwhile(t *testing.T) {
	killed, failed := syscall.WaitStatus(syscall.SIGKILL), syscall.WaitStatus(1<<8)
	for _, tt := range []struct {
		name        string
		before, now map[string]syscall.WaitStatus
		want        error
	}{
		{"all run", nil, nil, nil},
		{"one ended by itself", nil, map[string]syscall.WaitStatus{"s0-1.0": failed}, nil},
		{"one was killed before", map[string]syscall.WaitStatus{"s0-1.0": killed}, map[string]syscall.WaitStatus{"s0-1.0": killed}, nil},
		{"Slurm has killed one", map[string]syscall.WaitStatus{"s0-1.0": failed}, map[string]syscall.WaitStatus{"s0-1.0": failed, "s0-1.1": killed}, errKilledMeanwhile},
	} {
		if err := checkNoneKilled(tt.before, tt.now); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestTaskCountsBounded: a job with many steps has a note of some size, which has the newest steps, and all that have
// a process here.
func TestTaskCountsBounded(t *testing.T) {
	const long, all = 3, 5 * maxTaskCounts
	lc := &localCapsule{note: capsuleNote{WardenPIDs: map[string]int{}}}
	most := 0
	for n := 1; n <= all; n++ {
		key := steps.NewKey(0, n)
		lc.setTaskCount(nodesocket.Join{Key: key, Step: "0", Tasks: 2})
		if n <= long {
			lc.note.WardenPIDs[key+".0"] = 7
		}
		most = max(most, len(lc.note.TaskCounts))
		if lc.note.TaskCounts[key] != 2 {
			t.Fatalf("step %s is forgotten as it begins", key)
		}
	}
	if most > maxTaskCounts+1 {
		t.Errorf("%d steps are noted at once", most)
	}
	for _, n := range []int{1, 2, 3, all - maxTaskCounts/2 + long, all} {
		if key := steps.NewKey(0, n); lc.note.TaskCounts[key] != 2 {
			t.Errorf("step %s is forgotten", key)
		}
	}
}
