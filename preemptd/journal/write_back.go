// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// ErrReplaced says that the path has another file than the file that this process opened. Writes since are not in
// that file.
var ErrReplaced = errors.New("another file is in its place; preemptd has to be started again")

// errRemoved is reported when the file was removed and has been written again.
var errRemoved = errors.New("the file was removed while preemptd worked; it is there again, with all actions")

// rememberFile notes which file is open, for checkFile.
func (j *Journal) rememberFile() error {
	st, err := os.Stat(j.path)
	if err != nil {
		return err
	}
	j.file.Store(&st)
	return nil
}

// checkFile tells whether the path still leads to the file that is open: SQLite goes on with a file
// that has no name any more, and all that is written would be gone with this process. It returns an
// error that wraps fs.ErrNotExist or ErrReplaced.
func (j *Journal) checkFile() error {
	st, err := os.Stat(j.path)
	if err != nil {
		return err
	}
	if !os.SameFile(st, *j.file.Load()) {
		return ErrReplaced
	}
	return nil
}

// writeBack gives a removed journal its file again, with all that it has. SQLite does not write to a file without a
// name, so the database is opened anew. The caller has the mandate.
func (j *Journal) writeBack(ctx context.Context) error {
	old := j.database()
	copied := filepath.Join(filepath.Dir(j.path), fmt.Sprintf(".%s.%s", filepath.Base(j.path), j.holder))
	defer func() { _ = os.Remove(copied) }() // linked under the journal's name by then
	if err := copyDatabase(ctx, old, copied); err != nil {
		return err
	}
	// From here on calls fail until the new file is open; their callers try again. At its end
	// SQLite removes the log of the file: the new file's log will have the same name.
	if err := old.Close(); err != nil {
		return translateError(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(j.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Link(copied, j.path); err != nil { // fails if there is a file
		return err
	}
	if err := durable.SyncFolder(filepath.Dir(j.path)); err != nil {
		return err
	}
	if err := j.rememberFile(); err != nil {
		return err
	}
	return j.openDatabase()
}

// copyDatabase writes all that a database has into a new file.
func copyDatabase(ctx context.Context, db *sql.DB, to string) error {
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return translateError(err)
	}
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chmod(0o600), f.Sync())
}
