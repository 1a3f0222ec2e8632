// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/fraction"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
)

// tiersPolicy is the real policy in its process; every snapshot of a question is checked
// by the decoder there.
func tiersPolicy(t testing.TB, program string) chain.NamedPolicy {
	return startPolicy(t, "tiers", program, `{"hurry": {"standard": 1}}`)
}

func startPolicy(t testing.TB, name, program, settings string) chain.NamedPolicy {
	p := policy.New(policy.Config{Name: name, Path: program, Timeout: 2 * time.Minute, Settings: []byte(settings)}, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	return chain.NamedPolicy{Name: name, Policy: p}
}

func newConfig(nodes, gpus int, policies ...chain.NamedPolicy) Config {
	return Config{
		Nodes: nodes, GPUs: gpus, Rules: defaultRules(fraction.Promised), Every: 30 * time.Second,
		Dump: 10 * time.Second, Restore: 20 * time.Second, Policies: policies,
	}
}

func parseTrace(t testing.TB, lines string) []Job {
	t.Helper()
	jobs, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,nodes,min_gpus,qos,limit\n" + lines))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// A queue by hand: 8 GPUs. 2 waits for 1. Half a minute after the first look, 3 is found to be
// small enough to run beside 1, and to end before 2 can start; 4 would make 2 later, and waits.
func TestQueueAndBackfill(t *testing.T) {
	res, err := Run(t.Context(), newConfig(1, 8), parseTrace(t, `
1,0,100,6,,,,100
2,1,50,8,,,,50
3,2,60,2,,,,60
4,3,200,2,,,,200
`))
	if err != nil {
		t.Fatal(err)
	}
	basic := res.Tiers[sdk.Basic]
	// 1: 0 to 100. 3: 31 to 91. 2: 100 to 150. 4: 150 to 350.
	if want := 350 * time.Second; res.Makespan != want {
		t.Errorf("all is done after %v, want %v", res.Makespan, want)
	}
	if want := (0 + 99 + 29 + 147) * time.Second / 4; basic.Wait.Mean != want {
		t.Errorf("waited for %v, want %v", basic.Wait.Mean, want)
	}
	if want := (6*100 + 8*50 + 2*60 + 2*200.) / (8 * 350); res.Utilisation < want-1e-9 || res.Utilisation > want+1e-9 {
		t.Errorf("utilisation %g, want %g", res.Utilisation, want)
	}
}

// A premium job comes to a cluster full of basic work. With capsules only the time of the dump and the restore is
// lost; killed, the work is done again.
func TestPremiumPreempts(t *testing.T) {
	program := buildPolicy(t, "tiers")
	lines := "1,0,1000,8,,,basic,\n2,595,300,8,,,premium,\n"
	play := func(change func(*Config)) *Result {
		t.Helper()
		c := newConfig(1, 8, tiersPolicy(t, program))
		change(&c)
		res, err := Run(t.Context(), c, parseTrace(t, lines))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	fifo := play(func(c *Config) { c.Policies = nil })
	kill := play(func(c *Config) { c.Kill = true })
	capsules := play(func(*Config) {})
	// Asked at 600; premium runs from 610 or, killed at once, 600.
	for _, c := range []struct {
		name     string
		got      *Result
		wait     time.Duration
		makespan time.Duration
		lost     time.Duration
	}{
		{"fifo", fifo, 405 * time.Second, 1300 * time.Second, 0},
		{"kill", kill, 5 * time.Second, 1900 * time.Second, 8 * 600 * time.Second},
		{"capsules", capsules, 15 * time.Second, (910 + 20 + 400) * time.Second, 8 * 30 * time.Second},
	} {
		if c.got.Tiers[sdk.Premium].Wait.Mean != c.wait || c.got.Makespan != c.makespan || c.got.Lost() != c.lost {
			t.Errorf("%s: waits %v, done after %v, lost %v; want %v, %v, %v", c.name,
				c.got.Tiers[sdk.Premium].Wait.Mean, c.got.Makespan, c.got.Lost(), c.wait, c.makespan, c.lost)
		}
	}
}

// An elastic job is shrunk for a premium job, and grows when the premium job is gone.
func TestShrinkAndGrow(t *testing.T) {
	program := buildPolicy(t, "tiers")
	res, err := Run(t.Context(), newConfig(1, 8, tiersPolicy(t, program)), parseTrace(t, "1,0,4000,8,,2,basic,\n2,595,600,4,,,premium,\n"))
	if err != nil {
		t.Fatal(err)
	}
	// 600 s on 8; dump; restore to 630; 4 GPUs while premium runs from 610 to 1210 and until the next question, which
	// grows the job: 1230 + 10 + 20; then the rest on 8. Two ranks on a GPU switch twice in a mini-batch of 420 ms, 1.5
	// ms each.
	half := int64(600_000*4) * 9929 / 10000
	rest := (4000_000*8 - 600_000*8 - half) / 8
	if want := time.Duration(1260_000+rest) * time.Millisecond; res.Makespan != want || res.Stops() != 2 {
		t.Errorf("done after %v with %d moves, want %v with 2", res.Makespan, res.Stops(), want)
	}
}

// TestElasticLends: a job that asked for 2 GPUs and can use 8 gets the idle GPUs, gives them back when another job
// comes for them, and grows again when that job has ended. The same job without a maximum stays on its 2, and so does a
// job with dumps of an hour, unless other jobs lend it the GPUs in place.
func TestElasticLends(t *testing.T) {
	program := buildPolicy(t, "elastic")
	for _, c := range []struct {
		name     string
		most     string
		dump     time.Duration
		inPlace  time.Duration
		makespan time.Duration
		moves    int
		still    time.Duration // for GPUs
	}{
		// 2 GPUs for 300 s: the job is not moved in its first minute, and policies are asked again after 300 s without an
		// event. Dump to 310, restore to 330. 8 GPUs until the question at 630, that is 300 s. Dump to 640, restore to 660;
		// 2 GPUs until the question at 960 finds the other job, which began at 640 for 300 s, gone: 300 s. Dump and restore
		// to 990, and the rest of the work on 8 GPUs. A rank alone on its GPU is 1.07 % faster than one of four that share
		// one: they switch six times in 840 ms.
		{"grows", "8", 10 * time.Second, 0, 990*time.Second + ((16000-600-600)*time.Second*10000/10107/8 - 300*time.Second).Truncate(time.Millisecond) + time.Millisecond, 3, (2 + 8 + 2) * 30 * time.Second},
		// The same, but for a second each time: 8 GPUs from 301 to 630, 2 until 960, and the other job runs from 631 to 931.
		{"grows in place", "8", 10 * time.Second, time.Second, 961*time.Second + ((16000-600-658)*time.Second*10000/10107/8 - 329*time.Second).Truncate(time.Millisecond) + time.Millisecond, 3, (2 + 8 + 2) * time.Second},
		{"grows in place, though a dump takes an hour", "8", time.Hour, time.Second, 961*time.Second + ((16000-600-658)*time.Second*10000/10107/8 - 329*time.Second).Truncate(time.Millisecond) + time.Millisecond, 3, (2 + 8 + 2) * time.Second},
		{"stays, for a dump takes an hour", "8", time.Hour, 0, 8000 * time.Second, 0, 0},
		{"stays", "", 10 * time.Second, time.Second, 8000 * time.Second, 0, 0},
	} {
		jobs, err := ReadCSV(strings.NewReader("id,submit,duration,gpus,max_gpus,qos\n1,0,8000,2," + c.most + ",basic\n2,605,300,6,6,standard\n"))
		if err != nil {
			t.Fatal(err)
		}
		config := newConfig(1, 8, startPolicy(t, "elastic", program, `{}`))
		config.Dump, config.InPlace = c.dump, c.inPlace
		res, err := Run(t.Context(), config, jobs)
		if err != nil {
			t.Fatal(err)
		}
		if res.Makespan != c.makespan || res.Stops() != c.moves || res.Lost() != c.still {
			t.Errorf("%s: done after %v with %d moves, GPUs stood still for %v; want %v with %d, %v", c.name, res.Makespan, res.Stops(), res.Lost(), c.makespan, c.moves, c.still)
		}
	}
}

// randomTrace keeps a small cluster busy.
func randomTrace(r *rand.Rand, n int) []Job {
	jobs := make([]Job, n)
	for i := range jobs {
		j := Job{
			ID: sdk.JobID(i + 1), Submit: time.Duration(r.IntN(3600*n/20)) * time.Second, Duration: time.Duration(1+r.IntN(7200)) * time.Second,
			GPUs: 1 << r.IntN(4), QOS: []string{"basic", "basic", "standard", "premium"}[r.IntN(4)], Rigid: r.IntN(8) == 0,
		}
		if r.IntN(8) == 0 {
			j.GPUs, j.Nodes = 16, 2
		}
		if r.IntN(2) == 0 {
			j.MinGPUs = max(1, j.Nodes)
		}
		if err := j.fillDefaults(); err != nil {
			panic(err)
		}
		jobs[i] = j
	}
	jobs, err := sortJobs(jobs)
	if err != nil {
		panic(err)
	}
	return jobs
}

// For every trace: all jobs end, no snapshot has a GPU that two jobs hold, exactly the work of the trace is done, and
// the same trace gives the same result. Premium keeps its promise better with capsules than without.
func TestRandomTraces(t *testing.T) {
	program := buildPolicy(t, "tiers")
	better, worse := 0, 0
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		jobs := randomTrace(rand.New(rand.NewPCG(seed, 0)), 60)
		var results [4]*Result
		for mode := range results {
			c := newConfig(4, 8, tiersPolicy(t, program))
			if mode == 0 {
				c.Policies = nil
			}
			c.Kill = mode == 1
			if mode == 3 {
				c.InPlace = time.Second
			}
			var texts [2]string
			for again := range texts {
				res, err := Run(t.Context(), c, jobs)
				if err != nil {
					t.Fatalf("seed %d, mode %d: %v", seed, mode, err)
				}
				if res.computed != res.work+res.again {
					t.Errorf("seed %d, mode %d: %d GPU-ms computed for %d of work and %d of work that was lost", seed, mode, res.computed, res.work, res.again)
				}
				texts[again] = fmt.Sprintf("%+v", *res)
				results[mode] = res
			}
			if texts[0] != texts[1] {
				t.Errorf("seed %d, mode %d: played twice, two results", seed, mode)
			}
		}
		if results[2].Tiers[sdk.Premium].Fraction > results[0].Tiers[sdk.Premium].Fraction {
			better++
		} else {
			worse++
		}
	}
	if better <= worse {
		t.Errorf("premium has more than in a queue %d times, less %d times", better, worse)
	}
}

func TestTraceSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "EOF",
		"id,submit,duration\n":               `column "gpus" is missing`,
		"id,submit,duration,gpus,colour":     `no column "colour"`,
		"id,submit,duration,gpus\n1,0,x,1\n": `line 2: duration "x"`,
		"id,submit,duration,gpus\n1,0,1,1\n1,0,1,1\n": "job 1 is there twice",
		"id,submit,duration,gpus\n1,0,0,1\n":          "job 1: submitted at 0s for 0s",
		"id,submit,duration,gpus,nodes\n1,0,5,3,2\n":  "3 GPUs on 2 nodes",
		"id,submit,duration,gpus,nodes\n1,0,5,1,2\n":  "1 GPU on 2 nodes",
	} {
		if _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadCSV(%q): %v, want %q", text, err, want)
		}
	}
}

// TestTooLarge: a job that the cluster cannot hold is refused by name.
func TestTooLarge(t *testing.T) {
	_, err := Run(t.Context(), Config{Nodes: 1, GPUs: 1}, []Job{{ID: 7, Nodes: 2, GPUs: 2, MinGPUs: 2, MaxGPUs: 2, Duration: time.Second}})
	if err == nil || err.Error() != "job 7: 2 GPUs on 2 nodes; the cluster has 1 node with 1 GPU each" {
		t.Error(err)
	}
}

func TestReadSacct(t *testing.T) {
	jobs, skipped, err := Read(strings.NewReader(`JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|NNodes|QOS|User|Account|TimelimitRaw
12|2026-03-01T10:00:30|2026-03-01T10:01:00|3600|billing=8,cpu=16,gres/gpu=8,gres/gpu:a100=8,node=2|2|premium|ann|lab|120
11|2026-03-01T10:00:00|2026-03-01T10:01:00|60|cpu=1,gres/gpu=1,node=1|1|basic|bob|lab|UNLIMITED
13|2026-03-01T10:02:00|Unknown|0||1|basic|bob|lab|60
14|2026-03-01T10:02:00|2026-03-01T10:03:00|10|cpu=4,node=1|1|basic|bob|lab|60
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{ID: 11, Duration: time.Minute, GPUs: 1, Nodes: 1, MinGPUs: 1, MaxGPUs: 1, QOS: "basic", User: "bob", Account: "lab"},
		{ID: 12, Submit: 30 * time.Second, Duration: time.Hour, GPUs: 8, Nodes: 2, MinGPUs: 8, MaxGPUs: 8, QOS: "premium", User: "ann", Account: "lab", Limit: 2 * time.Hour},
	}
	if fmt.Sprint(jobs) != fmt.Sprint(want) || skipped != 2 {
		t.Errorf("got  %+v, skipped %d\nwant %+v", jobs, skipped, want)
	}
}

// TestTable shows the three ways side by side, on a trace that -trace names or a made trace.
func TestTable(t *testing.T) {
	program := buildPolicy(t, "tiers")
	jobs := randomTrace(rand.New(rand.NewPCG(1, 1)), 20)
	var results []NamedResult
	for _, name := range []string{"FIFO and backfill", "kill and requeue", "capsules"} {
		c := newConfig(4, 8, tiersPolicy(t, program))
		if name == "FIFO and backfill" {
			c.Policies = nil
		}
		c.Kill = name == "kill and requeue"
		res, err := Run(t.Context(), c, jobs)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, NamedResult{name, res})
	}
	var table strings.Builder
	if err := Print(&table, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"capsules", "FIFO and backfill", "utilisation", "premium"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	if testing.Verbose() {
		fmt.Fprintln(os.Stderr, table.String())
	}
}

// defaultRules are the rules of a cluster without rules of its site.
func defaultRules(promised [sdk.Tiers]float64) sdk.Rules {
	return sdk.Rules{Window: time.Hour, Promised: promised, MinRun: time.Minute, CoolDown: 5 * time.Minute}
}
