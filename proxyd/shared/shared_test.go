// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// TestInit marks a folder once, with any number of requests from any number of nodes.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	marks := make([]shared.Mark, 8)
	made := make([]bool, 8)
	var all sync.WaitGroup
	for i := range marks {
		all.Go(func() {
			var err error
			if marks[i], made[i], err = shared.Init(dir, "mini"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	isNew := 0
	for i := range marks {
		if made[i] {
			isNew++
		}
		if marks[i] != marks[0] {
			t.Errorf("one Init returned %v, another %v", marks[0], marks[i])
		}
	}
	if isNew != 1 {
		t.Errorf("%d of %d calls say that they marked the folder", isNew, len(marks))
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has the files %v, %v; want the mark alone", left, err)
	}
}

// TestOpen opens the shared folder in each state that a daemon can find, at its start and while it
// runs.
func TestOpen(t *testing.T) {
	lib, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	if _, err := shared.Open(dir, lib); !errors.Is(err, shared.ErrUnmarked) {
		t.Fatalf("a folder that is not mounted is opened: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("something was made in a folder that is not marked: %v", left)
	}
	mark, _, err := shared.Init(dir, "mini")
	if err != nil {
		t.Fatal(err)
	}
	f, err := shared.Open(dir, lib)
	if err != nil {
		t.Fatal(err)
	}
	if f.Mark() != mark || f.Check() != nil {
		t.Errorf("opened as %v, %v; want %v", f.Mark(), f.Check(), mark)
	}
	if _, err := shared.Open(dir, lib); err != nil {
		t.Errorf("opened a second time: %v", err)
	}

	// The file system is unmounted, and mounted again.
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); !errors.Is(err, shared.ErrUnmarked) {
		t.Errorf("the file system is unmounted: %v", err)
	}
	// A person marks the empty folder below the mount point.
	if _, _, err := shared.Init(dir, "mini"); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); !errors.Is(err, shared.ErrOther) {
		t.Errorf("another folder is mounted: %v", err)
	}
	if _, err := shared.Open(dir, lib); !errors.Is(err, shared.ErrOther) {
		t.Errorf("a node that worked with one folder opens another: %v", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Errorf("the file system is back: %v", err)
	}
	if _, _, err := shared.Init(other, "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Open(other, lib); !errors.Is(err, shared.ErrOther) {
		t.Errorf("a node that worked with one folder opens another: %v", err)
	}
}

// TestBadMarks: bad marks are refused, and never replaced.
func TestBadMarks(t *testing.T) {
	for name, content := range map[string]string{
		"empty":   "",
		"no JSON": "cluster",
		"no ID":   `{"version": 1}`,
		"short":   `{"version": 1, "id": "12"}`,
		"later":   `{"version": 2, "id": "00112233445566778899aabbccddeeff"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "cluster.json")
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := shared.Open(dir, t.TempDir()); err == nil || errors.Is(err, shared.ErrUnmarked) {
				t.Errorf("Open with a bad mark: %v; want an error other than ErrUnmarked", err)
			}
			if _, _, err := shared.Init(dir, "mini"); err == nil {
				t.Error("Init accepted a bad mark")
			}
			if now, err := os.ReadFile(file); err != nil || string(now) != content {
				t.Errorf("the mark is %q now, %v", now, err)
			}
		})
	}
	t.Run("writable by others", func(t *testing.T) {
		dir := t.TempDir()
		if _, _, err := shared.Init(dir, "mini"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "cluster.json"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Open(dir, t.TempDir()); !errors.Is(err, shared.ErrForeign) {
			t.Errorf("Open with a mark that all users can write: %v; want ErrForeign", err)
		}
	})
	t.Run("a link", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink("/etc/hostname", filepath.Join(dir, "cluster.json")); err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Open(dir, t.TempDir()); err == nil || errors.Is(err, shared.ErrUnmarked) {
			t.Errorf("Open with a bad mark: %v", err)
		}
	})
}

// TestCheckCluster: a node that joins a cluster does not take the folder of another cluster, which has jobs with the same
// numbers. A node that has worked with the folder goes on: the cluster may have been renamed.
func TestCheckCluster(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	if err := shared.CheckCluster(dir, lib, "a"); err != nil {
		t.Errorf("a folder without a mark: %v", err)
	}
	if _, _, err := shared.Init(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if err := shared.CheckCluster(dir, lib, "a"); err != nil {
		t.Errorf("the cluster's own folder: %v", err)
	}
	if err := shared.CheckCluster(dir, lib, "A"); err != nil {
		t.Errorf("the cluster's own folder, with a capital letter: %v", err)
	}
	err := shared.CheckCluster(dir, lib, "b")
	const want = `it is another cluster's folder: it is marked for cluster "a", and Slurm calls this one "b"`
	if !errors.Is(err, shared.ErrOther) || !strings.Contains(err.Error(), want) {
		t.Errorf("another cluster's folder: %v; want %q", err, want)
	}
	if _, err := shared.Open(dir, lib); err != nil {
		t.Fatal(err)
	}
	if err := shared.CheckCluster(dir, lib, "b"); err != nil {
		t.Errorf("a renamed cluster: %v", err)
	}
}
