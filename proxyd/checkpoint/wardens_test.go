// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
)

// TestWardenGone: the batch step's warden has ended, and its PID is a stranger's. The job's srun is not put into the
// stranger's cgroups, nor left without a cgroup, outside of the job's limits. The stranger's variables are not taken
// either.
func TestWardenGone(t *testing.T) {
	n1 := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	stranger, err := processes.NewProcess(os.Getpid())
	noError(t, err)
	lc := &localCapsule{j: n1.jobFor(7), note: capsuleNote{Job: 7, WardenPIDs: map[string]int{}}}
	lc.note.setWarden(records.BatchProgram, stranger)
	if _, err := findCgroups(t.Context(), lc, 0); err != nil {
		t.Errorf("the warden is there: %v", err)
	}
	lc.note.setWarden(records.BatchProgram, processes.Process{PID: stranger.PID, Started: stranger.Started - 1})
	if all, err := findCgroups(t.Context(), lc, 0); !errors.Is(err, processes.ErrEnded) {
		t.Errorf("cgroups %q, %v", all, err)
	}
	lc.saveRunEnv()
	if lc.note.RunEnv != nil {
		t.Errorf("variables of a warden that has ended: %q, want none", lc.note.RunEnv)
	}
}

// TestWardensForgotten: a job may have any number of steps. A warden is forgotten with its program, unless the step runs again.
func TestWardensForgotten(t *testing.T) {
	n1 := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	lc := &localCapsule{j: n1.jobFor(7), note: capsuleNote{Job: 7, WardenPIDs: map[string]int{}}}
	for i, program := range []string{records.BatchProgram, "s0-1.0", "s0-1.1"} {
		lc.note.setWarden(program, processes.Process{PID: 10 + i, Started: 5})
	}
	for i, program := range []string{records.BatchProgram, "s0-1.0"} {
		lc.handleEvent(capsule.Event{Kind: capsule.Ended, Program: capsule.Program{Name: program, WardenPID: 10 + i}})
	}
	lc.handleEvent(capsule.Event{Kind: capsule.Ended, Program: capsule.Program{Name: "s0-1.1", WardenPID: 9}}) // of the step before
	if n := len(lc.note.WardenPIDs); n != 2 || lc.note.wardenOf("s0-1.1").PID != 12 || len(lc.note.WardenStarts) != n {
		t.Errorf("wardens after tasks have ended: PIDs %v, start times %v", lc.note.WardenPIDs, lc.note.WardenStarts)
	}
}

// TestOlderNote: the wardens of a note by an older release are the processes that have the PIDs now.
func TestOlderNote(t *testing.T) {
	n := capsuleNote{WardenPIDs: map[string]int{records.BatchProgram: os.Getpid(), "s0-1.0": 1 << 30}}
	n.addWardenStarts()
	if n.wardenOf(records.BatchProgram).HasEnded() || !n.wardenOf("s0-1.0").HasEnded() {
		t.Errorf("wardens of an older note: PIDs %v, start times %v", n.WardenPIDs, n.WardenStarts)
	}
}
