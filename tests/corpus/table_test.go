// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// result has the outcomes of the runs of a single program.
type result struct {
	program program
	alone   time.Duration
	quiet   error   // how a second undisturbed run differed from the first
	rounds  []round // with kills
	broken  error   // the harness or the cluster failed: there is no result
}

type round struct {
	blows []blow
	err   error
}

func (r result) hasPassed() bool {
	ok := r.quiet == nil && r.broken == nil
	for _, one := range r.rounds {
		ok = ok && one.err == nil
	}
	return ok
}

// heads are the beginnings of the pages about the folders of programs, in paragraphs. %s are the options.
var heads = map[string]string{
	"programs": "# The corpus\n\nWritten by `make test-corpus`; do not edit. With RUN, as in `make test-corpus RUN='TestCorpus/^(flock|fifo)$'`, it " +
		"replaces the rows of the programs that it runs and leaves the rest: the last column has the day and the seed of each.\n\n" +
		"Each program is an unmodified one from Debian, run by an ordinary user on the test cluster: once undisturbed without " +
		"`--singularity`, then with the options `%s`: once undisturbed, then killed at random moments. What `srun --mpi=pmix` starts has these options " +
		"the first time, too, for Debian's Slurm has no PMIx. Exit code, log and every file it wrote have to be the same, byte for byte. Percentages are parts of the undisturbed run. A *signal* is the signal that " +
		"the script has asked Slurm for, on which the program requeues itself. A row has three runs with kills, unless `-rounds` said otherwise.",
	"devices": "# Jobs on software GPUs\n\nWritten by `make test-devices`; do not edit. With RUN, as in `make test-devices RUN=TestCorpus/^grid`, it " +
		"replaces the rows of the programs that it runs and leaves the rest: the last column has the day and the seed of each.\n\n" +
		"Each program calls CUDA's driver and NCCL (tests/workloads) and is run by an ordinary user on the test cluster, whose GPUs are " +
		"software: twice undisturbed, then killed at random moments, with the options `%s`. They print a hash of their parameters " +
		"after each step. Exit code, log and every file have to be the same, byte for byte. Percentages are parts of the undisturbed run. " +
		"[cuda-suites.md](cuda-suites.md) is about other people's CUDA programs.",
}

// row is a single program's row of a page, from this run or from an earlier run.
type row struct {
	name  string
	cells []string // all of the table's
	notes string   // the failures, as list items; of a program that has passed, how it is known to fail
}

// Columns of the table.
const (
	columnKills   = 4
	columnVerdict = 5
	columns       = 7

	passes, failsAsKnown, failsAnew = "pass", "**fails**, as known", "**fails**"
)

// reasons are known causes of failures of any program, by the texts of the errors. They are no excuse: a program with
// such a run fails.
var reasons = []struct {
	says *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`uses io_uring`), "it was captured in a moment in which it uses io_uring, which is refused and named (docs/silent-gaps.md)"},
	{regexp.MustCompile(`srun: error: slurm_receive_msgs`), "srun started a step in the moment in which slurmd was restarted; that is srun's own error, " +
		"which it has without `--singularity` as well"},
}

// newRow is the row of a result of the run that is named so.
func newRow(r result, run string) row {
	var kills []string
	for _, one := range r.rounds {
		k := describeBlows(one.blows)
		if one.err != nil {
			k = "**" + k + "**"
		}
		kills = append(kills, k)
	}
	verdict := failsAnew
	switch {
	case r.hasPassed():
		verdict = passes
	case r.failsAsKnown():
		verdict = failsAsKnown
	}
	made := row{name: r.program.name, cells: []string{
		r.program.name, cellText(r.program.what), strconv.Itoa(r.program.nodes), fmt.Sprintf("%.0f s", r.alone.Seconds()), strings.Join(kills, "; "), verdict, run,
	}}
	for what, err := range failuresOf(r) {
		made.notes += wrapLines(fmt.Sprintf("* **%s**, %s: %s", r.program.name, what, cellText(err.Error())), "  ")
		for _, reason := range reasons {
			if reason.says.MatchString(err.Error()) {
				made.notes += wrapLines("  * Why: "+reason.why+".", "    ")
			}
		}
	}
	if !r.hasPassed() && r.failsAsKnown() {
		made.notes += wrapLines("  * Why: "+r.program.fails+".", "    ")
	}
	return made
}

// countRuns returns how many runs with kills a row is of, how many came out as undisturbed, and how many kills there were.
func (r row) countRuns() (runs, good, blows int) {
	if r.cells[columnKills] == "" {
		return 0, 0, 0
	}
	for _, one := range strings.Split(r.cells[columnKills], "; ") {
		runs++
		blows += 1 + strings.Count(one, ", ")
		if !strings.HasPrefix(one, "**") {
			good++
		}
	}
	return runs, good, blows
}

// renderPage returns the text of a folder's page with these rows.
func renderPage(folder string, rows []row, options string) string {
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	passed, runs, good, blows, known := 0, 0, 0, 0, 0
	for _, r := range rows {
		ran, came, hit := r.countRuns()
		runs, good, blows = runs+ran, good+came, blows+hit
		switch r.cells[columnVerdict] {
		case passes:
			passed++
		case failsAsKnown:
			known += ran - came
		}
	}
	var b strings.Builder
	for paragraph := range strings.SplitSeq(fmt.Sprintf(heads[folder], options), "\n\n") {
		b.WriteString(wrapLines(paragraph, "") + "\n")
	}
	b.WriteString(wrapLines(fmt.Sprintf("**%d of %d programs pass**; %d of %d disturbed runs (%.1f %%; %d kills) came out as undisturbed. Of the others, %d are of programs that are known to fail.",
		passed, len(rows), good, runs, 100*float64(good)/float64(max(runs, 1)), blows, known), ""))
	b.WriteString("\n| program | what it does | nodes | alone | kills, by run | result | day, seed |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	failed, mayFail := "", ""
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells, " | "))
		if r.cells[columnVerdict] == passes {
			mayFail += r.notes
		} else {
			failed += r.notes
		}
	}
	if failed != "" {
		b.WriteString("\n## What failed\n\n" + failed)
	}
	if mayFail != "" {
		b.WriteString("\n## What passed, and fails elsewhere or at other moments\n\n" + mayFail)
	}
	return b.String()
}

// noteOf matches the first line of a program's failures.
var noteOf = regexp.MustCompile(`^\* \*\*([^*]+)\*\*, `)

// readPage returns the rows of a page. Lines that do not have this table's form, as the rows of older releases, are
// left out.
func readPage(text string) map[string]row {
	all := map[string]row{}
	last := ""
	for line := range strings.Lines(text) {
		if m := noteOf.FindStringSubmatch(line); m != nil {
			last = m[1]
		} else if line == "\n" { // the end of a section
			last = ""
		}
		if r, ok := all[last]; ok && last != "" {
			r.notes += line
			all[last] = r
			continue
		}
		inner, ok := strings.CutPrefix(strings.TrimSuffix(line, " |\n"), "| ")
		if !ok {
			continue
		}
		cells := strings.Split(inner, " | ")
		if len(cells) == columns && cells[0] != "program" && cells[0] != "---" {
			all[cells[0]] = row{name: cells[0], cells: cells}
		}
	}
	return all
}

// mergeResults puts results of a run into a folder's page, which need not exist yet. Rows of removed programs are
// deleted.
func mergeResults(path, folder string, programs []program, results []result, run, options string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	earlier := readPage(string(text))
	for _, r := range results {
		earlier[r.program.name] = newRow(r, run)
	}
	var rows []row
	for _, p := range programs {
		r, ok := earlier[p.name]
		if !ok {
			continue
		}
		if p.fails != "" && r.cells[columnVerdict] == passes {
			r.notes = wrapLines(fmt.Sprintf("* **%s**, known to fail: %s.", p.name, p.fails), "  ")
		}
		rows = append(rows, r)
	}
	return os.WriteFile(path, []byte(renderPage(folder, rows, options)), 0o644)
}

// wrapLines breaks a text into lines of at most 120 characters; all but the first begin with indent.
func wrapLines(text, indent string) string {
	var b strings.Builder
	length := 0
	for n, word := range strings.Split(text, " ") {
		switch size := utf8.RuneCountInString(word); {
		case n == 0:
			length = size
		case length+1+size > 120:
			b.WriteString("\n" + indent)
			length = len(indent) + size
		default:
			b.WriteString(" ")
			length += 1 + size
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// failsAsKnown reports whether all failures of a program are its known failure.
func (r result) failsAsKnown() bool {
	for _, err := range failuresOf(r) {
		if !r.program.isKnown(err) {
			return false
		}
	}
	return true
}

// failuresOf yields the failures of a program, in the order of the tries.
func failuresOf(r result) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		if r.broken != nil && !yield("not run to the end", r.broken) {
			return
		}
		if r.quiet != nil && !yield("undisturbed", r.quiet) {
			return
		}
		for i, one := range r.rounds {
			if one.err != nil && !yield(fmt.Sprintf("run %d (%s)", i+1, describeBlows(one.blows)), one.err) {
				return
			}
		}
	}
}

// cellText keeps a text from ending its table cell or line.
func cellText(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

func TestTable(t *testing.T) {
	hit := []blow{{kind: requeue, at: 0.5}}
	a := result{program: program{name: "a", what: "pipes | more", nodes: 1}, alone: 8 * time.Second, rounds: []round{{blows: hit}, {blows: append(hit, blow{kind: move, at: 0.2})}}}
	b := result{program: program{name: "b", what: "counts", nodes: 2, fails: "it counts wrongly", failure: "^log: line"}, alone: 9 * time.Second, rounds: []round{{blows: hit, err: fmt.Errorf("log: line 3\nno%s", strings.Repeat(" word", 30))}}}
	c := result{program: program{name: "c", what: "waits", nodes: 1}, quiet: fmt.Errorf("other"), rounds: []round{{blows: hit, err: fmt.Errorf("c uses io_uring: switch")}}}
	d := result{program: program{name: "d", what: "is no more", nodes: 1}}
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(run string, programs []program, results ...result) string {
		t.Helper()
		if err := mergeResults(path, "programs", programs, results, run, "--singularity"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	wants := func(what, got string, lines ...string) {
		t.Helper()
		for _, want := range lines {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", what, want, got)
			}
		}
	}
	whole := write("2026-01-01, 5", []program{a.program, b.program, c.program, d.program}, c, a, b, d)
	wants("whole", whole,
		"**2 of 4 programs pass**; 2 of 4 disturbed runs (50.0 %; 5 kills) came out as undisturbed. Of the others, 1 are of\nprograms that are known to fail.\n",
		"| a | pipes \\| more | 1 | 8 s | requeue at 50 %; requeue at 50 %, move at 20 % | pass | 2026-01-01, 5 |\n",
		"| b | counts | 2 | 9 s | **requeue at 50 %** | **fails**, as known | 2026-01-01, 5 |\n",
		"* **b**, run 1 (requeue at 50 %): log: line 3 no word",
		" word word\n  word word",
		"  * Why: it counts wrongly.\n",
		"* **c**, undisturbed: other\n* **c**, run 1 (requeue at 50 %): c uses io_uring: switch\n  * Why: it was captured in a moment",
	)
	for line := range strings.Lines(whole) {
		if !strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > 121 {
			t.Errorf("a line of %d characters: %s", utf8.RuneCountInString(line), line)
		}
	}
	programs := []program{a.program, b.program, c.program}
	if got, want := write("unused", append(programs, d.program)), whole; got != want {
		t.Errorf("nothing merged: got\n%s\nwant\n%s", got, want)
	}
	b.rounds[0].err = nil
	part := write("2026-01-02, 6", programs, b)
	wants("part", part,
		"**2 of 3 programs pass**; 3 of 4 disturbed runs (75.0 %; 5 kills)",
		"| a | pipes \\| more | 1 | 8 s | requeue at 50 %; requeue at 50 %, move at 20 % | pass | 2026-01-01, 5 |\n",
		"| b | counts | 2 | 9 s | requeue at 50 % | pass | 2026-01-02, 6 |\n",
		"* **c**, undisturbed: other\n",
	)
	if strings.Contains(part, "* **b**, run") || strings.Contains(part, "is no more") {
		t.Errorf("the page still has the failure of program b, or a program that is no more:\n%s", part)
	}
	const known = "\n## What passed, and fails elsewhere or at other moments\n\n* **b**, known to fail: it counts wrongly.\n"
	if again := write("unused", programs); !strings.HasSuffix(part, known) || again != part {
		t.Errorf("want at the end of the page, also when it is written again:%s\ngot\n%s\nand again\n%s", known, part, again)
	}
}
