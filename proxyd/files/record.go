// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/binary"
	"fmt"
)

// A record of the list, little endian, at a multiple of 8:
//
//	0  mark     0xA5
//	1  state    reserved, pending, done or failed
//	2  kind     a Kind; in a log also an anchor
//	3  0
//	4  n1       bytes of the path
//	6  n2       bytes of the other path
//	8  number   Appended: length before; Closed: identity; anchor: a position
//	16 path, other path, zeros up to a multiple of 8
//
// A writer reserves the place, writes the head as reserved, then the paths, then pending;
// after the system call the writer writes done or failed. A writer that is killed in between
// leaves a pending record, or zeros.
const (
	recordMark = 0xA5
	recordHead = 16

	stateReserved = 1
	statePending  = 2
	stateDone     = 3
	stateFailed   = 4
)

// Anchors say, in a log, how far a list has been read. The path is the list's run.
const (
	anchorList        Kind = 'P'
	anchorMore        Kind = 'Q'
	anchorLost        Kind = 'L' // a change could not be recorded
	anchorWithoutShim Kind = 'B' // a program that bypasses the shim ran
	anchorBegin       Kind = 'G' // the changes before a place, the mark of the next record, were removed
)

// recordSize is the length of a record with paths of n1 and n2 bytes.
func recordSize(n1, n2 int) int { return (recordHead + n1 + n2 + 7) &^ 7 }

func appendRecord(b []byte, e Entry) []byte {
	number := uint64(e.Size)
	if e.Kind == Closed {
		number = e.ID
	}
	start := len(b)
	b = append(b, recordMark, stateDone, byte(e.Kind), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Path)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Other)))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = append(b, e.Path...)
	b = append(b, e.Other...)
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// parsedRecord is the result of parsing a list at one place.
type parsedRecord struct {
	entry Entry
	state byte // 0: no record starts here
	size  int  // to the next record; 0: there are too few bytes
}

// parseRecord parses the record at the start of b. Every byte may be anything: the job's user can write to the list.
func parseRecord(b []byte) parsedRecord {
	if len(b) < 8 {
		return parsedRecord{}
	}
	if b[0] != recordMark || b[1] < stateReserved || b[1] > stateFailed {
		return parsedRecord{size: 8}
	}
	if len(b) < recordHead {
		return parsedRecord{}
	}
	n1, n2 := int(binary.LittleEndian.Uint16(b[4:])), int(binary.LittleEndian.Uint16(b[6:]))
	size := recordSize(n1, n2)
	if n1 > maxPath || n2 > maxPath {
		return parsedRecord{size: 8}
	}
	if size > len(b) {
		return parsedRecord{}
	}
	number := binary.LittleEndian.Uint64(b[8:])
	e := Entry{
		Kind:  Kind(b[2]),
		Path:  string(b[recordHead : recordHead+n1]),
		Other: string(b[recordHead+n1 : recordHead+n1+n2]),
	}
	switch e.Kind {
	case Closed:
		e.ID = number
	case Appended, anchorList, anchorMore, anchorBegin:
		e.Size = int64(number)
	}
	return parsedRecord{entry: e, state: b[1], size: size}
}

// listHead is the start of the shim's list.
type listHead struct {
	epoch uint64 // a change makes all processes forget which paths they have recorded
	lost  uint64 // number of changes that could not be recorded
	run   string // names this list
	shown uint32 // how many files are in the table of inodes
	first uint32 // where records begin, behind the table; 0: an older list, without a table
	tail  uint64 // where the next record goes; beyond the end when the list is full
}

// The list's layout; libsingshim/shim/list.h has the same layout.
const (
	listMagic = "SINGLST1"
	epochAt   = 8
	lostAt    = 16
	runAt     = 24
	runSize   = 16
	shownAt   = 40
	beginAt   = 44
	tailAt    = 64 // every writer writes this word: a cache line of its own
	tableAt   = 128
	listSize  = 4 << 20

	// Where records begin: behind the table of inodes (inodes.go), and in an older list at its place.
	firstAt    = tableAt + maxShown*rowSize
	firstAtOld = tableAt
)

func (h listHead) encodeHead() []byte {
	b := make([]byte, tableAt)
	copy(b, listMagic)
	binary.LittleEndian.PutUint64(b[epochAt:], h.epoch)
	binary.LittleEndian.PutUint64(b[lostAt:], h.lost)
	copy(b[runAt:runAt+runSize], h.run)
	binary.LittleEndian.PutUint32(b[shownAt:], h.shown)
	binary.LittleEndian.PutUint32(b[beginAt:], h.first)
	binary.LittleEndian.PutUint64(b[tailAt:], h.tail)
	return b
}

// firstRecord is where records begin. The job's user can write to the head as well.
func (h listHead) firstRecord() int64 {
	if h.first == firstAt {
		return firstAt
	}
	return firstAtOld
}

func parseHead(b []byte) (listHead, error) {
	if len(b) < tableAt || string(b[:8]) != listMagic {
		return listHead{}, fmt.Errorf("no list of files: it begins with %.16q", b)
	}
	return listHead{
		epoch: binary.LittleEndian.Uint64(b[epochAt:]),
		lost:  binary.LittleEndian.Uint64(b[lostAt:]),
		run:   string(b[runAt : runAt+runSize]),
		shown: binary.LittleEndian.Uint32(b[shownAt:]),
		first: binary.LittleEndian.Uint32(b[beginAt:]),
		tail:  binary.LittleEndian.Uint64(b[tailAt:]),
	}, nil
}
