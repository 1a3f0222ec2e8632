// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// requeuingControl is an scontrol that writes down its commands, and has job 7 wait after a requeue.
const requeuingControl = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >>asked
[ "$1" != requeue ] || sed -i 's/^\(7|1001|\)[A-Z_]*|/\1PENDING|/' jobs
`

// restartedJob has Slurm show job 7 in a state, after two restarts, led by n1.
func restartedJob(t *testing.T, q slurmtest.Queue, state string) {
	t.Helper()
	host := "n1"
	if state == "PENDING" {
		host = "N/A"
	}
	line := fmt.Sprintf("7|1001|%s|None|2|1|1|%s|2026-11-20T16:41:18|N/A|7|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n", state, host)
	err := errors.Join(os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(line), 0o644),
		os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(requeuingControl), 0o755))
	if err != nil {
		t.Fatal(err)
	}
}

// eventMeter notes the events that are reported.
type eventMeter struct {
	reports.NoMeter
	events []string
}

func (m *eventMeter) Event(what string) { m.events = append(m.events, what) }

// storeWithCheckpoint returns a store that has checkpoint 3 of job 7.
func storeWithCheckpoint(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := posix.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := store.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), folder, key, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	id := store.ID{JobID: store.PlainJob("mini", 7), Number: 3}
	w, err := s.Create(t.Context(), store.Upload{ID: id, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), []byte("meta")); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInterruptedRunTold: if a run ended before the job was restored, or a node failed and lost the job, the comment
// and the time line say so, and where the job goes on. An event that the time line has already is not repeated.
func TestInterruptedRunTold(t *testing.T) {
	started := records.MakeStartEvent(3, []string{"n1", "n2"}, 3)
	const goesOn = "; its next run goes on from checkpoint 3"
	const cutShort, nodeFailed = "its run on n1 was cut short before the job was restored" + goesOn, "node n1 failed" + goesOn
	for _, tt := range []struct {
		name     string
		state    string
		events   []records.Event // after the first start
		want     string          // the comment
		requeued bool
	}{
		{"the restore was cut short, and Slurm took the job to be over", "FAILED", []records.Event{started}, cutShort, true},
		{"the restore was cut short, and Slurm has requeued the job", "PENDING", []records.Event{started}, cutShort, false},
		{"the restore had not begun", "FAILED", []records.Event{{What: records.EventReleased, Where: "n1,n2"}}, cutShort, true},
		{"the node failed later", "PENDING", []records.Event{started, {What: records.EventRestored, Where: "n1,n2"}}, nodeFailed, false},
		{"another node leads", "PENDING", []records.Event{{What: records.EventStarted, Where: "n2,n1"}}, "", false},
		{"the job is held for another reason", "PENDING", []records.Event{started, {What: records.EventHeld}}, "", false},
		{"cancelled", "CANCELLED", []records.Event{started}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := slurmtest.NewQueue(t)
			restartedJob(t, q, tt.state)
			e := endsOn(t, "n1", t.TempDir(), q, 7)
			e.Store = storeWithCheckpoint(t)
			meter := &eventMeter{}
			e.Meter = meter
			for n, event := range tt.events {
				event.At = time.Unix(int64(n+1), 0)
				if err := e.Timeline.Write(7, event); err != nil {
					t.Fatal(err)
				}
			}
			e.SettleUnstartedRun(t.Context(), 7, false)
			asked, _ := os.ReadFile(filepath.Join(q.Dir, "asked"))
			if got := strings.Contains(string(asked), "requeue 7"); got != tt.requeued {
				t.Errorf("requeued: %v; asked:\n%s", got, asked)
			}
			if got := strings.Contains(string(asked), "singularity: "); got != (tt.want != "") || !strings.Contains(string(asked), tt.want) {
				t.Errorf("want the comment %q; asked:\n%s", tt.want, asked)
			}
			events, err := e.Timeline.Read(7)
			told := len(events) > 0 && !events[len(events)-1].At.IsZero() && events[len(events)-1].Text == tt.want && events[len(events)-1].Where == "n1"
			if err != nil || told != (tt.want != "") {
				t.Errorf("time line: %+v, %v", events, err)
			}
			if told && !slices.Equal(meter.events, []string{events[len(events)-1].What}) || !told && len(meter.events) > 0 {
				t.Errorf("metrics have %q", meter.events)
			}
		})
	}
}

// TestHeldWithLastReason: after too many runs that were not restored the job is held with the reason of the last, and once a person
// has released the job, the restore is tried again as often.
func TestHeldWithLastReason(t *testing.T) {
	q := slurmtest.NewQueue(t)
	restartedJob(t, q, "FAILED")
	e := endsOn(t, "n1", t.TempDir(), q, 7)
	meter := &eventMeter{}
	e.Store, e.Meter = storeWithCheckpoint(t), meter
	rec, err := e.Records.Load(7)
	if err != nil {
		t.Fatal(err)
	}
	rec.UnrestoredRuns = records.MaxUnrestoredRuns
	if err := e.Records.Save(rec); err != nil {
		t.Fatal(err)
	}
	const reason = "node n2: proxyd does not answer"
	for n, event := range []records.Event{{What: records.EventRequeued, Text: reason}, records.MakeStartEvent(4, []string{"n1", "n2"}, 3)} {
		event.At = time.Unix(int64(n+1), 0)
		if err := e.Timeline.Write(7, event); err != nil {
			t.Fatal(err)
		}
	}
	e.SettleUnstartedRun(t.Context(), 7, false)
	asked, _ := os.ReadFile(filepath.Join(q.Dir, "asked"))
	want := "held: 4 runs in a row ended before the job was restored, last: " + reason
	if !strings.Contains(string(asked), want) || !strings.Contains(string(asked), "requeuehold 7") {
		t.Errorf("want %q; asked:\n%s", want, asked)
	}
	events, err := e.Timeline.Read(7)
	if err != nil || events[len(events)-1].What != records.EventHeld || !strings.Contains(events[len(events)-1].Text, reason) {
		t.Errorf("time line: %+v, %v", events, err)
	}
	if !slices.Equal(meter.events, []string{records.EventHeld}) {
		t.Errorf("metrics have %q", meter.events)
	}
	if rec, err := e.Records.Load(7); err != nil || rec.UnrestoredRuns != 0 {
		t.Errorf("record: %+v, %v", rec, err)
	}
}
