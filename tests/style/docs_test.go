// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// readPages returns the pages that people read, by their paths from the root.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "contrib/*/*.md", "*/README.md", "policies/sdk/README.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pages[strings.TrimPrefix(path, root+"/")] = string(text)
		}
	}
	if len(pages) < 15 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	return pages
}

// TestListKeys compares the keys of the list that --singularity= takes with the keys that the plugin's README names.
func TestListKeys(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "slurm-spank/options.c"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, found := range regexp.MustCompile(`\.brief = "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		keys = append(keys, found[1])
	}
	want := "keys: " + strings.Join(keys, ", ") + "\n"
	if len(keys) < 7 || !strings.Contains(readPages(t)["slurm-spank/README.md"], want) {
		t.Errorf("slurm-spank/README.md does not name the keys of --singularity=: %q", want)
	}
}

// configurationKey is the name of a key in a table of keys.
var configurationKey = regexp.MustCompile(`\bName: "([\w.]+)"`)

// TestConfigurationKeys finds each key of the daemons' configurations in the tables of keys for administrators.
func TestConfigurationKeys(t *testing.T) {
	page := readPages(t)["docs/install.md"]
	for _, file := range []string{"proxyd/config/keys.go", "preemptd/config/keys.go"} {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		keys := configurationKey.FindAllStringSubmatch(string(source), -1)
		if len(keys) < 20 {
			t.Errorf("%s has only %d keys", file, len(keys))
		}
		for _, key := range keys {
			if !strings.Contains(page, "\n| `"+key[1]+"` | ") {
				t.Errorf("docs/install.md has no row of the key %s of %s", key[1], file)
			}
		}
	}
}

// noteField is a field of a capsule's note that is saved, with its key.
var noteField = regexp.MustCompile("(?m)^\t(\\w+) .*`json:\"(\\w+)")

// TestNoteKeys finds each key of a capsule's note, with its field, in the table of docs/formats.md.
func TestNoteKeys(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "proxyd/checkpoint/job.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, note, _ := strings.Cut(string(source), "\ntype capsuleNote struct {\n")
	note, _, _ = strings.Cut(note, "\n}\n")
	fields := noteField.FindAllStringSubmatch(note, -1)
	if len(fields) < 25 {
		t.Errorf("a capsule's note has only %d fields", len(fields))
	}
	_, table, _ := strings.Cut(readPages(t)["docs/formats.md"], "\n## A node's note of a capsule\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]string{} // fields, by key
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) == 3 {
			keys := strings.Split(strings.TrimPrefix(cells[0], "| "), ", ")
			for i, field := range strings.Split(cells[1], ", ") {
				rows[keys[min(i, len(keys)-1)]] = field
			}
		}
	}
	for _, field := range fields {
		if key := "`" + field[2] + "`"; rows[key] != "`"+field[1]+"`" {
			t.Errorf("docs/formats.md has no row of the note's key %s, field %s", key, field[1])
		}
	}
}

// TestFigures compares the figures of README.md with the pages of results.
func TestFigures(t *testing.T) {
	pages := readPages(t)
	const programs = `\*\*\d+ of (\d+) programs pass`
	for _, c := range []struct{ on, said, page, found string }{
		{"README.md", `(\d+) programs of Debian and`, "docs/corpus.md", programs},
		{"README.md", `(\d+) unmodified programs,`, "docs/corpus.md", programs},
		{"docs/use.md", `(\d+) unmodified programs of`, "docs/corpus.md", programs},
		{"README.md", `(\d+) jobs on software GPUs killed`, "docs/devices.md", programs},
		{"README.md", `(\d+) faults at the phases`, "docs/faults.md", `\*\*(\d+) cases, `},
		{"README.md", `1000 random events on (\d+) jobs`, "docs/storms.md", `\| 1000 \| (\d+) \|[^\n]*to the end \|`},
	} {
		said := regexp.MustCompile(c.said).FindStringSubmatch(pages[c.on])
		found := regexp.MustCompile(c.found).FindStringSubmatch(pages[c.page])
		if said == nil || found == nil || said[1] != found[1] {
			t.Errorf("%s says %q, and %s %q", c.on, said, c.page, found)
		}
	}
}

// link is a link to something in this tree, or to a heading of the same page: no address.
var link = regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^): ]+))?\)`)

// TestLinks follows each link between the pages, to the heading that the link names.
func TestLinks(t *testing.T) {
	pages := readPages(t)
	for page, text := range pages {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := page
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(page), found[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, found[1])
			}
			if anchor := found[2]; anchor != "" && !listAnchors(pages[target])[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

// listAnchors returns the anchors of the headings of a page, as GitHub makes them.
func listAnchors(text string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			heading = strings.ToLower(strings.TrimSpace(heading))
			heading = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(heading, "")
			anchors[strings.ReplaceAll(heading, " ", "-")] = true
		}
	}
	return anchors
}

// stepNumber is a step of the installation in running text, without a link to its heading.
var stepNumber = regexp.MustCompile(`\bin step \d`)

// TestSteps: a step that docs/install.md names is a link, which TestLinks follows.
func TestSteps(t *testing.T) {
	if bare := stepNumber.FindString(readPages(t)["docs/install.md"]); bare != "" {
		t.Errorf("docs/install.md: %q is to be a link to the step's heading", bare)
	}
}

// TestDecisions: the list of decisions has each page, in order, with the title that the page has.
func TestDecisions(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "docs/decisions/[0-9]*.md"))
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d decisions, want 20 at least: %v", len(paths), err)
	}
	pages := readPages(t)
	var want strings.Builder
	for i, path := range paths {
		text := pages[strings.TrimPrefix(path, root+"/")]
		heading, _, _ := strings.Cut(text, "\n")
		title, numbered := strings.CutPrefix(heading, fmt.Sprintf("# %d. ", i+1))
		if !numbered {
			t.Errorf("%s begins with %q, want number %d", path, heading, i+1)
		}
		fmt.Fprintf(&want, "%d. [%s](%s)\n", i+1, title, filepath.Base(path))
	}
	if !strings.HasSuffix(pages["docs/decisions/README.md"], "\n\n"+want.String()) {
		t.Errorf("the list in docs/decisions/README.md is not\n%s", want.String())
	}
}

// TestMinutes compares the minutes that pages name for a target with the minutes of `make help`.
func TestMinutes(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	pages := readPages(t)
	pages["Makefile"] = string(makefile)
	for _, c := range []struct{ target, page, text string }{
		{"check", "CONTRIBUTING.md", `\| ` + "`make check`" + `[^|]*\| (\d+) at most`},
		{"test", "CONTRIBUTING.md", `\| ` + "`make test`" + `[^|]*\| (\d+) \|`},
		{"test-full", "CONTRIBUTING.md", `\| ` + "`make test-full`" + `[^|]*\| (\d+) \|`},
		{"ci", "CONTRIBUTING.md", `\| ` + "`.ci/run`" + `[^|]*\| (\d+) at most`},
		{"test", "README.md", `\| ` + "`make test`" + ` \| (\d+) minutes`},
		{"test-full", "README.md", "`make test-full`" + ` has the rest, in (\d+)`},
		{"test", "Makefile", `make test takes about (\d+) minutes`},
		{"test-full", "Makefile", `make test-full takes about (\d+) minutes`},
	} {
		help := regexp.MustCompile(`(?m)^` + c.target + `:.* ## .*\((\d+) min\b`).FindStringSubmatch(string(makefile))
		said := regexp.MustCompile(c.text).FindStringSubmatch(pages[c.page])
		if help == nil || said == nil || help[1] != said[1] {
			t.Errorf("make %s: %s has the minutes %q, and make help %q", c.target, c.page, said, help)
		}
	}
}

// setting is a key of a policy's settings, as in its policy.go.
var setting = regexp.MustCompile("`json:\"(\\w+)\"`")

// TestPolicySettings finds each policy, and each key of its settings, on the page for administrators.
func TestPolicySettings(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := filepath.Glob(filepath.Join(root, "policies/*/policy.go"))
	if err != nil || len(policies) < 6 {
		t.Fatalf("policies/*/policy.go, want 6 files at least: %v: %v", policies, err)
	}
	for _, file := range policies {
		name := filepath.Base(filepath.Dir(file))
		_, row, found := strings.Cut(string(page), "\n| `"+name+"` |")
		if !found {
			t.Errorf("docs/policies.md has no row of the policy %s", name)
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range setting.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`\b` + key[1] + `: `).MatchString(row) {
				t.Errorf("docs/policies.md does not say what %s of the policy %s is", key[1], name)
			}
		}
	}
}

// path is a file or a folder of this tree in a page.
var path = regexp.MustCompile("`((?:slurm-spank|libsingshim|proxyd|preemptd|policies|slurmrestd-client|contrib|tests|docs)/[\\w./-]+)`")

// TestPaths finds each file that the pages for contributors name. A change that moves a file changes the pages, too.
func TestPaths(t *testing.T) {
	named := 0
	for page, text := range readPages(t) {
		if page != "CONTRIBUTING.md" && !strings.HasPrefix(page, "docs/decisions/") {
			continue
		}
		for _, found := range path.FindAllStringSubmatch(text, -1) {
			named++
			if !strings.Contains(found[1], "NAME") {
				if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
					t.Errorf("%s names %s, which is not there", page, found[1])
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("%d files are named: the pattern is wrong", named)
	}
}

// sourceName is a source file in a page, with the folders above it or without.
var sourceName = regexp.MustCompile("`((?:[\\w-]+/)*[\\w-]+\\.(?:go|c|h|tbl|proto))`")

// listPaths returns the paths of all files of the tree, and the ends of these paths: a page or a comment may leave out
// the first folders.
func listPaths(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		for rest := strings.TrimPrefix(path, root+"/"); ; {
			paths[rest] = true
			_, after, found := strings.Cut(rest, "/")
			if !found {
				return nil
			}
			rest = after
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestSourceNames finds each source file that a page names.
func TestSourceNames(t *testing.T) {
	paths := listPaths(t)
	named := 0
	for page, text := range readPages(t) {
		if page == "CHANGELOG.md" { // it names files of earlier releases
			continue
		}
		for _, found := range sourceName.FindAllStringSubmatch(text, -1) {
			named++
			if !paths[found[1]] && !strings.Contains(found[1], "NAME") {
				t.Errorf("%s names %s, which is not there", page, found[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("%d files are named: the pattern is wrong", named)
	}
}

// command is a target of make in a page.
var command = regexp.MustCompile("`make ([a-z][a-z-]*)")

// TestTargets: each target of make that a page names is there, and `make help` has each that a person would call.
func TestTargets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets, helped := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ".PHONY:") {
			for _, target := range strings.Fields(line)[1:] {
				targets[target] = true
			}
		}
		if target, _, ok := strings.Cut(line, ":"); ok && strings.Contains(line, " ## ") {
			helped[target] = true
		}
	}
	for page, text := range readPages(t) {
		if page == "CHANGELOG.md" { // which has history
			continue
		}
		for _, found := range command.FindAllStringSubmatch(text, -1) {
			if !targets[found[1]] {
				t.Errorf("%s: there is no target %s", page, found[1])
			} else if !helped[found[1]] {
				t.Errorf("%s names make %s, which `make help` leaves out", page, found[1])
			}
		}
	}
}

// maxLine is how long a line of a page may be, in characters, outside of tables and of output of programs.
const maxLine = 120

// TestLineLength finds lines for which a reader has to make the window wider. Output of a program stays as the program
// printed it: the lines of a block that begins with a typed command, after "$ ".
func TestLineLength(t *testing.T) {
	for page, text := range readPages(t) {
		fenced, begins, output := false, false, false
		for n, line := range strings.Split(text, "\n") {
			typed := strings.HasPrefix(strings.TrimSpace(line), "$ ")
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fenced, begins, output = !fenced, !fenced, false
			case begins:
				begins, output = false, typed
			}
			excused := output && !typed || !fenced && (strings.HasPrefix(line, "|") || strings.HasPrefix(line, "!["))
			if length := utf8.RuneCountInString(line); length > maxLine && !excused {
				t.Errorf("%s:%d: %d characters, and a line may have %d", page, n+1, length, maxLine)
			}
		}
	}
}

// TestAttacks: the attacks on a cluster that docs/security.md names are in the part of make test that the page says they
// are in.
func TestAttacks(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ATTACKS := (.*)$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile has no list of ATTACKS")
	}
	attacks := strings.Split(string(found[1]), "|")
	named := regexp.MustCompile("`cluster: (Test\\w+)`|`(Test\\w+)` in `tests/cluster`").FindAllStringSubmatch(readPages(t)["docs/security.md"], -1)
	if len(named) < 7 {
		t.Errorf("docs/security.md names only %q", named)
	}
	for _, name := range named {
		test := cmp.Or(name[1], name[2])
		if test != "TestPMIx" && test != "TestRefusals" && !slices.Contains(attacks, test) {
			t.Errorf("docs/security.md says that %s is in make test, and ATTACKS of the Makefile does not have it", test)
		}
	}
}
