//go:build faults

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package faults breaks a single thing at a single moment of a checkpoint or a restore, in a real
// Slurm cluster, and checks that the job does as its user expects: the job runs on,
// or resumes from a checkpoint, or is held with a reason, and in the end its results are
// right to the byte. The tests need root; they run under the build tag "faults".
package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

var (
	mcProgram = flag.String("minicluster", "../../contrib/minicluster/minicluster", "the minicluster program")
	seed      = flag.Uint64("seed", uint64(time.Now().UnixNano()), "decides moments within phases, and what -some picks; printed")
	some      = flag.Int("some", 0, "only so many trials, picked by the seed; 0: all")
	after     = flag.Int("after", 0, "of the trials that -some picks, leave out the first so many: another run has them")
	always    = flag.String("always", "", "the trials with such names beside those that -some picks: a regular expression")
	lanes     = flag.Int("lanes", 2, "clusters at a time")
	tableFile = flag.String("table", "", "write what was tried into docs/faults.md, or another file relative to the root of the repository")
	keep      = flag.String("keep", "/var/tmp/singularity-slurm-faults", "a folder for the logs of trials that went wrong; \"\": none are kept")
	staging   = flag.String("staging", "", "a folder of the nodes where checkpoints land first, to be brought into the store slowly; adds the moments of that")
	suite     = flag.String("suite", "forky", "Debian release of the clusters, and so the Slurm: forky, trixie or bookworm")
	prefix    = flag.String("name", "faults-t", "of the clusters, before their number")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/faults needs root")
		os.Exit(1)
	}
	if _, err := os.Stat(*mcProgram); err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first: make build")
		os.Exit(1)
	}
	if *staging != "" {
		moments = append(moments, uploading...)
	}
	flag.Set("test.parallel", strconv.Itoa(*lanes))
	os.Exit(m.Run())
}

// TestFaults does every fault at every moment. Run some by name with
// -run 'TestFaults/restore/open/kill_slurmctld'; the same seed hits the same moments.
func TestFaults(t *testing.T) {
	t.Logf("seed %d", *seed)
	free := make(chan *cluster, *lanes)
	var raising sync.Mutex
	raised := 0
	take := func() *cluster {
		select {
		case c := <-free:
			return c
		default:
		}
		raising.Lock()
		defer raising.Unlock()
		if raised == *lanes {
			return <-free
		}
		raised++
		c := newCluster(fmt.Sprintf("%s%d", *prefix, raised))
		t.Cleanup(func() { _, _ = c.Run(context.Background(), "down") })
		c.fresh = true
		return c
	}
	var mu sync.Mutex
	done := results{}
	t.Cleanup(func() {
		t.Log(done.summaryLine())
	})
	for _, one := range listTrials() {
		t.Run(one.name(), func(t *testing.T) {
			t.Parallel()
			c := take()
			defer func() { free <- c }()
			if c.fresh {
				if err := c.raiseAnew(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.fresh = false
			}
			o, broken := c.runTrial(t.Context(), one, *seed)
			mu.Lock()
			o.seeds = strconv.FormatUint(*seed, 10)
			done[one.name()] = o
			if *tableFile != "" { // one by one: a run may be ended early
				if err := (results{one.name(): o}).mergeIntoPage(filepath.Join("../..", *tableFile)); err != nil {
					t.Error(err)
				}
			}
			mu.Unlock()
			t.Logf("%s: job %s: at %s: %s %s (%s)", c.Name, o.job, o.at, o.what, o.why, o.took.Round(time.Second))
			if o.err != nil {
				t.Errorf("the trial failed: %v", o.err)
			}
			if o.evidence != "" {
				t.Logf("the logs of the cluster and the job's folder are in %s", o.evidence)
			}
			if broken != nil {
				t.Errorf("not tried, or not cleared: %v", broken)
				c.fresh = true // other cases get a new job
			}
		})
	}
}

// listTrials returns all faults at all moments, or the trials that are picked.
func listTrials() []trial {
	var all []trial
	for _, m := range moments {
		for _, f := range faults {
			if f.isTriedAt(m) {
				all = append(all, trial{f, m})
			}
		}
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	if *some > 0 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		picked := min(*some, len(all))
		rest := slices.DeleteFunc(all[picked:], func(one trial) bool { return !isAlways(one) })
		all = append(all[min(*after, picked):picked:picked], rest...)
	}
	return all
}

// isAlways tells whether a trial has a name that -always asks for.
func isAlways(one trial) bool {
	return *always != "" && regexp.MustCompile(*always).MatchString(one.name())
}

// TestPicked: -always adds a trial to those that -some picks by the seed, which stay the same, and -after leaves out the
// first of these.
func TestPicked(t *testing.T) {
	defer func(oldSeed uint64, oldSome, oldAfter int, oldAlways string) {
		*seed, *some, *after, *always = oldSeed, oldSome, oldAfter, oldAlways
	}(*seed, *some, *after, *always)
	*seed, *some, *after, *always = 49, 8, 0, ""
	picked := listTrials()
	*always = "^restore/sruns/kill_slurmctld$"
	more := listTrials()
	if len(picked) != 8 || len(more) != 9 || more[8].name() != "restore/sruns/kill_slurmctld" {
		t.Fatalf("picked %d trials, and with -always %d", len(picked), len(more))
	}
	for i, one := range picked {
		if more[i].name() != one.name() {
			t.Errorf("trial %d is %s, and with -always %s", i, one.name(), more[i].name())
		}
	}
	*after, *always = 2, ""
	if rest := listTrials(); len(rest) != 6 || rest[0].name() != picked[2].name() {
		t.Errorf("with -after 2 there are %d trials, want the last 6", len(rest))
	}
}
