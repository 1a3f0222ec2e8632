// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"fmt"
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

// conductorOn makes the Conductor of a node, with only the folder of jobs.
func conductorOn(t *testing.T, node, shared string) *Conductor {
	t.Helper()
	c, err := New(Config{Node: node, Cluster: "mini", Lib: t.TempDir(), Shared: shared}, Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func recordOf(job uint32) *records.Record {
	return &records.Record{Job: job, Slurm: slurm.JobName(job), UID: 1001, Submitted: "2026-07-01T12:00:00", Nodes: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1")}}
}

// tidyOn is a conductor of a node of a cluster with these jobs, of which all have records
// and addresses.
func tidyOn(t *testing.T, node, shared string, q slurmtest.Queue, jobs ...uint32) *Conductor {
	t.Helper()
	c := conductorOn(t, node, shared)
	c.Slurm = q.Slurm()
	var err error
	if c.Pool, err = overlay.OpenPool(filepath.Join(shared, "addresses"), netip.MustParsePrefix("100.64.0.0/10")); err != nil {
		t.Fatal(err)
	}
	for _, id := range jobs {
		_, taken := c.Pool.Take(t.Context(), slurm.JobName(id), 1)
		err := errors.Join(taken, c.records.Save(recordOf(id)), os.WriteFile(c.records.ScriptPath(id), nil, 0o500), c.timeline.Write(id, records.Event{What: records.EventStarted}))
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestTimeline: any node reads the events of all nodes of a job in order, also when no daemon that wrote them runs any
// more. The time line is removed with the job's record.
func TestTimeline(t *testing.T) {
	shared := t.TempDir()
	one, two := conductorOn(t, "n1", shared), conductorOn(t, "n2", shared)
	if err := one.timeline.Write(7, records.Event{At: time.Unix(1, 0), What: records.EventStarted}); err != nil {
		t.Fatal(err)
	}
	if got, err := two.timeline.Read(7); err != nil || len(got) != 0 {
		t.Fatalf("events of a job without a record: %v, error %v", got, err)
	}
	if err := one.records.Save(recordOf(7)); err != nil {
		t.Fatal(err)
	}
	one.jobFor(7).report.AddEvent(records.EventStarted, []string{"n1", "n2"}, "")
	one.background.Wait()
	one.jobFor(7).report.AddEvent(records.EventCheckpoint, []string{"n1", "n2"}, strings.Repeat("é", records.MaxEventText))
	one.background.Wait()
	two.jobFor(7).report.AddEvent(records.EventRestored, []string{"n2"}, "job 7: from checkpoint 1")
	two.background.Wait()
	f, err := os.OpenFile(one.timeline.Path(7, "n1"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"at":"2026-`) // a crash
	f.Close()
	v, err := conductorOn(t, "n3", shared).View(t.Context(), "7")
	if err != nil || len(v.Events) != 3 {
		t.Fatalf("View of a job with three events and a line cut short = %+v, %v", v, err)
	}
	for i, want := range []string{"started n1,n2 ", "checkpoint n1,n2 é", "restored n2 from checkpoint 1"} {
		if e := v.Events[i]; !strings.HasPrefix(e.What+" "+e.Where+" "+e.Text, want) || time.Since(e.At) > time.Minute || len(e.Text) > records.MaxEventText+3 {
			t.Errorf("event %d: %+v, want %s", i, e, want)
		}
	}
	if err := two.newEnds().DeleteRecord(7); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(one.records.Dir); err != nil || len(left) != 1 || left[0].Name() != "past" {
		t.Errorf("files left: %v, error %v; want what is kept of jobs that are over", left, err)
	}
}

// TestOver: a job without a record is over and has no owner.
func TestOver(t *testing.T) {
	c := conductorOn(t, "n1", t.TempDir())
	if err := c.records.Save(recordOf(7)); err != nil {
		t.Fatal(err)
	}
	if c.Over(store.PlainJob("mini", 7)) || !c.Over(store.PlainJob("mini", 8)) || c.Over(store.PlainJob("other", 8)) {
		t.Error("of this cluster, job 8 alone must be over; job 8 of another cluster must not")
	}
	if uid, known := c.Owner("7"); uid != 1001 || !known {
		t.Errorf("Owner of job 7 = %d, %v; want 1001", uid, known)
	}
	if _, known := c.Owner("8"); known {
		t.Error("owner of a job without a record")
	}
}

// TestTimelineOfEnded: the time line of a job that ends while the job is looked at. Its record was there when the look
// began, and its time line is already that of a job that is over.
func TestTimelineOfEnded(t *testing.T) {
	shared := t.TempDir()
	c := conductorOn(t, "n1", shared)
	rec := recordOf(7)
	err := errors.Join(c.records.Save(rec), c.timeline.Write(7, records.Event{What: records.EventStarted}),
		c.timeline.Write(7, records.Event{What: records.EventHeld}), c.timeline.KeepPast(rec), c.timeline.Remove(7))
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.View(t.Context(), "7")
	if err != nil || len(v.Events) != 2 {
		t.Errorf("View = %+v, %v, want both events", v, err)
	}
}

// heldMeter notes the events that are reported.
type heldMeter struct {
	reports.NoMeter
	events []string
}

func (m *heldMeter) Event(what string) { m.events = append(m.events, what) }

// TestLostCheckpointsAreCounted: a job that is held because its checkpoints and its record are gone is in the metrics. Its
// comments say that it had a checkpoint: the administrator's comment does so too if its user has overwritten the comment.
func TestLostCheckpointsAreCounted(t *testing.T) {
	const named = "singularity: requeued; its next run goes on from checkpoint 3"
	for name, tt := range map[string]struct {
		comment, admin string
		held           bool
	}{
		"both name it": {named, named, true},
		"an administrator's comment of the site's":  {named, "ticket 12", true},
		"a comment that the user has overwritten":   {"urgent", named, true},
		"released, and told that it is lost":        {"singularity: held: " + errCheckpointsLost.Error(), "singularity: held: " + errCheckpointsLost.Error(), false},
		"a job that never had one, with user words": {"checkpoint 3 at 10:00", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
			bin := t.TempDir()
			squeue := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *admin_comment*) echo '%s' ;; *) echo '%s' ;; esac\n", tt.admin, tt.comment)
			noError(t, os.WriteFile(filepath.Join(bin, "squeue"), []byte(squeue), 0o755))
			noError(t, os.WriteFile(filepath.Join(bin, "scontrol"), []byte("#!/bin/sh\necho \"$*\" >>\"$(dirname \"$0\")\"/asked\n"), 0o755))
			meter := &heldMeter{}
			c.Slurm, c.Meter = slurm.New(filepath.Join(bin, "scontrol")), meter
			err := c.holdIfCheckpointsLost(t.Context(), &slurm.Job{ID: 7, ArrayTask: -1, Restarts: 1})
			asked, _ := os.ReadFile(filepath.Join(bin, "asked"))
			if errors.Is(err, errCheckpointsLost) != tt.held || strings.Contains(string(asked), "requeuehold 7") != tt.held {
				t.Errorf("holdIfCheckpointsLost: %v; commands to Slurm:\n%s", err, asked)
			}
			if slices.Equal(meter.events, []string{records.EventHeld}) != tt.held {
				t.Errorf("metrics have %q", meter.events)
			}
		})
	}
}
