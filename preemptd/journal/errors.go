// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mattn/go-sqlite3"
)

// The errors of a journal. Compare with errors.Is.
var (
	// ErrFull says that the disk is full. The write has no effect.
	ErrFull = errors.New("the disk is full")
	// ErrNotWritable says that the file or its folder cannot be written.
	ErrNotWritable = errors.New("cannot be written")
	// ErrDamaged says that the file is damaged, or no journal at all.
	ErrDamaged = errors.New("damaged; move it away and preemptd begins a new one, without what it remembers of actions under way")
	// ErrLocked says that another process was writing for too long.
	ErrLocked = errors.New("locked by another process")
	// ErrNewer says that a newer preemptd has migrated the journal.
	ErrNewer = errors.New("written by a newer preemptd")
	// ErrForeign says that the journal is another cluster's.
	ErrForeign = errors.New("of another cluster")
	// ErrLost says that this process does not have the mandate, or not any more.
	ErrLost = errors.New("another preemptd has the mandate")
	// ErrBusy says that the job has an action that has not ended.
	ErrBusy = errors.New("an action is under way")
	// ErrNoAction says that there is no such action.
	ErrNoAction = errors.New("no such action")
	// ErrStale says that the action was changed meanwhile.
	ErrStale = errors.New("the action was changed meanwhile")
)

// meaning is the error of ours for each of SQLite's numbers.
var meaning = map[sqlite3.ErrNo]error{
	sqlite3.ErrFull:     ErrFull,
	sqlite3.ErrReadonly: ErrNotWritable,
	sqlite3.ErrCantOpen: ErrNotWritable,
	sqlite3.ErrPerm:     ErrNotWritable,
	sqlite3.ErrCorrupt:  ErrDamaged,
	sqlite3.ErrNotADB:   ErrDamaged,
	sqlite3.ErrBusy:     ErrLocked,
	sqlite3.ErrLocked:   ErrLocked,
}

// translateError gives an error of SQLite's, or of the file system, our meaning; nil stays nil.
func translateError(err error) error {
	var e sqlite3.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if is := meaning[e.Code]; is != nil {
			return fmt.Errorf("%w (SQLite: %w)", is, err)
		}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	return err
}
