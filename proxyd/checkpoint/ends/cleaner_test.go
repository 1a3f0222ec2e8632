// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// heldJobs are the jobs of which the node has a part.
type heldJobs map[uint32]bool

func (h heldJobs) Has(job uint32) bool { return h[job] }

func (heldJobs) HasRunEnded(uint32, int) bool { return false }

// capsulesOn are the nodes that have capsules of each job.
type capsulesOn []string

// errNodeAway is the answer of the node "away".
var errNodeAway = errors.New("proxyd does not answer")

func (c capsulesOn) AreOn(_ context.Context, node string, _ uint32) (bool, error) {
	if node == "away" {
		return false, errNodeAway
	}
	return slices.Contains(c, node), nil
}

// noUploads are Uploads without any upload.
type noUploads struct{}

func (noUploads) Abandon(context.Context, uint32) error { return nil }

func (noUploads) RemoveEnded(uint32) error { return nil }

func (noUploads) IsNeededAsBase(store.ID) bool { return false }

func (noUploads) UnlessBase(_ store.ID, do func() error) error { return do() }

func recordOf(job uint32) *records.Record {
	return &records.Record{Job: job, Slurm: slurm.JobName(job), UID: 1001, Submitted: "2026-07-01T12:00:00", Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")}}
}

// endsOn are the Ends of a node of a cluster with these jobs, of which all have records and addresses.
func endsOn(t *testing.T, node, shared string, q slurmtest.Queue, jobs ...uint32) Ends {
	t.Helper()
	folder := records.Folder{Dir: filepath.Join(shared, "jobs")}
	if err := os.MkdirAll(folder.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pool, err := overlay.OpenPool(filepath.Join(shared, "addresses"), netip.MustParsePrefix("100.64.0.0/10"))
	if err != nil {
		t.Fatal(err)
	}
	c := Ends{
		Node: node, Cluster: "mini", Slurm: q.Slurm(), Addresses: pool, Records: folder, Timeline: records.NewTimeline(folder, node), Meter: reports.NoMeter{},
		Uploads: noUploads{}, Jobs: heldJobs{}, Capsules: capsulesOn{}, Log: slog.New(slog.DiscardHandler),
	}
	for _, id := range jobs {
		_, taken := pool.Take(t.Context(), slurm.JobName(id), 1)
		err := errors.Join(taken, folder.Save(recordOf(id)), os.WriteFile(folder.ScriptPath(id), nil, 0o500), c.Timeline.Write(id, records.Event{What: records.EventStarted}))
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// listLeft returns the jobs with records, and checks that the same jobs have addresses and files.
func listLeft(t *testing.T, c Ends) string {
	t.Helper()
	recs, err := c.Records.LoadAll()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range recs {
		ids = append(ids, slurm.JobName(r.Job))
	}
	addresses, err := c.Addresses.(*overlay.Pool).Jobs()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.Records.Dir, "[0-9]*"))
	if err != nil || len(addresses) != len(ids) || len(files) != 3*len(ids) {
		t.Errorf("records of %v, addresses of %v, files %v, %v", ids, addresses, files, err)
	}
	return strings.Join(ids, " ")
}

// TestCleaner: the files of a job that was cancelled before its start are removed soon, the files of a job that Slurm
// has forgotten are removed later, and the files of all other jobs stay.
func TestCleaner(t *testing.T) {
	q := slurmtest.NewQueue(t)
	c := endsOn(t, "n1", t.TempDir(), q, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	owed := recordOf(5)
	owed.RequeuedBy = "n7"
	if err := c.Records.Save(owed); err != nil {
		t.Fatal(err)
	}
	c.Jobs = heldJobs{6: true}
	q.Set(t, map[uint32]string{
		1: "CANCELLED", 2: "PENDING", 3: "RUNNING", 4: "TIMEOUT", 5: "TIMEOUT", 6: "CANCELLED", 7: "REQUEUE_HOLD", 8: "COMPLETING",
		10: "CANCELLED", // not ours
	}) // 9 is unknown
	tidy := &Cleaner{Ends: c}
	defer tidy.Stop()
	if !tidy.IsElected() {
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
		{UnknownGrace - endedGrace - 2*time.Second, "2 3 4 5 6 7 8 9"},
		{2 * time.Second, "2 3 5 6 7 8"},
		{24 * time.Hour, "2 3 5 6 7 8"},
	} {
		now = now.Add(step.after)
		if err := tidy.SettleJobs(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := listLeft(t, c); got != step.want {
			t.Fatalf("%s later: the files %s are left, want %s", step.after, got, step.want)
		}
	}
}

// TestRequeueableIsKept: a job that is over keeps its record as long as a person can have Slurm run the job again, and the job
// would resume from a checkpoint: without the record that run is held.
func TestRequeueableIsKept(t *testing.T) {
	q := slurmtest.NewQueue(t)
	c := endsOn(t, "n1", t.TempDir(), q, 1, 2, 3, 4, 5, 6, 7)
	c.KeepPast = 24 * time.Hour
	for _, id := range []uint32{5, 6} {
		anew := recordOf(id)
		anew.BeginAnew = true
		if err := c.Records.Save(anew); err != nil {
			t.Fatal(err)
		}
	}
	states := map[uint32]string{
		1: "OUT_OF_MEMORY", 2: "TIMEOUT", 3: "PREEMPTED", 4: "NODE_FAIL", 5: "FAILED", 6: "OUT_OF_MEMORY", 7: "CANCELLED",
	}
	q.Set(t, states)
	for id := range states {
		if err := c.SettleEndedRun(t.Context(), id, 1, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := listLeft(t, c); got != "1 2 3 4" {
		t.Fatalf("after the end of their runs the files %s are left, want 1 2 3 4", got)
	}
	tidy := &Cleaner{Ends: c}
	now := time.Now()
	look := func(after time.Duration, want string) {
		t.Helper()
		now = now.Add(after)
		if err := tidy.SettleJobs(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := listLeft(t, c); got != want {
			t.Fatalf("%s later: the files %s are left, want %s", after, got, want)
		}
	}
	look(0, "1 2 3 4")
	look(c.KeepPast-time.Second, "1 2 3 4")
	delete(states, 3) // Slurm has forgotten the job
	q.Set(t, states)
	look(0, "1 2 4")
	look(time.Second, "")
}

// TestCleanerUnanswered: a slurmctld that did not answer, or a job that was requeued, begins the
// wait anew.
func TestCleanerUnanswered(t *testing.T) {
	q := slurmtest.NewQueue(t)
	c := endsOn(t, "n1", t.TempDir(), q, 1, 2)
	tidy := &Cleaner{Ends: c}
	now := time.Now()
	look := func(after time.Duration, states map[uint32]string) error {
		now = now.Add(after)
		q.Set(t, states)
		return tidy.SettleJobs(t.Context(), now)
	}
	over := map[uint32]string{1: "CANCELLED", 2: "RUNNING"}
	if err := errors.Join(look(0, over), look(endedGrace-time.Second, map[uint32]string{1: "PENDING", 2: "RUNNING"}), look(time.Hour, over)); err != nil {
		t.Fatal(err)
	}
	q.SetAway(t, true)
	if err := look(time.Hour, over); err == nil {
		t.Error("no error although slurmctld does not answer")
	}
	q.SetAway(t, false)
	if err := look(time.Second, map[uint32]string{2: "RUNNING"}); err != nil {
		t.Fatal(err)
	}
	if got := listLeft(t, c); got != "1 2" {
		t.Fatalf("the files %s are left, want all", got)
	}
	// Another job has the number by now.
	rec := recordOf(1)
	rec.Submitted = "2026-08-01T00:00:00"
	if err := errors.Join(c.Records.Save(rec), c.removeEndedJob(t.Context(), recordOf(1))); err != nil || listLeft(t, c) != "1 2" {
		t.Errorf("removed the record of another job: %v", err)
	}
	if err := look(UnknownGrace, map[uint32]string{2: "RUNNING"}); err != nil || listLeft(t, c) != "2" {
		t.Errorf("the files %s are left, error %v", listLeft(t, c), err)
	}
}

// TestOneCleaner: a single daemon of a cluster is elected, and another daemon after its end.
func TestOneCleaner(t *testing.T) {
	q, shared := slurmtest.NewQueue(t), t.TempDir()
	one, two := &Cleaner{Ends: endsOn(t, "n1", shared, q)}, &Cleaner{Ends: endsOn(t, "n2", shared, q)}
	if !one.IsElected() || two.IsElected() {
		t.Error("want exactly one elected daemon")
	}
	if !one.IsElected() {
		t.Error("the elected daemon lost its election")
	}
	one.Stop()
	if !two.IsElected() {
		t.Error("no daemon is elected after the first has ended")
	}
	two.Stop()
}

// TestPastOutlivesJob: the time line of a job that is over stays when the record goes, for as long as
// the site wants.
func TestPastOutlivesJob(t *testing.T) {
	c := endsOn(t, "n1", t.TempDir(), slurmtest.NewQueue(t), 1)
	c.KeepPast = 24 * time.Hour
	err := errors.Join(c.Timeline.Write(1, records.Event{What: records.EventCheckpoint, Text: "1 (asked), in 1s"}),
		c.Addresses.Give(t.Context(), "1"), c.DeleteRecord(1), c.DeleteRecord(1))
	if err != nil || listLeft(t, c) != "" {
		t.Fatalf("jobs left after two DeleteRecord: %v, error %v", listLeft(t, c), err)
	}
	cleaner := &Cleaner{Ends: c}
	for after, want := range []int{2, 2, 0} {
		if err := cleaner.ForgetPast(time.Now().Add(time.Duration(after) * 23 * time.Hour)); err != nil {
			t.Fatal(err)
		}
		past, err := c.Timeline.ReadPast(1)
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
