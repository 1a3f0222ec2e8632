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
	"time"

	"golang.org/x/sys/unix"
)

// A preemptd that died is followed within mandateLife + mandateLook, which is less than ten seconds; a preemptd that
// lives has mandateLife/RenewEvery tries to renew the mandate in time.
const (
	mandateLife = 7 * time.Second
	mandateLook = time.Second
	// RenewEvery is how often the holder of the mandate is to renew it.
	RenewEvery = 2 * time.Second
)

// Mandate names the preemptd that works, of those that share the journal.
type Mandate struct {
	Term    int64
	Name    string // "host, process 812"; "": no holder
	Since   time.Duration
	Mine    bool
	Expired bool
}

// sinceBoot is a clock that all processes of the machine share and that cannot be set. The clock
// goes on while the machine sleeps.
func sinceBoot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// Take takes the mandate if it is free, and returns the holder. Take may be called again.
func (j *Journal) Take(ctx context.Context) (Mandate, error) {
	var now Mandate
	switch err := j.checkFile(); {
	case errors.Is(err, fs.ErrNotExist): // the holder of the mandate writes the file back
		return Mandate{}, fmt.Errorf("journal: mandate: %w: its file is gone", ErrLocked)
	case err != nil:
		return Mandate{}, fmt.Errorf("journal: mandate: %w", err)
	}
	err := j.transact(ctx, func(tx *sql.Tx) error {
		var err error
		if now, err = j.readMandate(ctx, tx); err != nil || !now.Mine && now.Name != "" && !now.Expired {
			return err
		}
		at, err := sinceBoot()
		if err != nil {
			return err
		}
		if !now.Mine {
			now.Term++
		}
		now = Mandate{Term: now.Term, Name: ourName(), Mine: true}
		_, err = tx.ExecContext(ctx, `INSERT INTO lease (one, term, holder, name, boot, renewed) VALUES (1, ?, ?, ?, ?, ?)
			ON CONFLICT (one) DO UPDATE SET term = excluded.term, holder = excluded.holder, name = excluded.name, boot = excluded.boot, renewed = excluded.renewed`,
			now.Term, j.holder, now.Name, j.boot, int64(at))
		return err
	})
	if err != nil {
		return Mandate{}, fmt.Errorf("journal: mandate: %w", err)
	}
	if now.Mine {
		j.term.Store(now.Term)
	}
	return now, nil
}

// Await waits until this process has the mandate. onMandate is called when another process has the mandate, once for each;
// onMandate may be nil. Await returns ctx's error, or an error of a journal that cannot be written.
func (j *Journal) Await(ctx context.Context, onMandate func(Mandate)) error {
	tick := time.NewTicker(mandateLook)
	defer tick.Stop()
	said := int64(-1)
	for {
		now, err := j.Take(ctx)
		switch {
		case errors.Is(err, ErrLocked): // the process that writes has the mandate
		case err != nil:
			return err
		case now.Mine:
			return nil
		case onMandate != nil && said != now.Term:
			said = now.Term
			onMandate(now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Renew keeps the mandate for another while. The error is ErrLost if another process has the mandate
// meanwhile; a mandate that ran out unnoticed is renewed.
func (j *Journal) Renew(ctx context.Context) error {
	return j.writeWithMandate(ctx, "renew the mandate", func(tx *sql.Tx) error {
		at, err := sinceBoot()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE lease SET renewed = ?", int64(at))
		return err
	})
}

// Keep renews the mandate until ctx ends, or the mandate is lost: then Keep returns why. It also
// keeps the journal's file: a removed file is written again, and failed is called; a replaced
// file is ErrReplaced.
func (j *Journal) Keep(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch err := errors.Join(j.rewriteIfRemoved(ctx), j.Renew(ctx)); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrLost), errors.Is(err, ErrReplaced):
			return err
		case failed != nil: // a full disk, for example: as long as no other process takes the mandate it is ours
			failed(err)
		}
	}
}

// rewriteIfRemoved writes the journal's file again if the file was removed, and returns errRemoved then.
// It returns ErrReplaced if another file is there.
func (j *Journal) rewriteIfRemoved(ctx context.Context) error {
	err := j.checkFile()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.writeBack(ctx); err != nil {
		return fmt.Errorf("journal %s: the file was removed, and cannot be written again: %w", j.path, err)
	}
	return fmt.Errorf("journal %s: %w", j.path, errRemoved)
}

// releaseMandate gives the mandate back.
func (j *Journal) releaseMandate(ctx context.Context) error {
	if j.term.Load() == 0 {
		return nil
	}
	return j.writeWithMandate(ctx, "give the mandate back", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE lease SET holder = '', name = ''")
		return err
	})
}

// Mandate returns the preemptd that works.
func (j *Journal) Mandate(ctx context.Context) (Mandate, error) {
	var now Mandate
	err := j.transact(ctx, func(tx *sql.Tx) error {
		var err error
		now, err = j.readMandate(ctx, tx)
		return err
	})
	return now, err
}

func (j *Journal) readMandate(ctx context.Context, tx *sql.Tx) (Mandate, error) {
	var now Mandate
	var holder, boot string
	var renewed int64
	err := tx.QueryRowContext(ctx, "SELECT term, holder, name, boot, renewed FROM lease").Scan(&now.Term, &holder, &now.Name, &boot, &renewed)
	if errors.Is(err, sql.ErrNoRows) {
		return Mandate{}, nil
	}
	if err != nil {
		return Mandate{}, err
	}
	at, err := sinceBoot()
	if err != nil {
		return Mandate{}, err
	}
	now.Since = at - time.Duration(renewed)
	now.Mine = holder == j.holder
	now.Expired = boot != j.boot || now.Since > mandateLife
	return now, nil
}

// requireMandate is the check that every write begins with.
func (j *Journal) requireMandate(ctx context.Context, tx *sql.Tx) error {
	var holder, name string
	var term int64
	err := tx.QueryRowContext(ctx, "SELECT term, holder, name FROM lease").Scan(&term, &holder, &name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: nobody has it yet", ErrLost)
	case err != nil:
		return err
	case holder != j.holder || term != j.term.Load():
		return fmt.Errorf("%w: %s", ErrLost, name)
	}
	return nil
}

func ourName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}
