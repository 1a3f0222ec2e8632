// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestOpcodeAreas: no instruction is in the tables of two areas.
func TestOpcodeAreas(t *testing.T) {
	seen := map[string]bool{}
	for _, area := range opcodeAreas {
		for name := range area {
			if seen[name] {
				t.Errorf("%s is in two areas", name)
			}
			seen[name] = true
		}
	}
}

// TestOpcodes: each opcode of the table is either in a test's text or refused by name, and
// the refusal says why.
func TestOpcodes(t *testing.T) {
	var texts []byte
	for _, pattern := range []string{"testdata/*.ptx", "*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, b...)
		}
	}
	// The operation of TestIntegerArithmetic and its like stands alone in quotes.
	used := map[string]bool{}
	for _, m := range regexp.MustCompile("(?:^|[\\s;\"`{}]|\\\\n)([a-z][a-z0-9]*)(?:\\.[a-zA-Z0-9_:.]+)?[\\s;\"]").FindAllSubmatch(texts, -1) {
		used[string(m[1])] = true
	}
	implemented, refused := 0, 0
	for name, op := range opcodes {
		if (op.lower == nil) == (op.refused == "") {
			t.Errorf("%s must be either implemented or refused", name)
		}
		if op.refused == "" {
			implemented++
			if !used[name] {
				t.Errorf("no test has %s", name)
			}
			continue
		}
		refused++
		m := bootMachine(t, header+".entry k() {\n"+name+";\n}")
		_, err := m.p.Kernel("k")
		var r *RefusedError
		if !errors.As(err, &r) || r.Opcode != name || r.Line != 5 || r.Reason == "" {
			t.Errorf("Kernel with %s: %v, want a RefusedError of line 5 with a reason", name, err)
		}
	}
	t.Logf("%d opcodes implemented, %d refused", implemented, refused)
}
