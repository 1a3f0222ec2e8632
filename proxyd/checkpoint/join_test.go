// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// TestBeginsAnew: a run of a job without a checkpoint that Slurm starts again says so in the job's log and comment,
// however short the run before was, and even if its events are unknown.
func TestBeginsAnew(t *testing.T) {
	start := time.Date(2026, 7, 1, 11, 59, 0, 0, time.Local)
	event := func(what string, after time.Duration) records.Event {
		return records.Event{At: start.Add(after), What: what, Where: "n1"}
	}
	const lost = "; 59s of work are lost"
	for name, tt := range map[string]struct {
		noRecord  bool // the run before was requeued before this daemon had heard of that run
		beginAnew bool // the run before had ended by itself
		events    []records.Event
		want      string // behind the words of line and comment; "-": there is neither
		why       string // at the end of the comment
	}{
		"it ran for a minute":      {events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, 59*time.Second)}, want: lost},
		"it ran for half a second": {events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, time.Second/2)}},
		"its start was not noted":  {},
		"its checkpoint failed": {events: []records.Event{event(records.EventStarted, 0), {At: start, What: records.EventFailed, Text: "checkpoint 1 (requeue): prepare: why"},
			event(records.EventEnded, time.Second/2)}, why: "; checkpoint 1 (requeue): prepare: why"},
		"it has no record":           {noRecord: true},
		"it had ended by itself":     {beginAnew: true, want: "-"},
		"requeued within the second": {events: []records.Event{event(records.EventStarted, time.Minute+time.Second/2)}},
	} {
		t.Run(name, func(t *testing.T) {
			q := slurmtest.NewQueue(t)
			const scontrol = "#!/bin/sh\ncd \"$(dirname \"$0\")\"; echo \"$*\" >>asked; [ \"$1\" != show ] || echo n1\n"
			noError(t, os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(scontrol), 0o755))
			const job = "7|1001|RUNNING|None|1|1|1|n1|2026-07-01T12:00:05|N/A|7|N/A|N/A|N/A|n1|2026-07-01T12:00:00|N/A|\n" // its second run
			noError(t, os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(job), 0o644))
			c := newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
			c.Slurm = q.Slurm()
			var err error
			c.Pool, err = overlay.OpenPool(filepath.Join(t.TempDir(), "addresses"), netip.MustParsePrefix("100.64.0.0/10"))
			noError(t, err)
			rec := recordOf(7)
			rec.BeginAnew = tt.beginAnew
			if !tt.noRecord {
				noError(t, c.records.Save(rec))
			}
			for _, e := range tt.events {
				noError(t, c.timeline.Write(7, e))
			}
			program := filepath.Join(t.TempDir(), "program")
			noError(t, os.WriteFile(program, nil, 0o755))
			c.kits.Wrapper, c.Devices.Kind = program, kindNone
			j := c.jobFor(7)
			_, err = j.lookUpRun(t.Context(), nodesocket.Join{Job: 7, Step: records.BatchProgram, UID: 1001, Warden: program})
			noError(t, err)
			c.background.Wait()
			asked, err := os.ReadFile(filepath.Join(q.Dir, "asked"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			const words = "begins anew, for there is no checkpoint"
			line, comment := j.report.StartLine(), string(asked)
			if tt.want == "-" {
				if strings.Contains(line+comment, words) {
					t.Errorf("line %q and comment %q say that the run begins anew", line, comment)
				}
				return
			}
			if !strings.HasPrefix(line, "this run "+words+tt.want+"; with --singularity-interval=TIME") {
				t.Errorf("line for the job's log %q", line)
			}
			if !strings.Contains(comment, "singularity: "+words+tt.want+tt.why+"\n") {
				t.Errorf("comment of the job: %q", comment)
			}
		})
	}
}
