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

// A row of a tour: a file, the functions to read there, and what happens.
var tourRow = regexp.MustCompile("^\\| `([^`]+)` \\| (`[^|]+`) \\|")

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
		row := tourRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		rows++
		source, err := os.ReadFile(filepath.Join(root, row[1]))
		if err != nil {
			t.Errorf("docs/architecture.md, Tours: %v", err)
			continue
		}
		for _, function := range strings.Split(row[2], ", ") {
			function = strings.Trim(function, "`")
			if !definesFunction(string(source), function) {
				t.Errorf("docs/architecture.md, Tours: %s has no function %s", row[1], function)
			}
		}
	}
	if rows < 30 {
		t.Errorf("docs/architecture.md, Tours: %d rows are tables of file and functions, want 30 or more", rows)
	}
}

// definesFunction tells whether a Go or C source defines a function: its name begins a line, after types or a receiver,
// and a parameter list follows.
func definesFunction(source, function string) bool {
	definition := regexp.MustCompile(`(?m)^\w[^=;\n]*\b` + regexp.QuoteMeta(function) + `\([^;\n]*$`)
	return definition.MatchString(source)
}
