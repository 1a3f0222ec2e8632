// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// ErrNotLent is the error if a job cannot have another number of GPUs by leases. The reason is wrapped, too.
var ErrNotLent = errors.New("it cannot have that number of GPUs in place")

// lendPatience is how long leases may take to start, or to end.
const lendPatience = 30 * time.Second

// Lend gives a running job count GPUs in all on this node: leases are submitted for the GPUs that the job lacks, or
// cancelled, the newest first. Lend returns when the job has them, with the numbers of its leases and how many GPUs it had before. If
// the job does not have them in time, leases that wait are cancelled and the error wraps ErrNotLent. A call that was
// broken off may be repeated.
func (c *Conductor) Lend(ctx context.Context, name string, count int, qos string) (leases []uint32, had int, err error) {
	id, err := parseJobName(name)
	if err != nil {
		return nil, 0, err
	}
	j := c.jobs.findJob(id)
	if j == nil {
		return nil, 0, ErrNoJob
	}
	rec := j.run.Snapshot().Record
	if rec == nil {
		return nil, 0, ErrNoJob
	}
	if j, err = c.leases.borrowerFor(id, rec.UID); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNotLent, err)
	}
	own, sees := j.ownGPUs()
	switch {
	case count < own || count < 1:
		return nil, 0, fmt.Errorf("%w: it has %d of its own, which only a requeue takes", ErrNotLent, own)
	case count > sees:
		return nil, 0, fmt.Errorf("%w: it can use %d (--singularity-gpus)", ErrNotLent, sees)
	}
	j.lending.Lock()
	defer j.lending.Unlock()
	had = own + j.lentGPUs()
	l := leaseChange{j: j, uid: rec.UID, gid: rec.GID, extra: count - own, qos: qos}
	short, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	if err := l.changeLending(short); err != nil {
		err = errors.Join(err, l.cancelWaiting(context.WithoutCancel(ctx)))
		return nil, had, fmt.Errorf("%w: %w", ErrNotLent, err)
	}
	for _, o := range j.leasesHere() {
		leases = append(leases, o.Job)
	}
	return leases, had, nil
}

// leaseChange is a change of a job's leases on this node.
type leaseChange struct {
	j        *job
	uid, gid uint32
	extra    int // GPUs that the job is to be lent
	qos      string
}

// changeLending submits or cancels leases, and waits until Slurm has started or ended them.
func (l *leaseChange) changeLending(ctx context.Context) error {
	if err := l.cancelSurplus(ctx); err != nil {
		return err
	}
	if err := l.submitMissing(ctx); err != nil {
		return err
	}
	for l.j.lentGPUs() != l.extra {
		if !waits.SleepUnlessDone(ctx, pollInterval) {
			return fmt.Errorf("it was lent %d of %d GPUs within %s%s", l.j.lentGPUs(), l.extra, lendPatience, l.whyWaiting(context.WithoutCancel(ctx)))
		}
	}
	return nil
}

// whyWaiting returns Slurm's reasons for the leases that have not started, to follow a sentence; "" if Slurm gives none.
func (l *leaseChange) whyWaiting(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	waiting, err := l.j.c.Slurm.WaitingLeases(ctx, l.j.id, l.uid, l.j.c.Node)
	if err != nil {
		return ""
	}
	var reasons []string
	for _, s := range waiting {
		if s.Reason != "" && s.Reason != "None" && !slices.Contains(reasons, s.Reason) {
			reasons = append(reasons, s.Reason)
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	return "; Slurm's reason why a lease waits: " + strings.Join(reasons, ", ")
}

// cancelSurplus cancels leases that the job does not need.
func (l *leaseChange) cancelSurplus(ctx context.Context) error {
	all, lent := l.j.leasesHere(), l.j.lentGPUs()
	for i := len(all) - 1; i >= 0 && lent-len(all[i].GPUs) >= l.extra; i-- {
		lent -= len(all[i].GPUs)
		if err := l.j.c.Slurm.Cancel(ctx, slurm.JobName(all[i].Job)); err != nil {
			return err
		}
	}
	if lent >= l.extra {
		return l.cancelWaiting(ctx)
	}
	return nil
}

// submitMissing submits a lease for each GPU that the job lacks and no lease waits for, unless the node has not enough
// idle for all of them.
func (l *leaseChange) submitMissing(ctx context.Context) error {
	c, id := l.j.c, l.j.id
	missing := l.extra - l.j.lentGPUs()
	if missing <= 0 {
		return nil
	}
	waiting, err := c.Slurm.WaitingLeases(ctx, id, l.uid, c.Node)
	if err != nil {
		return err
	}
	if err := l.checkIdle(ctx, missing, waiting); err != nil {
		return err
	}
	var borrower *slurm.Job
	for range missing - len(waiting) {
		if borrower == nil {
			if borrower, err = c.Slurm.Show(ctx, slurm.JobName(id)); err != nil {
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

// checkIdle says what the node lacks for the leases that Slurm has still to start; a lease that is being configured has
// its part of the node. If Slurm does not tell what is idle, the leases show.
func (l *leaseChange) checkIdle(ctx context.Context, missing int, waiting []*slurm.Job) error {
	for _, s := range waiting {
		if s.State == "CONFIGURING" {
			missing--
		}
	}
	if missing <= 0 {
		return nil
	}
	idle, err := l.j.c.Slurm.Idle(ctx, l.j.c.Node)
	if err != nil {
		l.j.log.Warn("what is idle for leases is not known", "error", err)
		return nil
	}
	if why := idle.WhyNoLeases(missing); why != "" {
		return errors.New(why)
	}
	return nil
}

// cancelWaiting cancels the leases that have not started.
func (l *leaseChange) cancelWaiting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	waiting, err := l.j.c.Slurm.WaitingLeases(ctx, l.j.id, l.uid, l.j.c.Node)
	for _, s := range waiting {
		err = errors.Join(err, l.j.c.Slurm.Cancel(ctx, s.String()))
	}
	return err
}
