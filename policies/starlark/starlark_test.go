// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package starlark

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
)

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "starlark")) }

// loadSite makes a policy of a file's text.
func loadSite(text string) (*site, error) {
	s := newSite()
	s.settings.File, s.settings.Steps = "policy.star", 1_000_000
	return s, s.loadFile([]byte(text))
}

func busySnapshot() *sdk.Snapshot {
	return sdktest.Cluster(sdktest.Size{Nodes: 4, GPUs: 8, Jobs: 30, Fill: 0.8, Seed: 3})
}

func TestEachVerb(t *testing.T) {
	for call, want := range map[string]sdk.Intent{
		`preempt(1000, "r", park = True, for_job = 1001)`: {Verb: sdk.Preempt, Job: 1000, Reason: "r", Park: true, For: 1001},
		`preempt(cluster.jobs[0], reason = "r")`:          {Verb: sdk.Preempt, Job: 1000, Reason: "r"},
		`resume(1000, "r", where = [("n1", 1, 2)])`:       {Verb: sdk.Resume, Job: 1000, Reason: "r", Where: []sdk.Spot{{Node: "n1", Capsules: 1, GPUs: 2}}},
		`migrate(1000, "r", avoid = ["n1", "n2"])`:        {Verb: sdk.Migrate, Job: 1000, Reason: "r", Avoid: []string{"n1", "n2"}},
		`resize(1000, "r", 4)`:                            {Verb: sdk.Resize, Job: 1000, Reason: "r", GPUs: 4},
		`hold(1000, "r")`:                                 {Verb: sdk.Hold, Job: 1000, Reason: "r"},
		`release(1000, "r")`:                              {Verb: sdk.Release, Job: 1000, Reason: "r"},
		`requeue(1000, "r", qos = "basic")`:               {Verb: sdk.Requeue, Job: 1000, Reason: "r", QOS: "basic"},
		`place(1000, "r", [("n1", 2, 4)])`:                {Verb: sdk.Place, Job: 1000, Reason: "r", Where: []sdk.Spot{{Node: "n1", Capsules: 2, GPUs: 4}}},
	} {
		s, err := loadSite("def decide(cluster):\n    return [" + call + "]\n")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Decide(t.Context(), busySnapshot())
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("Decide by %s = %+v, %v; want %+v", call, got, err, want)
		}
	}
}

func TestAFileLooksAtTheCluster(t *testing.T) {
	s, err := loadSite(`
LIMIT = 0.5

def decide(cluster):
    """Everything that can be looked at is there, and of the kind that it should be."""
    for thing in [cluster, cluster.jobs[0], cluster.nodes[0]]:
        for name in dir(thing):
            getattr(thing, name)
    total = 0
    for n in cluster.nodes:
        total += n.gpus
    held = sum_of([j.gpus for j in cluster.jobs if j.state == "running"])
    if held / total < LIMIT:
        return None
    longest = sorted([j for j in cluster.jobs if j.state == "running" and j.tier == "basic" and j.preemptable], key = lambda j: -j.runs_for)
    return [preempt(j, reason = "%d of %d GPUs are held; it has run for %d s" % (held, total, j.runs_for)) for j in longest[:1]]

def sum_of(numbers):
    total = 0
    for n in numbers:
        total += n
    return total
`)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := busySnapshot()
	got, err := s.Decide(t.Context(), snapshot)
	if err != nil || len(got) != 1 {
		t.Fatalf("Decide = %v, %v, want a single intent", got, err)
	}
	if err := sdktest.Valid(snapshot, got); err != nil {
		t.Error(err)
	}
	j, _ := snapshot.Job(got[0].Job)
	for i := range snapshot.Jobs {
		o := &snapshot.Jobs[i]
		if o.State == sdk.Running && o.Tier == sdk.Basic && o.Preemptable && o.Started.Before(j.Started) {
			t.Errorf("job %d has run for longer than %d", o.ID, j.ID)
		}
	}
}

// setZone sets the controller's time zone until the test ends.
func setZone(t *testing.T, to *time.Location) {
	t.Helper()
	before := zone
	t.Cleanup(func() { zone = before })
	zone = to
}

// TestTimeOfAPolicy: hours and weekdays are of the site's time zone; a checkpoint's age and the time that a job has
// left are counted at the snapshot's time.
func TestTimeOfAPolicy(t *testing.T) {
	setZone(t, time.FixedZone("east", 9*3600))
	s, err := loadSite(`
def decide(cluster):
    return [hold(j, "%d %d %s %d %d %d" % (cluster.hour, cluster.local_hour, cluster.weekday, j.time_left, j.checkpoint_age, j.limit)) for j in cluster.jobs]
`)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 7, 20, 30, 0, 0, time.UTC) // a Saturday, and Sunday in the east
	snapshot := &sdk.Snapshot{Time: now, Jobs: []sdk.Job{
		{ID: 1, State: sdk.Running, Started: now.Add(-time.Hour), Limit: 3 * time.Hour, Checkpoint: sdk.Checkpoint{At: now.Add(-10 * time.Minute)}},
		{ID: 2, State: sdk.Running, Started: now.Add(-4 * time.Hour), Limit: 3 * time.Hour},
		{ID: 3, State: sdk.Waiting, Limit: 3 * time.Hour},
		{ID: 4, State: sdk.Running, Started: now.Add(-time.Hour)},
	}}
	got, err := s.Decide(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"20 5 sunday 7200 600 10800", "20 5 sunday 0 -1 10800", "20 5 sunday 10800 -1 10800", "20 5 sunday 0 -1 0"}
	for i := range want {
		if i >= len(got) || got[i].Reason != want[i] {
			t.Errorf("job %d: %v, want %s", i+1, got, want[i])
		}
	}
	if _, err := loadSite("def decide(c):\n    return [] if c.weekday == \"Sunday\" else None\n"); err == nil || !strings.Contains(err.Error(), "is never") {
		t.Errorf("a weekday that never is: %v", err)
	}
}

// The mistake of a wrong file is reported at loading, or with the line at a decision.
func TestAFileThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"def decide(cluster)\n":                  "policy.star:2:1: got newline, want ':'",
		"x = 1\n":                                "no function decide(cluster)",
		"def decide():\n    return []\n":         "one parameter",
		"def decide(c):\n    return undefined\n": "undefined: undefined",
		"load(\"other.star\", \"f\")\ndef decide(c):\n    return []\n": "load not implemented",
		"def decide(c):\n    return open(\"/etc/passwd\")\n":           "undefined: open",
		"def decide(c):\n    return 1\n":                               "not int",
		"def decide(c):\n    return [1]\n":                             "not of int",
		"def decide(c):\n    return [preempt(1)]\n":                    "policy.star:2:13: preempt needs reason",
		"def decide(c):\n    return [hold(1, \"r\", park = True)]\n":   "policy.star:2:26: hold takes no park: it takes job, reason, for_job",
		"def decide(c):\n    return [hold(\"x\", \"r\")]\n":            "is no job",
		"def decide(c):\n    return c.colour\n":                        "policy.star:2:14: a cluster has no .colour: it has hour, jobs",
		"def decide(c):\n    c.jobs[0] = 1\n":                          "policy.star:2",
		"def decide(c):\n    return 1 // 0\n":                          "policy.star:2:14: in decide",
		"def decide(c):\n    return [i for i in range(1000000000)]\n":  "too many steps",
		"n = []\ndef decide(c):\n    n.append(1)\n":                    "frozen",
		"def f(n):\n    return f(n)\ndef decide(c):\n    f(1)\n":       "called recursively",
	} {
		s, err := loadSite(text)
		if err == nil {
			_, err = s.Decide(t.Context(), busySnapshot())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q: %v, want %q", text, err, want)
		}
	}
}

// A decision ends when no caller waits any more, however many steps are allowed.
func TestADecisionCanBeStopped(t *testing.T) {
	s, err := loadSite("def decide(c):\n    return [i for i in range(1 << 60)] if len(c.jobs) > 20 else []\n")
	if err != nil {
		t.Fatal(err)
	}
	s.settings.Steps = 1 << 62
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Decide(ctx, busySnapshot()); err == nil || !strings.Contains(err.Error(), "nobody waits") {
		t.Errorf("Decide with an ended context: %v, want \"nobody waits\"", err)
	}
}

// The file of the settings is read by the real process.
func TestTheFileOfTheSettings(t *testing.T) {
	program := sdktest.BuildPolicy(t, "starlark")
	file := filepath.Join(t.TempDir(), "policy.star")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := fmt.Appendf(nil, `{"file": %q}`, file)
	if err := sdktest.Start(t, program).Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %v", err)
	}
	write("def decide(c):\n    return [hold(j, \"full\") for j in c.jobs if j.state == \"waiting\"]\n")
	client := sdktest.Start(t, program)
	if err := client.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	got, err := client.Decide(t.Context(), sdk.Encode(busySnapshot()))
	if err != nil || len(got) == 0 || got[0].Verb != sdk.Hold {
		t.Errorf("Decide of the real process = %v, %v, want a hold", got, err)
	}
	write("def decide(c)\n")
	if err := sdktest.Start(t, program).Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "want ':'") {
		t.Errorf("a file that is wrong: %v", err)
	}
}
