// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/binary"
	"slices"
	"testing"
)

// TestShowInodes: rows stay where they are, are found again by a later ChangeList, and are left out where there is no
// room.
func TestShowInodes(t *testing.T) {
	ownFolder(t)
	j, _ := changeListFor(t)
	row := func(n uint64) ShownInode { return ShownInode{FileNumber{1, n}, n + 1000} }
	check := func(want []ShownInode) {
		t.Helper()
		if got, err := j.ShownInodes(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("ShownInodes: %d rows, %v, want %d rows", len(got), err, len(want))
		}
	}
	show := func(left int, rows ...ShownInode) {
		t.Helper()
		if got, err := j.ShowInodes(rows); err != nil || got != left {
			t.Fatalf("ShowInodes: %d rows without room, %v, want %d", got, err, left)
		}
	}
	check(nil)
	show(0, row(1), row(2))
	check([]ShownInode{row(1), row(2)})
	again := ShownInode{FileNumber{1, 1}, 5} // the inode was used again
	show(0, again, row(3))
	check([]ShownInode{again, row(2), row(3)})
	want := []ShownInode{again, row(2), row(3)}
	for n := uint64(4); n <= maxShown; n++ {
		want = append(want, row(n))
	}
	show(2, append(want[3:], row(maxShown+1), row(maxShown+2))...)
	check(want)
	if n := len(touchedSince(t, j, 0).Entries); n != 0 {
		t.Errorf("the table was read as %d records", n)
	}
}

// TestShowInodesWithoutTable: a list of an older version has records in the place of the table, which stay as they are, and a
// count that the user has forged leads nowhere.
func TestShowInodesWithoutTable(t *testing.T) {
	ownFolder(t)
	j, _ := changeListFor(t)
	head := listHead{tail: firstAtOld, epoch: 1, run: j.run}.encodeHead()
	if _, err := j.list.WriteAt(head, 0); err != nil {
		t.Fatal(err)
	}
	if left, err := j.ShowInodes([]ShownInode{{FileNumber{1, 2}, 3}}); left != 1 || err != nil {
		t.Errorf("ShowInodes of a list without a table: %d rows without room, %v, want 1", left, err)
	}
	if rows, err := j.ShownInodes(); len(rows) != 0 || err != nil {
		t.Errorf("ShownInodes of a list without a table: %d rows, %v, want 0", len(rows), err)
	}
	binary.LittleEndian.PutUint32(head[beginAt:], firstAt)
	binary.LittleEndian.PutUint32(head[shownAt:], 1<<32-1)
	if _, err := j.list.WriteAt(head, 0); err != nil {
		t.Fatal(err)
	}
	if rows, err := j.ShownInodes(); len(rows) != maxShown || err != nil {
		t.Errorf("ShownInodes of a list with a false count: %d rows, %v, want maxShown", len(rows), err)
	}
}
