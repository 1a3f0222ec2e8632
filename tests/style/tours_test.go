// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package style

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A row of a tour: files, the functions to read there, and a description.
var tourRow = regexp.MustCompile("^\\| (`[^|]+`) \\| (`[^|]+`) \\|")

// TestTours checks that the tours of docs/architecture.md name files and functions that exist.
func TestTours(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tours, found := strings.Cut(string(text), "\n## Tours\n")
	if !found {
		t.Fatal("docs/architecture.md has no section Tours")
	}
	tours, _, _ = strings.Cut(tours, "\n## ")
	rows := 0
	for line := range strings.Lines(tours) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| file ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		row := tourRow.FindStringSubmatch(line)
		if row == nil {
			t.Errorf("docs/architecture.md, Tours: not a row of files and functions: %s", line)
			continue
		}
		rows++
		var sources strings.Builder
		for _, file := range splitNames(row[1]) {
			source, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Errorf("docs/architecture.md, Tours: %v", err)
			}
			sources.Write(source)
		}
		for _, function := range splitNames(row[2]) {
			if !definesFunction(sources.String(), function) {
				t.Errorf("docs/architecture.md, Tours: %s has no function %s", row[1], function)
			}
		}
	}
	if rows < 30 {
		t.Errorf("docs/architecture.md, Tours: %d rows are tables of file and functions, want 30 or more", rows)
	}
}

// splitNames returns the names of a cell: each is in backquotes, with a comma and a space between.
func splitNames(cell string) []string {
	return strings.Split(strings.Trim(cell, "`"), "`, `")
}

// definesFunction tells whether a Go or C source defines a function: its name begins a line, after types or a receiver,
// and type parameters and a parameter list follow.
func definesFunction(source, function string) bool {
	definition := regexp.MustCompile(`(?m)^\w[^=;\n]*\b` + regexp.QuoteMeta(function) + `(\[[^;\n]*\])?\([^;\n]*$`)
	return definition.MatchString(source)
}
