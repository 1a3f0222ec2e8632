// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// TestLayout: every capsule has a single node, the capsules are in order, and the two directions agree.
func TestLayout(t *testing.T) {
	for capsules := 1; capsules <= 9; capsules++ {
		for nodes := 1; nodes <= 12; nodes++ {
			seen := 0
			for n := range nodes {
				for _, k := range CapsulesOfNode(n, capsules, nodes) {
					if k != seen || NodeOfCapsule(k, capsules, nodes) != n {
						t.Fatalf("%d capsules on %d nodes: capsule %d", capsules, nodes, k)
					}
					seen++
				}
			}
			if seen != capsules || NodeOfCapsule(0, capsules, nodes) != 0 {
				t.Errorf("%d capsules on %d nodes: only %d are placed", capsules, nodes, seen)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		key, step string
		task      int
		want, of  string
	}{{"s0-3", "7", 12, "s0-3.12", "s0-3"}, {"", "7", 0, "x7.0", "x7"}} {
		got := TaskName(c.key, c.step, c.task)
		key, task, ok := ParseTaskName(got)
		if got != c.want || key != c.of || task != c.task || !ok {
			t.Errorf("%+v: %s, and back %s %d %v", c, got, key, task, ok)
		}
	}
	if _, _, ok := ParseTaskName(BatchProgram); ok {
		t.Error("the batch script parses as a task")
	}
}

func TestTasks(t *testing.T) {
	m := &Meta{Capsules: []CapsuleMeta{
		{Index: 0, Programs: []ProgramMeta{{Name: BatchProgram}, {Name: "s0-1.0"}}, Ended: map[string]syscall.WaitStatus{"s0-1.2": 256}},
		{Index: 1, Programs: []ProgramMeta{{Name: "s0-1.1"}, {Name: "s0-2.0"}}, NotBegun: []string{"s0-1.3"}},
	}}
	if got, err := m.StepTasks("s0-1"); err != nil || !reflect.DeepEqual(got, []int{0, 1, 0, 1}) {
		t.Errorf("StepTasks of s0-1 = %v, %v", got, err)
	}
	if got, err := m.StepTasks("s0-9"); err != nil || len(got) != 0 {
		t.Errorf("an unknown step: tasks %v, error %v", got, err)
	}
	if m.CapsuleOf("s0-1.3").Index != 1 {
		t.Error("a task that had not begun has no capsule")
	}
	m.Capsules[0].Ended, m.Capsules[1].NotBegun = nil, nil
	m.Capsules[1].Programs[0].Name = "s0-1.4"
	if _, err := m.StepTasks("s0-1"); err == nil || !strings.Contains(err.Error(), "task 4 among them") {
		t.Errorf("tasks with a gap: %v", err)
	}
	if m.CapsuleOf("s0-2.0").Index != 1 || m.CapsuleOf("s0-2.1") != nil {
		t.Error("capsuleOf finds the wrong capsule")
	}
}
