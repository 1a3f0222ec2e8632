// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// The leader cleans up after a job that ends while it runs (end_run.go). A job that is cancelled
// while it waits, or whose leader died, has no leader. For such jobs one daemon of the cluster is
// elected: it removes the record and releases the addresses. GC deletes the checkpoints later, by
// age.

const (
	// endedGrace is how long Slurm must show a job as over: its leader may be about to requeue
	// it.
	endedGrace = 2 * time.Minute
	// unknownGrace is endedGrace for a job that Slurm may run again by itself, or does not know.
	unknownGrace = 10 * time.Minute
)

// graceFor returns how long a job must be seen in this state before it counts as over. may is
// false if the job is not over. s is nil if Slurm does not know the job.
func graceFor(rec *records.Record, s *slurm.Job) (d time.Duration, may bool) {
	switch {
	case s == nil:
		return unknownGrace, true
	case !s.Over() || rec.RequeuedBy != "": // to be requeued
		return 0, false
	case s.State == "CANCELLED" || s.State == "COMPLETED" || s.State == "FAILED":
		return endedGrace, true
	default: // Slurm may run the job again by itself
		return unknownGrace, true
	}
}

// endedJobsCleaner is the state of the elected daemon.
type endedJobsCleaner struct {
	c            *Conductor
	electionLock *os.File
	endedSince   map[uint32]time.Time // first time at which a job was seen to be over
	forgotPast   time.Time            // when old time lines were removed
}

// isElected tells whether this daemon is elected, and stands for election if no daemon is. Two
// elected daemons would do no harm.
func (cleaner *endedJobsCleaner) isElected() bool {
	if cleaner.electionLock != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(cleaner.c.records.Dir, ".tidier"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		cleaner.c.Log.Warn("elect the cleaner of ended jobs", "error", err)
		return false
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return false
	}
	cleaner.electionLock = f // also on a file system without locks
	return true
}

func (cleaner *endedJobsCleaner) stopCleaning() {
	if cleaner.electionLock != nil {
		cleaner.electionLock.Close()
	}
}

// forgetInterval is how often time lines of jobs that are over are looked through.
const forgetInterval = time.Hour

// forgetPast removes the time lines of jobs that are over for longer than KeepPast.
func (cleaner *endedJobsCleaner) forgetPast(now time.Time) error {
	if now.Sub(cleaner.forgotPast) < forgetInterval {
		return nil
	}
	cleaner.forgotPast = now
	return cleaner.c.timeline.ForgetPast(now.Add(-cleaner.c.KeepPast))
}

// RemoveEnded removes the jobs that are over at the time now. An error of Slurm restarts all
// waiting times.
func (cleaner *endedJobsCleaner) removeEnded(ctx context.Context, now time.Time) error {
	recs, err := cleaner.c.records.LoadAll()
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
		if !may || cleaner.c.jobs.findJob(rec.Job) != nil {
			continue
		}
		cleaner.endedSince[rec.Job] = now
		if seen, ok := before[rec.Job]; ok {
			cleaner.endedSince[rec.Job] = seen
		}
		if now.Sub(cleaner.endedSince[rec.Job]) >= d {
			err = errors.Join(err, cleaner.c.ends.removeEndedJob(ctx, rec))
		}
	}
	return err
}

// removeEndedJob checks again that a job is over, then removes what the job has on the shared
// folder except its checkpoints.
func (e jobEnds) removeEndedJob(ctx context.Context, rec *records.Record) error {
	c := e.c
	s, err := c.Slurm.Show(ctx, jobName(rec.Job))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return err
	}
	now, err := c.records.Load(rec.Job)
	if err != nil || now == nil {
		return err
	}
	if _, may := graceFor(now, s); !may || now.Submitted != rec.Submitted || c.jobs.findJob(rec.Job) != nil {
		return nil
	}
	c.Log.Info("removed a job that ended without a leader", "job", rec.Job)
	return errors.Join(c.Pool.Give(ctx, jobName(rec.Job)), e.deleteRecord(rec.Job))
}
