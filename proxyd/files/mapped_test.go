// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mapFile maps a file for writing and sharing; its descriptor is closed.
func mapFile(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	return m
}

// scanOwn returns the entries that Scan finds for this process and a path.
func scanOwn(t *testing.T, path string) []Entry {
	t.Helper()
	all, err := Scan([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Path == path {
			return []Entry{e}
		}
	}
	t.Fatalf("%s is not among %v", path, all)
	return nil
}

// keepTimes makes a change by a mapping, which should leave the file's times as they are.
func keepTimes(t *testing.T, path string, change func()) {
	t.Helper()
	before, err1 := statLink(path)
	change()
	after, err2 := statLink(path)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if before.Ctim != after.Ctim {
		t.Log("this run shows nothing: the kernel has just written the page to the disk, so the change has changed the times")
	}
}

// TestMappedFile: a program changes pages that it has mapped and changed before, which leaves the file's times as they are. The
// next checkpoint has the new content, and a restore puts the old content back.
func TestMappedFile(t *testing.T) {
	path := filepath.Join(ownFolder(t), "f")
	writeFile(t, path, string(make([]byte, 4096)))
	shelf := newShelf()
	m := mapFile(t, path)
	m[0] = '1'
	one := recordNow(t, nil, shelf, Job{}, append([]Entry{{Kind: Created, Path: path}}, scanOwn(t, path)...)...)
	one.Time = one.Time.Add(time.Minute) // the file was not changed right before the cut
	keepTimes(t, path, func() { m[0] = '2' })
	two := recordNow(t, one, shelf, Job{}, scanOwn(t, path)...)
	two.Time = two.Time.Add(time.Minute)
	keepTimes(t, path, func() { m[0] = '3' })
	for _, c := range []struct {
		at   *State
		want byte
	}{{one, '1'}, {two, '2'}} {
		if r := putBackNow(t, c.at, shelf, Job{}); m[0] != c.want || len(r.Notes) > 0 {
			t.Errorf("%q is put back, not %q: %+v", m[0], c.want, r)
		}
	}
}

// TestMappedAfterCut: pages of tmpfs that a program maps after the cut can be changed without any trace.
func TestMappedAfterCut(t *testing.T) {
	dir := ownFolder(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "f")
	writeFile(t, path, string(make([]byte, 4096)))
	shelf := newShelf()
	one := recordNow(t, nil, shelf, Job{}, Entry{Kind: Created, Path: path})
	one.Time = one.Time.Add(time.Minute)
	m := mapFile(t, path)
	if m[0] != 0 { // the page is there from now on, and can be written
		t.Fatal("the file is not empty")
	}
	keepTimes(t, path, func() { m[0] = '1' })
	opened := Entry{Kind: Written, Path: path}
	two := recordNow(t, one, shelf, Job{}, opened)
	keepTimes(t, path, func() { m[0] = '2' })
	for _, c := range []struct {
		at   *State
		want byte
	}{{two, '1'}, {one, 0}} {
		if r := putBackNow(t, c.at, shelf, Job{}, opened); m[0] != c.want || len(r.Notes) > 0 {
			t.Errorf("%q is put back, not %q: %+v", m[0], c.want, r)
		}
	}
}
