// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// makeSmallLog gives a change list a log on a file system of 4 MiB, and returns the log's folder.
func makeSmallLog(t *testing.T, j *ChangeList) (dir string) {
	t.Helper()
	dir = makeSmallFolder(t)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log.Close()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	j.log, j.logPath = log, log.Name()
	return dir
}

// makeFiles has a program make files with long names, and returns the entries of these.
func makeFiles(t *testing.T, env, dir string, n int) (want string) {
	t.Helper()
	script := "cd " + dir + "; for n in"
	for i := range n {
		name := strings.Repeat("x", 200) + fmt.Sprint(i)
		script += " " + name
		want += "\nc " + filepath.Join(dir, name)
	}
	runAsUser(t, env, "/bin/bash", "-c", script+"; do : >$n; done")
	return want
}

// TestLogWithoutSpace: entries that cannot be written into the log are written when there is space, in their order and
// once.
func TestLogWithoutSpace(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	empty := fillFolder(t, makeSmallLog(t, j))
	want := makeFiles(t, env, dir, 60)
	for range 2 {
		if err := j.Sync(); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("Sync: %v", err)
		}
	}
	if _, err := j.Cut(); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Cut: %v", err)
	}
	if err := j.Add(Entry{Kind: Written, Path: dir + "/mapped"}); err != nil { // a Watch goes on
		t.Errorf("Add: %v", err)
	}
	want += "\nw " + dir + "/mapped"
	empty()
	got := touchedSince(t, j, 0)
	if s := describeEntries(got.Entries); s != want || got.Lost {
		t.Errorf("after there is space: lost %v, got%s\nwant%s", got.Lost, s, want)
	}
}

// TestLogNotSynced: after an fsync that has failed, the log is written again: the kernel may have dropped the written
// pages.
func TestLogNotSynced(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	log := j.log
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0) // a device that has no fsync, and keeps no data
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	j.log = null
	want := makeFiles(t, env, dir, 1)
	if err := j.Sync(); !errors.Is(err, unix.EINVAL) {
		t.Fatalf("Sync: %v", err)
	}
	j.log = log
	if s := describeEntries(touchedSince(t, j, 0).Entries); s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
}

// TestLogTooLate: if the log cannot be written until memory has no place for more, the log says that it is not complete.
func TestLogTooLate(t *testing.T) {
	j, _ := changeListFor(t)
	log := j.log
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	j.log = full
	j.tail = make([]byte, maxTail) // zeros are no records
	j.end = maxTail
	if err := j.Add(Entry{Kind: Written, Path: "/home/f"}); err != nil {
		t.Fatal(err)
	}
	j.log = log
	if got := touchedSince(t, j, 0); !got.Lost || len(got.Entries) > 0 {
		t.Errorf("after more than maxTail bytes: lost %v, entries %+v; want lost and no entries", got.Lost, got.Entries)
	}
}

// TestRunGoesOn: Run goes on after an error, and tells of the first error and of the success that follows.
func TestRunGoesOn(t *testing.T) {
	dir := ownFolder(t)
	j, env := changeListFor(t)
	empty := fillFolder(t, makeSmallLog(t, j))
	want := makeFiles(t, env, dir, 60)
	ctx, cancel := context.WithCancel(testDeadline(t))
	reports, ended := make(chan error, 2), make(chan struct{})
	go func() {
		defer close(ended)
		j.Run(ctx, time.Millisecond, func(err error) { reports <- err })
	}()
	if err := <-reports; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the first report of Run: %v, want ENOSPC", err)
	}
	empty()
	if err := <-reports; err != nil {
		t.Errorf("the report of Run after there is space: %v, want nil", err)
	}
	cancel()
	<-ended
	if s := describeEntries(touchedSince(t, j, 0).Entries); s != want {
		t.Errorf("got%s\nwant%s", s, want)
	}
}
