// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
)

// migrations lead from each version of the schema to the next; the version is SQLite's user_version. A released
// migration is never changed. Times are nanoseconds since 1970, 0 for no time; in lease, the table of
// the mandate, since the machine was booted.
var migrations = []string{
	`
CREATE TABLE cluster (name TEXT NOT NULL) STRICT;

CREATE TABLE lease (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	term    INTEGER NOT NULL,
	holder  TEXT NOT NULL, -- '' : given back
	name    TEXT NOT NULL, -- of the holder, for people
	boot    TEXT NOT NULL,
	renewed INTEGER NOT NULL
) STRICT;

CREATE TABLE action (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	token      TEXT NOT NULL,
	kind       TEXT NOT NULL,
	job        INTEGER NOT NULL,
	args       TEXT NOT NULL,
	who        TEXT NOT NULL,
	why        TEXT NOT NULL,
	created    INTEGER NOT NULL,
	revision   INTEGER NOT NULL,
	state      TEXT NOT NULL,
	step       TEXT NOT NULL,
	step_began INTEGER NOT NULL,
	attempt    INTEGER NOT NULL,
	not_before INTEGER NOT NULL,
	memo       TEXT NOT NULL,
	problem    TEXT NOT NULL,
	ended      INTEGER NOT NULL
) STRICT;
-- One action at a time for each job, whoever asks.
CREATE UNIQUE INDEX action_open ON action (job) WHERE ended = 0;
CREATE INDEX action_of_job ON action (job, id);
CREATE INDEX action_ended ON action (ended) WHERE ended > 0;

CREATE TABLE line (
	action   INTEGER NOT NULL REFERENCES action (id) ON DELETE CASCADE,
	revision INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	state    TEXT NOT NULL,
	step     TEXT NOT NULL,
	attempt  INTEGER NOT NULL,
	text     TEXT NOT NULL,
	PRIMARY KEY (action, revision)
) STRICT, WITHOUT ROWID;

-- What a job asked for before preemptd edited it, and what preemptd made of that.
CREATE TABLE origin (
	job   INTEGER PRIMARY KEY,
	shape TEXT NOT NULL,
	at    INTEGER NOT NULL
) STRICT;

-- What others did to jobs: preemptions and requeues of Slurm's own, failures of nodes.
CREATE TABLE event (
	job      INTEGER NOT NULL,
	restarts INTEGER NOT NULL,
	what     TEXT NOT NULL,
	at       INTEGER NOT NULL,
	text     TEXT NOT NULL,
	PRIMARY KEY (job, restarts, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_at ON event (at);
`, `
-- The owner of the job, whose name Slurm forgets soon after the job has ended; '' : recorded by a release before this version.
ALTER TABLE action ADD COLUMN user TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN user TEXT NOT NULL DEFAULT '';
`,
}

// migrateSchema brings the schema to this program's version, or leaves the schema unchanged.
func (j *Journal) migrateSchema(ctx context.Context, cluster string) error {
	return j.transact(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(migrations) {
			return fmt.Errorf("%w: its version is %d, this one knows up to %d", ErrNewer, version, len(migrations))
		}
		for _, step := range migrations[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("migrate from version %d: %w", version, err)
			}
		}
		if version < len(migrations) {
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(migrations))); err != nil {
				return err
			}
		}
		if err := j.readIdentity(ctx, tx); err != nil {
			return err
		}
		return checkCluster(ctx, tx, cluster)
	})
}

// readIdentity reads the database's own number, and draws a number for a database without. The number is SQLite's
// application_id, which no other code reads: so an older preemptd can still open the database.
func (j *Journal) readIdentity(ctx context.Context, tx *sql.Tx) error {
	if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&j.id); err != nil || j.id != 0 {
		return err
	}
	j.id = 1 + rand.Int32N(math.MaxInt32)
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", j.id))
	return err
}

// checkCluster checks that the journal is this cluster's; a new journal becomes this cluster's.
func checkCluster(ctx context.Context, tx *sql.Tx, cluster string) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO cluster SELECT ? WHERE NOT EXISTS (SELECT 1 FROM cluster)", cluster); err != nil {
		return err
	}
	var name string
	if err := tx.QueryRowContext(ctx, "SELECT name FROM cluster").Scan(&name); err != nil {
		return err
	}
	if name != cluster {
		return fmt.Errorf("%w: it is of %q, and this is %q", ErrForeign, name, cluster)
	}
	return nil
}
