//go:build corpus

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	mcProgram   = flag.String("minicluster", "../../contrib/minicluster/minicluster", "the minicluster program")
	seed        = flag.Uint64("seed", uint64(time.Now().UnixNano()), "decides what is killed how and when; printed")
	rounds      = flag.Int("rounds", 3, "runs with kills for each program")
	lanes       = flag.Int("lanes", 4, "programs at a time, each on three nodes of its own")
	programsDir = flag.String("programs", "programs", `the folder of the programs: "programs", or "devices"`)
	first       = flag.String("first", "", `options of sbatch for the first run, to which all others are compared`)
	option      = flag.String("option", "", `options of sbatch for every run but the first, as "--singularity"; without, nothing is killed`)
	up          = flag.String("up", "", `more arguments for minicluster up, as "--singularity"`)
	name        = flag.String("name", "corpus-test", "name of the cluster")
	tableFile   = flag.String("table", "", "write what was tried into docs/corpus.md, or another file relative to the root of the repository")
	keep        = flag.String("keep", "", "a folder for the results of runs that failed; the cluster stays up too")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "tests/corpus needs root")
		os.Exit(1)
	}
	if _, err := os.Stat(*mcProgram); err != nil {
		fmt.Fprintln(os.Stderr, "build minicluster first: make build")
		os.Exit(1)
	}
	flag.Set("test.parallel", strconv.Itoa(*lanes))
	os.Exit(m.Run())
}

// TestCorpus runs every program (-run 'TestCorpus/^redis' picks some) once without protection, once
// more undisturbed, then as often as -rounds says with kills, and compares.
func TestCorpus(t *testing.T) {
	programs, err := readPrograms(*programsDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", *seed)
	c := raiseCluster(t, *name, *lanes, strings.Fields(*up))
	if err := installPrograms(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var results []result
	run := fmt.Sprintf("%s, %d", time.Now().Format(time.DateOnly), *seed)
	// After all programs, and before the cluster goes.
	t.Cleanup(func() {
		var rows []row
		for _, r := range results {
			rows = append(rows, newRow(r, run))
		}
		t.Log("\n" + renderPage(*programsDir, rows, *option))
	})
	t.Run("restart is noticed", func(t *testing.T) {
		t.Parallel()
		c.noticesRestart(t, programs)
	})
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if err := c.missing[p.needs]; err != nil {
				t.Skip("SKIP: ", err)
			}
			lane := <-c.free
			defer func() { c.free <- lane }()
			r := c.tryProgram(t.Context(), t, p, lane)
			mu.Lock()
			results = append(results, r)
			if *tableFile != "" { // after each program, because a run of the tests may be ended early
				if err := mergeResults(filepath.Join("../..", *tableFile), *programsDir, programs, []result{r}, run, *option); err != nil {
					t.Error(err)
				}
			}
			mu.Unlock()
			for what, err := range failuresOf(r) {
				if p.isKnown(err) {
					t.Logf("known to fail: %s: %v", what, err)
					continue
				}
				t.Errorf("%s failed: %v", what, err)
			}
		})
	}
}

// installPrograms puts the programs where the cluster's users find them.
func installPrograms(ctx context.Context, c *cluster) error {
	to := c.Shared("corpus")
	for _, dir := range []string{"runs", "bin"} {
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			return err
		}
	}
	if *programsDir == "devices" {
		if out, err := exec.CommandContext(ctx, "make", "-s", "-C", "../workloads", "O="+filepath.Join(to, "bin")).CombinedOutput(); err != nil {
			return fmt.Errorf("tests/workloads: %w: %s", err, out)
		}
		for _, file := range []string{"../pytorch/programs/gpt.py", "../pytorch/programs/sharded_gpt.py", "../llama/programs/model.mjs", "../llama/programs/answer.mjs"} {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, "bin", filepath.Base(file)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return os.CopyFS(filepath.Join(to, "programs"), os.DirFS(*programsDir))
}

// noticesRestart tests the harness itself: a job without protection, requeued, does all of its work again and has the
// right result, and the comparison must not take that for a restore.
func (c *cluster) noticesRestart(t *testing.T, programs []program) {
	i := slices.IndexFunc(programs, func(p program) bool { return p.name == "python-generators" })
	if i < 0 {
		t.Skip("its program is another folder's")
	}
	p := programs[i]
	folder := func(run string) string { return filepath.Join("corpus/runs/unprotected", run) }
	lane := <-c.free
	defer func() { c.free <- lane }()
	alone, err := c.runProgram(t.Context(), p, lane, folder("alone"), nil, nil, ending{})
	if err != nil {
		t.Fatal(err)
	}
	blows := []blow{{kind: requeue, at: 0.4}}
	e, err := c.runProgram(t.Context(), p, lane, folder("requeued"), nil, blows, alone)
	if err != nil {
		t.Fatalf("the requeued run failed: %v\n%s", err, e.log)
	}
	err = c.compareRuns(alone, e, folder("alone"), folder("requeued"), blows)
	if want := `got "generating"`; err == nil || !strings.HasPrefix(err.Error(), "log: line ") || !strings.Contains(err.Error(), want) {
		t.Errorf("compareRuns = %v, want that the log begins anew: %s", err, want)
	}
}

// tryProgram takes a program through the corpus.
func (c *cluster) tryProgram(ctx context.Context, t *testing.T, p program, lane int) (r result) {
	folder := func(run string) string { return filepath.Join("corpus/runs", p.name, run) }
	r.program = p
	if err := c.setUpSite(ctx, p.site); err != nil {
		r.broken = err
		return r
	}
	alone, err := c.runProgram(ctx, p, lane, folder("alone"), strings.Fields(*first+" "+p.first), nil, ending{})
	if err != nil {
		r.broken = fmt.Errorf("%w\n%s", err, alone.log)
		return r
	}
	r.alone = alone.took
	options := strings.Fields(*option)
	one := func(run string, blows []blow) (ending, error) {
		e, err := c.runProgram(ctx, p, lane, folder(run), options, blows, alone)
		if err == nil {
			err = c.compareRuns(alone, e, folder("alone"), folder(run), blows)
		}
		if err != nil && e.hadEnded {
			err = fmt.Errorf("%w: %w", errMissed, err)
		}
		if err != nil {
			t.Logf("%s: %v\n%s\n%s", run, err, e.log, strings.Join(e.proxyds, ""))
			saveEvidence(t, c, p, run)
		}
		return e, err
	}
	quiet, err := one("quiet", nil)
	if r.quiet = err; err == nil { // the first run may have read files from disk that are cached now
		alone.took = min(alone.took, quiet.took)
	}
	if *option == "" {
		return r
	}
	for i, blows := range planBlows(*seed, p, *rounds) {
		_, err := one(fmt.Sprintf("round%d", i+1), blows)
		for again := 1; again <= 5 && errors.Is(err, errMissed); again++ {
			blows = blowsForRun(blows)
			_, err = one(fmt.Sprintf("round%d.%d", i+1, again), blows)
		}
		r.rounds = append(r.rounds, round{blows, err})
	}
	return r
}

// blowsForRun are the same blows for a run that had ended before they came.
func blowsForRun(blows []blow) []blow {
	sooner := slices.Clone(blows)
	for i := range sooner {
		sooner[i].at *= 0.6
	}
	return sooner
}

// saveEvidence keeps the files of a failed run, beside those of the undisturbed run.
func saveEvidence(t *testing.T, c *cluster, p program, run string) {
	if *keep == "" {
		return
	}
	to := filepath.Join(*keep, p.name)
	for _, name := range []string{"alone", run} {
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Log(err)
			return
		}
		if out, err := exec.Command("cp", "-a", "-T", c.Shared("corpus/runs", p.name, name), filepath.Join(to, name)).CombinedOutput(); err != nil {
			t.Logf("%s", out)
		}
	}
}
