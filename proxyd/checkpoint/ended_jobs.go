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

// A job that ends while it runs is settled by the node that led it (end_run.go). One that is
// cancelled while it waits, or whose leader died, has no node: then one daemon of the
// cluster, the tidier, finds that Slurm is done with it. It takes away the record and the
// addresses, and leaves the checkpoints to a collection, by age.

const (
	// endedGrace is how long Slurm must have said that a job is over: whoever led it may be
	// about to have it requeued.
	endedGrace = 2 * time.Minute
	// unknownGrace is the same when Slurm does not say it in so many words.
	unknownGrace = 10 * time.Minute
)

// graceFor says how long a job must be seen like this until it counts as over, if it may.
// s is nil if Slurm does not know it.
func graceFor(rec *Record, s *slurm.Job) (d time.Duration, may bool) {
	switch {
	case s == nil:
		return unknownGrace, true
	case !s.Over() || rec.RequeuedBy != "": // to be requeued
		return 0, false
	case s.State == "CANCELLED" || s.State == "COMPLETED" || s.State == "FAILED":
		return endedGrace, true
	default: // Slurm itself may run it again
		return unknownGrace, true
	}
}

// endedJobsCleaner is what the one daemon remembers.
type endedJobsCleaner struct {
	c            *Conductor
	electionLock *os.File
	endedSince   map[uint32]time.Time // jobs are seen to be over
}

// isElected says whether this daemon is the tidier. Two at once would do no harm.
func (cleaner *endedJobsCleaner) isElected() bool {
	if cleaner.electionLock != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(cleaner.c.records.dir, ".tidier"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		cleaner.c.Log.Warn("tidy", "error", err)
		return false
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return false
	}
	cleaner.electionLock = f // also where the file system has no locks
	return true
}

func (cleaner *endedJobsCleaner) close() {
	if cleaner.electionLock != nil {
		cleaner.electionLock.Close()
	}
}

// removeEnded settles the jobs that are over at the time now. A Slurm that does not answer, or did
// not in between, says nothing about any job.
func (cleaner *endedJobsCleaner) removeEnded(ctx context.Context, now time.Time) error {
	recs, err := cleaner.c.records.loadAll()
	if err != nil || len(recs) == 0 {
		return err
	}
	jobs, err := cleaner.c.Slurm.All(ctx)
	if err != nil {
		cleaner.endedSince = nil
		return err
	}
	before := cleaner.endedSince
	cleaner.endedSince = map[uint32]time.Time{}
	for _, rec := range recs {
		d, may := graceFor(rec, jobs[rec.Job])
		if !may || cleaner.c.findJob(rec.Job) != nil {
			continue
		}
		cleaner.endedSince[rec.Job] = now
		if seen, ok := before[rec.Job]; ok {
			cleaner.endedSince[rec.Job] = seen
		}
		if now.Sub(cleaner.endedSince[rec.Job]) >= d {
			err = errors.Join(err, cleaner.c.removeEndedJob(ctx, rec))
		}
	}
	return err
}

// removeEndedJob makes sure, and removes what a job that is over has on the shared folder, but
// for its checkpoints.
func (c *Conductor) removeEndedJob(ctx context.Context, rec *Record) error {
	s, err := c.Slurm.Show(ctx, jobName(rec.Job))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return err
	}
	now, err := c.records.load(rec.Job)
	if err != nil || now == nil {
		return err
	}
	if _, may := graceFor(now, s); !may || now.Submitted != rec.Submitted || c.findJob(rec.Job) != nil {
		return nil
	}
	c.Log.Info("the job is over, and nobody had noticed", "job", rec.Job)
	return errors.Join(c.Pool.Give(ctx, jobName(rec.Job)), c.deleteRecord(rec.Job))
}

// loadAll returns the records that can be read.
func (r records) loadAll() ([]*Record, error) {
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
