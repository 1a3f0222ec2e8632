// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ends

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

// The leader cleans up after a job that ends while it runs (settle.go). A job that is cancelled while waiting, or with
// a leader that died, has no leader. For such jobs a daemon of the cluster is elected, which removes the record and
// releases the addresses. GC deletes the checkpoints later, by age. The same daemon has jobs go on that Slurm holds after
// a failed launch (failed_launch.go).

const (
	// endedGrace is how long Slurm must show a job as over: the leader may be about to requeue
	// the job.
	endedGrace = 2 * time.Minute
	// UnknownGrace is endedGrace for a job that Slurm may run again by itself, or does not know.
	UnknownGrace = 10 * time.Minute
)

// graceFor returns how long Slurm must show a job in the state s before the job counts as over. may is false if the job is
// not over, or is to be requeued. s is nil if Slurm does not know the job.
//
// The record of a job that would resume stays as long as the job's checkpoints: a person can have Slurm run the job again
// as long as Slurm knows the job, and without the record that run cannot resume. The record has the time of the first
// submission, which Slurm sets anew with each requeue, and the nodes and addresses of the capsules.
func (e Ends) graceFor(rec *records.Record, s *slurm.Job) (d time.Duration, may bool) {
	switch {
	case s == nil:
		return UnknownGrace, true
	case !s.Over() || rec.RequeuedBy != "": // to be requeued
		return 0, false
	case s.State == stateCancelled || s.State == "COMPLETED" || s.State == "FAILED" && rec.BeginAnew:
		return endedGrace, true
	case !rec.BeginAnew:
		return max(UnknownGrace, e.KeepPast), true
	default: // Slurm may run the job again by itself
		return UnknownGrace, true
	}
}

// Cleaner is the state of the elected daemon. A single goroutine may call the methods.
type Cleaner struct {
	Ends

	electionLock *os.File
	endedSince   map[uint32]time.Time // first time at which a job was seen to be over
	forgotPast   time.Time            // when old time lines were removed
}

// IsElected tells whether this daemon is elected, and stands for election if no daemon is. Two
// elected daemons would do no harm.
func (cleaner *Cleaner) IsElected() bool {
	if cleaner.electionLock != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(cleaner.Records.Dir, ".tidier"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		cleaner.Log.Warn("cannot elect the cleaner of ended jobs", "error", err)
		return false
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return false
	}
	cleaner.electionLock = f // also on a file system without locks
	return true
}

// Stop ends the election.
func (cleaner *Cleaner) Stop() {
	if cleaner.electionLock != nil {
		cleaner.electionLock.Close()
	}
}

// forgetInterval is how often time lines of jobs that are over are looked through.
const forgetInterval = time.Hour

// ForgetPast removes the time lines of jobs that are over for longer than KeepPast.
func (cleaner *Cleaner) ForgetPast(now time.Time) error {
	if now.Sub(cleaner.forgotPast) < forgetInterval {
		return nil
	}
	cleaner.forgotPast = now
	return cleaner.Timeline.ForgetPast(now, cleaner.KeepPast)
}

// SettleJobs removes the jobs that are over at the time now, and has jobs go on that Slurm holds after a failed launch.
// An error of Slurm restarts the waiting times of all jobs that are over.
func (cleaner *Cleaner) SettleJobs(ctx context.Context, now time.Time) error {
	recs, err := cleaner.Records.LoadAll()
	if err != nil || len(recs) == 0 {
		return err
	}
	jobs, err := cleaner.Slurm.All(ctx)
	if err != nil {
		cleaner.endedSince = nil
		return err
	}
	return errors.Join(cleaner.removeEnded(ctx, now, recs, jobs), cleaner.releaseFailedLaunches(ctx, recs, jobs))
}

// removeEnded removes the jobs that are over at the time now.
func (cleaner *Cleaner) removeEnded(ctx context.Context, now time.Time, recs []*records.Record, jobs map[uint32]*slurm.Job) (err error) {
	before := cleaner.endedSince
	cleaner.endedSince = map[uint32]time.Time{}
	for _, rec := range recs {
		d, may := cleaner.graceFor(rec, jobs[rec.Job])
		if !may || cleaner.Jobs.Has(rec.Job) {
			continue
		}
		cleaner.endedSince[rec.Job] = now
		if seen, ok := before[rec.Job]; ok {
			cleaner.endedSince[rec.Job] = seen
		}
		if now.Sub(cleaner.endedSince[rec.Job]) >= d {
			err = errors.Join(err, cleaner.removeEndedJob(ctx, rec))
		}
	}
	return err
}

// removeEndedJob checks again that a job is over, then removes the job's files on the shared folder, except its
// checkpoints.
func (e Ends) removeEndedJob(ctx context.Context, rec *records.Record) error {
	s, err := e.Slurm.Show(ctx, slurm.JobName(rec.Job))
	if err != nil && !errors.Is(err, slurm.ErrNoJob) {
		return err
	}
	now, err := e.Records.Load(rec.Job)
	if err != nil || now == nil {
		return err
	}
	if _, may := e.graceFor(now, s); !may || now.Submitted != rec.Submitted || e.Jobs.Has(rec.Job) {
		return nil
	}
	e.Log.Info("removed a job that ended without a leader", "job", rec.Job)
	return errors.Join(e.Addresses.Give(ctx, slurm.JobName(rec.Job)), e.DeleteRecord(rec.Job))
}
