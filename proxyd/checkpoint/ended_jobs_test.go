// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// squeue prints the lines of the file "jobs" in its folder, in the form of squeue 26.05.
const squeue = `#!/bin/sh
cd "$(dirname "$0")"
[ ! -e away ] || { echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1; }
case "$*" in
*--jobs=*)
	id=${*##*--jobs=}; id=${id%% *}
	grep "^$id|" jobs || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; } ;;
*) cat jobs ;;
esac
`

// queue is a Slurm whose jobs a test sets.
type queue struct{ dir string }

func newQueue(t *testing.T) queue {
	t.Helper()
	q := queue{t.TempDir()}
	if err := os.WriteFile(filepath.Join(q.dir, "squeue"), []byte(squeue), 0o755); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q queue) set(t *testing.T, states map[uint32]string) {
	t.Helper()
	var b strings.Builder
	for id, state := range states {
		fmt.Fprintf(&b, "%d|1001|%s|None|1|1|1|n1|2026-11-20T16:41:18|N/A|%d|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n", id, state, id)
	}
	if err := os.WriteFile(filepath.Join(q.dir, "jobs"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (q queue) away(t *testing.T, is bool) {
	t.Helper()
	path := filepath.Join(q.dir, "away")
	err := os.WriteFile(path, nil, 0o644)
	if !is {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tidyOn is a conductor of a node of a cluster with these jobs, of which all have records
// and addresses.
func tidyOn(t *testing.T, node, shared string, q queue, jobs ...uint32) *Conductor {
	t.Helper()
	c := conductorOn(t, node, shared)
	c.Slurm = slurm.New(filepath.Join(q.dir, "scontrol"))
	var err error
	if c.Pool, err = overlay.OpenPool(filepath.Join(shared, "addresses"), netip.MustParsePrefix("100.64.0.0/10")); err != nil {
		t.Fatal(err)
	}
	for _, id := range jobs {
		_, taken := c.Pool.Take(t.Context(), jobName(id), 1)
		err := errors.Join(taken, c.records.Save(recordOf(id)), os.WriteFile(c.records.ScriptPath(id), nil, 0o500), c.timeline.Write(id, records.Event{What: records.EventStarted}))
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// left says which jobs have something: records, addresses, and anything else.
func left(t *testing.T, c *Conductor) string {
	t.Helper()
	recs, err := c.records.LoadAll()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range recs {
		ids = append(ids, jobName(r.Job))
	}
	addresses, err := c.Pool.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.records.Dir, "[0-9]*"))
	if err != nil || len(addresses) != len(ids) || len(files) != 3*len(ids) {
		t.Errorf("records of %v, addresses of %v, files %v, %v", ids, addresses, files, err)
	}
	return strings.Join(ids, " ")
}

// TestCleaner: what a job that was cancelled while it waited has left is removed soon, and what a job that
// Slurm has forgotten has left is removed later. Nothing else is removed.
func TestCleaner(t *testing.T) {
	q := newQueue(t)
	c := tidyOn(t, "n1", t.TempDir(), q, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	owed := recordOf(5)
	owed.RequeuedBy = "n7"
	if err := c.records.Save(owed); err != nil {
		t.Fatal(err)
	}
	c.jobFor(6) // the node has a part of the job
	q.set(t, map[uint32]string{
		1: "CANCELLED", 2: "PENDING", 3: "RUNNING", 4: "TIMEOUT", 5: "TIMEOUT", 6: "CANCELLED", 7: "REQUEUE_HOLD", 8: "COMPLETING",
		10: "CANCELLED", // not ours
	}) // 9 is unknown
	tidy := &endedJobsCleaner{c: c}
	defer tidy.stopCleaning()
	if !tidy.isElected() {
		t.Fatal("another daemon is elected")
	}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "1 2 3 4 5 6 7 8 9"},
		{endedGrace - time.Second, "1 2 3 4 5 6 7 8 9"},
		{2 * time.Second, "2 3 4 5 6 7 8 9"},
		{unknownGrace - endedGrace - 2*time.Second, "2 3 4 5 6 7 8 9"},
		{2 * time.Second, "2 3 5 6 7 8"},
		{24 * time.Hour, "2 3 5 6 7 8"},
	} {
		now = now.Add(step.after)
		if err := tidy.removeEnded(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := left(t, c); got != step.want {
			t.Fatalf("%s later: the files %s are left, want %s", step.after, got, step.want)
		}
	}
}

// TestCleanerUnanswered: a slurmctld that did not answer, or a job that was requeued, begins the
// wait anew.
func TestCleanerUnanswered(t *testing.T) {
	q := newQueue(t)
	c := tidyOn(t, "n1", t.TempDir(), q, 1, 2)
	tidy := &endedJobsCleaner{c: c}
	now := time.Now()
	look := func(after time.Duration, states map[uint32]string) error {
		now = now.Add(after)
		q.set(t, states)
		return tidy.removeEnded(t.Context(), now)
	}
	over := map[uint32]string{1: "CANCELLED", 2: "RUNNING"}
	if err := errors.Join(look(0, over), look(endedGrace-time.Second, map[uint32]string{1: "PENDING", 2: "RUNNING"}), look(time.Hour, over)); err != nil {
		t.Fatal(err)
	}
	q.away(t, true)
	if err := look(time.Hour, over); err == nil {
		t.Error("no error although slurmctld does not answer")
	}
	q.away(t, false)
	if err := look(time.Second, map[uint32]string{2: "RUNNING"}); err != nil {
		t.Fatal(err)
	}
	if got := left(t, c); got != "1 2" {
		t.Fatalf("the files %s are left, want all", got)
	}
	// Another job has the number by now.
	rec := recordOf(1)
	rec.Submitted = "2026-08-01T00:00:00"
	if err := errors.Join(c.records.Save(rec), c.ends.removeEndedJob(t.Context(), recordOf(1))); err != nil || left(t, c) != "1 2" {
		t.Errorf("removed the record of another job: %v", err)
	}
	if err := look(unknownGrace, map[uint32]string{2: "RUNNING"}); err != nil || left(t, c) != "2" {
		t.Errorf("the files %s are left, error %v", left(t, c), err)
	}
}

// TestOneCleaner: one daemon of a cluster is elected, and another daemon after its end.
func TestOneCleaner(t *testing.T) {
	q, shared := newQueue(t), t.TempDir()
	one, two := &endedJobsCleaner{c: tidyOn(t, "n1", shared, q)}, &endedJobsCleaner{c: tidyOn(t, "n2", shared, q)}
	if !one.isElected() || two.isElected() {
		t.Error("want exactly one elected daemon")
	}
	if !one.isElected() {
		t.Error("the elected daemon lost its election")
	}
	one.stopCleaning()
	if !two.isElected() {
		t.Error("no daemon is elected after the first has ended")
	}
	two.stopCleaning()
}

// TestPastOutlivesJob: the time line of a job that is over stays when its record goes, for as long as
// the site wants.
func TestPastOutlivesJob(t *testing.T) {
	c := tidyOn(t, "n1", t.TempDir(), newQueue(t), 1)
	c.KeepPast = 24 * time.Hour
	err := errors.Join(c.timeline.Write(1, records.Event{What: records.EventCheckpoint, Text: "1 (asked), in 1s"}),
		c.Pool.Give(t.Context(), "1"), c.ends.deleteRecord(1), c.ends.deleteRecord(1))
	if err != nil || left(t, c) != "" {
		t.Fatal(left(t, c), err)
	}
	cleaner := &endedJobsCleaner{c: c}
	for after, want := range []int{2, 2, 0} {
		if err := cleaner.forgetPast(time.Now().Add(time.Duration(after) * 23 * time.Hour)); err != nil {
			t.Fatal(err)
		}
		past, err := c.Past("1")
		switch {
		case err != nil:
			t.Fatal(err)
		case want == 0 && past != nil:
			t.Errorf("%v is still kept", past)
		case want > 0 && (past == nil || len(past.Events) != want || past.UID != 1001):
			t.Errorf("after %d times 23 hours: %+v", after, past)
		}
	}
}
