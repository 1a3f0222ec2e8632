// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/journal"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// TestOthers: a person does something to the job in the middle of an action. The action
// notices that, and leaves the job to the person.
func TestOthers(t *testing.T) {
	to := Args{Nodes: []string{"n3", "n4"}}
	cancel := func(j *slurmrest.Job) { j.State = slurmrest.State{Base: slurmrest.Cancelled} }
	release := func(j *slurmrest.Job) { j.Held, j.Priority = false, slurmrest.Num(1000) }
	begin := func(j *slurmrest.Job) {
		release(j)
		j.State, j.Nodes = slurmrest.State{Base: slurmrest.Running}, "n7,n8"
	}
	for name, c := range map[string]struct {
		kind  string
		args  Args
		point string // after which they do it
		do    func(*slurmrest.Job)
		want  journal.State
		said  string
		check func(*slurmrest.Job) bool
	}{
		"cancelled before the checkpoint": {"migrate", to, "after save going checkpoint", cancel, journal.Dropped, "the job is CANCELLED", nil},
		"cancelled while parked":          {"migrate", to, "after save going leave", cancel, journal.Dropped, "the job is CANCELLED", nil},
		"cancelled while it waits to start": {
			"migrate", to, "after save going start", cancel, journal.Done, "",
			func(j *slurmrest.Job) bool { return j.State.Base == slurmrest.Cancelled },
		},
		"released while parked": {
			"migrate", to, "after save going draft", release, journal.Dropped, "somebody else has released it",
			func(j *slurmrest.Job) bool { return j.RequiredNodes == "" && j.Restarts == 1 },
		},
		"started while parked": {
			"migrate", to, "after save going edit", begin, journal.Dropped, "somebody else has started it",
			func(j *slurmrest.Job) bool { return j.RequiredNodes == "" && j.Nodes == "n7,n8" && j.Restarts == 1 },
		},
		"released before we do": {
			"preempt", Args{}, "after save going release", release, journal.Done, "", nil,
		},
		"released before we do, and delayed by Slurm": {
			"preempt", Args{}, "after save going release", func(j *slurmrest.Job) {
				release(j)
				j.EligibleTime = time.Now().Add(24 * time.Hour)
			}, journal.Done, "",
			func(j *slurmrest.Job) bool { return j.EligibleTime.Before(time.Now().Add(time.Hour)) },
		},
		"edited while parked": {
			"migrate", to, "after save going edit", func(j *slurmrest.Job) { j.RequiredNodes = "n7" }, journal.Dropped, "somebody else has edited its required nodes",
			func(j *slurmrest.Job) bool { return j.RequiredNodes == "n7" && !j.Held },
		},
		"another QOS while parked": {
			"requeue", Args{QOS: "premium"}, "after save going edit", func(j *slurmrest.Job) { j.QOS = "standard" }, journal.Dropped, "somebody else has edited its QOS",
			func(j *slurmrest.Job) bool { return j.QOS == "standard" && !j.Held },
		},
		"requeued and started again while parked": {
			"migrate", to, "after save going draft", func(j *slurmrest.Job) { j.Restarts++ }, journal.Dropped, "somebody else has requeued it", nil,
		},
		"edited before it starts": {
			"migrate", Args{Avoid: []string{"n1"}}, "after save going start", func(j *slurmrest.Job) { begin(j); j.Nodes, j.ExcludedNodes = "n[1,8]", "n3" },
			journal.Dropped, "somebody else has edited its nodes: it runs on n[1,8]",
			func(j *slurmrest.Job) bool { return j.ExcludedNodes == "n3" && j.Nodes == "n[1,8]" },
		},
		"held before it starts": {
			"migrate", to, "after save going start", byUser, journal.Dropped, "somebody else holds it",
			func(j *slurmrest.Job) bool { return j.Held && j.RequiredNodes == "" },
		},
		"forgotten by Slurm before it starts": { // as when slurmctld is killed
			"migrate", to, "after save going start", func(j *slurmrest.Job) {
				byUser(j)
				j.Reason, j.RequiredNodes = "job_requeued_in_held_state", ""
			}, journal.Done, "",
			func(j *slurmrest.Job) bool { return !j.Held && j.Restarts == 1 && j.Nodes == "n3,n4" },
		},
		"held while it runs": { // the job moves, and stays held as requested
			"migrate", to, "after save going checkpoint", byUser, journal.Done, "",
			func(j *slurmrest.Job) bool { return j.Held && j.Restarts == 1 },
		},
		"requeued by Slurm before the checkpoint": { // as when a node fails: the job is moved all the same
			"migrate", to, "after save going checkpoint", func(j *slurmrest.Job) {
				j.State = slurmrest.State{Base: slurmrest.Pending, Flags: slurmrest.Completing}
				j.Restarts++
			}, journal.Done, "",
			func(j *slurmrest.Job) bool { return j.Nodes == "n3,n4" && j.Restarts == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			j := w.openJournal(t)
			w.full = strings.HasSuffix(name, "before it starts") // or the job would have started by then
			once := false
			r := w.newRunner(t, j, func(point string) error {
				if point == c.point && !once {
					once = true
					w.srv.EditJob(w.id, func(j *slurmrest.Job) { c.do(j); w.full = false })
				}
				return nil
			})
			a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || !once || a.State != c.want || !strings.Contains(a.Problem, c.said) {
				lines, _ := j.Lines(t.Context(), a.ID)
				t.Fatalf("Run: %v; the action is %s, problem %q; the journal has\n%+v", err, a.State, a.Problem, lines)
			}
			now := w.currentJob()
			if c.check != nil && !c.check(&now) {
				t.Errorf("the job: %+v", now)
			}
			if c.want == journal.Dropped && !now.State.Finished() && !strings.Contains(now.Comment, "preemptd: "+c.kind+" given up: "+c.said) {
				t.Errorf("comment of the dropped action = %q", now.Comment)
			}
		})
	}
}

// TestReleaseForgotten: slurmctld is killed before a release is saved, once or twice, and shows the job without the
// release. The hold is the action's, for all reasons that Slurm gives for the hold, and ends with the action.
func TestReleaseForgotten(t *testing.T) {
	place := Args{Nodes: []string{"n3", "n4"}}
	for _, c := range []struct {
		name, kind string
		args       Args
		waits      bool
		times      int
	}{
		{"a job that waited is moved", "migrate", place, true, 1},
		{"a job that waited is placed", "place", place, true, 1},
		{"a job that waited is resized", "resize", Args{NodeCount: 1}, true, 1},
		{"a job that ran is moved", "migrate", place, false, 1},
		{"twice, a job that waited", "migrate", place, true, 2},
		{"twice, a job that ran", "migrate", place, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.waits)
			j := w.openJournal(t)
			var saved slurmrest.Job
			forgotten := 0
			r := w.newRunner(t, j, func(point string) error {
				switch {
				case point == "before release":
					saved = w.currentJob()
					w.full = true // or the job would have started by then
				case point == "after save going start" && forgotten < c.times:
					forgotten++
					w.srv.EditJob(w.id, func(j *slurmrest.Job) { *j = saved })
				case point == "after save going start":
					w.full = false
				}
				return nil
			})
			a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || forgotten != c.times || a.State != journal.Done {
				lines, _ := j.Lines(t.Context(), a.ID)
				t.Fatalf("forgotten %d times: %v: %s: %s\n%+v", forgotten, err, a.State, a.Problem, lines)
			}
			if now := w.currentJob(); now.Held || now.State.Base != slurmrest.Running {
				t.Errorf("the job: %+v", now)
			}
		})
	}
}

// TestHeldByPerson: a person holds the job between the steps of an action. The job stays held when the action has
// ended.
func TestHeldByPerson(t *testing.T) {
	place := Args{Nodes: []string{"n3", "n4"}}
	requeuehold := func(j *slurmrest.Job) {
		byUser(j)
		j.State, j.Reason = slurmrest.State{Base: slurmrest.Pending, Flags: slurmrest.Completing}, "job_requeued_in_held_state"
		j.Restarts++
	}
	for _, c := range []struct {
		name, kind string
		args       Args
		waits      bool
		point      string // after which the person holds the job
		do         func(*slurmrest.Job)
	}{
		{"a job that waits, before it is parked", "migrate", place, true, "after save going checkpoint", byUser},
		{"a job that waits, when it is to be parked", "migrate", place, true, "after save going park", byUser},
		{"a job that waits, before it is placed", "place", place, true, "after save going park", byUser},
		{"a job that runs, before it is parked", "migrate", place, false, "after save going park", byUser},
		{"requeued and held, before it is parked", "migrate", place, false, "after save going checkpoint", requeuehold},
		{"requeued and held, when it is to be parked", "preempt", Args{}, false, "after save going park", requeuehold},
		{"released and held again", "migrate", place, true, "after save going start", byUser},
		{"released and held again, with another comment", "migrate", place, true, "after save going start", func(j *slurmrest.Job) {
			byUser(j)
			j.Comment = "urgent"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.waits)
			j := w.openJournal(t)
			once := false
			r := w.newRunner(t, j, func(point string) error {
				if point == "before release" {
					w.full = true // or the job would have started before the person holds it
				}
				if point == c.point && !once {
					once = true
					w.srv.EditJob(w.id, c.do)
				}
				return nil
			})
			a, err := r.Run(t.Context(), w.beginAction(t, j, c.kind, c.args))
			if err != nil || !once || a.State != journal.Done && a.State != journal.Dropped {
				lines, _ := j.Lines(t.Context(), a.ID)
				t.Fatalf("Run: %v; %s, problem %q, want done or dropped; journal\n%+v", err, a.State, a.Problem, lines)
			}
			if now := w.currentJob(); !now.Held {
				lines, _ := j.Lines(t.Context(), a.ID)
				t.Errorf("the person's hold is gone: %+v\n%+v", now, lines)
			}
		})
	}
}

// A job that does not start on its new nodes goes on wherever there is room.
func TestNoRoom(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	w.full = true
	a, err := w.newRunner(t, j, nil).Run(t.Context(), w.beginAction(t, j, "migrate", Args{Nodes: []string{"n3", "n4"}}))
	if err != nil || a.State != journal.Undone || !strings.Contains(a.Problem, "start: not within 10m0s: it is PENDING") {
		t.Fatalf("migrate to full nodes: %v; the action is %s, problem %q, want undone", err, a.State, a.Problem)
	}
	w.full = false
	w.settleCluster()
	if now := w.currentJob(); now.RequiredNodes != "" || now.Nodes != "n4,n5" || now.Restarts != 1 || w.countCheckpoints(t) != 1 {
		t.Errorf("job after the undone migration = %+v", now)
	}
}

// An action that is stuck and leaves its job held says so in the comment.
func TestKept(t *testing.T) {
	w := newWorld(t, false)
	j := w.openJournal(t)
	r := w.newRunner(t, j, func(point string) error {
		if point == "before release" {
			return slurmrest.ErrAccessDenied
		}
		return nil
	})
	a, err := r.Run(t.Context(), w.beginAction(t, j, "preempt", Args{}))
	if err != nil || a.State != journal.Stuck || !strings.Contains(a.Problem, "access denied") {
		t.Fatalf("refused release: %v; the action is %s, problem %q, want stuck", err, a.State, a.Problem)
	}
	if now := w.currentJob(); !strings.HasSuffix(now.Comment, "; still held: scontrol release 1") {
		t.Errorf("comment of the stuck action = %q", now.Comment)
	}
}

func TestComment(t *testing.T) {
	for name, c := range map[string]struct{ had, text, want string }{
		"none":        {"", "x", "preemptd: x"},
		"the user's":  {"mine; too", "x", "mine; too; preemptd: x"},
		"ours":        {"mine; preemptd: before", "x", "mine; preemptd: x"},
		"proxyd's":    {"singularity: restored", "x", "preemptd: x; singularity: restored"},
		"all":         {"mine; preemptd: before; singularity: restored", "x", "mine; preemptd: x; singularity: restored"},
		"not a line":  {"", "a\n\"b'", "preemptd: a  b "},
		"too long":    {"", strings.Repeat("é", 400), "preemptd: " + strings.Repeat("é", 248) + "…"},
		"not a text":  {"", "a\xffb", "preemptd: a?b"},
		"said before": {"preemptd: x", "x", "preemptd: x"},
	} {
		if got := withOurComment(c.had, c.text); got != c.want {
			t.Errorf("withOurComment, %s = %q, want %q", name, got, c.want)
		}
	}
}

// TestResizeOfHeldJob: a job that a person parked stays held in a resize. The result says so once, and the job's
// comment still says how the hold ends.
func TestResizeOfHeldJob(t *testing.T) {
	w := newWorld(t, true)
	w.srv.EditJob(w.id, func(j *slurmrest.Job) {
		byUser(j)
		j.Comment = userComment + "; preemptd: preempted by alice (action 7); held until singctl resume 1"
	})
	j := w.openJournal(t)
	a, err := w.newRunner(t, j, nil).Run(t.Context(), w.beginAction(t, j, "resize", Args{GPUs: 1}))
	if err != nil || a.State != journal.Done {
		t.Fatalf("resize: %v; the action is %s, problem %q, want done", err, a.State, a.Problem)
	}
	want := fmt.Sprintf("%s; preemptd: resized by bob: room for 99 (action %d); held until singctl resume %d", userComment, a.ID, w.id)
	if now := w.currentJob(); !now.Held || now.TRESPerNode != "gres/gpu:a100:1" || now.Comment != want {
		t.Errorf("held %v, GPUs %q, comment\n%q, want\n%q", now.Held, now.TRESPerNode, now.Comment, want)
	}
	lines, err := j.Lines(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, l := range lines {
		if l.Text == staysHeldText {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%q is said %d times, want once: %+v", staysHeldText, said, lines)
	}
}

// TestResizeToOwnSize: the result of a resize to the GPUs that the job has of its own does not say that the job is
// lent GPUs by "none".
func TestResizeToOwnSize(t *testing.T) {
	w := newWorld(t, false)
	w.srv.EditJob(w.id, onOneNode)
	if err := os.WriteFile(filepath.Join(w.dir, "lends"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := w.openJournal(t)
	a, err := w.newRunner(t, j, nil).Run(t.Context(), w.beginAction(t, j, "resize", Args{GPUs: 1}))
	if err != nil || a.State != journal.Done {
		t.Fatalf("resize: %v; the action is %s, problem %q, want done", err, a.State, a.Problem)
	}
	lines, err := j.Lines(t.Context(), a.ID)
	if err != nil || !slices.ContainsFunc(lines, func(l journal.Line) bool {
		return l.Text == "in place; lent by: no job, for it has 1 GPU of its own"
	}) {
		t.Errorf("lines of the action: %v, %+v", err, lines)
	}
}
