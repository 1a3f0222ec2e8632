// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func timeAt(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// runningJob is a job that runs since a second, on 4 GPUs.
func runningJob(state sdk.JobState, restarts, since int) sdk.Job {
	j := sdk.Job{ID: 1, Tier: sdk.Basic, State: state, Restarts: restarts, Request: 4, GPUs: 4}
	if state == sdk.Running || state == sdk.Leaving || state == sdk.Suspended {
		j.Started = timeAt(since)
		j.Shares = []sdk.Share{{Node: 0, Capsules: 1, GPUs: 0b11}, {Node: 1, Capsules: 1, GPUs: 0b11}}
	}
	return j
}

// savedJob is a job with a checkpoint, for which the job stood still 3 s.
func savedJob(j sdk.Job, at int) sdk.Job {
	j.Checkpoint = sdk.Checkpoint{At: timeAt(at), Dump: 3 * time.Second, Restore: 5 * time.Second, Measured: true}
	return j
}

func TestLost(t *testing.T) {
	type look struct {
		at   int
		jobs []sdk.Job
	}
	one := func(at int, j sdk.Job) look { return look{at, []sdk.Job{j}} }
	for _, c := range []struct {
		name  string
		looks []look
		want  map[reason]float64
	}{
		{"it runs", []look{one(0, runningJob(sdk.Running, 0, -100)), one(200, runningJob(sdk.Running, 0, -100))}, nil},
		{
			"it is preempted after a checkpoint and resumes",
			[]look{
				one(100, runningJob(sdk.Running, 0, 0)), one(103, runningJob(sdk.Leaving, 0, 0)), one(113, runningJob(sdk.Waiting, 1, 0)),
				one(150, savedJob(runningJob(sdk.Running, 1, 150), 99)), one(220, savedJob(runningJob(sdk.Running, 1, 150), 99)),
			},
			// 10 s leaving, 3 s dump, 5 s restore; until 102 the job was dumped, at 100 seen last.
			map[reason]float64{stopped: 40, dumped: 12, restored: 20},
		},
		{
			"its node dies a while after a checkpoint",
			[]look{
				one(50, savedJob(runningJob(sdk.Running, 0, 0), 40)), one(100, savedJob(runningJob(sdk.Running, 0, 0), 40)),
				one(105, savedJob(runningJob(sdk.Waiting, 1, 0), 40)), one(165, savedJob(runningJob(sdk.Waiting, 1, 0), 40)), one(170, savedJob(runningJob(sdk.Waiting, 1, 0), 40)),
			},
			map[reason]float64{redone: 4 * (100 - 43)},
		},
		{
			"it has no checkpoint",
			[]look{one(0, runningJob(sdk.Running, 0, -100)), one(10, runningJob(sdk.Running, 0, -100)), one(20, runningJob(sdk.Running, 1, 15)), one(90, runningJob(sdk.Running, 1, 15))},
			map[reason]float64{redone: 4 * 110},
		},
		{
			"the checkpoint is known later than the requeue",
			[]look{one(100, runningJob(sdk.Running, 0, 0)), one(105, runningJob(sdk.Waiting, 1, 0)), one(130, savedJob(runningJob(sdk.Waiting, 1, 0), 99)), one(170, savedJob(runningJob(sdk.Waiting, 1, 0), 99))},
			map[reason]float64{dumped: 12},
		},
		{
			"it is suspended, and then nobody looks for long",
			[]look{one(0, runningJob(sdk.Suspended, 0, -5)), one(10, runningJob(sdk.Suspended, 0, -5)), one(1000, runningJob(sdk.Suspended, 0, -5))},
			map[reason]float64{stopped: 40},
		},
		{
			"it is cancelled after a requeue",
			[]look{one(0, runningJob(sdk.Running, 0, -100)), one(10, runningJob(sdk.Waiting, 1, 0)), {20, nil}, {100, nil}},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l losses
			got := map[reason]float64{}
			for _, look := range c.looks {
				to := tally{held: func(*sdk.Job, float64) {}}
				to.lost = func(j *sdk.Job, r reason, gpuSeconds float64) {
					if j.Tier != sdk.Basic {
						t.Errorf("lost by %v", j.Tier)
					}
					got[r] += gpuSeconds
				}
				l.countLosses(&sdk.Snapshot{Time: timeAt(look.at), Jobs: look.jobs}, to)
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("lost %v, want %v", got, c.want)
			}
		})
	}
}
