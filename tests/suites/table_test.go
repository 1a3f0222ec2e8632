// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// page is the content of docs/cuda-suites.md.
type page map[string]*suiteRows

// suiteRows are the outcomes of a suite's programs.
type suiteRows struct {
	what string
	rows map[string]outcome
}

const pageHead = "# Other people's CUDA programs\n\nWritten by `make test-suites`; do not edit. With `-run`, as in `-run TestSuites/debian-cuda-samples/reduction`, the test\n" +
	"replaces the rows of the programs that it runs and leaves the rest.\n\n" +
	"Each program is unmodified, compiled with nvcc so that it has PTX, and run on software GPUs by `proxyd run`, with a\n" +
	"bound on time and memory. *Right* is what the program says of its results by comparing them with its own computation\n" +
	"on the CPU (*its words*), or its output where the suite has the expected one, or else its exit code alone. *Refused by\n" +
	"name*: the program needs what the software GPU lacks, and the last column has its name: of the call, as standard error\n" +
	"has it, or in the program's own words. *Too slow*: it was not at its end when it had had its time of the processors\n" +
	"(the key `limit` of the suite's description). *Hang*: nothing of it ran any more, or it could not be ended. *Wrong* is\n" +
	"everything else, as are all programs whose device server dies; what a program says of a wrong result, an error of a\n" +
	"kernel and the end by a signal are wrong although a call was refused. *Not built* needs a library that the machine\n" +
	"lacks. The samples are those of Debian's package; the others were in a folder that `SUITES=` named\n" +
	"([tests/suites](../tests/suites/doc.go) says what has to be there).\n"

// String is the page's text.
func (p page) String() string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("\n| suite | programs |")
	under := "\n| --- | --: |"
	for _, v := range verdicts {
		fmt.Fprintf(&b, " %s |", v)
		under += " --: |"
	}
	b.WriteString(under + "\n")
	total := map[verdict]int{}
	byExit, all := 0, 0
	names := slices.Sorted(maps.Keys(p))
	for _, name := range names {
		counts := map[verdict]int{}
		for _, o := range p[name].rows {
			counts[o.verdict]++
			total[o.verdict]++
			all++
			if o.verdict == right && o.by == byExitCode {
				byExit++
			}
		}
		writeCounts(&b, name, len(p[name].rows), counts)
	}
	writeCounts(&b, "**all**", all, total)
	fmt.Fprintf(&b, "\n%d of those that are right say nothing about their results: they rest on the exit code.\n", byExit)
	for _, name := range names {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| program | result | by | seconds | what it needs, or what is wrong |\n| --- | --- | --- | --: | --- |\n", name, p[name].what)
		for _, program := range slices.Sorted(maps.Keys(p[name].rows)) {
			o := p[name].rows[program]
			text := string(o.verdict)
			if o.verdict == wrong || o.verdict == hang {
				text = "**" + text + "**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %s |\n", program, text, o.by, o.took.Seconds(), cellText(o.why))
		}
	}
	return b.String()
}

func writeCounts(b *strings.Builder, name string, programs int, counts map[verdict]int) {
	fmt.Fprintf(b, "| %s | %d |", name, programs)
	for _, v := range verdicts {
		fmt.Fprintf(b, " %d |", counts[v])
	}
	b.WriteString("\n")
}

// maxCell is how long a cell's text may be.
const maxCell = 240

// cellText keeps a text from ending its table cell or line, and from being long.
func cellText(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if r := []rune(s); len(r) > maxCell {
		s = string(r[:maxCell]) + " …"
	}
	return strings.ReplaceAll(s, "|", `\|`)
}

// readPage reads the rows of a page.
func readPage(text string) page {
	p := page{}
	var s *suiteRows
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			s = p.suiteRows(title)
			continue
		}
		row, ok := strings.CutPrefix(line, "| ")
		switch {
		case s == nil || line == "":
		case !ok:
			s.what = line
		default:
			cells := strings.Split(strings.TrimSuffix(row, " |"), " | ")
			if len(cells) == 4 { // the last is empty
				cells = append(cells, "")
			}
			seconds, err := strconv.ParseFloat(cells[min(3, len(cells)-1)], 64)
			if len(cells) == 5 && err == nil {
				s.rows[cells[0]] = outcome{
					verdict: verdict(strings.Trim(cells[1], "*")), by: cells[2],
					took: time.Duration(seconds * float64(time.Second)), why: strings.ReplaceAll(cells[4], `\|`, "|"),
				}
			}
		}
	}
	return p
}

// suiteRows returns a suite's rows.
func (p page) suiteRows(name string) *suiteRows {
	if p[name] == nil {
		p[name] = &suiteRows{rows: map[string]outcome{}}
	}
	return p[name]
}

// loadPage reads the page at path, which need not be there yet.
func loadPage(path string) (page, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return readPage(string(text)), nil
}

// mergeIntoPage puts a suite's row into the page at path.
func mergeIntoPage(path, suite, what, program string, o outcome) error {
	p, err := loadPage(path)
	if err != nil {
		return err
	}
	p.suiteRows(suite).what = what
	p[suite].rows[program] = o
	return os.WriteFile(path, []byte(p.String()), 0o666)
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	rows := map[string]outcome{
		"scan":   {verdict: right, by: byWords, took: 1500 * time.Millisecond},
		"bare":   {verdict: right, by: byExitCode, took: time.Second},
		"sort":   {verdict: wrong, by: byWords, took: time.Second, why: "a|b is 3"},
		"filter": {verdict: refused, by: byExitCode, took: time.Second, why: "cuTexture"},
	}
	for name, o := range rows {
		if err := mergeIntoPage(path, "mine", "Programs that sort.", name, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := mergeIntoPage(path, "other", "Others.", "spin", outcome{verdict: hang, by: byExitCode}); err != nil {
		t.Fatal(err)
	}
	p, err := loadPage(path)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(p["mine"].rows, rows) || p["mine"].what != "Programs that sort." || len(p["other"].rows) != 1 {
		t.Errorf("the page has the rows %+v %+v", p["mine"], p["other"])
	}
	text := p.String()
	for _, want := range []string{
		"| suite | programs | right | refused by name | wrong | hang | too slow | not built | needs graphics |\n",
		"| mine | 4 | 2 | 1 | 1 | 0 | 0 | 0 | 0 |\n| other | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |\n| **all** | 5 | 2 | 1 | 1 | 1 | 0 | 0 | 0 |\n",
		"\n1 of those that are right say nothing",
		"| sort | **wrong** | its words | 1.0 | a\\|b is 3 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if again := readPage(text).String(); again != text {
		t.Errorf("the page that was read is\n%s\nand not\n%s", again, text)
	}
	if got := cellText(strings.Repeat("word ", 100)); len(got) > 2*maxCell || !strings.HasSuffix(got, " …") {
		t.Errorf("cellText of 500 characters = %q, want it cut, with … at the end", got)
	}
}
