// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEvents: the list has all kinds of events.
func TestEvents(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../records/timeline.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) == 0 {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if found++; err != nil || !slices.Contains(Events(), text) {
			t.Errorf("Events lacks %q: %v", text, err)
		}
		return true
	})
	if found != len(Events()) {
		t.Errorf("%d events, Events has %d", found, len(Events()))
	}
}
