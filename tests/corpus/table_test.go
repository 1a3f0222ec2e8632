// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// result is what became of one program.
type result struct {
	program program
	alone   time.Duration
	quiet   error   // an undisturbed run that came out otherwise
	rounds  []round // with kills
	broken  error   // the harness or the cluster failed: nothing is known
}

type round struct {
	blows []blow
	err   error
}

func (r result) passed() bool {
	ok := r.quiet == nil && r.broken == nil
	for _, one := range r.rounds {
		ok = ok && one.err == nil
	}
	return ok
}

// heads are the beginnings of the pages about the folders of programs. %s are the options.
var heads = map[string]string{
	"programs": "# The corpus\n\nWritten by `make test-corpus`; do not edit.\n\n" +
		"Each program is an unmodified one from Debian, run by an ordinary user on the test cluster: once undisturbed without\n" +
		"`--singularity`, then with the options `%s`: once undisturbed, then killed at random moments. Exit code, log and every\n" +
		"file it wrote have to be the same, byte for byte. Percentages are parts of the undisturbed run.\n\n",
	"devices": "# Jobs on software GPUs\n\nWritten by `make test-devices`; do not edit.\n\n" +
		"Each program calls CUDA's driver and NCCL (tests/workloads) and is run by an ordinary user on the test cluster, whose GPUs are\n" +
		"software: twice undisturbed, then killed at random moments, with the options `%s`. They print a hash of their parameters\n" +
		"after each step. Exit code, log and every file have to be the same, byte for byte. Percentages are parts of the undisturbed run.\n" +
		"[cuda-suites.md](cuda-suites.md) is about other people's CUDA programs.\n\n",
}

// table is the page about a run of the programs of a folder.
func table(folder string, results []result, seed uint64, options string) string {
	var b strings.Builder
	passed, runs, good, blows := 0, 0, 0, 0
	for _, r := range results {
		if r.passed() {
			passed++
		}
		for _, one := range r.rounds {
			runs++
			blows += len(one.blows)
			if one.err == nil {
				good++
			}
		}
	}
	fmt.Fprintf(&b, heads[folder], options)
	fmt.Fprintf(&b, "**%d of %d programs pass**; %d of %d disturbed runs (%d kills) came out as undisturbed. Seed %d.\n\n",
		passed, len(results), good, runs, blows, seed)
	b.WriteString("| program | what it does | nodes | alone | kills, by run | result |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range results {
		var kills []string
		for _, one := range r.rounds {
			k := describe(one.blows)
			if one.err != nil {
				k = "**" + k + "**"
			}
			kills = append(kills, k)
		}
		verdict := "pass"
		switch {
		case r.passed():
		case r.program.fails != "":
			verdict = "**fails**, as known"
		default:
			verdict = "**fails**"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.0f s | %s | %s |\n", r.program.name, cell(r.program.what), r.program.nodes, r.alone.Seconds(), strings.Join(kills, "; "), verdict)
	}
	if passed < len(results) {
		b.WriteString("\n## What failed\n\n")
		for _, r := range results {
			for what, err := range failures(r) {
				fmt.Fprintf(&b, "* **%s**, %s: %s\n", r.program.name, what, cell(err.Error()))
			}
			if !r.passed() && r.program.fails != "" {
				fmt.Fprintf(&b, "  * Why: %s.\n", r.program.fails)
			}
		}
	}
	return b.String()
}

// failures yields what went wrong with a program, in the order it was tried.
func failures(r result) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		if r.broken != nil && !yield("not run to the end", r.broken) {
			return
		}
		if r.quiet != nil && !yield("undisturbed", r.quiet) {
			return
		}
		for i, one := range r.rounds {
			if one.err != nil && !yield(fmt.Sprintf("run %d (%s)", i+1, describe(one.blows)), one.err) {
				return
			}
		}
	}
}

// cell keeps a text from ending its table cell or line.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

func TestTable(t *testing.T) {
	hit := []blow{{kind: requeue, at: 0.5}}
	got := table("programs", []result{
		{program: program{name: "a", what: "pipes | more", nodes: 1}, alone: 8 * time.Second, rounds: []round{{blows: hit}, {blows: append(hit, blow{kind: move, at: 0.2})}}},
		{program: program{name: "b", what: "counts", nodes: 2, fails: "it counts wrongly"}, alone: 9 * time.Second, rounds: []round{{blows: hit, err: fmt.Errorf("log: line 3\nno")}}},
		{program: program{name: "c", what: "waits", nodes: 1}, quiet: fmt.Errorf("other"), broken: nil},
	}, 5, "--singularity")
	for _, want := range []string{
		"**1 of 3 programs pass**; 2 of 3 disturbed runs (4 kills) came out as undisturbed. Seed 5.",
		"| a | pipes \\| more | 1 | 8 s | requeue at 50 %; requeue at 50 %, move at 20 % | pass |\n",
		"| b | counts | 2 | 9 s | **requeue at 50 %** | **fails**, as known |\n",
		"* **b**, run 1 (requeue at 50 %): log: line 3 no\n",
		"  * Why: it counts wrongly.\n",
		"* **c**, undisturbed: other\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
