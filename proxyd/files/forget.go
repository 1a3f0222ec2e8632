// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// A log has at most maxLog bytes. So that a job can run for weeks, the changes before the oldest mark of a kept State are
// removed from a long log (Forget). Marks keep their meaning: such a log begins with anchors, of which the
// last, anchorBegin, has the mark of the record behind it.

// longLog is the length of a log from which on it is long (IsLong).
const longLog = 32 << 20

// minForget is the least that Forget removes, for it copies the rest of the log. A test changes it.
var minForget int64 = 1 << 20

// NewName is appended to the path of a log for the file that replaces it. After a crash that file may be left.
const NewName = ".new"

// IsLong says whether the log is so long that Forget should be called.
func (j *ChangeList) IsLong() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.positionOf(j.end) >= longLog
}

// Forgotten returns the mark before which the changes are not known any more, 0 if all are known.
func (j *ChangeList) Forgotten() Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Mark(j.begin)
}

// Forget removes the changes before m from the log. From then on, what Since returns for an earlier mark is incomplete,
// and says so. A crash leaves the old log or the new one.
func (j *ChangeList) Forget(m Mark) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if int64(m) > j.end {
		return fmt.Errorf("journal: mark %d: the log ends at %d", m, j.end)
	}
	if int64(m) < j.begin+minForget {
		return nil
	}
	if err := j.writeDurably(nil); err != nil {
		return err
	}
	return j.replaceLog(int64(m), j.end)
}

// positionOf returns the position in the log's file of a place that a Mark means.
func (j *ChangeList) positionOf(place int64) int64 { return place - j.shift }

// replaceLog replaces the log by a log with the records between two places. The caller has made the log durable.
func (j *ChangeList) replaceLog(begin, end int64) error {
	head, err := j.readAnchorRecords(begin)
	if err != nil {
		return err
	}
	head = appendRecord(head, Entry{Kind: anchorBegin, Path: j.run, Size: begin})
	kept := io.NewSectionReader(j.log, j.positionOf(begin), end-begin)
	log, err := createLog(j.logPath+NewName, head, kept, end-begin)
	if err != nil {
		return err
	}
	if err := os.Rename(log.Name(), j.logPath); err != nil {
		return errors.Join(err, log.Close(), os.Remove(log.Name()))
	}
	j.log.Close() // all of it was synced
	j.log, j.shift, j.begin, j.end = log, begin-int64(len(head)), begin, end
	return durable.SyncFolder(filepath.Dir(j.logPath))
}

// readAnchorRecords returns the records that say how far lists had been read at a place in the log, and that programs had
// bypassed the shim before it.
func (j *ChangeList) readAnchorRecords(place int64) ([]byte, error) {
	type anchor struct {
		kind Kind
		run  string
	}
	last := map[anchor]Entry{}
	before := io.NewSectionReader(j.log, 0, j.positionOf(max(place, j.begin)))
	_, err := readLog(before, 0, func(e Entry, _ int64) {
		switch e.Kind {
		case anchorList, anchorMore, anchorWithoutShim:
			last[anchor{e.Kind, e.Path}] = e
		}
	})
	var b []byte
	for _, e := range slices.SortedFunc(maps.Values(last), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind))
	}) {
		b = appendRecord(b, e)
	}
	return b, err
}

// createLog makes a durable file with a head and the rest, which has size bytes.
func createLog(path string, head []byte, rest io.Reader, size int64) (_ *os.File, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(path))
		}
	}()
	if _, err := f.Write(head); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(f, rest, size); err != nil { // an error, too, where there is less
		return nil, err
	}
	return f, f.Sync()
}
