// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A restored unix socket has a file with another inode. The list has a table, between its head and its records, by which
// the shims show programs the inode that the file had (libsingshim/shim/intercept_stat.c). A row, little endian:
//
//	 0 device of the file, as in struct stat
//	 8 inode of the file
//	16 the inode that programs are shown
//
// The job's user can write to the table, and deceives only the job's own programs.
const (
	rowSize  = 24
	maxShown = 1024
)

// FileNumber identifies a file to the kernel, as long as the file exists.
type FileNumber struct{ Device, Inode uint64 }

// ShownInode is a row of the table: programs are shown an inode that is not the file's.
type ShownInode struct {
	File  FileNumber
	Shown uint64
}

// encodeRow returns the row's bytes.
func (s ShownInode) encodeRow() []byte {
	var b []byte
	for _, n := range []uint64{s.File.Device, s.File.Inode, s.Shown} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// ShownInodes returns the rows of the table.
func (j *ChangeList) ShownInodes() ([]ShownInode, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, rows, err := j.readTable()
	return rows, err
}

// readTable returns how many rows the list has room for, and the rows that are there.
func (j *ChangeList) readTable() (room int, rows []ShownInode, err error) {
	head, err := j.readHead()
	if err != nil || head.firstRecord() != firstAt {
		return 0, nil, err
	}
	b := make([]byte, rowSize*min(head.shown, maxShown))
	if _, err := j.list.ReadAt(b, tableAt); err != nil {
		return 0, nil, fmt.Errorf("table of inodes: %w", err)
	}
	for ; len(b) > 0; b = b[rowSize:] {
		file := FileNumber{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		rows = append(rows, ShownInode{file, binary.LittleEndian.Uint64(b[16:])})
	}
	return maxShown, rows, nil
}

// ShowInodes adds rows to the table, and returns how many had no room. Programs may be reading the table: a row is written
// before the count that shows the row, and a row that is there stays where it is.
func (j *ChangeList) ShowInodes(add []ShownInode) (left int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	room, rows, err := j.readTable()
	if err != nil {
		return len(add), err
	}
	for _, row := range add {
		at := slices.IndexFunc(rows, func(r ShownInode) bool { return r.File == row.File })
		switch {
		case at < 0 && len(rows) >= room:
			left++
			continue
		case at < 0:
			at = len(rows)
			rows = append(rows, row)
		}
		if _, err := j.list.WriteAt(row.encodeRow(), tableAt+int64(at)*rowSize); err != nil {
			return left, fmt.Errorf("table of inodes: %w", err)
		}
	}
	_, err = j.list.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(len(rows))), shownAt)
	return left, err
}
