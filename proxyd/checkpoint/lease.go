// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/waits"
)

// A lease is a job that holds GPUs of a node for another job of the same user that is on the node, the borrower
// (sbatch --singularity-lease=JOB). The borrower runs on, and Slurm's accounts stay right:
//
//	join     the lease's batch script starts: the borrower's devices are put on its GPUs, too
//	end      the lease's epilog: they are put on the remaining GPUs; only then Slurm gives the lease's GPUs away
//	cancel   the borrower leaves its nodes: its leases are cancelled
//
// The user states only the number of the borrower. Slurm states that the lease runs on this node, its GPUs and its
// user; the user of the borrower is in its record, which is root's. So a user can lend only their own GPUs, and only to
// their own jobs.

// leasePatience is how long a device server may take to put devices elsewhere, at the beginning or the end of a lease.
// The plugin's epilog waits for a minute.
const leasePatience = 45 * time.Second

// cancelPatience is how long the end of a run waits for slurmctld to cancel a lease.
const cancelPatience = 5 * time.Second

// gpuLeases begins and ends leases on this node. The type has no state: the leases are in the notes of capsules.
type gpuLeases struct{ c *Conductor }

// beginLease begins a lease, at the start of its batch script, which then runs as in any job.
func (l gpuLeases) beginLease(ctx context.Context, t nodesocket.Join) (nodesocket.Admission, error) {
	plain := nodesocket.Admission{Mode: nodesocket.Plain}
	to := t.Options["lease"]
	refuse := func(err error) (nodesocket.Admission, error) {
		return nodesocket.Admission{}, fmt.Errorf("its GPUs cannot be lent to job %s: %w", to, err)
	}
	if t.Step != records.BatchProgram {
		return refuse(errors.New("the job holds them for it, and can run no steps"))
	}
	number, err := strconv.ParseUint(to, 10, 32)
	if err != nil {
		return refuse(errors.New("this is not the number of a job"))
	}
	j, err := l.borrowerFor(uint32(number), t.UID)
	if err != nil {
		return refuse(err)
	}
	lent, err := l.lentGPUs(ctx, t)
	if err != nil {
		return refuse(err)
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	if err := j.addLease(ctx, t.Job, lent); err != nil {
		return refuse(err)
	}
	return plain, nil
}

// borrowerFor returns a user's job that can be lent GPUs on this node. The error for a job of another user does not
// tell whether the job is there.
func (l gpuLeases) borrowerFor(id, uid uint32) (*job, error) {
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
	if len(j.localBorrowers()) == 0 {
		return nil, errors.New("the job has no GPUs here")
	}
	return j, nil
}

var errNoBorrower = errors.New("no such job of the same user runs on this node with --singularity")

// lentGPUs returns the GPUs that Slurm has given to a lease.
func (l gpuLeases) lentGPUs(ctx context.Context, t nodesocket.Join) ([]int, error) {
	var s *slurm.Job
	silent := func(err error) bool { return errors.Is(err, slurm.ErrSilent) }
	err := retryWhile(ctx, restoreCallTimeout, silent, func() (err error) {
		s, err = l.c.Slurm.Show(ctx, slurm.JobName(t.Job))
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

// borrower is the capsules of a job on this node that share a device server, in order: one, as a rule. Their leases are
// in the note of the first capsule.
type borrower []*localCapsule

// localBorrowers returns the job's capsules with devices on this node, by device server.
func (j *job) localBorrowers() []borrower {
	var all []borrower
	at := map[string]int{}
	for _, lc := range j.localCapsules() {
		if lc.devices == nil {
			continue
		}
		if dir := lc.devices.Shared(); dir != "" {
			if i, met := at[dir]; met {
				all[i] = append(all[i], lc)
				continue
			}
			at[dir] = len(all)
		}
		all = append(all, borrower{lc})
	}
	return all
}

// devices are the devices of the capsules. They do not change in a run.
func (b borrower) devices() gpus.Devices {
	d := gpus.Devices{Own: b[0].note.OwnGPUs}
	for _, lc := range b {
		d.Total += len(lc.note.GPUs)
	}
	return d
}

// leases returns the leases.
func (b borrower) leases() []gpus.Lease {
	b[0].j.mu.Lock()
	defer b[0].j.mu.Unlock()
	return b[0].note.Leases
}

// changeLeases replaces the leases, in the note too. Caller holds placing.
func (b borrower) changeLeases(change func([]gpus.Lease) ([]gpus.Lease, error)) error {
	b[0].j.mu.Lock()
	defer b[0].j.mu.Unlock()
	all, err := change(b[0].note.Leases)
	if err != nil {
		return err
	}
	b[0].note.Leases = all
	b[0].saveNote()
	return nil
}

// addLease has the job use the GPUs of a lease on this node. A second call for the same lease has no effect.
func (j *job) addLease(ctx context.Context, id uint32, lent []int) error {
	j.placing.Lock()
	defer j.placing.Unlock()
	all := j.localBorrowers()
	if slices.ContainsFunc(all, func(b borrower) bool { return gpus.Index(b.leases(), id) >= 0 }) {
		return nil
	}
	var devices []gpus.Devices
	var leases [][]gpus.Lease
	for _, b := range all {
		devices, leases = append(devices, b.devices()), append(leases, b.leases())
	}
	counts, err := gpus.Divide(len(lent), devices, leases)
	if err != nil {
		return err
	}
	rest := lent
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if err := all[i].addLease(ctx, gpus.Lease{Job: id, GPUs: rest[:n]}); err != nil {
			_, bad := j.dropLease(context.WithoutCancel(ctx), id)
			return errors.Join(err, bad)
		}
		rest = rest[n:]
	}
	j.reportLease(id, "has lent", len(lent))
	return nil
}

// dropLease has the job leave the GPUs of a lease on this node, and returns how many these were. Caller holds placing.
func (j *job) dropLease(ctx context.Context, id uint32) (lent int, err error) {
	for _, b := range j.localBorrowers() {
		all := b.leases()
		at := gpus.Index(all, id)
		if at < 0 {
			continue
		}
		lent += len(all[at].GPUs)
		err = errors.Join(err, b.dropLease(ctx, id))
	}
	return lent, err
}

// lentGPUs returns how many GPUs the job is lent on this node.
func (j *job) lentGPUs() (n int) {
	for _, b := range j.localBorrowers() {
		n += gpus.CountLent(b.leases())
	}
	return n
}

// ownGPUs returns how many GPUs the job has of its own on this node, and how many its programs see there.
func (j *job) ownGPUs() (own, sees int) {
	for _, b := range j.localBorrowers() {
		d := b.devices()
		own, sees = own+d.Own, sees+d.Total
	}
	return own, sees
}

// leasesHere returns the job's leases on this node, the oldest first.
func (j *job) leasesHere() []gpus.Lease {
	var all []gpus.Lease
	for _, b := range j.localBorrowers() {
		for _, o := range b.leases() {
			if at := gpus.Index(all, o.Job); at >= 0 {
				all[at].GPUs = slices.Concat(all[at].GPUs, o.GPUs)
				continue
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b gpus.Lease) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// addLease has the capsules use the GPUs of a lease. Caller holds placing.
func (b borrower) addLease(ctx context.Context, lease gpus.Lease) error {
	err := b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return b.devices().Add(all, lease) })
	if err != nil {
		return err
	}
	return b.placeDevices(ctx)
}

// placeDevices puts the capsules' devices on the GPUs that they have: their own, and those of leases that are not over.
// If devices of a capsule share a GPU, they are devices that are alike. Caller holds placing.
func (b borrower) placeDevices(ctx context.Context) error {
	places, has := b.devices().Places(b.leases())
	began := time.Now()
	for _, lc := range b {
		n := len(lc.note.GPUs)
		if err := lc.devices.Arrange(ctx, places[:n]); err != nil {
			return fmt.Errorf("capsule %d: %w", lc.index, err)
		}
		places = places[n:]
	}
	b[0].j.log.Info("devices are placed", "capsule", b[0].index, "gpus", has, "took", time.Since(began))
	return nil
}

// dropLease has the capsules leave the GPUs of a lease, and then forgets the lease. Caller holds placing.
func (b borrower) dropLease(ctx context.Context, id uint32) error {
	err := b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return gpus.End(all, id), nil })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	select {
	case <-b[0].devices.Died(): // the capsules have no devices on any GPU any more
	default:
		if err := b.placeDevices(ctx); err != nil && !errors.Is(err, life.ErrDied) {
			return fmt.Errorf("leave the GPUs of job %d: %w", id, err)
		}
	}
	return b.changeLeases(func(all []gpus.Lease) ([]gpus.Lease, error) { return gpus.Without(all, id), nil })
}

// reportLease adds to the job's time line that a lease has lent or taken back GPUs, and how many GPUs the job has on
// this node now.
func (j *job) reportLease(id uint32, what string, count int) {
	own, _ := j.ownGPUs()
	has := own + j.lentGPUs()
	j.log.Info("the GPUs of the job have changed", "lease", id, "what", what, "has", has)
	j.report.AddEvent(records.EventGPUs, []string{j.c.Node}, fmt.Sprintf("job %d %s %d: %d now", id, what, count, has))
}

// findBorrower returns the job to which a job lends its GPUs; nil if the job is no lease here.
func (l gpuLeases) findBorrower(id uint32) *job {
	for _, j := range l.c.jobs.allJobs() {
		if gpus.Index(j.leasesHere(), id) >= 0 {
			return j
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
	j := l.findBorrower(id)
	if j == nil {
		return fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	e := &LeaseError{Job: id, Borrower: j.id}
	for _, o := range j.leasesHere() {
		if o.Job == id {
			e.GPUs = o.GPUs
		}
	}
	return e
}

// endLease ends a lease, at the epilog of its job: when endLease returns nil, the borrower has no device on the lease's
// GPUs any more.
func (l gpuLeases) endLease(ctx context.Context, j *job, id uint32) error {
	j.placing.Lock()
	defer j.placing.Unlock()
	lent, err := j.dropLease(ctx, id)
	if err != nil {
		return fmt.Errorf("job %d: %w", j.id, err)
	}
	if lent > 0 {
		j.reportLease(id, "takes back", lent)
	}
	return nil
}

// cancelFor cancels the leases of a job before its capsules are removed. A lease that cannot be cancelled now is tried
// again in the background.
func (l gpuLeases) cancelFor(ctx context.Context, j *job) {
	for _, o := range j.leasesHere() {
		name := slurm.JobName(o.Job)
		short, cancel := context.WithTimeout(ctx, cancelPatience)
		err := l.c.Slurm.Cancel(short, name)
		cancel()
		if err == nil {
			continue
		}
		j.log.Warn("a lease of the job cannot be cancelled now", "lease", o.Job, "error", err)
		l.c.startBackground(func(ctx context.Context) {
			for l.c.Slurm.Cancel(ctx, name) != nil && waits.SleepUnlessDone(ctx, slurmRetryInterval) {
			}
		})
	}
}

// endAbandoned ends leases that are over although no epilog has told this daemon, and leases with GPUs that the
// borrower could not leave in time.
func (l gpuLeases) endAbandoned(ctx context.Context) {
	for _, j := range l.c.jobs.allJobs() {
		for _, o := range j.leasesHere() {
			if !o.Over && !l.isOver(ctx, o.Job) {
				continue
			}
			if err := l.endLease(ctx, j, o.Job); err != nil && ctx.Err() == nil {
				j.log.Error("a lease is over, and the job still uses its GPUs", "lease", o.Job, "error", err)
			}
		}
	}
}

// isOver tells whether Slurm says that a job has left its nodes.
func (l gpuLeases) isOver(ctx context.Context, id uint32) bool {
	s, err := l.c.Slurm.Show(ctx, slurm.JobName(id))
	if errors.Is(err, slurm.ErrNoJob) {
		return true
	}
	return err == nil && !s.Runs() && s.State != "COMPLETING"
}
