// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package tiers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/policies/sdk/sdktest"
	"github.com/singularity-slurm/singularity-slurm/preemptd/plan"
)

var now = sdktest.Now

func TestContract(t *testing.T) { sdktest.Run(t, sdktest.BuildPolicy(t, "tiers")) }

// waitingJob returns a job that has just come; its pause is the seconds of its dump and restore.
func waitingJob(id sdk.JobID, tier sdk.Tier, gpus, pause int) sdk.Job {
	j := sdktest.WaitingJob(id, tier, gpus)
	j.Eligible, j.Checkpoint = now.Add(-time.Second), sdk.Checkpoint{Dump: time.Duration(pause) * time.Second}
	return j
}

// makeElastic returns the job with sizes to which it can be shrunk.
func makeElastic(j sdk.Job, least int) sdk.Job { j.MinGPUs = least; return j }

// changeJob returns the job with a change.
func changeJob(j sdk.Job, change func(*sdk.Job)) sdk.Job { change(&j); return j }

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *sdk.Snapshot
		want []string // the intents, in order
	}{
		{"room is Slurm's to give", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 4, 10)), nil},
		{"what Slurm has left waiting is placed", sdktest.SmallCluster(1, changeJob(waitingJob(1, sdk.Premium, 4, 10), func(j *sdk.Job) { j.Eligible = now.Add(-2 * time.Minute) })),
			[]string{"place job 1 on a (4 GPUs)"}},
		{"basic work disturbs nobody", sdktest.SmallCluster(1, waitingJob(1, sdk.Basic, 4, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0)), nil},
		{"premium preempts basic", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"shrinking is tried before preempting, however dear", sdktest.SmallCluster(2,
			waitingJob(1, sdk.Premium, 4, 10), makeElastic(sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 500), 0, 8, 0), 4), sdktest.RunOn(waitingJob(3, sdk.Basic, 8, 1), 0, 8, 1)),
			[]string{"resize job 2 to 4 GPUs on a (4 GPUs)", "place job 1 on a (4 GPUs)"}},
		{"no more is taken than needed", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 2, 10), makeElastic(sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0), 1)),
			[]string{"resize job 2 to 6 GPUs on a (6 GPUs)", "place job 1 on a (2 GPUs)"}},
		{"shrunk as far as it goes, and the rest preempted", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 7, 10),
			makeElastic(sdktest.RunOn(waitingJob(2, sdk.Basic, 6, 10), 0, 6, 0), 1), sdktest.RunOn(waitingJob(3, sdk.Basic, 2, 10), 6, 2, 0)),
			[]string{"resize job 2 to 1 GPU on a (1 GPU)", "preempt job 3", "place job 1 on a (7 GPUs)"}},
		{"the cheapest is preempted", sdktest.SmallCluster(2, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 30), 0, 8, 0), sdktest.RunOn(waitingJob(3, sdk.Basic, 8, 20), 0, 8, 1)),
			[]string{"preempt job 3", "place job 1 on b (8 GPUs)"}},
		{"two that are cheap together cost more interruptions than one", sdktest.SmallCluster(2, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 30), 0, 8, 0),
			sdktest.RunOn(waitingJob(3, sdk.Basic, 4, 20), 0, 4, 1), sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 20), 4, 4, 1)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"basic goes before standard", sdktest.SmallCluster(2, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 300), 0, 8, 0), sdktest.RunOn(waitingJob(3, sdk.Standard, 8, 1), 0, 8, 1)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"standard gives way while it is above its promise", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Standard, 8, 10), 0, 8, 0)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"standard at its promise is left alone", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), changeJob(sdktest.RunOn(waitingJob(2, sdk.Standard, 8, 10), 0, 8, 0), func(j *sdk.Job) { j.Fraction = 0.702 })), nil},
		{"beside it, the cheapest is found", sdktest.SmallCluster(2, waitingJob(1, sdk.Premium, 4, 10), sdktest.RunOn(waitingJob(2, sdk.Standard, 8, 30), 0, 8, 0),
			changeJob(sdktest.RunOn(waitingJob(3, sdk.Standard, 4, 10), 0, 4, 1), func(j *sdk.Job) { j.Fraction = 0.702 }), sdktest.RunOn(waitingJob(4, sdk.Standard, 4, 20), 4, 4, 1)),
			[]string{"preempt job 4", "place job 1 on b (4 GPUs)"}},
		{"premium does not give way", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Premium, 8, 10), 0, 8, 0)), nil},
		{"standard that can still wait, waits", sdktest.SmallCluster(1, waitingJob(1, sdk.Standard, 8, 10), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0)), nil},
		{"standard that has waited for half of what it can, is in a hurry", sdktest.SmallCluster(1,
			changeJob(waitingJob(1, sdk.Standard, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, 9*time.Minute }), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"a job that just started is left alone", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), changeJob(sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0), func(j *sdk.Job) { j.Started = now.Add(-time.Second) })), nil},
		{"a job that was just disturbed is left alone", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), changeJob(sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0), func(j *sdk.Job) { j.Acted = now.Add(-time.Minute) })), nil},
		{"a job that cannot be captured is left alone", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 8, 10), changeJob(sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0), func(j *sdk.Job) { j.Preemptable = false })), nil},
		{"a job on two nodes is preempted in the place of two jobs", sdktest.SmallCluster(3, changeJob(waitingJob(1, sdk.Premium, 16, 10), func(j *sdk.Job) { j.Capsules, j.CPUs = 2, 8 }),
			sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0), sdktest.RunOn(changeJob(waitingJob(3, sdk.Basic, 16, 11), func(j *sdk.Job) { j.CPUs = 8 }), 0, 8, 1, 2)),
			[]string{"preempt job 3", "place job 1 on b (8 GPUs), c (8 GPUs)"}},
		{"preempting a job of both nodes spares the other job", sdktest.SmallCluster(2, changeJob(waitingJob(1, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Capsules, j.CPUs = 2, 4 }),
			sdktest.RunOn(waitingJob(2, sdk.Basic, 4, 5), 0, 4, 0), sdktest.RunOn(changeJob(waitingJob(3, sdk.Basic, 8, 50), func(j *sdk.Job) { j.CPUs = 4 }), 4, 4, 0, 1),
			changeJob(sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 10), 0, 4, 1), func(j *sdk.Job) { j.Preemptable = false })),
			[]string{"preempt job 3", "place job 1 on a (4 GPUs), b (4 GPUs)"}},
		{"a gang goes as a whole", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 4, 10),
			changeJob(sdktest.RunOn(waitingJob(2, sdk.Basic, 4, 10), 0, 4, 0), func(j *sdk.Job) { j.Gang = 2 }), changeJob(sdktest.RunOn(waitingJob(3, sdk.Basic, 4, 10), 4, 4, 0), func(j *sdk.Job) { j.Gang = 2 })),
			[]string{"preempt job 2", "place job 1 on a (4 GPUs)"}},
		{"a gang with a job that cannot be captured stays", sdktest.SmallCluster(1, waitingJob(1, sdk.Premium, 4, 10),
			changeJob(sdktest.RunOn(waitingJob(2, sdk.Basic, 4, 10), 0, 4, 0), func(j *sdk.Job) { j.Gang = 2 }),
			changeJob(sdktest.RunOn(waitingJob(3, sdk.Basic, 4, 10), 4, 4, 0), func(j *sdk.Job) { j.Gang, j.Preemptable = 2, false })), nil},
		{"premium is served before standard", sdktest.SmallCluster(1, changeJob(waitingJob(1, sdk.Standard, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, 50*time.Minute }),
			waitingJob(2, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(3, sdk.Basic, 8, 10), 0, 8, 0)),
			[]string{"preempt job 3", "place job 2 on a (8 GPUs)"}},
		{"a large job is not overtaken by small ones for ever", sdktest.SmallCluster(2,
			changeJob(waitingJob(1, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Hour }), waitingJob(2, sdk.Premium, 4, 10),
			changeJob(sdktest.RunOn(waitingJob(3, sdk.Premium, 4, 10), 0, 4, 0), func(j *sdk.Job) { j.Limit, j.Preemptable = 2*time.Hour, false }), sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 1), 4, 4, 0),
			changeJob(sdktest.RunOn(waitingJob(5, sdk.Premium, 4, 10), 0, 4, 1), func(j *sdk.Job) { j.Limit, j.Preemptable = 3*time.Hour, false }), sdktest.RunOn(waitingJob(6, sdk.Basic, 4, 9), 4, 4, 1)),
			[]string{"preempt job 6", "place job 2 on b (4 GPUs)"}},
		{"a small job that ends before the large job can start is not kept out", sdktest.SmallCluster(1,
			changeJob(waitingJob(1, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Hour }),
			changeJob(waitingJob(2, sdk.Premium, 4, 10), func(j *sdk.Job) { j.Limit = 30 * time.Minute }),
			changeJob(sdktest.RunOn(waitingJob(3, sdk.Premium, 4, 10), 0, 4, 0), func(j *sdk.Job) { j.Limit = 2 * time.Hour }), sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 1), 4, 4, 0)),
			[]string{"preempt job 4", "place job 2 on a (4 GPUs)"}},
		{"a lower tier may have the kept node: it gives way later", sdktest.SmallCluster(1,
			changeJob(waitingJob(1, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Hour }),
			changeJob(waitingJob(2, sdk.Standard, 4, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Minute }),
			sdktest.RunOn(waitingJob(3, sdk.Premium, 4, 10), 0, 4, 0), sdktest.RunOn(waitingJob(4, sdk.Basic, 4, 1), 4, 4, 0)),
			[]string{"preempt job 4", "place job 2 on a (4 GPUs)"}},
		{"a job of a higher tier moves, if only a whole node will do", sdktest.SmallCluster(2,
			changeJob(waitingJob(1, sdk.Standard, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Minute }),
			sdktest.RunOn(waitingJob(2, sdk.Premium, 2, 10), 0, 2, 0), sdktest.RunOn(waitingJob(3, sdk.Basic, 6, 10), 2, 6, 0),
			sdktest.RunOn(waitingJob(4, sdk.Premium, 3, 10), 0, 3, 1), sdktest.RunOn(waitingJob(5, sdk.Basic, 5, 10), 3, 5, 1)),
			[]string{"preempt job 5", "migrate job 2 on b (2 GPUs)", "preempt job 3", "place job 1 on a (8 GPUs)"}},
		{"a job that would fall below its promise does not move", sdktest.SmallCluster(2,
			changeJob(waitingJob(1, sdk.Standard, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Minute }),
			changeJob(sdktest.RunOn(waitingJob(2, sdk.Premium, 2, 10), 0, 2, 0), func(j *sdk.Job) { j.Fraction = 0.951 }), sdktest.RunOn(waitingJob(3, sdk.Basic, 6, 10), 2, 6, 0),
			sdktest.RunOn(waitingJob(4, sdk.Premium, 3, 190), 0, 3, 1), sdktest.RunOn(waitingJob(5, sdk.Basic, 5, 10), 3, 5, 1)), nil},
		{"standard at its promise gives way to premium that is below its own", sdktest.SmallCluster(1,
			changeJob(waitingJob(1, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, 4*time.Minute }),
			changeJob(sdktest.RunOn(waitingJob(2, sdk.Standard, 8, 10), 0, 8, 0), func(j *sdk.Job) { j.Fraction = 0.702 })),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"standard that never ran is below its promise", sdktest.SmallCluster(1,
			changeJob(waitingJob(1, sdk.Standard, 8, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, 30*time.Second }), sdktest.RunOn(waitingJob(2, sdk.Basic, 8, 10), 0, 8, 0)),
			[]string{"preempt job 2", "place job 1 on a (8 GPUs)"}},
		{"no node is kept for a job that can never run", sdktest.SmallCluster(1, changeJob(waitingJob(1, sdk.Premium, 9, 10), func(j *sdk.Job) { j.Fraction, j.Counted = 0, time.Hour }),
			waitingJob(2, sdk.Premium, 8, 10), sdktest.RunOn(waitingJob(3, sdk.Basic, 8, 10), 0, 8, 0)),
			[]string{"preempt job 3", "place job 2 on a (8 GPUs)"}},
		{"CPUs count too", sdktest.SmallCluster(1, changeJob(waitingJob(1, sdk.Premium, 1, 10), func(j *sdk.Job) { j.CPUs = 20 }),
			sdktest.RunOn(changeJob(waitingJob(2, sdk.Basic, 1, 10), func(j *sdk.Job) { j.CPUs = 30 }), 0, 1, 0), sdktest.RunOn(changeJob(waitingJob(3, sdk.Basic, 1, 9), func(j *sdk.Job) { j.CPUs = 20 }), 1, 1, 0)),
			[]string{"preempt job 3", "place job 1 on a (1 GPU)"}},
		{"a job that was shrunk grows again", sdktest.SmallCluster(1, changeJob(sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 10), 2), 0, 2, 0), func(j *sdk.Job) { j.Acted = now.Add(-10 * time.Minute) })),
			[]string{"resize job 1 to 8 GPUs on a (8 GPUs)"}},
		{"a job does not grow while room is made for another job", sdktest.SmallCluster(2, sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 10), 2), 0, 2, 0),
			changeJob(waitingJob(2, sdk.Premium, 8, 10), func(j *sdk.Job) { j.Action = "place" })), nil},
		{"a job grows as far as there is room", sdktest.SmallCluster(1, sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 10), 2), 0, 2, 0), sdktest.RunOn(waitingJob(2, sdk.Basic, 3, 10), 5, 3, 0)),
			[]string{"resize job 1 to 5 GPUs on a (5 GPUs)"}},
		{"a job does not grow at once", sdktest.SmallCluster(1, changeJob(sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 10), 2), 0, 2, 0), func(j *sdk.Job) { j.Acted = now.Add(-time.Minute) })), nil},
		{"a job does not grow if growing takes longer than it wins", sdktest.SmallCluster(1, sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 7200), 4), 0, 6, 0)), nil},
		{"a job does not grow into room for which another job waits", sdktest.SmallCluster(1, sdktest.RunOn(makeElastic(waitingJob(1, sdk.Basic, 8, 10), 2), 0, 2, 0), waitingJob(2, sdk.Basic, 6, 10)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			intents := sdktest.CheckDecision(t, New(), c.s, c.want)
			if p := plan.Try(c.s, intents); len(p.Rejected) > 0 {
				t.Errorf("plan rejected %v, want no rejected intent", p.Rejected)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	p := New()
	if err := p.Configure([]byte(`{"hurry": {"standard": 1}, "most": 3, "patience": "5s"}`)); err != nil {
		t.Fatal(err)
	}
	if s := p.Settings; s.Hurry.Standard != 1 || s.Hurry.Premium != 1 || s.Most != 3 || time.Duration(s.Patience) != 5*time.Second {
		t.Errorf("settings = %+v", s)
	}
	for settings, want := range map[string]string{
		`{"hurri": 1}`:              `unknown field "hurri"`,
		`{"hurry": {"premium": 2}}`: "from 0 to 1",
		`{"most": 0}`:               "at least 1",
		`{"moves": -1}`:             "at least 0",
		`{"patience": 5}`:           `a span is text like "90s"`,
		`{"most": 1} {"most": 2}`:   "more than one object",
	} {
		if err := New().Configure([]byte(settings)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Configure(%s): %v, want %q", settings, err, want)
		}
	}
}

// randomCluster is a cluster in which many premium jobs wait.
func randomCluster(seed uint64) *sdk.Snapshot {
	r := rand.New(rand.NewPCG(seed, 11))
	s := sdktest.Random(r)
	for i := range s.Jobs {
		if j := &s.Jobs[i]; r.IntN(3) == 0 && j.State == sdk.Waiting {
			j.Tier, j.Promised = sdk.Premium, 0.95
		}
	}
	return s
}

// On every random cluster plan accepts all intents of the policy, and no job is stopped or shrunk for a lower tier or
// its own.
func TestPlanAcceptsEverything(t *testing.T) {
	placed := 0
	for seed := range uint64(3000) {
		s := randomCluster(seed)
		intents := decideOn(s, New().Settings)
		if err := sdktest.Valid(s, intents); err != nil {
			t.Fatalf("seed %d: Valid: %v", seed, err)
		}
		p := plan.Try(s, intents)
		for _, rejected := range p.Rejected {
			if rejected.Invariant != plan.Limit { // this policy does not look at limits
				t.Fatalf("seed %d: plan rejected an intent: %v", seed, rejected.Error())
			}
		}
		for _, i := range intents {
			if i.Verb == sdk.Place {
				placed++
			}
			victim, _ := s.Job(i.Job)
			if other, ok := s.Job(i.For); ok && i.Verb != sdk.Migrate && other.Tier <= victim.Tier {
				t.Fatalf("seed %d: %v for job %d of the same tier or a lower one", seed, i, i.For)
			}
		}
	}
	if placed < 100 {
		t.Errorf("%d jobs were placed, too few for this test", placed)
	}
}

// On a single node, no set of victims is cheaper than the chosen set: all sets are tried.
func TestTheCheapestIsChosen(t *testing.T) {
	tried := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 5))
		var jobs []sdk.Job
		for at := 0; at < 8; {
			n := 1 + r.IntN(4)
			n = min(n, 8-at)
			j := sdktest.RunOn(waitingJob(sdk.JobID(10+at), sdk.Tier(r.IntN(2)), n, 1+r.IntN(50)), at, n, 0)
			if r.IntN(3) == 0 {
				j.MinGPUs = 1 + r.IntN(n)
			}
			jobs = append(jobs, j)
			at += n
		}
		want := 1 + r.IntN(8)
		s := sdktest.SmallCluster(1, append([]sdk.Job{waitingJob(1, sdk.Premium, want, 1)}, jobs...)...)
		intents := decideOn(s, New().Settings)
		got := 0.0
		for _, i := range intents {
			victim, _ := s.Job(i.Job)
			if i.Verb != sdk.Place {
				got += disturbancePrice(victim, i.GPUs)
			}
		}
		if best := cheapestWay(jobs, want, want); got < best-1e-6 || got > best*(1+1e-12)+1e-6 {
			t.Fatalf("seed %d: for %d GPUs it costs %g; %g is the least: %v", seed, want, got, best, intents)
		}
		tried++
	}
	t.Logf("%d clusters", tried)
}

// disturbancePrice is the cost of disturbing a job: GPU-seconds, a million for an interruption, and much more for
// standard. A job that keeps some GPUs pays for ten minutes in which its ranks share them, and a little if these hold
// no state alike.
func disturbancePrice(j *sdk.Job, keep int) float64 {
	cost := float64(j.GPUs)*j.Checkpoint.Dump.Seconds() + 1e12*float64(j.Tier)
	if keep == 0 {
		return cost + 1e6
	}
	return cost + 600*(j.WorkLost(keep)-float64(j.GPUs-keep)) + 0.001
}

// cheapestWay tries all ways: each job gives no GPU, its part of the GPUs that all are to give by shrinking, or all.
func cheapestWay(jobs []sdk.Job, want, of int) float64 {
	if want <= 0 {
		return 0
	}
	if len(jobs) == 0 {
		return 1e300
	}
	j := &jobs[0]
	best := min(cheapestWay(jobs[1:], want, of), disturbancePrice(j, 0)+cheapestWay(jobs[1:], want-j.GPUs, of))
	if keep := max(j.MinGPUs, j.GPUs-of); keep < j.GPUs {
		best = min(best, disturbancePrice(j, keep)+cheapestWay(jobs[1:], want-(j.GPUs-keep), of))
	}
	return best
}

// BenchmarkDecide is linear in jobs, and a small part of a second for the largest cluster.
func BenchmarkDecide(b *testing.B) {
	for _, jobs := range []int{1000, 10000, 50000} {
		s := sdktest.Cluster(sdktest.Size{Nodes: jobs / 5, GPUs: 8, Jobs: jobs, Fill: 1, Seed: 1})
		b.Run(fmt.Sprint(jobs), func(b *testing.B) {
			for b.Loop() {
				if len(decideOn(s, New().Settings)) == 0 {
					b.Fatal("nothing to decide")
				}
			}
		})
	}
}

// TestPauseText: people are not told of a time that is not known.
func TestPauseText(t *testing.T) {
	for pause, want := range map[time.Duration]string{
		0:                        "how long a checkpoint and a restore take on its 1 GPU is not known yet",
		300 * time.Millisecond:   "a checkpoint and a restore take less than a second on its 1 GPU",
		10900 * time.Millisecond: "a checkpoint and a restore take 11s on its 1 GPU",
	} {
		if got := pauseText(pause, 1); got != want {
			t.Errorf("pauseText(%v) = %q, want %q", pause, got, want)
		}
	}
}
