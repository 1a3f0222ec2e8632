// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var writeArrows = flag.Bool("write-arrows", false, "write the arrows of docs/architecture.md anew, from the imports")

const (
	module        = "github.com/singularity-slurm/singularity-slurm/"
	arrowSign     = " ─► "
	importsNone   = "nothing of ours"
	continuation  = "    " // begins a line that goes on with the arrow above
	arrowsColumns = 120
)

// arrowBlocks are the headings of the blocks of arrows, and the folder that names in a block are relative to.
var arrowBlocks = []struct{ heading, folder string }{
	{"### proxyd", "proxyd"}, {"### preemptd and singctl", "preemptd"}, {"### Other packages", ""},
}

// arrows has the packages of this module that each package imports, by paths from the root.
type arrows map[string][]string

// TestArrows compares the arrows of docs/architecture.md with the imports of all packages.
func TestArrows(t *testing.T) {
	path := filepath.Join(root, "docs/architecture.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	imports := listImports(t)
	if *writeArrows {
		text = []byte(replaceArrows(t, string(text), imports))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := parseArrows(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range compareArrows(drawn, imports) {
		t.Error("docs/architecture.md, Arrows: " + difference + "; go test ./tests/style -run TestArrows -write-arrows")
	}
}

// TestArrowDifferences gives the comparison a page that lacks an arrow, a page with an arrow that is no import, a page
// without a package, and a page with a package that is not there.
func TestArrowDifferences(t *testing.T) {
	imports := arrows{
		"proxyd": {"proxyd/criu"}, "proxyd/criu": {"libsingshim/wire", "proxyd/host"}, "proxyd/host": nil,
		"preemptd": {"proxyd/host"}, "libsingshim/wire": nil,
	}
	page := "## Arrows\n\n"
	for _, block := range arrowBlocks {
		page += block.heading + "\n\n" + drawBlock(block.folder, imports)
	}
	for name, c := range map[string]struct{ old, changed, want string }{
		"same":             {"", "", ""},
		"missing":          {"criu ─► libsingshim/wire, host", "criu ─► host", "proxyd/criu imports libsingshim/wire, and no arrow says so"},
		"not there":        {"proxyd ─► criu", "proxyd ─► criu, host", "proxyd does not import proxyd/host, as an arrow says"},
		"package missing":  {"\nhost ─► nothing of ours", "", "the package proxyd/host is missing"},
		"no such package":  {"host ─► nothing of ours", "guest, host ─► nothing of ours", "there is no package proxyd/guest"},
		"next line missed": {"criu ─► libsingshim/wire, host", "criu ─► libsingshim/wire,\n    host, proxyd", "proxyd/criu does not import proxyd, as an arrow says"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.old != "" && !strings.Contains(page, c.old) {
				t.Fatalf("the page lacks %q:\n%s", c.old, page)
			}
			drawn, err := parseArrows(strings.Replace(page, c.old, c.changed, 1))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(compareArrows(drawn, imports), "\n"); got != c.want {
				t.Errorf("differences %q, want %q", got, c.want)
			}
		})
	}
}

// listImports lists the packages of this module with their imports from this module, without tests. It leaves out
// packages for tests, by the end of their names, and the programs and tests in tests.
func listImports(t *testing.T) arrows {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{range .Imports}}{{.}} {{end}}", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := arrows{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		if strings.HasSuffix(name, "test") || strings.HasPrefix(name, "tests/") {
			continue
		}
		imports[name] = nil
		for _, imported := range fields[1:] {
			if ours, found := strings.CutPrefix(imported, module); found {
				imports[name] = append(imports[name], ours)
			}
		}
	}
	if len(imports) < 100 {
		t.Fatalf("go list names %d packages of this module, want 100 or more", len(imports))
	}
	return imports
}

// compareArrows returns how the arrows that are drawn differ from the imports, a sentence for each difference.
func compareArrows(drawn, imports arrows) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if _, there := drawn[name]; !there {
			all = append(all, fmt.Sprintf("the package %s is missing", name))
			continue
		}
		for _, imported := range imports[name] {
			if !slices.Contains(drawn[name], imported) {
				all = append(all, fmt.Sprintf("%s imports %s, and no arrow says so", name, imported))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		if _, there := imports[name]; !there {
			all = append(all, fmt.Sprintf("there is no package %s", name))
			continue
		}
		for _, imported := range drawn[name] {
			if !slices.Contains(imports[name], imported) {
				all = append(all, fmt.Sprintf("%s does not import %s, as an arrow says", name, imported))
			}
		}
	}
	return all
}

// parseArrows reads the blocks of arrows. A line is an arrow from packages to the packages that each of them imports,
// or continues the line above.
func parseArrows(page string) (arrows, error) {
	drawn := arrows{}
	for _, block := range arrowBlocks {
		_, rest, found := strings.Cut(page, "\n"+block.heading+"\n\n```\n")
		text, _, ended := strings.Cut(rest, "\n```\n")
		if !found || !ended {
			return nil, fmt.Errorf("there is no block of arrows below %q", block.heading)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n"+continuation, " "), "\n") {
			from, to, found := strings.Cut(line, arrowSign)
			if !found {
				return nil, fmt.Errorf("below %q: %q is no arrow", block.heading, line)
			}
			for _, name := range strings.Split(from, ", ") {
				name = pathFrom(block.folder, name)
				drawn[name] = nil
				for _, imported := range strings.Split(to, ", ") {
					if imported != importsNone {
						drawn[name] = append(drawn[name], pathFrom(block.folder, imported))
					}
				}
			}
		}
	}
	return drawn, nil
}

// topFolders are the folders of the root that have packages. A name that begins with such a folder is a path from the
// root, any other is relative to the folder of its block.
var topFolders = []string{"contrib", "libsingshim", "policies", "preemptd", "proxyd", "slurm-spank", "slurmrestd-client", "tests"}

// pathFrom returns the path of a package from the root.
func pathFrom(folder, name string) string {
	top, _, _ := strings.Cut(name, "/")
	if folder == "" || slices.Contains(topFolders, top) {
		return name
	}
	return folder + "/" + name
}

// replaceArrows returns the page with the arrows of imports.
func replaceArrows(t *testing.T, page string, imports arrows) string {
	t.Helper()
	for _, block := range arrowBlocks {
		before, rest, found := strings.Cut(page, "\n"+block.heading+"\n\n```\n")
		_, after, ended := strings.Cut(rest, "\n```\n")
		if !found || !ended {
			t.Fatalf("docs/architecture.md has no block of arrows below %q", block.heading)
		}
		page = before + "\n" + block.heading + "\n\n" + drawBlock(block.folder, imports) + after
	}
	return page
}

// drawBlock writes the arrows of the packages in a folder: a line for each package, and a last line for all packages
// that import no package of ours. The folder "" has the packages that are in no other block.
func drawBlock(folder string, imports arrows) string {
	var lines, none []string
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		top, _, _ := strings.Cut(name, "/")
		if folder != "" && top != folder || folder == "" && (top == "proxyd" || top == "preemptd") {
			continue
		}
		short := shortName(folder, name)
		if len(imports[name]) == 0 {
			none = append(none, short)
			continue
		}
		var imported []string
		for _, other := range imports[name] {
			imported = append(imported, shortName(folder, other))
		}
		lines = append(lines, wrapArrow(short+arrowSign+strings.Join(imported, ", ")))
	}
	if len(none) > 0 {
		lines = append(lines, wrapArrow(strings.Join(none, ", ")+arrowSign+importsNone))
	}
	return "```\n" + strings.Join(lines, "\n") + "\n```\n"
}

// shortName returns the name of a package in the block of a folder.
func shortName(folder, name string) string {
	short, found := strings.CutPrefix(name, cmp.Or(folder, "/")+"/")
	if found && pathFrom(folder, short) == name {
		return short
	}
	return name
}

// wrapArrow breaks the line of an arrow where it would be too long.
func wrapArrow(line string) string {
	words := strings.Split(line, " ")
	text, column := words[0], utf8.RuneCountInString(words[0])
	for _, word := range words[1:] {
		width := utf8.RuneCountInString(word)
		if column+1+width > arrowsColumns {
			text, column = text+"\n"+continuation+word, len(continuation)+width
			continue
		}
		text, column = text+" "+word, column+1+width
	}
	return text
}
