// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Event is an event of a job that another user or program caused.
type Event struct {
	Job      int64
	User     string // owner of the job; "": not known
	Restarts int64  // of the job, after the event
	What     string // "preempted", "requeued", "node failed", "work lost"
	At       time.Time
	Text     string
}

// Note records an event. The same event of the same restart is recorded once.
func (j *Journal) Note(ctx context.Context, e Event) error {
	return j.writeWithMandate(ctx, fmt.Sprintf("job %d: note", e.Job), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO event (job, user, restarts, what, at, text) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			e.Job, e.User, e.Restarts, e.What, unixNano(e.At), e.Text)
		return err
	})
}

// Events returns the events, newest first: of a job, or with 0 of all.
func (j *Journal) Events(ctx context.Context, job int64, most int) ([]Event, error) {
	rows, err := j.database().QueryContext(ctx, "SELECT job, user, restarts, what, at, text FROM event WHERE ? IN (0, job) ORDER BY at DESC LIMIT ?", job, most)
	if err != nil {
		return nil, fmt.Errorf("journal: events: %w", translateError(err))
	}
	defer rows.Close()
	var all []Event
	for rows.Next() {
		var e Event
		var at int64
		if err := rows.Scan(&e.Job, &e.User, &e.Restarts, &e.What, &at, &e.Text); err != nil {
			return nil, fmt.Errorf("journal: events: %w", translateError(err))
		}
		e.At = fromUnixNano(at)
		all = append(all, e)
	}
	return all, translateError(rows.Err())
}

// SetOrigin records a job's request before preemptd edited the job, and the request after the edit.
func (j *Journal) SetOrigin(ctx context.Context, job int64, shape json.RawMessage) error {
	return j.writeWithMandate(ctx, fmt.Sprintf("job %d: origin", job), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO origin (job, shape, at) VALUES (?, ?, ?) ON CONFLICT (job) DO UPDATE SET shape = excluded.shape, at = excluded.at",
			job, string(shape), unixNano(j.now()))
		return err
	})
}

// Origin returns the job's record by SetOrigin, or nil.
func (j *Journal) Origin(ctx context.Context, job int64) (json.RawMessage, error) {
	var kept string
	err := j.database().QueryRowContext(ctx, "SELECT shape FROM origin WHERE job = ?", job).Scan(&kept)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: job %d: origin: %w", job, translateError(err))
	}
	return json.RawMessage(kept), nil
}

// Origins returns the records by SetOrigin, by job.
func (j *Journal) Origins(ctx context.Context) (map[int64]json.RawMessage, error) {
	rows, err := j.database().QueryContext(ctx, "SELECT job, shape FROM origin")
	if err != nil {
		return nil, fmt.Errorf("journal: origins: %w", translateError(err))
	}
	defer rows.Close()
	all := map[int64]json.RawMessage{}
	for rows.Next() {
		var job int64
		var shape string
		if err := rows.Scan(&job, &shape); err != nil {
			return nil, fmt.Errorf("journal: origins: %w", translateError(err))
		}
		all[job] = json.RawMessage(shape)
	}
	return all, translateError(rows.Err())
}

// Forget deletes actions that ended before a time, with their lines, events before that time, and the origins of jobs
// that are not in alive. Actions that have not ended stay.
func (j *Journal) Forget(ctx context.Context, before time.Time, alive []int64) error {
	return j.writeWithMandate(ctx, "forget", func(tx *sql.Tx) error {
		for _, statement := range []string{
			"DELETE FROM action WHERE ended > 0 AND ended < ?",
			"DELETE FROM event WHERE at < ?",
		} {
			if _, err := tx.ExecContext(ctx, statement, unixNano(before)); err != nil {
				return err
			}
		}
		return forgetOrigins(ctx, tx, before, alive)
	})
}

func forgetOrigins(ctx context.Context, tx *sql.Tx, before time.Time, alive []int64) error {
	rows, err := tx.QueryContext(ctx, "SELECT job FROM origin WHERE at < ? AND NOT EXISTS (SELECT 1 FROM action WHERE action.job = origin.job AND ended = 0)", unixNano(before))
	if err != nil {
		return err
	}
	defer rows.Close()
	var gone []int64
	for rows.Next() {
		var job int64
		if err := rows.Scan(&job); err != nil {
			return err
		}
		if !slices.Contains(alive, job) {
			gone = append(gone, job)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	for _, job := range gone {
		if _, err := tx.ExecContext(ctx, "DELETE FROM origin WHERE job = ?", job); err != nil {
			return err
		}
	}
	return nil
}
