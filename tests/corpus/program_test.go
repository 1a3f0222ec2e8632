// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package corpus runs unmodified programs from Debian as jobs of an ordinary user, kills
// them at random moments in every way Slurm has, and wants their results to be
// those of an undisturbed run, byte for byte. The package drives minicluster and Slurm from outside.
//
// Its tests need root and half an hour; they run under the build tag "corpus". The parts without a cluster (the plan of
// the kills, the comparison, the table) are tested without the tag.
//
// # A program of the corpus
//
// A single batch script in programs/. The script prints a line at once, works for 5 to 15 seconds on
// a single CPU of each of its nodes, and writes results into the folder of its submission,
// which must be the same in each run: no times, process numbers, host
// names, paths of temporary or of its own folder. Its log is called log; a step's log, if there
// is one, log.X.Y. Ports are unique in the corpus, since without capsules jobs share their node's.
//
// A program runs with its defaults, as people run it. A script sets something only for what is said above: seeds,
// locales and dates for results that are the same in each run, the number of threads for a single CPU, a home, caches
// and data in folders of its own. Any other setting has its reason beside it, and none is there so that a checkpoint
// works.
package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// program is a single batch script of the folder programs, with the fields of the script's head.
type program struct {
	name     string
	what     string // a single line for the table
	needs    string // Debian packages
	nodes    int
	elements int    // of a job array; 1 for a plain job
	gpus     int    // of each node
	tasks    int    // of each node
	most     int    // GPUs that the program can use, with lent GPUs
	first    string // more options of the first run, which plain Slurm could not do
	site     string // software of the site beside Slurm: a key of siteParts
	signal   string // the signal that Slurm is asked to send before the time limit
	fails    string // why the program is known to fail; "" for all but a few
	failure  string // a regular expression for the text of such a failure; any other failure is a defect
}

var (
	whatLine  = regexp.MustCompile(`(?m)^# What: (.+)$`)
	failsLine = regexp.MustCompile(`(?m)^# Fails: (.+)\n# Failure: (.+)$`)
	siteLine  = regexp.MustCompile(`(?m)^# Site: (.+)$`)
	firstLine = regexp.MustCompile(`(?m)^# First: (.+)$`)
	needsLine = regexp.MustCompile(`(?m)^# Needs: (.+)$`)
	sbatch    = regexp.MustCompile(`(?m)^#SBATCH (.+)$`)
	nodesFlag = regexp.MustCompile(`--nodes=(\d+)`)
	arrayFlag = regexp.MustCompile(`--array=1-(\d+)`)
	gpusFlag  = regexp.MustCompile(`--gpus-per-node=(\d+)`)
	tasksFlag = regexp.MustCompile(`--ntasks-per-node=(\d+)`)
	// Of the batch script alone ("B:") is not among the corpus' programs.
	signalFlag = regexp.MustCompile(`--signal=(?:SIG)?([A-Z0-9]+)@`)
	mostFlag   = regexp.MustCompile(`--singularity-gpus=\d+-(\d+)`)
)

// readPrograms returns the programs of a folder by name, or the first head that is wrong.
func readPrograms(dir string) ([]program, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.sh"))
	if err != nil {
		return nil, err
	}
	var all []program
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := parseProgram(strings.TrimSuffix(filepath.Base(path), ".sh"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func parseProgram(name, text string) (program, error) {
	p := program{name: name, nodes: 1, elements: 1, tasks: 1}
	what, needs, options := whatLine.FindStringSubmatch(text), needsLine.FindStringSubmatch(text), sbatch.FindStringSubmatch(text)
	switch {
	case what == nil || needs == nil || options == nil:
		return p, fmt.Errorf(`want "# What: …", "# Needs: …" and "#SBATCH …" lines`)
	case !strings.Contains(options[1], "--job-name="+name+" "):
		return p, fmt.Errorf("want --job-name=%s", name)
	case !strings.Contains(options[1]+" ", "--output=log ") && !strings.Contains(options[1], "--output=log.%a"):
		return p, fmt.Errorf("want --output=log, or log.%%a for an array")
	}
	p.what, p.needs = what[1], needs[1]
	if first := firstLine.FindStringSubmatch(text); first != nil {
		p.first = first[1]
	}
	if site := siteLine.FindStringSubmatch(text); site != nil {
		p.site = site[1]
	}
	if signal := signalFlag.FindStringSubmatch(options[1]); signal != nil {
		p.signal = signal[1]
	}
	if fails := failsLine.FindStringSubmatch(text); fails != nil {
		p.fails = fails[1]
		if _, err := regexp.Compile(fails[2]); err != nil {
			return p, fmt.Errorf("# Failure: %w", err)
		}
		p.failure = fails[2]
	} else if strings.Contains(text, "\n# Fails: ") {
		return p, fmt.Errorf(`want a line "# Failure: REGEXP", which is in what the program's failures say, after "# Fails: …"`)
	}
	for _, f := range []struct {
		flag *regexp.Regexp
		into *int
	}{{nodesFlag, &p.nodes}, {arrayFlag, &p.elements}, {gpusFlag, &p.gpus}, {tasksFlag, &p.tasks}, {mostFlag, &p.most}} {
		if m := f.flag.FindStringSubmatch(options[1]); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return p, err
			}
			*f.into = n
		}
	}
	return p, nil
}

// isKnown reports whether a failure is the known failure of the program.
func (p program) isKnown(failure error) bool {
	return p.fails != "" && regexp.MustCompile(p.failure).MatchString(failure.Error())
}

// TestPrograms: the corpus is as large as promised, and every script is one that the
// harness understands.
func TestPrograms(t *testing.T) {
	all, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	devices, err := readPrograms("devices")
	if err != nil {
		t.Fatal(err)
	}
	two, known := 0, 0
	for _, p := range append(devices, all...) {
		if p.fails != "" {
			known++
		}
		if _, known := siteParts[p.site]; p.site != "" && !known {
			t.Errorf("%s: no site has %q", p.name, p.site)
		}
		if p.nodes > nodesPerLane-1 {
			t.Errorf("%s: %d nodes, and a lane has %d, one of them to move to", p.name, p.nodes, nodesPerLane)
		}
		if p.nodes == 2 && p.gpus == 0 {
			two++
		}
	}
	if len(all)-known < 200 || two < 17 || len(devices) < 15 {
		t.Errorf("%d programs, %d of them on two nodes, %d known to fail: want 200 that pass, and 17", len(all), two, known)
	}
}

// TestPage: docs/corpus.md has a row for each program, and each of them passes, but for failures that the program's
// script names.
func TestPage(t *testing.T) {
	all, err := readPrograms("programs")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/corpus.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := readPage(string(text))
	for _, p := range all {
		r, ok := rows[p.name]
		if !ok {
			t.Errorf("%s: no row: make test-corpus RUN='TestCorpus/^%s$'", p.name, p.name)
			continue
		}
		if verdict := r.cells[columnVerdict]; verdict != passes && (verdict != failsAsKnown || p.fails == "") {
			t.Errorf("%s: its row says %q", p.name, verdict)
		}
		if what := r.cells[1]; what != cellText(p.what) {
			t.Errorf("%s: its row says %q, and the script %q", p.name, what, p.what)
		}
		delete(rows, p.name)
	}
	for name := range rows {
		t.Errorf("%s: a row, and no program", name)
	}
}

func TestParseProgram(t *testing.T) {
	head := "#!/bin/sh\n# What: counts\n# Needs: coreutils\n"
	for name, c := range map[string]struct {
		text string
		want program
		err  string
	}{
		"plain": {text: head + "#SBATCH --job-name=p --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1}},
		"two nodes": {text: head + "#SBATCH --job-name=p --nodes=2 --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 2, elements: 1, tasks: 1}},
		"array": {text: head + "#SBATCH --job-name=p --array=1-3 --output=log.%a\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 3, tasks: 1}},
		"grows": {text: head + "#SBATCH --job-name=p --gpus-per-node=1 --singularity-gpus=1-2 --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1, gpus: 1, most: 2}},
		"known to fail": {text: head + "# Fails: by design\n# Failure: ^log: \n#SBATCH --job-name=p --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1, fails: "by design", failure: "^log: "}},
		"its first run": {text: head + "# First: --singularity\n#SBATCH --job-name=p --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1, first: "--singularity"}},
		"has itself requeued": {text: head + "#SBATCH --job-name=p --signal=SIGUSR1@90 --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1, signal: "USR1"}},
		"needs a server": {text: head + "# Site: redis\n#SBATCH --job-name=p --output=log\n",
			want: program{name: "p", what: "counts", needs: "coreutils", nodes: 1, elements: 1, tasks: 1, site: "redis"}},
		"fails in any way": {text: head + "# Fails: by design\n#SBATCH --job-name=p --output=log\n",
			err: `want a line "# Failure: REGEXP", which is in what the program's failures say, after "# Fails: …"`},
		"no head":    {text: "#SBATCH --job-name=p --output=log\n", err: `want "# What: …", "# Needs: …" and "#SBATCH …" lines`},
		"wrong name": {text: head + "#SBATCH --job-name=pq --output=log\n", err: "want --job-name=p"},
		"other log":  {text: head + "#SBATCH --job-name=p --output=log.txt\n", err: "want --output=log, or log.%a for an array"},
	} {
		got, err := parseProgram("p", c.text)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: error %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: the parsed program is %+v, %v", name, got, err)
		}
	}
}
