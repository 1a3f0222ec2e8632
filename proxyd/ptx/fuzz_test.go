// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse: no text makes the parser, the linker or the lowering panic or hang, and what
// they say is one of their errors.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.ptx")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(line("add.u32 d, a, b;", "u32", "u32", "u32"))
	f.Add(header + ".global .align 8 .u64 x[2][2] = {{1, 2}, {generic(y)+4, 0xFF(y)}};\n.global .u32 y;")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			t.Skip("large texts only take long")
		}
		m, err := Parse("fuzz", text)
		if err != nil {
			known(t, err)
			return
		}
		p, err := Link(m)
		if err != nil {
			known(t, err)
			return
		}
		if p.Size() > 1<<24 {
			return
		}
		if _, err := p.Place(testGlobals &^ (p.Align() - 1)); err != nil {
			known(t, err)
			return
		}
		for _, err := range p.Check() {
			known(t, err)
		}
	})
}

func known(t *testing.T, err error) {
	t.Helper()
	var s *SyntaxError
	var r *RefusedError
	var l *LinkError
	if !errors.As(err, &s) && !errors.As(err, &r) && !errors.As(err, &l) {
		t.Fatalf("an error of an unknown kind: %v", err)
	}
}
