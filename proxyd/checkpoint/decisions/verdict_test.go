// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

func TestDecideVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		job  slurm.Job
		then string
		want Verdict
	}{
		"cancel":               {slurm.Job{State: "COMPLETING"}, "requeue", ForwardSignal},
		"signal":               {slurm.Job{State: "RUNNING"}, "requeue", ForwardSignal},
		"requeue":              {slurm.Job{State: "COMPLETING", Restarts: 3}, "requeue", Requeued},
		"preemption":           {slurm.Job{State: "COMPLETING", Restarts: 3, Preempted: "2026-11-20T16:44:48"}, "requeue", Requeued},
		"node down":            {slurm.Job{State: "PENDING", Restarts: 3}, "requeue", Requeued},
		"grace":                {slurm.Job{State: "RUNNING", Preempted: "2026-11-20T16:44:48"}, "requeue", Preempted},
		"time limit":           {slurm.Job{State: "COMPLETING", Reason: "TimeLimit", Requeue: true}, "requeue", TimeLimit},
		"time limit, held":     {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit", Requeue: true}, "hold", TimeLimit},
		"time limit, the end":  {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit", Requeue: true}, "end", ForwardSignal},
		"time limit, no again": {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit"}, "requeue", ForwardSignal},
	} {
		restarts := 2
		if c.job.Restarts == 0 {
			c.job.Restarts = restarts
		}
		if got := DecideVerdict(&c.job, restarts, c.then); got != c.want {
			t.Errorf("%s: DecideVerdict(%+v, %d restarts, %q) = %v, want %v", name, c.job, restarts, c.then, got, c.want)
		}
	}
}

func TestBecause(t *testing.T) {
	const set = "2026-11-20T16:44:48"
	for _, c := range []struct {
		name string
		v    Verdict
		job  slurm.Job
		want string
	}{
		{"requeue", Requeued, slurm.Job{State: "COMPLETING"}, "requeue"},
		{"preemption", Requeued, slurm.Job{State: "COMPLETING", Preempted: set}, "preemption"},
		{"preemption with grace", Preempted, slurm.Job{State: "RUNNING", Preempted: set}, "preemption"},
		{"time limit of a job that was to be preempted", TimeLimit, slurm.Job{State: "COMPLETING", Preempted: set}, "time limit"},
		{"cancel", ForwardSignal, slurm.Job{State: "COMPLETING"}, "passed on"},
	} {
		if got := DescribeVerdict(c.v, &c.job); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
