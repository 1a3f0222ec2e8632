// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

func writeText(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	for name, replace := range map[string]func(text string) error{
		"synced":   func(text string) error { return durable.Replace(path, writeText(text)) },
		"unsynced": func(text string) error { return durable.ReplaceUnsynced(path, []byte(text)) },
	} {
		for _, text := range []string{"first", "second"} {
			if err := replace(text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s: read %q, %v, want %q", name, got, err, text)
			}
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, st.Mode(), err)
		}
	}
}

// TestReplaceFails shows that a file keeps its old contents if the new contents could not
// be written, and that nothing is left beside the file.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	if err := durable.Replace(path, writeText("old")); err != nil {
		t.Fatal(err)
	}
	errDisk := errors.New("disk full")
	err := durable.Replace(path, func(f *os.File) error {
		_, _ = f.WriteString("ne")
		return errDisk
	})
	if !errors.Is(err, errDisk) {
		t.Errorf("got error %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("read %q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}
