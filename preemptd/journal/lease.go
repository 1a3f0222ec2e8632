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

// A preemptd that died is followed within leaseLife + leaseLook, which is less than ten seconds; a preemptd that
// lives has leaseLife/RenewEvery tries to renew the lease in time.
const (
	leaseLife = 7 * time.Second
	leaseLook = time.Second
	// RenewEvery is how often the holder of the lease is to renew it.
	RenewEvery = 2 * time.Second
)

// Lease names the preemptd that works.
type Lease struct {
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

// Take takes the lease if it is free, and returns the holder. Take may be called again.
func (j *Journal) Take(ctx context.Context) (Lease, error) {
	var now Lease
	switch err := j.checkFile(); {
	case errors.Is(err, fs.ErrNotExist): // the holder of the lease writes the file back
		return Lease{}, fmt.Errorf("journal: lease: %w: its file is gone", ErrLocked)
	case err != nil:
		return Lease{}, fmt.Errorf("journal: lease: %w", err)
	}
	err := j.transact(ctx, func(tx *sql.Tx) error {
		var err error
		if now, err = j.readLease(ctx, tx); err != nil || !now.Mine && now.Name != "" && !now.Expired {
			return err
		}
		at, err := sinceBoot()
		if err != nil {
			return err
		}
		if !now.Mine {
			now.Term++
		}
		now = Lease{Term: now.Term, Name: ourName(), Mine: true}
		_, err = tx.ExecContext(ctx, `INSERT INTO lease (one, term, holder, name, boot, renewed) VALUES (1, ?, ?, ?, ?, ?)
			ON CONFLICT (one) DO UPDATE SET term = excluded.term, holder = excluded.holder, name = excluded.name, boot = excluded.boot, renewed = excluded.renewed`,
			now.Term, j.holder, now.Name, j.boot, int64(at))
		return err
	})
	if err != nil {
		return Lease{}, fmt.Errorf("journal: lease: %w", err)
	}
	if now.Mine {
		j.term.Store(now.Term)
	}
	return now, nil
}

// Await waits until this process has the lease. onLease is called when another process has the lease, once for each;
// onLease may be nil. Await returns ctx's error, or an error of a journal that cannot be written.
func (j *Journal) Await(ctx context.Context, onLease func(Lease)) error {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	said := int64(-1)
	for {
		now, err := j.Take(ctx)
		switch {
		case errors.Is(err, ErrLocked): // the process that writes has the lease
		case err != nil:
			return err
		case now.Mine:
			return nil
		case onLease != nil && said != now.Term:
			said = now.Term
			onLease(now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Renew keeps the lease for another while. The error is ErrLost if another process has the lease
// meanwhile; a lease that ran out unnoticed is renewed.
func (j *Journal) Renew(ctx context.Context) error {
	return j.writeLeased(ctx, "renew the lease", func(tx *sql.Tx) error {
		at, err := sinceBoot()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE lease SET renewed = ?", int64(at))
		return err
	})
}

// Keep renews the lease until ctx ends, or the lease is lost: then Keep returns why. It also
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
		case failed != nil: // a full disk, for example: as long as no other process takes the lease it is ours
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

// releaseLease gives the lease back.
func (j *Journal) releaseLease(ctx context.Context) error {
	if j.term.Load() == 0 {
		return nil
	}
	return j.writeLeased(ctx, "give the lease back", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE lease SET holder = '', name = ''")
		return err
	})
}

// Lease returns the preemptd that works.
func (j *Journal) Lease(ctx context.Context) (Lease, error) {
	var now Lease
	err := j.transact(ctx, func(tx *sql.Tx) error {
		var err error
		now, err = j.readLease(ctx, tx)
		return err
	})
	return now, err
}

func (j *Journal) readLease(ctx context.Context, tx *sql.Tx) (Lease, error) {
	var now Lease
	var holder, boot string
	var renewed int64
	err := tx.QueryRowContext(ctx, "SELECT term, holder, name, boot, renewed FROM lease").Scan(&now.Term, &holder, &now.Name, &boot, &renewed)
	if errors.Is(err, sql.ErrNoRows) {
		return Lease{}, nil
	}
	if err != nil {
		return Lease{}, err
	}
	at, err := sinceBoot()
	if err != nil {
		return Lease{}, err
	}
	now.Since = at - time.Duration(renewed)
	now.Mine = holder == j.holder
	now.Expired = boot != j.boot || now.Since > leaseLife
	return now, nil
}

// requireLease is the check that every write begins with.
func (j *Journal) requireLease(ctx context.Context, tx *sql.Tx) error {
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
