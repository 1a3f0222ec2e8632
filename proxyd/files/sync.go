// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// syncLists brings new records into the log, durably. final: no program runs, so that a pending
// record will not be completed before another process looks. The caller holds j.mu.
func (j *ChangeList) syncLists(final bool) error {
	b, err := j.newEntries(final)
	if err = errors.Join(err, j.writeDurably(b)); err == nil {
		j.freeReadRecords()
	}
	return err
}

// newEntries returns the entries that the log does not have yet. The caller writes these bytes, also those that come
// with an error: newEntries does not return them again.
func (j *ChangeList) newEntries(final bool) ([]byte, error) {
	head, err := j.readHead()
	if err != nil {
		return nil, err
	}
	pos, morePos := j.pos, j.morePos
	b, err := j.checkPending(nil, final)
	if err != nil {
		return b, err
	}
	if b, err = j.readList(b, int64(min(head.tail, listSize)), final); err != nil {
		return b, err
	}
	if b, err = j.readMore(b); err != nil {
		return b, err
	}
	if head.lost != j.lost {
		j.lost = head.lost
		b = appendRecord(b, Entry{Kind: anchorLost, Path: j.run})
	}
	if pos != j.pos {
		b = appendRecord(b, Entry{Kind: anchorList, Path: j.run, Size: j.pos})
	}
	if morePos != j.morePos {
		b = appendRecord(b, Entry{Kind: anchorMore, Path: j.run, Size: j.morePos})
	}
	return b, nil
}

// appendEntry takes an entry into the log.
func (j *ChangeList) appendEntry(b []byte, e Entry) []byte {
	if !e.isValid() {
		return b
	}
	if len(j.known) < maxEntries {
		was, id := j.known[e.Path], uint64(0)
		if e.Kind == Closed {
			id = e.ID
		}
		j.known[e.Path] = pathChanges{wrote: was.wrote || e.Kind != Appended, mapped: was.mapped || e.Kind == Mapped, id: id}
	}
	return appendRecord(b, e)
}

// readList takes the records of the list from pos to end. Records at the very end that are not done stay before pos:
// their writers can give the place back, and other writers then write there.
func (j *ChangeList) readList(b []byte, end int64, final bool) ([]byte, error) {
	if end <= j.pos {
		return b, nil
	}
	buf := make([]byte, end-j.pos)
	n, err := j.list.ReadAt(buf, j.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return b, err
	}
	buf = buf[:n]
	at, next := 0, 0 // next: behind the last completed record
	zeros := -1      // where the last zeros end
	var open []int   // places of records before next that are not completed
	for at < len(buf) {
		p := parseRecord(buf[at:])
		if p.size == 0 {
			break
		}
		switch p.state {
		case stateDone:
			b = j.appendEntry(b, p.entry)
			next = at + p.size
			for _, o := range open {
				j.notePending(j.pos + int64(o))
			}
			open = open[:0]
		case stateFailed:
		case 0:
			// Zeros: a writer was killed here, or has the place and has not written the head yet.
			if at != zeros {
				open = append(open, at)
			}
			zeros = at + p.size
		default:
			open = append(open, at)
			if final {
				b = j.appendUncertain(b, j.pos+int64(at), p)
			}
		}
		at += p.size
	}
	j.pos += int64(next)
	return b, nil
}

// appendUncertain takes a change that a program was about to make, once.
func (j *ChangeList) appendUncertain(b []byte, at int64, p parsedRecord) []byte {
	if p.state != statePending || j.loggedUnsure[at] || len(j.loggedUnsure) >= maxEntries {
		return b
	}
	j.loggedUnsure[at] = true
	p.entry.Kind = Unsure
	return j.appendEntry(b, p.entry)
}

// notePending remembers a place that may be completed later. If there are many, some are places of killed writers,
// which no process will complete.
func (j *ChangeList) notePending(at int64) {
	for o := range j.pending {
		if len(j.pending) < maxPending {
			break
		}
		delete(j.pending, o)
	}
	j.pending[at] = true
}

// checkPending looks again at records that were not completed when readList read them.
func (j *ChangeList) checkPending(b []byte, final bool) ([]byte, error) {
	buf := make([]byte, recordSize(maxPath, maxPath))
	for at := range j.pending {
		n, err := j.list.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return b, err
		}
		switch p := parseRecord(buf[:n]); {
		case p.state == stateDone:
			b = j.appendEntry(b, p.entry)
			delete(j.pending, at)
		case p.state == stateFailed:
			delete(j.pending, at)
		case final:
			b = j.appendUncertain(b, at, p)
		}
	}
	return b, nil
}

// readMore takes the new records of the second file.
func (j *ChangeList) readMore(b []byte) ([]byte, error) {
	st, err := j.more.Stat()
	if err != nil || st.Size() <= j.morePos {
		return b, err
	}
	if st.Size()-j.morePos > maxMore {
		j.morePos = st.Size()
		return appendRecord(b, Entry{Kind: anchorLost, Path: j.run}), nil
	}
	buf := make([]byte, st.Size()-j.morePos)
	n, err := j.more.ReadAt(buf, j.morePos)
	if err != nil && !errors.Is(err, io.EOF) {
		return b, err
	}
	at := 0
	for at < n {
		p := parseRecord(buf[at:n])
		if p.size == 0 {
			break
		}
		if p.state == stateDone {
			b = j.appendEntry(b, p.entry)
		}
		at += p.size
	}
	j.morePos += int64(at)
	return b, nil
}

// freeReadRecords frees the space of records that were read from the second file. The log has them durably.
func (j *ChangeList) freeReadRecords() {
	if j.morePos-j.freed < minFreed {
		return
	}
	err := unix.Fallocate(int(j.more.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, j.freed, j.morePos-j.freed)
	if err == nil { // other file systems keep the space until emptySecondList
		j.freed = j.morePos
	}
}

// emptySecondList makes the second file empty if all of it is in the log, so that no limit of a file's size is met in a long run.
// No program may be running: each appends to the file.
func (j *ChangeList) emptySecondList() error {
	st, err := j.more.Stat()
	if err != nil || j.morePos == 0 || st.Size() != j.morePos {
		return err
	}
	// If a crash comes after the anchor and before the truncation, the next ChangeList reads the records of the file a
	// second time, and loses no record.
	if err := j.writeDurably(appendRecord(nil, Entry{Kind: anchorMore, Path: j.run})); err != nil {
		return err
	}
	if err := j.more.Truncate(0); err != nil {
		return err
	}
	j.morePos, j.freed = 0, 0
	return nil
}
