// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// The log is on a shared folder, which can be full or away for a while. Bytes that are not known to be durable stay in
// memory (ChangeList.tail), at their place before ChangeList.end, until they are: the shims do not record a change again.

// maxTail bounds the tail. Of a log that cannot be written for that long, the rest is lost, and the log says so later.
const maxTail = 2 * maxMore

// writeDurably appends b to the log and makes the whole log durable. After an error the next call does both.
func (j *ChangeList) writeDurably(b []byte) error {
	if err := j.writeUnsynced(b); err != nil || len(j.tail) == 0 {
		return err
	}
	if err := j.log.Sync(); err != nil {
		j.written = 0 // The kernel may have dropped the pages that it could not write.
		return err
	}
	j.tail, j.written = nil, 0
	return nil
}

// writeUnsynced appends b to the log at once. b outlives this process, not yet the node. After an error the next call writes b.
func (j *ChangeList) writeUnsynced(b []byte) error {
	switch {
	case len(b) == 0:
	case j.positionOf(j.end)+int64(len(b)) > maxLog, len(j.tail)+len(b) > maxTail:
		b = appendRecord(nil, Entry{Kind: anchorLost, Path: j.run})
	}
	j.tail = append(j.tail, b...)
	j.end += int64(len(b))
	if j.written == len(j.tail) {
		return nil
	}
	if _, err := j.log.WriteAt(j.tail[j.written:], j.positionOf(j.end)-int64(len(j.tail)-j.written)); err != nil {
		return err
	}
	j.written = len(j.tail)
	return nil
}

// appendRecords appends b to the log. If b cannot be written now, the next Sync or Cut writes b, or returns the error.
func (j *ChangeList) appendRecords(b []byte) {
	_ = j.writeUnsynced(b)
}

// readLog calls f with each record of a log's file from a position on, anchors too, and where the record ends, and returns
// the end of the last whole record.
func readLog(log io.ReaderAt, from int64, f func(e Entry, ends int64)) (end int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(log, from, maxLog), 1<<20)
	end = from
	for {
		b, err := r.Peek(recordSize(maxPath, maxPath))
		if err != nil && !errors.Is(err, io.EOF) {
			return end, err
		}
		p := parseRecord(b)
		if p.size == 0 {
			return end, nil
		}
		if _, err := r.Discard(p.size); err != nil {
			return end, err
		}
		end += int64(p.size)
		if p.state == stateDone {
			f(p.entry, end)
		}
	}
}

// Since returns the changes after m. The programs must be frozen or dead.
func (j *ChangeList) Since(m Mark) (TouchedFiles, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.syncLists(true); err != nil {
		return TouchedFiles{}, err
	}
	if m < 0 || int64(m) > j.end {
		return TouchedFiles{}, fmt.Errorf("journal: mark %d: the log ends at %d", m, j.end)
	}
	t, size := TouchedFiles{Until: Mark(j.end), Lost: int64(m) < j.begin}, 0
	_, err := readLog(j.log, j.positionOf(max(int64(m), j.begin)), func(e Entry, _ int64) {
		switch e.Kind {
		case anchorList, anchorMore, anchorWithoutShim, anchorBegin:
		case anchorLost:
			t.Lost = true
		default:
			if size += e.countBytes(); size <= maxTouched {
				t.Entries = append(t.Entries, e)
			} else {
				t.Lost, t.Full = true, true
			}
		}
	})
	return t, err
}

// Rewind forgets the changes after m, because a PutBack has undone them; made are the paths that the PutBack returned.
// The caller calls Rewind with the list of the new capsule, before programs run there. Without Rewind, the next PutBack
// to the same cut would take the files that this PutBack has made for other people's.
func (j *ChangeList) Rewind(m Mark, made []Name) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if m < 0 || int64(m) > j.end {
		return fmt.Errorf("journal: mark %d: the log ends at %d", m, j.end)
	}
	if err := j.dropAfter(int64(m)); err != nil {
		return err
	}
	b := []byte{}
	for _, p := range made {
		b = j.appendEntry(b, Entry{Kind: Closed, Path: string(p)})
	}
	if len(b) == 0 {
		return j.log.Sync()
	}
	return j.writeDurably(b)
}

// dropAfter drops the records after a place.
func (j *ChangeList) dropAfter(place int64) error {
	if place < j.begin {
		if err := j.replaceLog(place, place); err != nil {
			return err
		}
	} else if err := j.log.Truncate(j.positionOf(place)); err != nil {
		return err
	}
	j.end, j.tail, j.written = place, nil, 0
	return nil
}
