// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// onlyIn fails unless the folder holds these names and no more.
func onlyIn(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if !slices.Equal(found, names) {
		t.Errorf("%s holds %q, want %q", dir, found, names)
	}
}

func TestExport(t *testing.T) {
	c := newCluster(t)
	dir := t.TempDir()
	out := c.runLine(t.Context(), "alice", "export", "-q", "812/1", filepath.Join(dir, "images"))
	if out != filepath.Join(dir, "images")+": 2 files, 3.0 MiB\n" {
		t.Errorf("export of 812/1 = %q", out)
	}
	onlyIn(t, dir, "images")
	path := filepath.Join(dir, "images/n1/0/pages-1.img")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, slices.Concat([]byte("begin"), make([]byte, 2<<20), bytes.Repeat([]byte("e"), 1<<20))) {
		t.Error("the file is not as it was sent")
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o777 != 0o600 {
		t.Errorf("mode %04o: memory of a job, for others to read", st.Mode&0o777)
	}
	out = c.runLine(t.Context(), "alice", "export", "-q", "812/1", filepath.Join(dir, "images"))
	if want := "! singctl: " + dir + "/images is there already; name a new folder\n! hint: singctl export --help\nexit 2\n"; out != want {
		t.Errorf("got  %swant %s", out, want)
	}
}

// TestExportThatFails leaves no files.
func TestExportThatFails(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ name, who, checkpoint, want string }{
		{"cut short", "alice", "814/1", "! singctl: damaged: file n1/0/pages-1.img: 5 bytes, 3145733 expected\n! hint: singctl verify names all that is damaged\nexit 8\n"},
		{"leads out", "bob", "813/1", "! singctl: export: file \"../../escaped\" of 1 bytes\n! hint: singctl verify names all that is damaged\nexit 8\n"},
		{"another user's", "bob", "812/1", "! singctl: export: not permitted: job 812 belongs to another user\nexit 4\n"},
		{"no such", "alice", "812/9", "! singctl: checkpoint 812/9: there is none of that name\n! hint: singctl checkpoints lists yours\nexit 3\n"},
		{"no name", "alice", "812", "! singctl: checkpoint \"812\": want JOB/NUMBER, as in 812/3 or mini/812/3\n! hint: singctl export --help\nexit 2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if out := c.runLine(t.Context(), tt.who, "export", "-q", tt.checkpoint, filepath.Join(dir, "a/../images")); out != tt.want {
				t.Errorf("got  %swant %s", out, tt.want)
			}
			onlyIn(t, dir)
			onlyIn(t, filepath.Dir(dir), filepath.Base(dir))
		})
	}
	out := c.runLine(t.Context(), "alice", "export", "-q", "812/1", "/nowhere/images")
	if out != "! singctl: stat /nowhere: no such file or directory\nexit 1\n" {
		t.Errorf("export to a folder that does not exist = %q", out)
	}
	out = c.runLine(t.Context(), "alice", "export", "-q", "812/1", "/dev/null/images")
	if out != "! singctl: lstat /dev/null/images: not a directory\nexit 1\n" {
		t.Errorf("export below a file = %q", out)
	}
}

// TestExportReplaced: while root exports into a folder of a user's, the user puts a link to root's own folder in the
// place of the new folder, and of a folder in it. No file comes there: the files are in the folder that was made, and a
// file that the link in it would lead out is refused.
func TestExportReplaced(t *testing.T) {
	above, of := t.TempDir(), t.TempDir()
	made, moved := filepath.Join(above, "partial"), filepath.Join(above, "moved")
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(made)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := &exportWriter{root: root}
	write := func(name string) error {
		return w.writePiece(&rpc.ExportPiece{File: name, Size: 4, Data: []byte("mine")})
	}
	if err := write("n1/0/first"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(made, moved), os.Symlink(of, made)); err != nil {
		t.Fatal(err)
	}
	if err := write("n1/1/second"); err != nil {
		t.Error(err)
	}
	onlyIn(t, filepath.Join(moved, "n1/1"), "second")
	if err := errors.Join(os.RemoveAll(filepath.Join(moved, "n1")), os.Symlink(of, filepath.Join(moved, "n1"))); err != nil {
		t.Fatal(err)
	}
	if err := write("n1/third"); err == nil {
		t.Error("a file was written through a link that leads out of the folder")
	}
	onlyIn(t, of)
}
