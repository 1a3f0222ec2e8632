// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// A job that ends while it runs is settled by the node that led it (end.go). One that is
// cancelled while it waits, or whose leader died, has no node: then one daemon of the
// cluster, the tidier, finds that Slurm is done with it. It takes away the record and the
// addresses, and leaves the checkpoints to a collection, by age.

const (
	// overFor is how long Slurm must have said that a job is over: whoever led it may be
	// about to have it requeued.
	overFor = 2 * time.Minute
	// unknownFor is the same when Slurm does not say it in so many words.
	unknownFor = 10 * time.Minute
)

// patience says how long a job must be seen like this until it counts as over, if it may.
// s is nil if Slurm does not know it.
func patience(rec *Record, s *slurm.Job) (d time.Duration, may bool) {
	switch {
	case s == nil:
		return unknownFor, true
	case !s.Over() || rec.Outlast != "": // to be requeued
		return 0, false
	case s.State == "CANCELLED" || s.State == "COMPLETED" || s.State == "FAILED":
		return overFor, true
	default: // Slurm itself may run it again
		return unknownFor, true
	}
}

// tidier is what the one daemon remembers.
type tidier struct {
	c     *Conductor
	lock  *os.File
	since map[uint32]time.Time // jobs are seen to be over
}

// alone says whether this daemon is the tidier. Two at once would do no harm.
func (t *tidier) alone() bool {
	if t.lock != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(t.c.records.dir, ".tidier"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.c.Log.Warn("tidy", "error", err)
		return false
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return false
	}
	t.lock = f // also where the file system has no locks
	return true
}

func (t *tidier) close() {
	if t.lock != nil {
		t.lock.Close()
	}
}

// look settles the jobs that are over at the time now. A Slurm that does not answer, or did
// not in between, says nothing about any job.
func (t *tidier) look(ctx context.Context, now time.Time) error {
	recs, err := t.c.records.all()
	if err != nil || len(recs) == 0 {
		return err
	}
	jobs, err := t.c.Slurm.All(ctx)
	if err != nil {
		t.since = nil
		return err
	}
	before := t.since
	t.since = map[uint32]time.Time{}
	for _, rec := range recs {
		d, may := patience(rec, jobs[rec.Job])
		if !may || t.c.known(rec.Job) != nil {
			continue
		}
		t.since[rec.Job] = now
		if seen, ok := before[rec.Job]; ok {
			t.since[rec.Job] = seen
		}
		if now.Sub(t.since[rec.Job]) >= d {
			err = errors.Join(err, t.c.settleOver(ctx, rec))
		}
	}
	return err
}

// settleOver makes sure, and removes what a job that is over has on the shared folder, but
// for its checkpoints.
func (c *Conductor) settleOver(ctx context.Context, rec *Record) error {
	s, err := c.Slurm.Show(ctx, name(rec.Job))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return err
	}
	now, err := c.records.load(rec.Job)
	if err != nil || now == nil {
		return err
	}
	if _, may := patience(now, s); !may || now.Submitted != rec.Submitted || c.known(rec.Job) != nil {
		return nil
	}
	c.Log.Info("the job is over, and nobody had noticed", "job", rec.Job)
	return errors.Join(c.Pool.Give(ctx, name(rec.Job)), c.unlist(rec.Job))
}

// all returns the records that can be read.
func (r records) all() ([]*Record, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var all []*Record
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), ".json")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			continue
		}
		if rec, err := r.load(uint32(id)); err == nil && rec != nil {
			all = append(all, rec)
		}
	}
	return all, nil
}
