// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
				t.Fatalf("replace (%s): %v", name, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s: read %q, %v, want %q", name, got, err, text)
			}
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: mode of the file = %v, %v; want 0600", name, st.Mode(), err)
		}
	}
}

// TestReplaceFails shows that a file keeps its old contents if the new contents could not
// be written, and that no temporary file is left.
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
		t.Errorf("Replace with a full disk: %v; want the error of fill", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("after a failed Replace, the file has %q, %v; want old", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}

// TestJSON: a value is read as it was written; the error names the file if its contents are no JSON, or not of the type.
func TestJSON(t *testing.T) {
	type record struct {
		Key   string
		Start uint64 `json:",omitempty"`
	}
	path := filepath.Join(t.TempDir(), "record.json")
	var got record
	if err := durable.ReadJSON(path, &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read before anything is written: error %v", err)
	}
	for _, want := range []record{{"first", 1 << 60}, {"second", 0}} {
		if err := durable.ReplaceJSON(path, want); err != nil {
			t.Fatal(err)
		}
		var got record
		if err := durable.ReadJSON(path, &got); err != nil || got != want {
			t.Errorf("read %+v, error %v, want %+v", got, err, want)
		}
	}
	if err := durable.ReplaceJSON(path, func() {}); err == nil {
		t.Error("a function was written as JSON")
	}
	if err := durable.ReadJSON(path, &got); err != nil || got.Key != "second" {
		t.Errorf("read %+v, error %v, after a value could not be written", got, err)
	}
	for name, text := range map[string]string{"half": `{"Key":"fi`, "type": `{"Key":1}`} {
		if err := durable.ReplaceUnsynced(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := durable.ReadJSON(path, &got); err == nil || !strings.HasPrefix(err.Error(), "record.json: ") {
			t.Errorf("%s: error %v, want record.json and the reason", name, err)
		}
	}
}
