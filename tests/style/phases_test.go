// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkpointPhase is a row of the table of phases.
type checkpointPhase struct {
	constant string // in proxyd/rpc
	name     string
	limit    string // as people read the deadline: "15 s", "1 min"
}

// TestPhases checks that each place that lists the phases of a checkpoint has all of the table's, in its order: docs,
// preemptd, the contract and the tests of faults.
func TestPhases(t *testing.T) {
	phases := readPhases(t)
	frozen := slices.IndexFunc(phases, func(p checkpointPhase) bool { return p.constant == "PhaseFreeze" })
	if frozen < 0 {
		t.Fatal("no phase freezes the job")
	}
	var names, quoted, limits []string
	for _, p := range phases {
		names, quoted, limits = append(names, p.name), append(quoted, strconv.Quote(p.name)), append(limits, p.name+" "+p.limit)
	}
	number := map[int]string{6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}[len(phases)]
	wantText(t, "docs/glossary.md", "one of the "+number+" steps of a checkpoint: "+strings.Join(names, ", ")+".")
	wantText(t, "docs/install.md", "The limits of the phases cannot be set: "+strings.Join(limits, ", ")+".")
	wantText(t, "proxyd/rpc/proxyd.proto", "string phase = 5; // "+strings.Join(quoted, ", "))

	_, table, _ := strings.Cut(readText(t, "docs/architecture.md"), "\n| phase | on every node | undone by |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	wantSame(t, "docs/architecture.md, the table of phases", firstGroups(table, `(?m)^\| (\w+) \|`), names)

	_, stopped, _ := strings.Cut(readText(t, "preemptd/cluster/build.go"), "\nvar stoppedPhases = ")
	stopped, _, _ = strings.Cut(stopped, "\n}\n")
	constants := firstGroups(stopped, `rpc\.(\w+): true`)
	wantSame(t, "preemptd/cluster/build.go, stoppedPhases", constants, constantsOf(phases[frozen:]))

	_, words, _ := strings.Cut(readText(t, "preemptd/singctl/progress.go"), "\nvar wordsOfProgress = ")
	words, _, _ = strings.Cut(words, "\n}\n")
	_, moments, _ := strings.Cut(readText(t, "tests/faults/moment_test.go"), "\nvar moments = ")
	for _, p := range phases {
		if !strings.Contains(words, "rpc."+p.constant+":") {
			t.Errorf("preemptd/singctl/progress.go, wordsOfProgress: there is no row of phase %s", p.name)
		}
		if !regexp.MustCompile(`beginOf\(\w+, "` + p.name + `"`).MatchString(moments) {
			t.Errorf("tests/faults/moment_test.go, moments: no fault is at the beginning of phase %s", p.name)
		}
	}
}

// readPhases reads the table of phases.
func readPhases(t *testing.T) []checkpointPhase {
	t.Helper()
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Phase\w+)\s+= "(\w+)"$`).FindAllStringSubmatch(readText(t, "proxyd/rpc/names.go"), -1) {
		values[m[1]] = m[2]
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "proxyd/checkpoint/phases.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []checkpointPhase
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "phases" || len(spec.Values) != 1 {
			return true
		}
		for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
			cells := row.(*ast.CompositeLit).Elts
			constant := cells[0].(*ast.SelectorExpr).Sel.Name
			all = append(all, checkpointPhase{constant, values[constant], limitText(t, cells[1])})
		}
		return false
	})
	if len(all) < 2 || len(all) != len(values) {
		t.Fatalf("proxyd/checkpoint/phases.go has %d phases, proxyd/rpc/names.go names %d", len(all), len(values))
	}
	return all
}

// limitText returns a deadline as people read it. The deadline is written as time.Minute or 10 * time.Second.
func limitText(t *testing.T, deadline ast.Expr) string {
	t.Helper()
	number := "1"
	if product, ok := deadline.(*ast.BinaryExpr); ok {
		number, deadline = product.X.(*ast.BasicLit).Value, product.Y
	}
	unit := map[string]string{"Second": "s", "Minute": "min", "Hour": "h"}[deadline.(*ast.SelectorExpr).Sel.Name]
	if unit == "" {
		t.Fatalf("proxyd/checkpoint/phases.go: a deadline has none of the units s, min and h")
	}
	return number + " " + unit
}

func constantsOf(phases []checkpointPhase) (all []string) {
	for _, p := range phases {
		all = append(all, p.constant)
	}
	return all
}

// readText returns the text of a file of the tree.
func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantText fails if a file lacks a sentence, wherever its lines are broken.
func wantText(t *testing.T, path, sentence string) {
	t.Helper()
	if flat := strings.Join(strings.Fields(readText(t, path)), " "); !strings.Contains(flat, sentence) {
		t.Errorf("%s does not say: %s", path, sentence)
	}
}

// firstGroups returns the first group of each match.
func firstGroups(text, pattern string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func wantSame(t *testing.T, place string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s; want %s", place, fmt.Sprint(got), fmt.Sprint(want))
	}
}
