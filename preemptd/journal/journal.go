// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/mattn/go-sqlite3" // the driver
)

// Journal is an open journal. A Journal is safe for concurrent use. Every process may read; to
// write, this process must have the mandate.
type Journal struct {
	db   atomic.Pointer[sql.DB] // changed by writeBack only
	path string
	now  func() time.Time

	id     int32  // of the database
	holder string // names this process, and no other
	boot   string // of the machine
	term   atomic.Int64
	file   atomic.Pointer[os.FileInfo] // that is open
}

// patience is how long a write waits for another process's.
const patience = 5 * time.Second

// Open opens the journal of a cluster, and makes or migrates it if need be. Open takes no mandate.
// The error is ErrForeign for the journal of another cluster.
func Open(ctx context.Context, path, cluster string) (*Journal, error) {
	j := &Journal{path: path, now: time.Now}
	if err := j.openSchema(ctx, cluster); err != nil {
		if db := j.database(); db != nil {
			db.Close()
		}
		return nil, fmt.Errorf("journal %s: %w", path, translateError(err))
	}
	return j, nil
}

func (j *Journal) openSchema(ctx context.Context, cluster string) error {
	id := make([]byte, 8)
	rand.Read(id)
	j.holder = hex.EncodeToString(id)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	j.boot = string(boot[:min(36, len(boot))])
	dir := filepath.Dir(j.path)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := requireLocal(dir); err != nil {
		return err
	}
	// Only the owner may read the file: the reasons for stopping jobs are not for all users.
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err := j.rememberFile(); err != nil {
		return err
	}
	if err := j.openDatabase(); err != nil {
		return err
	}
	if err := j.checkIntegrity(ctx); err != nil {
		return err
	}
	return j.migrateSchema(ctx, cluster)
}

// database is the open database; nil before openDatabase.
func (j *Journal) database() *sql.DB { return j.db.Load() }

// openDatabase opens the file that is at the path.
func (j *Journal) openDatabase() error {
	options := url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_busy_timeout": {fmt.Sprint(patience.Milliseconds())},
		"_txlock":       {"immediate"}, // two that read before they write would deadlock
		"_foreign_keys": {"on"},
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: j.path}).EscapedPath(), RawQuery: options.Encode()}).String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // SQLite allows a single writer; the rest is quick
	j.db.Store(db)
	return nil
}

// checkIntegrity reads the whole file once: damage is found before anything depends on the file.
func (j *Journal) checkIntegrity(ctx context.Context) error {
	var mode, found string
	if err := j.database().QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: SQLite cannot keep a write-ahead log there (it offers %q)", ErrNotWritable, mode)
	}
	if err := j.database().QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return nil
}

// remote are file systems of several machines, on which a WAL corrupts.
var remote = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	0x0BD00BD0:            "Lustre",
	0x47504653:            "GPFS",
}

// requireLocal refuses a folder that several machines share.
func requireLocal(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if name := remote[st.Type]; name != "" {
		return fmt.Errorf("%w: it is on %s; name a folder on a disk of this machine", ErrNotWritable, name)
	}
	return nil
}

// Close gives the mandate back, if this process has it, and closes the database.
func (j *Journal) Close() error {
	// Waiting preemptds need not wait for the mandate's end.
	err := j.releaseMandate(context.Background())
	if errors.Is(err, ErrLost) {
		err = nil
	}
	return errors.Join(err, translateError(j.database().Close()))
}

// ID tells this journal from all others: eight hexadecimal digits, for as long as the file
// exists.
func (j *Journal) ID() string { return fmt.Sprintf("%08x", uint32(j.id)) }

// Path returns where the journal is.
func (j *Journal) Path() string { return j.path }

// writeWithMandate runs f in a transaction that commits only if this process has the mandate.
func (j *Journal) writeWithMandate(ctx context.Context, what string, f func(*sql.Tx) error) error {
	err := j.transact(ctx, func(tx *sql.Tx) error {
		if err := j.requireMandate(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	})
	if err != nil {
		return fmt.Errorf("journal: %s: %w", what, err)
	}
	return nil
}

func (j *Journal) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := j.database().BeginTx(ctx, nil)
	if err != nil {
		return translateError(err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error says more
		return translateError(err)
	}
	return translateError(tx.Commit())
}
