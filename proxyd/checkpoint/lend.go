// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// ErrNotLent is why a job cannot have another number of GPUs by leases. The reason is wrapped, too.
var ErrNotLent = errors.New("it cannot have so many GPUs in place")

// lendPatience is how long leases may take to start, or to end.
const lendPatience = 30 * time.Second

// Lend has a running job have count GPUs in all: leases are submitted for what it lacks, or cancelled, the newest first.
// Lend returns when the job has them, with the numbers of its leases. When that is not so in time, what waits is cancelled
// and the error wraps ErrNotLent. A call that was broken off may be repeated.
func (c *Conductor) Lend(ctx context.Context, name string, count int, qos string) ([]uint32, error) {
	id, err := parseJobName(name)
	if err != nil {
		return nil, err
	}
	j := c.jobs.findJob(id)
	if j == nil {
		return nil, ErrNoJob
	}
	snap := j.run.Snapshot()
	if snap.Record == nil {
		return nil, ErrNoJob
	}
	lc, err := c.leases.borrowerFor(id, snap.Record.UID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotLent, err)
	case len(snap.Placement.Today) != 1:
		return nil, fmt.Errorf("%w: it runs on several nodes", ErrNotLent)
	case count < lc.note.OwnGPUs || count < 1:
		return nil, fmt.Errorf("%w: it has %d of its own, which only a requeue takes", ErrNotLent, lc.note.OwnGPUs)
	case count > len(lc.note.GPUs):
		return nil, fmt.Errorf("%w: it can use %d (--singularity-gpus)", ErrNotLent, len(lc.note.GPUs))
	}
	lc.lending.Lock()
	defer lc.lending.Unlock()
	l := lending{lc: lc, uid: snap.Record.UID, gid: snap.Record.GID, extra: count - lc.note.OwnGPUs, qos: qos}
	short, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	if err := l.changeLending(short); err != nil {
		err = errors.Join(err, l.cancelWaiting(context.WithoutCancel(ctx)))
		return nil, fmt.Errorf("%w: %w", ErrNotLent, err)
	}
	var leases []uint32
	for _, o := range (borrower{lc}).leases() {
		leases = append(leases, o.Job)
	}
	return leases, nil
}

// lending is a change of a job's leases.
type lending struct {
	lc       *localCapsule
	uid, gid uint32
	extra    int // GPUs that the job is to be lent
	qos      string
}

// lentNow is how many GPUs the job is lent.
func (l *lending) lentNow() int { return gpus.CountLent(borrower{l.lc}.leases()) }

// changeLending submits or cancels leases, and waits until Slurm has started or ended them.
func (l *lending) changeLending(ctx context.Context) error {
	if err := l.cancelSurplus(ctx); err != nil {
		return err
	}
	if err := l.submitMissing(ctx); err != nil {
		return err
	}
	for l.lentNow() != l.extra {
		if !sleepUnlessDone(ctx, pollInterval) {
			return fmt.Errorf("it was lent %d of %d GPUs within %s", l.lentNow(), l.extra, lendPatience)
		}
	}
	return nil
}

// cancelSurplus cancels leases that the job does not need.
func (l *lending) cancelSurplus(ctx context.Context) error {
	all, lent := borrower{l.lc}.leases(), l.lentNow()
	for i := len(all) - 1; i >= 0 && lent-len(all[i].GPUs) >= l.extra; i-- {
		lent -= len(all[i].GPUs)
		if err := l.lc.j.c.Slurm.Cancel(ctx, jobName(all[i].Job)); err != nil {
			return err
		}
	}
	if lent >= l.extra {
		return l.cancelWaiting(ctx)
	}
	return nil
}

// submitMissing submits a lease for each GPU that the job lacks and no lease waits for.
func (l *lending) submitMissing(ctx context.Context) error {
	c, id := l.lc.j.c, l.lc.j.id
	missing := l.extra - l.lentNow()
	if missing <= 0 {
		return nil
	}
	waiting, err := c.Slurm.WaitingLeases(ctx, id, l.uid)
	if err != nil {
		return err
	}
	var borrower *slurm.Job
	for range missing - len(waiting) {
		if borrower == nil {
			if borrower, err = c.Slurm.Show(ctx, jobName(id)); err != nil {
				return err
			}
			if borrower.UID != l.uid {
				return fmt.Errorf("its user is %d, not %d", borrower.UID, l.uid)
			}
		}
		if err := c.Slurm.SubmitLease(ctx, borrower, l.gid, c.Node, l.qos); err != nil {
			return err
		}
	}
	return nil
}

// cancelWaiting cancels the leases that have not started.
func (l *lending) cancelWaiting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	waiting, err := l.lc.j.c.Slurm.WaitingLeases(ctx, l.lc.j.id, l.uid)
	for _, s := range waiting {
		err = errors.Join(err, l.lc.j.c.Slurm.Cancel(ctx, s.String()))
	}
	return err
}
