// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// A lease is a job that holds GPUs for another job of the same user on the same node, the borrower
// (sbatch --singularity-lease=JOB). The borrower runs on, and Slurm's accounts stay right:
//
//	join     the lease's batch script starts: the borrower's devices are put on its GPUs, too
//	end      the lease's epilog: they are put on what is left, and only then Slurm gives the GPUs to other jobs
//	cancel   the borrower leaves its nodes: its leases are cancelled
//
// What the user says is the borrower's number only. That the lease runs, on this node, with which GPUs and for which
// user is what Slurm says; the user of the borrower is in its record, which is root's. So a user can lend GPUs of
// their own to jobs of their own, and nothing else.

// leasePatience is how long a device server may take to put devices elsewhere, at the beginning or the end of a lease.
// The plugin's epilog waits for a minute.
const leasePatience = 45 * time.Second

// cancelPatience is how long the end of a run waits for slurmctld to cancel a lease.
const cancelPatience = 5 * time.Second

// gpuLeases begins and ends leases on this node. The type has no state: it is in the notes of capsules.
type gpuLeases struct{ c *Conductor }

// beginLease begins a lease, at the start of its batch script, which then runs as in any job.
func (l gpuLeases) beginLease(ctx context.Context, t nodesocket.Join) (nodesocket.Place, error) {
	plain := nodesocket.Place{Mode: nodesocket.Plain}
	to := t.Options["lease"]
	refuse := func(err error) (nodesocket.Place, error) {
		return nodesocket.Place{}, fmt.Errorf("its GPUs cannot be lent to job %s: %w", to, err)
	}
	if t.Step != records.BatchProgram {
		return refuse(errors.New("the job holds them for it, and can run no steps"))
	}
	number, err := strconv.ParseUint(to, 10, 32)
	if err != nil {
		return refuse(errors.New("this is not the number of a job"))
	}
	lc, err := l.borrowerFor(uint32(number), t.UID)
	if err != nil {
		return refuse(err)
	}
	lent, err := l.lentGPUs(ctx, t)
	if err != nil {
		return refuse(err)
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	if err := (borrower{lc}).addLease(ctx, gpus.Lease{Job: t.Job, GPUs: lent}); err != nil {
		return refuse(err)
	}
	return plain, nil
}

// borrowerFor returns the capsule of a user's job that can be lent GPUs. Of other users' jobs it does not even say whether
// they are there.
func (l gpuLeases) borrowerFor(id, uid uint32) (*localCapsule, error) {
	j := l.c.jobs.findJob(id)
	if j == nil {
		return nil, errNoBorrower
	}
	rec := j.run.Snapshot().Record
	if rec == nil || rec.UID != uid {
		return nil, errNoBorrower
	}
	if l.c.Devices.Kind != kindSoft {
		return nil, fmt.Errorf("GPUs of kind %s cannot be lent yet", l.c.Devices.Kind)
	}
	var found []*localCapsule
	for _, lc := range j.localCapsules() {
		if lc.devices != nil {
			found = append(found, lc)
		}
	}
	switch {
	case len(found) == 0:
		return nil, errors.New("the job has no GPUs here")
	case len(found) > 1:
		return nil, errors.New("several of the job's nodes are on this node now")
	}
	return found[0], nil
}

var errNoBorrower = errors.New("no such job of the same user runs on this node with --singularity")

// lentGPUs returns the GPUs that Slurm has given to a lease.
func (l gpuLeases) lentGPUs(ctx context.Context, t nodesocket.Join) ([]int, error) {
	var s *slurm.Job
	silent := func(err error) bool { return errors.Is(err, slurm.ErrSilent) }
	err := retryWhile(ctx, restoreCallTimeout, silent, func() (err error) {
		s, err = l.c.Slurm.Show(ctx, jobName(t.Job))
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case s.UID != t.UID:
		return nil, fmt.Errorf("the job's user is %d, not %d", s.UID, t.UID)
	case !s.Runs() || !slices.Equal(s.Nodes, []string{l.c.Node}):
		return nil, fmt.Errorf("the job is %s on %v, and does not run on %s alone", s.State, s.Nodes, l.c.Node)
	}
	all, err := l.c.jobGPUs(ctx, s.String())
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || len(all[0]) == 0 {
		return nil, errors.New("it has no GPUs of Slurm's")
	}
	return all[0], nil
}

// borrower is a capsule that is lent GPUs. Its leases are in the capsule's note.
type borrower struct{ lc *localCapsule }

// devices are the devices of the capsule. They do not change in a run.
func (b borrower) devices() gpus.Devices {
	return gpus.Devices{Total: len(b.lc.note.GPUs), Own: b.lc.note.OwnGPUs}
}

// leases returns the capsule's leases.
func (b borrower) leases() []gpus.Lease {
	b.lc.j.mu.Lock()
	defer b.lc.j.mu.Unlock()
	return b.lc.note.Leases
}

// changeLeases replaces the capsule's leases, in its note too. Caller holds placing.
func (b borrower) changeLeases(change func([]gpus.Lease) ([]gpus.Lease, error)) error {
	b.lc.j.mu.Lock()
	defer b.lc.j.mu.Unlock()
	all, err := change(b.lc.note.Leases)
	if err != nil {
		return err
	}
	b.lc.note.Leases = all
	b.lc.saveNote()
	return nil
}

// addLease has the capsule use the GPUs of a lease. A second call for the same lease changes nothing.
func (b borrower) addLease(ctx context.Context, lease gpus.Lease) error {
	b.lc.placing.Lock()
	defer b.lc.placing.Unlock()
	err := b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return b.devices().Add(all, lease) })
	if err != nil {
		return err
	}
	if err := b.placeDevices(ctx); err != nil {
		bad := b.dropLease(context.WithoutCancel(ctx), lease.Job)
		return errors.Join(err, bad)
	}
	b.reportLease(lease, "has lent")
	return nil
}

// placeDevices puts the capsule's devices on the GPUs that it has: its own, and those of leases that are not over.
// Caller holds placing.
func (b borrower) placeDevices(ctx context.Context) error {
	places, has := b.devices().Places(b.leases())
	began := time.Now()
	if err := b.lc.devices.Place(ctx, places); err != nil {
		return err
	}
	b.lc.j.log.Info("devices are placed", "capsule", b.lc.index, "gpus", has, "took", time.Since(began))
	return nil
}

// dropLease has the capsule leave the GPUs of a lease, and then forgets the lease. Caller holds placing.
func (b borrower) dropLease(ctx context.Context, id uint32) error {
	err := b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return gpus.End(all, id), nil })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	select {
	case <-b.lc.devices.Died(): // nothing is left on any GPU
	default:
		if err := b.placeDevices(ctx); err != nil {
			return fmt.Errorf("leave the GPUs of job %d: %w", id, err)
		}
	}
	return b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return gpus.Without(all, id), nil })
}

// reportLease tells the job's time line what a lease has done.
func (b borrower) reportLease(lease gpus.Lease, what string) {
	j := b.lc.j
	has := b.devices().Own + gpus.CountLent(b.leases())
	j.log.Info("the GPUs of the job have changed", "lease", lease.Job, "what", what, "capsule", b.lc.index, "has", has)
	j.report.AddEvent(records.EventGPUs, []string{j.c.Node}, fmt.Sprintf("job %d %s %d: %d now", lease.Job, what, len(lease.GPUs), has))
}

// findBorrower returns the capsule to which a job lends its GPUs; nil if the job is no lease here.
func (l gpuLeases) findBorrower(id uint32) *localCapsule {
	for _, j := range l.c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			if gpus.Index(borrower{lc}.leases(), id) >= 0 {
				return lc
			}
		}
	}
	return nil
}

// LeaseError says that a job is a lease, and so has no capsule. It wraps ErrNoJob.
type LeaseError struct {
	Job, Borrower uint32
	GPUs          []int // that the lease lends, as Slurm numbers them
}

func (e *LeaseError) Error() string {
	return fmt.Sprintf("job %d is a lease: it lends its GPUs to job %d, and runs no program that a checkpoint could have", e.Job, e.Borrower)
}

// Unwrap returns ErrNoJob.
func (e *LeaseError) Unwrap() error { return ErrNoJob }

// noJob is the error about a job that this node does not know as a protected job: a *LeaseError if it is a lease here.
func (l gpuLeases) noJob(id uint32) error {
	lc := l.findBorrower(id)
	if lc == nil {
		return fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	e := &LeaseError{Job: id, Borrower: lc.j.id}
	for _, o := range (borrower{lc}).leases() {
		if o.Job == id {
			e.GPUs = o.GPUs
		}
	}
	return e
}

// endLease ends a lease, at the epilog of its job: when endLease returns nil nothing is left on its GPUs.
func (l gpuLeases) endLease(ctx context.Context, lc *localCapsule, id uint32) error {
	lc.placing.Lock()
	defer lc.placing.Unlock()
	all := borrower{lc}.leases()
	at := gpus.Index(all, id)
	if at < 0 {
		return nil
	}
	lease := all[at]
	if err := (borrower{lc}).dropLease(ctx, id); err != nil {
		return fmt.Errorf("job %d: %w", lc.j.id, err)
	}
	borrower{lc}.reportLease(lease, "takes back")
	return nil
}

// cancelFor cancels the leases of a capsule that is about to be removed. What cannot be cancelled now is tried again.
func (l gpuLeases) cancelFor(ctx context.Context, lc *localCapsule) {
	for _, o := range (borrower{lc}).leases() {
		name := jobName(o.Job)
		short, cancel := context.WithTimeout(ctx, cancelPatience)
		err := l.c.Slurm.Cancel(short, name)
		cancel()
		if err == nil {
			continue
		}
		lc.j.log.Warn("a lease of the job cannot be cancelled now", "lease", o.Job, "error", err)
		l.c.startBackground(func(ctx context.Context) {
			for l.c.Slurm.Cancel(ctx, name) != nil && sleepUnlessDone(ctx, slurmRetryInterval) {
			}
		})
	}
}

// endAbandoned ends the leases of jobs that are over without an epilog that has told this daemon, and leases with GPUs
// that could not be left in time.
func (l gpuLeases) endAbandoned(ctx context.Context) {
	for _, j := range l.c.jobs.allJobs() {
		for _, lc := range j.localCapsules() {
			for _, o := range (borrower{lc}).leases() {
				if !o.Over && !l.isOver(ctx, o.Job) {
					continue
				}
				if err := l.endLease(ctx, lc, o.Job); err != nil && ctx.Err() == nil {
					j.log.Error("a lease is over, and the job still uses its GPUs", "lease", o.Job, "error", err)
				}
			}
		}
	}
}

// isOver tells whether Slurm says that a job has left its nodes.
func (l gpuLeases) isOver(ctx context.Context, id uint32) bool {
	s, err := l.c.Slurm.Show(ctx, jobName(id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && !s.Runs() && s.State != "COMPLETING"
}
