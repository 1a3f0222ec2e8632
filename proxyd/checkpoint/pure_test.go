// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
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

// TestLayout: every capsule has one node, in order, none is split, and the two directions
// agree.
func TestLayout(t *testing.T) {
	for capsules := 1; capsules <= 9; capsules++ {
		for nodes := 1; nodes <= 12; nodes++ {
			seen := 0
			for n := range nodes {
				for _, k := range records.CapsulesOfNode(n, capsules, nodes) {
					if k != seen || records.NodeOfCapsule(k, capsules, nodes) != n {
						t.Fatalf("%d capsules on %d nodes: capsule %d", capsules, nodes, k)
					}
					seen++
				}
			}
			if seen != capsules || records.NodeOfCapsule(0, capsules, nodes) != 0 {
				t.Errorf("%d capsules on %d nodes: only %d are placed", capsules, nodes, seen)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		key, step string
		task      int
		want, of  string
	}{{"s0-3", "7", 12, "s0-3.12", "s0-3"}, {"", "7", 0, "x7.0", "x7"}} {
		got := records.TaskName(c.key, c.step, c.task)
		key, task, ok := records.ParseTaskName(got)
		if got != c.want || key != c.of || task != c.task || !ok {
			t.Errorf("%+v: %s, and back %s %d %v", c, got, key, task, ok)
		}
	}
	if _, _, ok := records.ParseTaskName(records.BatchProgram); ok {
		t.Error("the batch script parses as a task")
	}
}

func TestTasks(t *testing.T) {
	m := &records.Meta{Capsules: []records.CapsuleMeta{
		{Index: 0, Programs: []records.ProgramMeta{{Name: records.BatchProgram}, {Name: "s0-1.0"}}, Ended: map[string]syscall.WaitStatus{"s0-1.2": 256}},
		{Index: 1, Programs: []records.ProgramMeta{{Name: "s0-1.1"}, {Name: "s0-2.0"}}},
	}}
	if got, err := m.StepTasks("s0-1"); err != nil || !reflect.DeepEqual(got, []int{0, 1, 0}) {
		t.Errorf("tasks %v, %v", got, err)
	}
	if got, err := m.StepTasks("s0-9"); err != nil || len(got) != 0 {
		t.Errorf("an unknown step: tasks %v, error %v", got, err)
	}
	m.Capsules[0].Ended = nil
	m.Capsules[1].Programs[0].Name = "s0-1.4"
	if _, err := m.StepTasks("s0-1"); err == nil || !strings.Contains(err.Error(), "task 4 among them") {
		t.Errorf("tasks with a gap: %v", err)
	}
	if m.CapsuleOf("s0-2.0").Index != 1 || m.CapsuleOf("s0-2.1") != nil {
		t.Error("capsuleOf finds the wrong capsule")
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

func TestParseAddrPort(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"0000000000000000FFFF00000100007F:0016": "127.0.0.1:22",
		"00000000000000000000000001000000:0016": "[::1]:22",
	} {
		if got, ok := parseAddrPort(in); !ok || got.String() != want {
			t.Errorf("%s: %s %v", in, got, ok)
		}
	}
	for _, bad := range []string{"", "x", "0100007F", "01:16", "0100007F:x"} {
		if got, ok := parseAddrPort(bad); ok {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestPMI(t *testing.T) {
	for environ, want := range map[string]string{
		"SLURM_JOB_ID=26\x00PMI_FD=16\x00PMI_JOBID=26.0\x00PMI_RANK=0\x00": "16",
		"PMI_FD=16\x00PMI_RANK=0\x00SLURM_JOB_ID=26\x00":                   "", // mpiexec
		"SLURM_JOB_ID=2\x00PMI_FD=16\x00PMI_JOBID=26.0\x00":                "",
		"PMI_FD=16\x00PMI_JOBID=.0\x00":                                    "",
		"":                                                                 "",
	} {
		if got := pmiDescriptor(environ); got != want {
			t.Errorf("%q: %q, want %q", environ, got, want)
		}
	}
}

// TestEndedCaptured: a task that ended while other tasks were being frozen is not lost.
func TestEndedCaptured(t *testing.T) {
	got, err := endedCaptured([]capsule.Program{
		{Name: "batch", Captured: true},
		{Name: "s0-1.0", Captured: true, Ended: true, Status: 0x300},
		{Name: "s0-1.1", Captured: true, Frozen: true},
		{Name: "s0-1.2", Captured: true, Ended: true, Status: syscall.WaitStatus(syscall.SIGTERM)},
		{Name: "s0-1.3", Waiting: true},
	})
	if want := map[string]syscall.WaitStatus{"s0-1.0": 0x300, "s0-1.2": syscall.WaitStatus(syscall.SIGTERM)}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := endedCaptured([]capsule.Program{{Name: "s0-1.0", Captured: true, Ended: true, Status: syscall.WaitStatus(syscall.SIGKILL)}}); err == nil {
		t.Error("a killed task counts as ended by itself")
	}
}
