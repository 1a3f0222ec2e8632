// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"net/netip"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

func TestWhy(t *testing.T) {
	for name, c := range map[string]struct {
		job  slurm.Job
		then string
		want verdict
	}{
		"cancel":               {slurm.Job{State: "COMPLETING"}, "requeue", forwardSignal},
		"signal":               {slurm.Job{State: "RUNNING"}, "requeue", forwardSignal},
		"requeue":              {slurm.Job{State: "COMPLETING", Restarts: 3}, "requeue", requeued},
		"preemption":           {slurm.Job{State: "COMPLETING", Restarts: 3, Preempted: "2026-11-20T16:44:48"}, "requeue", requeued},
		"node down":            {slurm.Job{State: "PENDING", Restarts: 3}, "requeue", requeued},
		"grace":                {slurm.Job{State: "RUNNING", Preempted: "2026-11-20T16:44:48"}, "requeue", preempted},
		"time limit":           {slurm.Job{State: "COMPLETING", Reason: "TimeLimit", Requeue: true}, "requeue", timeLimit},
		"time limit, held":     {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit", Requeue: true}, "hold", timeLimit},
		"time limit, the end":  {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit", Requeue: true}, "end", forwardSignal},
		"time limit, no again": {slurm.Job{State: "TIMEOUT", Reason: "TimeLimit"}, "requeue", forwardSignal},
	} {
		restarts := 2
		if c.job.Restarts == 0 {
			c.job.Restarts = restarts
		}
		if got := decideVerdict(&c.job, restarts, c.then); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBecause(t *testing.T) {
	const set = "2026-11-20T16:44:48"
	for _, c := range []struct {
		name string
		v    verdict
		job  slurm.Job
		want string
	}{
		{"requeue", requeued, slurm.Job{State: "COMPLETING"}, "requeue"},
		{"preemption", requeued, slurm.Job{State: "COMPLETING", Preempted: set}, "preemption"},
		{"preemption with grace", preempted, slurm.Job{State: "RUNNING", Preempted: set}, "preemption"},
		{"time limit of a job that was to be preempted", timeLimit, slurm.Job{State: "COMPLETING", Preempted: set}, "time limit"},
		{"cancel", forwardSignal, slurm.Job{State: "COMPLETING"}, "passed on"},
	} {
		if got := describeVerdict(c.v, &c.job); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestComment(t *testing.T) {
	for _, c := range []struct{ had, text, want string }{
		{"", "a", "singularity: a"},
		{"mine", "a", "mine; singularity: a"},
		{"mine; singularity: a", "b\n\"c\"", "mine; singularity: b  c "},
		{"singularity: a", "b", "singularity: b"},
	} {
		if got := composeComment(c.had, c.text); got != c.want {
			t.Errorf("%q and %q: %q", c.had, c.text, got)
		}
	}
}

func TestRewriteHosts(t *testing.T) {
	rec := &records.Record{Nodes: []string{"n1", "n2"}, Addresses: []netip.Addr{netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("100.64.0.2")}}
	got := rewriteHosts("127.0.0.1 localhost # n1\n10.0.0.1\tctl\n10.0.0.2 n1.site n1 login\n10.0.0.3 n2\n# nothing\n10.0.0.4 n12\n", rec)
	want := "100.64.0.1\tn1\n100.64.0.2\tn2\n127.0.0.1\tlocalhost\n10.0.0.1\tctl\n10.0.0.2\tlogin\n10.0.0.4\tn12\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
