// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// appendMore appends records to a change list's second file, as the shims do when the list is full.
func appendMore(t *testing.T, j *ChangeList, round, n int) {
	t.Helper()
	var b []byte
	for i := range n {
		b = appendRecord(b, Entry{Kind: Written, Path: fmt.Sprintf("/home/%s/%d-%d", strings.Repeat("x", 4000), round, i)})
	}
	f, err := os.OpenFile(j.more.Name(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

const manyRecords = maxMore / 2 / 4000

// TestMoreForLong: the second file takes any number of changes in a run, if the change list follows, and its space is
// freed.
func TestMoreForLong(t *testing.T) {
	j, _ := changeListFor(t)
	mark := Mark(0)
	for round := range 3 {
		appendMore(t, j, round, manyRecords)
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
		got := touchedSince(t, j, mark)
		if len(got.Entries) != manyRecords || got.Lost {
			t.Errorf("round %d: %d entries of %d, lost %v", round, len(got.Entries), manyRecords, got.Lost)
		}
		mark = got.Until
	}
	st, err := j.more.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if used := st.Sys().(*syscall.Stat_t).Blocks * 512; used > 2*minFreed {
		t.Errorf("%d bytes of the disk are in use", used)
	}
}

// TestMoreIsEmptied: a Cut makes the second file empty, and neither this ChangeList nor the next loses or repeats a
// change.
func TestMoreIsEmptied(t *testing.T) {
	j, _ := changeListFor(t)
	appendMore(t, j, 0, 10)
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := j.more.Stat(); err != nil || st.Size() != 0 {
		t.Errorf("%d bytes are left: %v", st.Size(), err)
	}
	appendMore(t, j, 1, 10)
	again, err := OpenChangeList(filepath.Dir(j.more.Name()), j.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := touchedSince(t, again, mark); len(got.Entries) != 10 || !strings.Contains(got.Entries[0].Path, "/1-0") {
		t.Errorf("after the cut: %d entries", len(got.Entries))
	}
	if got := touchedSince(t, again, 0); len(got.Entries) != 20 || got.Lost {
		t.Errorf("%d entries, lost %v", len(got.Entries), got.Lost)
	}
}

// TestMoreAtOnce: if the second file has more than the change list takes at a time, the change list notes that records are
// lost, and goes on behind them.
func TestMoreAtOnce(t *testing.T) {
	j, _ := changeListFor(t)
	if err := os.Truncate(j.more.Name(), 1<<40); err != nil {
		t.Fatal(err)
	}
	mark, err := j.Cut()
	if err != nil {
		t.Fatal(err)
	}
	if got := touchedSince(t, j, 0); !got.Lost {
		t.Error("after too many new records at once: Lost is false")
	}
	appendMore(t, j, 0, 10)
	if got := touchedSince(t, j, mark); len(got.Entries) != 10 || got.Lost {
		t.Errorf("after the next mark: %d entries, lost %v; want 10 and not lost", len(got.Entries), got.Lost)
	}
}
