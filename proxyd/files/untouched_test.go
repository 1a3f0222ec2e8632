// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUntouchedAfterBoot: the times of a file on a local file system are believed until the node boots again: a crash may leave
// the times of the last change with the content before.
func TestUntouchedAfterBoot(t *testing.T) {
	const onDisk, onServer = 1, 2
	for _, c := range []struct {
		name string
		dev  uint64
		boot string
		want bool
	}{
		{"local", onDisk, "this", true},
		{"local, booted since", onDisk, "last", false},
		{"file server, booted since", onServer, "last", true},
	} {
		cut := time.Now()
		w := &worker{state: &State{Boot: c.boot, Time: cut}, boot: "this", local: map[uint64]bool{onDisk: true}}
		f := &File{Type: Regular, Dev: c.dev, Ino: 7, FS: 9, Ctime: cut.Add(-time.Minute).UnixNano()}
		if now := *f; w.isUntouched(f, &now, false) != c.want {
			t.Errorf("%s: want %v", c.name, c.want)
		}
	}
}

// TestLocalFileSystem: a worker knows which file systems are the node's own.
func TestLocalFileSystem(t *testing.T) {
	dir := ownFolder(t)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	st, err := statLink(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(nil, order{}, &State{})
	w.describeFile(dir, st)
	if want := fs.Type == unix.EXT4_SUPER_MAGIC || fs.Type == unix.BTRFS_SUPER_MAGIC; w.local[st.Dev] != want {
		t.Errorf("type %#x is local: %v", fs.Type, w.local[st.Dev])
	}
}
