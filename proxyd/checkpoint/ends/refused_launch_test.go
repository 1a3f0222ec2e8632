// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm/slurmtest"
)

// shownJob is job 7 as Slurm shows it from a time on.
type shownJob struct {
	after         time.Duration
	state, reason string
	restarts      int // 0: as many as the run that has ended
}

// showJob has Slurm show the job.
func (s shownJob) showJob(t *testing.T, q slurmtest.Queue, run int) {
	line := fmt.Sprintf("7|1001|%s|%s|%d|1|1|n1|2026-11-20T16:41:18|N/A|7|N/A|N/A|N/A||2026-07-01T12:00:00|N/A|\n", s.state, cmp.Or(s.reason, "None"), cmp.Or(s.restarts, run))
	if err := os.WriteFile(filepath.Join(q.Dir, "jobs"), []byte(line), 0o644); err != nil {
		t.Error(err)
	}
}

// TestRefusedLaunch: Slurm ends a job whose run slurmctld has forgotten, because a node has refused to launch the run once
// more. The job is requeued. A job that has ended itself, or that a person has ended, stays over.
func TestRefusedLaunch(t *testing.T) {
	const run = 2
	const goesOn = "requeued: Slurm ended it because the launch of its run had failed, as after a failure of slurmctld; its next run goes on from checkpoint 3"
	waits := shownJob{state: "PENDING", reason: "BeginTime"}
	runs := shownJob{after: time.Second, state: "RUNNING"}
	refused := shownJob{after: 2 * time.Second, state: "FAILED", reason: "NonZeroExitCode"}
	for name, tt := range map[string]struct {
		shown    []shownJob
		unbegun  bool // the script of the run that was cut had not begun
		anew     bool // the next run begins anew
		started  time.Duration
		requeued bool
	}{
		"refused at once":                       {shown: []shownJob{{state: "FAILED", reason: "NonZeroExitCode"}}, requeued: true},
		"refused after a wait":                  {shown: []shownJob{waits, refused}, requeued: true},
		"refused when it seemed to run":         {shown: []shownJob{waits, runs, refused}, requeued: true},
		"refused while the nodes end the run":   {shown: []shownJob{{state: "COMPLETING"}, refused}, requeued: true},
		"refused before its script had begun":   {shown: []shownJob{waits, refused}, unbegun: true, requeued: true},
		"refused, and its next run begins anew": {shown: []shownJob{waits, refused}, anew: true},
		"a task was refused":                    {shown: []shownJob{{state: "FAILED", reason: "NonZeroExitCode"}}, unbegun: true},
		"killed by a signal":                    {shown: []shownJob{{state: "FAILED", reason: "RaisedSignal:9(Killed)"}}},
		"cancelled":                             {shown: []shownJob{waits, {after: time.Second, state: "CANCELLED"}}},
		"out of memory":                         {shown: []shownJob{{state: "OUT_OF_MEMORY", reason: "OutOfMemory"}}},
		"requeued":                              {shown: []shownJob{{state: "PENDING", restarts: 3}, {after: time.Second, state: "FAILED", reason: "NonZeroExitCode", restarts: 3}}},
		"launched again, and then it fails":     {shown: []shownJob{waits, runs, {after: 9 * time.Second, state: "FAILED", reason: "NonZeroExitCode"}}, started: 1500 * time.Millisecond},
		"waits for long":                        {shown: []shownJob{waits, {after: time.Hour, state: "FAILED", reason: "NonZeroExitCode"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := slurmtest.NewQueue(t)
			e := endsOn(t, "n1", t.TempDir(), q, 7)
			e.Store = storeWithCheckpoint(t)
			rec := recordOf(7)
			rec.BeginAnew = tt.anew
			if err := errors.Join(e.Records.Save(rec), os.WriteFile(filepath.Join(q.Dir, "scontrol"), []byte(requeuingControl), 0o755)); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				for _, s := range tt.shown {
					if s.after == 0 {
						s.showJob(t, q, run)
						continue
					}
					timer := time.AfterFunc(s.after, func() { s.showJob(t, q, run) })
					defer timer.Stop()
				}
				if tt.started > 0 {
					time.AfterFunc(tt.started, func() {
						again := records.MakeStartEvent(run+1, []string{"n1"}, 3)
						again.At = time.Now()
						if err := e.Timeline.Write(7, again); err != nil {
							t.Error(err)
						}
					})
				}
				began := time.Now()
				if err := e.RequeueRefusedLaunch(t.Context(), CutRun{Job: 7, Number: run, Ended: time.Now(), Killed: !tt.unbegun}); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("took %s", took)
				}
			})
			asked, _ := os.ReadFile(filepath.Join(q.Dir, "asked"))
			if got := strings.Contains(string(asked), "requeue 7"); got != tt.requeued {
				t.Errorf("requeued: %v; asked:\n%s", got, asked)
			}
			events, err := e.Timeline.Read(7)
			if err != nil {
				t.Fatal(err)
			}
			last := events[len(events)-1]
			if told := last.What == records.EventLaunchFailed && last.Text == goesOn && strings.Contains(string(asked), "singularity: "+goesOn); told != tt.requeued {
				t.Errorf("the last event is %+v; asked:\n%s", last, asked)
			}
		})
	}
}
