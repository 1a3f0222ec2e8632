// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
)

// TestRestoreSteps: the list has the steps of each event in order, and ends with the run restored.
func TestRestoreSteps(t *testing.T) {
	var names []string
	for i, s := range restoreSteps {
		names = append(names, s.name)
		if i > 0 && s.event < restoreSteps[i-1].event {
			t.Errorf("step %s comes after a step of a later event", s.name)
		}
	}
	if want := []string{calls.MakeCapsules.Name(), calls.Unrestored.Name(), calls.ReconnectDevices.Name(), calls.Unlock.Name(), stepComplete}; !slices.Equal(names, want) {
		t.Errorf("steps %q, want %q", names, want)
	}
}

// TestLeadRestore: an event takes its own steps, in order, up to a step that is not complete or fails.
func TestLeadRestore(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		event restoreEvent
		stops string // step that is not complete
		fails string
		want  []string
		whole bool
	}{
		{"the script starts", scriptStarts, "", "", []string{"make"}, true},
		{"a node reports", nodeReports, "", "", []string{"look", "unlock", "note"}, true},
		{"a node reports too early", nodeReports, "look", "", []string{"look"}, false},
		{"a step fails", nodeReports, "", "unlock", []string{"look", "unlock"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := restoreSteps
			defer func() { restoreSteps = before }()
			var took []string
			restoreSteps = nil
			for name, event := range map[string]restoreEvent{"make": scriptStarts, "look": nodeReports, "unlock": nodeReports, "note": nodeReports} {
				restoreSteps = append(restoreSteps, restoreStep{name, event, func(*restore, context.Context, runs.Snapshot) (bool, error) {
					took = append(took, name)
					if name == tt.fails {
						return false, broken
					}
					return name != tt.stops, nil
				}})
			}
			slices.SortFunc(restoreSteps, func(a, b restoreStep) int {
				order := []string{"make", "look", "unlock", "note"}
				return slices.Index(order, a.name) - slices.Index(order, b.name)
			})
			j := conductorOn(t, "n1", t.TempDir()).jobFor(7)
			j.run.BeginNext(recordOf(7), 1, []string{"n1"}, &runs.ResumePoint{})
			whole, err := j.restore.takeSteps(t.Context(), j.run.Snapshot(), tt.event)
			if whole != tt.whole || (err != nil) != (tt.fails != "") || !slices.Equal(took, tt.want) {
				t.Errorf("whole %v, error %v, steps %q, want %q", whole, err, took, tt.want)
			}
			took = nil
			j.setState(runs.Running)
			if whole, err := j.restore.takeSteps(t.Context(), j.run.Snapshot(), tt.event); whole || err != nil || took != nil {
				t.Errorf("a run that is restored: whole %v, error %v, steps %q", whole, err, took)
			}
		})
	}
}

// TestRestoreOfEarlierRun: a report that was sent to an earlier run has no effect.
func TestRestoreOfEarlierRun(t *testing.T) {
	j := conductorOn(t, "n1", t.TempDir()).jobFor(7)
	j.run.BeginNext(recordOf(7), 1, []string{"n1"}, &runs.ResumePoint{})
	earlier := j.run.Snapshot()
	j.run.BeginNext(recordOf(7), 2, []string{"n1"}, &runs.ResumePoint{})
	if whole, err := j.restore.takeSteps(t.Context(), earlier, nodeReports); whole || err != nil || j.run.Snapshot().HasBeen(runs.Running) {
		t.Errorf("whole %v, error %v, state %s", whole, err, j.run.Snapshot().State)
	}
}
