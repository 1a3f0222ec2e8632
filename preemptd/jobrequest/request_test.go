// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package jobrequest

import (
	"reflect"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

func TestSameHosts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"n1,n2", "n[1-2]", true},
		{"n2,n1", "n1,n2", true},
		{"", "", true},
		{"n1", "n1,n2", false},
		{"n[1", "n[1", true},
		{"n[1", "n[2", false}, // neither is a host list, and they differ
	} {
		if got := SameHosts(c.a, c.b); got != c.want {
			t.Errorf("SameHosts(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

// TestTakeBack expects that an edit of ours is taken back, and an edit of the user's after that stays.
func TestTakeBack(t *testing.T) {
	asked := Request{Excluded: "n9", QOS: "basic", Nodes: 2, Tasks: 4, PerNode: 2}
	ours := asked
	ours.Required, ours.QOS = "n[1-2]", "premium"
	now := ours
	now.Required, now.QOS = "n2,n1", "standard" // as Slurm writes the list; the user's own QOS
	want := asked
	want.QOS = "standard"
	if got := now.TakeBack(asked, ours); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if name := now.ForeignEdit(asked, ours); name != "QOS" {
		t.Errorf("edited by others: %q, want QOS", name)
	}
	if update := ours.EditTo(asked); update.RequiredNodes == nil || *update.RequiredNodes != "" || update.QOS == nil || update.NodeCount != nil {
		t.Errorf("EditTo = %+v", update)
	}
}

// TestDecode reads a record of a journal.
func TestDecode(t *testing.T) {
	r, err := Decode([]byte(`{"asked":{"excluded":"n9","nodes":2,"tresNode":"gres/gpu:2"},"ours":{"required":"n3"},"by":{"who":"bob","restarts":1}}`))
	if err != nil || r.Asked.Nodes != 2 || r.Ours.Required != "n3" || r.By != (Editor{"bob", 1}) {
		t.Errorf("Decode = %+v, %v", r, err)
	}
	if _, err := Decode([]byte("{")); err == nil {
		t.Error("a record that is cut off is accepted")
	}
}

// TestNodeCount: fewer nodes have Slurm raise the CPUs that each node needs for its tasks. More nodes lower that
// again, unless the user has asked for so many.
func TestNodeCount(t *testing.T) {
	for name, c := range map[string]struct {
		asked Request
		nodes int64
		edit  slurmrest.JobUpdate
	}{
		"fewer":                 {Request{Nodes: 4, Tasks: 4, PerNode: 1, LeastCPU: 1}, 1, slurmrest.JobUpdate{NodeCount: new(int64(1)), Tasks: new(int64(4)), TasksPerNode: new(int64(4))}},
		"more":                  {Request{Nodes: 1, Tasks: 4, PerNode: 4, LeastCPU: 4}, 4, slurmrest.JobUpdate{NodeCount: new(int64(4)), Tasks: new(int64(4)), TasksPerNode: new(int64(1)), MinCPUsPerNode: new(int64(1))}},
		"more, of larger tasks": {Request{Nodes: 1, Tasks: 4, PerNode: 4, PerTask: 2, LeastCPU: 8}, 2, slurmrest.JobUpdate{NodeCount: new(int64(2)), Tasks: new(int64(4)), TasksPerNode: new(int64(2)), MinCPUsPerNode: new(int64(4))}},
		"as the user has asked": {Request{Nodes: 1, Tasks: 4, PerNode: 4, LeastCPU: 16}, 4, slurmrest.JobUpdate{NodeCount: new(int64(4)), Tasks: new(int64(4)), TasksPerNode: new(int64(1))}},
		"not said":              {Request{Nodes: 1, Tasks: 4, LeastCPU: 1}, 4, slurmrest.JobUpdate{NodeCount: new(int64(4)), Tasks: new(int64(4))}},
	} {
		wanted := c.asked
		if err := wanted.setNodeCount(c.nodes); err != nil {
			t.Errorf("%s: setNodeCount: %v", name, err)
		}
		if got := c.asked.EditTo(wanted); !reflect.DeepEqual(got, c.edit) {
			t.Errorf("%s: EditTo = %+v", name, got)
		}
		if !wanted.SameAs(wanted) || wanted.TakeBack(c.asked, wanted) != c.asked {
			t.Errorf("%s: taken back: %+v", name, wanted.TakeBack(c.asked, wanted))
		}
	}
}
