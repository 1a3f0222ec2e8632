// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
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
