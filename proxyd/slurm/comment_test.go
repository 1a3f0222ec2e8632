// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"os"
	"path/filepath"
	"testing"
)

// TestComments asks a squeue that prints no column of which it does not know the name, and succeeds all the same, as that
// of 26.05 does.
func TestComments(t *testing.T) {
	dir := t.TempDir()
	const squeue = `#!/bin/sh
for word; do case $word in
--Format=Comment:*) echo "mine; singularity: checkpoint 3" ;;
--Format=admin_comment:*) echo "ticket 12" ;;
--Format=*) echo "squeue: error: Invalid job format specification: $word" >&2; echo ;;
esac; done
`
	if err := os.WriteFile(filepath.Join(dir, "squeue"), []byte(squeue), 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(filepath.Join(dir, "scontrol"))
	said, err := s.Said(t.Context(), "7")
	if want := "mine; singularity: checkpoint 3"; err != nil || said != want {
		t.Errorf("the comment %q, %v; want %q", said, err, want)
	}
	admin, err := s.AdminComment(t.Context(), "7")
	if want := "ticket 12"; err != nil || admin != want {
		t.Errorf("the administrator's comment %q, %v; want %q", admin, err, want)
	}
}
