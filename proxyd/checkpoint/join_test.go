// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
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

// startJob boots a node on which Slurm has started job 7, after a number of restarts. The file asked in dir has the
// arguments of each call of scontrol; program stands for the files of the kit.
func startJob(t *testing.T, restarts int) (c *Conductor, dir, program string) {
	t.Helper()
	q := slurmtest.NewQueue(t)
	const scontrol = "#!/bin/sh\ncd \"$(dirname \"$0\")\"; echo \"$*\" >>asked; [ \"$1\" != show ] || echo n1\n"
	noError(t, os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(scontrol), 0o755))
	job := fmt.Sprintf("7|1001|RUNNING|None|%d|1|1|n1|2026-07-01T12:00:05|N/A|7|N/A|N/A|N/A|n1|2026-07-01T12:00:00|N/A|\n", restarts)
	noError(t, os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(job), 0o644))
	c = newLab(t).bootNode("n1", filepath.Join(t.TempDir(), "stage"), nil)
	c.Slurm = q.Slurm()
	var err error
	c.Pool, err = overlay.OpenPool(filepath.Join(t.TempDir(), "addresses"), netip.MustParsePrefix("100.64.0.0/10"))
	noError(t, err)
	program = filepath.Join(t.TempDir(), "program")
	noError(t, os.WriteFile(program, nil, 0o755))
	c.kits.Wrapper, c.Devices.Kind = program, kindNone
	return c, q.Dir, program
}

// TestBeginsAnew: a run of a job without a checkpoint that Slurm starts again says so in the job's log and comment,
// however short the run before was, and even if its events are unknown.
func TestBeginsAnew(t *testing.T) {
	start := time.Date(2026, 7, 1, 11, 59, 0, 0, time.Local)
	event := func(what string, after time.Duration) records.Event {
		return records.Event{At: start.Add(after), What: what, Where: "n1"}
	}
	const lost = "; 59s of work are lost"
	for name, tt := range map[string]struct {
		noRecord  bool          // the run before was requeued before this daemon had heard of that run
		unbegun   bool          // the run before was requeued before the batch script was admitted
		hold      bool          // the site holds jobs without a checkpoint
		beginAnew bool          // the run before had ended by itself
		interval  time.Duration // of the job's options
		events    []records.Event
		want      string // behind the words of line and comment; "-": there is neither
		why       string // at the end of the comment, and of the line instead of advice
		advice    string // at the end of the line; "": the usual advice
	}{
		"it ran for a minute": {events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, 59*time.Second)}, want: lost},
		"its interval is set": {interval: 90 * time.Second, events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, 59*time.Second)}, want: lost,
			advice: "; the first is made 1m30s after the start, as --singularity-interval says, or by singctl checkpoint"},
		"it ran for half a second": {events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, time.Second/2)}},
		"its start was not noted":  {},
		"its checkpoint failed": {events: []records.Event{event(records.EventStarted, 0), {At: start, What: records.EventFailed, Text: "checkpoint 1 (requeue): prepare: why"},
			event(records.EventEnded, time.Second/2)}, why: "; checkpoint 1 (requeue): prepare: why"},
		"it has no record":           {noRecord: true},
		"it had ended by itself":     {beginAnew: true, want: "-"},
		"its script had not begun":   {unbegun: true, events: []records.Event{event(records.EventStarted, 0), event(records.EventEnded, 59*time.Second)}, want: "-"},
		"nor begun, and sites hold":  {unbegun: true, hold: true, want: "-"},
		"requeued within the second": {events: []records.Event{event(records.EventStarted, time.Minute+time.Second/2)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir, program := startJob(t, 1)
			rec := recordOf(7)
			rec.BeginAnew, rec.ScriptUnbegun, rec.Options.Interval = tt.beginAnew, tt.unbegun, tt.interval
			if !tt.noRecord {
				noError(t, c.records.Save(rec))
			}
			for _, e := range tt.events {
				noError(t, c.timeline.Write(7, e))
			}
			if tt.hold {
				c.WithoutCheckpoint = "hold"
			}
			j := c.jobFor(7)
			_, err := j.lookUpRun(t.Context(), nodesocket.Join{Job: 7, Step: records.BatchProgram, UID: 1001, Warden: program})
			noError(t, err)
			c.background.Wait()
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			const words = "begins anew, for there is no checkpoint"
			line, comment := j.report.StartLine(), string(asked)
			if tt.want == "-" {
				if strings.Contains(line+comment, words) {
					t.Errorf("line %q and comment %q say that the run begins anew", line, comment)
				}
				events, err := c.timeline.Read(7)
				noError(t, err)
				last := events[len(events)-1]
				if last.AfterEnd != tt.beginAnew {
					t.Errorf("the last event %+v, want that the run before had ended by itself: %v", last, tt.beginAnew)
				}
				if last.What != records.EventStarted || last.Run != 2 || tt.unbegun && strings.Contains(last.Text, "anew") {
					t.Errorf("the last event %+v, want the start of run 2, which does not begin anew", last)
				}
				return
			}
			advice := cmp.Or(tt.why, tt.advice, "; with --singularity-interval=TIME, or singctl checkpoint, there is one when a node dies")
			if want := "this run " + words + tt.want + advice; line != want {
				t.Errorf("line for the job's log %q, want %q", line, want)
			}
			if !strings.Contains(comment, "singularity: "+words+tt.want+tt.why+"\n") {
				t.Errorf("comment of the job: %q", comment)
			}
		})
	}
}

// TestScriptUnbegun: the record of a job says that the batch script has not begun, from its creation until the script is
// admitted.
func TestScriptUnbegun(t *testing.T) {
	c, _, program := startJob(t, 0)
	j := c.jobFor(7)
	_, err := j.lookUpRun(t.Context(), nodesocket.Join{Job: 7, Step: records.BatchProgram, UID: 1001, Warden: program})
	noError(t, err)
	first, err := c.records.Load(7)
	noError(t, err)
	if !first.ScriptUnbegun {
		t.Error("the record of a new job does not say that the script has not begun")
	}
	for range 2 {
		runFence{j}.noteBegunScript()
		now, err := c.records.Load(7)
		noError(t, err)
		if now.ScriptUnbegun || j.run.Snapshot().Record.ScriptUnbegun {
			t.Error("the record says that the script has not begun")
		}
	}
}

// TestForgottenStart: a task of a run that slurmctld has forgotten, and shows without nodes, is refused, and the daemon
// goes on.
func TestForgottenStart(t *testing.T) {
	c, dir, program := startJob(t, 1)
	noError(t, c.records.Save(recordOf(7)))
	const waits = "7|1001|PENDING|BeginTime|1|1|1||2026-07-01T12:00:05|N/A|7|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n"
	noError(t, os.WriteFile(filepath.Join(dir, "jobs"), []byte(waits), 0o644))
	task := nodesocket.Join{Job: 7, Step: records.BatchProgram, UID: 1001, Warden: program}
	if _, err := c.jobFor(7).lookUpRun(t.Context(), task); !errors.Is(err, errForgottenStart) {
		t.Errorf("lookUpRun: %v, want %v", err, errForgottenStart)
	}
}
