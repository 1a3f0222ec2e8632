// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// TestWriter shows that a file is in its place from Close on, with the contents of the Writer that was closed last; that
// a Writer that was given up, or could not write, leaves the older contents; and that no temporary file is left.
func TestWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	create := func(text string) *durable.Writer {
		t.Helper()
		w, err := durable.Create(path)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	check := func(when, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: read %q, %v, want %q", when, got, err, want)
		}
	}
	first, second := create("first"), create("second")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before Close: %v, want no file", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	check("one Writer is closed", "second")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	check("both are closed", "first")
	errReader := errors.New("the reader has failed")
	if err := create("third").CloseWithError(errReader); !errors.Is(err, errReader) {
		t.Errorf("CloseWithError: %v, want its argument", err)
	}
	check("a Writer was given up", "first")
	full := create("fourth")
	limitFileSize(t, 6)
	if _, err := full.Write([]byte("more")); err == nil {
		t.Error("a file that may have 6 bytes was written to 10")
	}
	if err := full.Close(); err == nil {
		t.Error("Close after a failed Write: no error")
	}
	check("a Write has failed", "first")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v, want one file", names, err)
	}
}

// limitFileSize limits the sizes of the files of this process until the test ends.
func limitFileSize(t *testing.T, size uint64) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
		signal.Reset(unix.SIGXFSZ)
	})
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
