// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// description has the rules by which the programs of a suite are found, built, run and judged. Package suites explains
// the keys.
type description struct {
	what, folder string
	programs     []string
	graphics     *regexp.Regexp
	common       rules
	of           map[string]rules // by program: the common rules with the program's own
}

// rules are how a program is built, run and judged.
type rules struct {
	build, run             string
	arguments              []string // of each run
	libraries              []string // Debian packages
	devices                int
	memory                 string
	limit                  time.Duration
	right, wrong, declines *regexp.Regexp
	refusal                *regexp.Regexp
	expect                 string
	ignore                 *regexp.Regexp
	note                   string
}

// parseDescription reads a description.
func parseDescription(text string) (*description, error) {
	d := &description{of: map[string]rules{}, common: rules{run: "./{name}", devices: 1, memory: "4G", limit: time.Minute}}
	program := ""
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d: %q is not of the form key: text", number+1, line)
		}
		value = strings.TrimSpace(value)
		var err error
		switch {
		case key == "program":
			program = value
			if _, ok := d.of[program]; ok {
				return nil, fmt.Errorf("line %d: program %s is described twice", number+1, program)
			}
			d.of[program] = d.common
		case program != "":
			r := d.of[program]
			err = r.setKey(key, value)
			d.of[program] = r
		default:
			err = d.setKey(key, value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", number+1, key, err)
		}
	}
	if len(d.programs) == 0 || d.common.build == "" {
		return nil, fmt.Errorf("a description needs the keys programs and build")
	}
	return d, nil
}

// readDescription reads the description in a file.
func readDescription(file string) (*description, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d, err := parseDescription(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// setKey sets a key of the whole suite.
func (d *description) setKey(key, value string) (err error) {
	switch key {
	case "what":
		d.what = value
	case "folder":
		d.folder = value
	case "programs":
		d.programs = strings.Fields(value)
		for _, p := range d.programs {
			if _, err := path.Match(p, ""); err != nil {
				return err
			}
		}
	case "graphics":
		d.graphics, err = regexp.Compile(value)
	default:
		return d.common.setKey(key, value)
	}
	return err
}

// setKey sets a key that a program may have for itself.
func (r *rules) setKey(key, value string) (err error) {
	switch key {
	case "build":
		r.build = value
	case "run":
		r.run = value
	case "libraries":
		r.libraries = strings.Fields(value)
	case "arguments":
		r.arguments = strings.Split(value, ";")
	case "devices":
		r.devices, err = strconv.Atoi(value)
	case "memory":
		r.memory = value
	case "limit":
		r.limit, err = time.ParseDuration(value)
	case "right":
		r.right, err = regexp.Compile(value)
	case "wrong":
		r.wrong, err = regexp.Compile(value)
	case "declines":
		r.declines, err = regexp.Compile(value)
	case "refusal":
		r.refusal, err = regexp.Compile(value)
	case "expect":
		r.expect = value
	case "ignore":
		r.ignore, err = regexp.Compile(value)
	case "note":
		r.note = value
	default:
		err = fmt.Errorf("there is no such key")
	}
	return err
}

// program is one of a suite's programs.
type program struct {
	name   string
	built  string // the name without a run's arguments: built once for all runs
	folder string // below the suite's folder
	file   string // the matched file, in the folder
	rules
}

// findPrograms returns the programs of a suite's folder, in order.
func (d *description) findPrograms(folder fs.FS) ([]program, error) {
	var all []program
	seen := map[string]bool{}
	for _, pattern := range d.programs {
		files, err := fs.Glob(folder, pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			p := program{folder: path.Dir(file), file: path.Base(file), rules: d.common}
			p.name = strings.TrimSuffix(p.file, path.Ext(p.file))
			if p.name == "Makefile" {
				p.name = path.Base(p.folder)
			}
			if seen[p.name] {
				p.name = path.Base(p.folder) + "-" + p.name
			}
			if seen[p.name] {
				return nil, fmt.Errorf("two programs are named %s", p.name)
			}
			seen[p.name] = true
			if own, ok := d.of[p.name]; ok {
				p.rules = own
			}
			all = append(all, p.splitByArguments()...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no file matches %s", strings.Join(d.programs, " "))
	}
	for name := range d.of {
		if !seen[name] {
			return nil, fmt.Errorf("the description has a program %s, which the suite lacks", name)
		}
	}
	slices.SortFunc(all, func(a, b program) int {
		return strings.Compare(path.Join(a.folder, a.file, a.name), path.Join(b.folder, b.file, b.name))
	})
	return all, nil
}

// splitByArguments returns a program for each list of arguments.
func (p program) splitByArguments() []program {
	p.built = p.name
	if len(p.arguments) == 0 {
		return []program{p}
	}
	var all []program
	for _, arguments := range p.arguments {
		fields := strings.Fields(arguments)
		one := p
		one.name, one.run = p.built+"-"+strings.Join(fields, "-"), p.run+" "+strings.Join(fields, " ")
		all = append(all, one)
	}
	return all
}

// fillCommand puts a program's values into a command of its description.
func (p program) fillCommand(command, cuda string) string {
	return strings.NewReplacer("{cuda}", cuda, "{file}", p.file, "{name}", p.built, "{gencode}", gencode).Replace(command)
}

// gencode are nvcc's options for PTX alone, of a version that all of CUDA's releases since 11 write.
const gencode = "-gencode arch=compute_80,code=compute_80"

func TestParseDescription(t *testing.T) {
	d, err := parseDescription(`
# two programs
what: programs that multiply
programs: */Makefile more/*.cu
graphics: -lGL
build: make CUDA_PATH={cuda} NAME={name}
right: PASSED
limit: 30s

program: sort
run: ./{name} 100
devices: 2
libraries: libboost-dev libpng-dev
`)
	if err != nil {
		t.Fatal(err)
	}
	if d.common.devices != 1 || d.of["sort"].devices != 2 || d.of["sort"].limit != 30*time.Second || d.of["sort"].right == nil {
		t.Errorf("the rules are %+v, and for sort %+v", d.common, d.of["sort"])
	}
	if len(d.common.libraries) != 0 || strings.Join(d.of["sort"].libraries, " ") != "libboost-dev libpng-dev" {
		t.Errorf("the libraries are %q, and for sort %q", d.common.libraries, d.of["sort"].libraries)
	}
	p := program{name: "sort-100", built: "sort", file: "a.cu", rules: d.of["sort"]}
	if got := p.fillCommand(p.build, "/cuda"); got != "make CUDA_PATH=/cuda NAME=sort" {
		t.Errorf("the build command of sort-100 is %q, want that of sort", got)
	}
	for text, want := range map[string]string{
		"what: no more":                        "needs the keys programs and build",
		"programs: *\nbuild: x\ncolour: red":   "line 3: colour: there is no such key",
		"programs: *\nbuild: x\nright: (":      "line 3: right: error parsing regexp",
		"programs: [\nbuild: x":                "line 1: programs: syntax error in pattern",
		"programs: *\nbuild x":                 "line 2: \"build x\" is not of the form",
		"build: x\nprogram: a\nprogram: a":     "line 3: program a is described twice",
		"build: x\nprogram: a\nprograms: *.cu": "line 3: programs: there is no such key",
	} {
		if _, err := parseDescription(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseDescription(%q) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestFindPrograms(t *testing.T) {
	d, err := parseDescription("programs: */Makefile */*.cu\nbuild: make\nprogram: sort\ndevices: 2\narguments: 1; 2 up")
	if err != nil {
		t.Fatal(err)
	}
	suite := mapFS("sort/Makefile", "scan/Makefile", "plain/sum.cu", "other/sum.cu", "README")
	programs, err := d.findPrograms(suite)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range programs {
		names = append(names, fmt.Sprintf("%s/%s/%d", p.folder, p.name, p.devices))
		if p.name == "sort-2-up" && (p.run != "./{name} 2 up" || p.built != "sort") {
			t.Errorf("%s is run by %q, and is built as %q", p.name, p.run, p.built)
		}
	}
	if got, want := strings.Join(names, " "), "other/sum/1 plain/plain-sum/1 scan/scan/1 sort/sort-1/2 sort/sort-2-up/2"; got != want {
		t.Errorf("the programs are %s, not %s", got, want)
	}
	if _, err := d.findPrograms(mapFS("scan/Makefile")); err == nil || !strings.Contains(err.Error(), "a program sort, which the suite lacks") {
		t.Errorf("a description of a program that is not there: %v", err)
	}
	if _, err := d.findPrograms(mapFS("README")); err == nil || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("findPrograms in a suite without programs = %v, want that no file matches", err)
	}
}

// TestDescriptions reads the descriptions of the repository.
func TestDescriptions(t *testing.T) {
	files, err := filepath.Glob("descriptions/*.suite")
	if err != nil || len(files) == 0 {
		t.Fatalf("descriptions/*.suite: files %v: %v", files, err)
	}
	for _, file := range files {
		if _, err := readDescription(file); err != nil {
			t.Error(err)
		}
	}
}
