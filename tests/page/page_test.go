// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const written = "by people\n<!-- make one writes from here -->\n1\n<!-- to here -->\nby people, too\n" +
	"<!-- make two writes from here -->\n2\n<!-- to here -->\nthe end\n"

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"make one": "1\n", "make two": "2\n"} {
		if got, err := Read(file, command); err != nil || got != want {
			t.Errorf("the place of %s has %q, %v; want %q", command, got, err, want)
		}
	}
	if err := Write(file, "make two", "zwei\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := strings.Replace(written, "2\n", "zwei\n", 1); err != nil || string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

// TestNoPlace: a page without the place, or without its end, stays unchanged.
func TestNoPlace(t *testing.T) {
	for _, text := range []string{"", written, "<!-- make three writes from here -->\n3\n"} {
		file := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(file, "make three", "x\n"); err == nil {
			t.Errorf("Write to a page without a whole place succeeded: %q", text)
		}
		if got, _ := os.ReadFile(file); string(got) != text {
			t.Errorf("Write failed, and changed page %q to %q", text, got)
		}
	}
}
