// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// leasePrefix begins the names of jobs that preemptd and proxyd submit to lend GPUs to another job; the rest of the
// name is that job's number (proxyd/slurm/lease.go).
const leasePrefix = "lease-of-"

// leasesOf returns the jobs that lend GPUs to running jobs, by the number of these, and which jobs are such leases. A
// snapshot has no leases: their shares are the other job's. proxyd tells of a running lease, by any name; a lease
// that waits is known by its name. Users choose the names of their jobs, so a lease counts only for a job of the same
// user and account.
func leasesOf(all []slurmrest.Job, protected map[int64]Protection) (leases map[int64][]*slurmrest.Job, is map[int64]bool) {
	borrowers := map[*slurmrest.Job]int64{}
	for i := range all {
		j := &all[i]
		if to := borrowerOf(j, protected[j.ID]); to != 0 && to != j.ID && !j.State.Finished() {
			borrowers[j] = to
		}
	}
	if len(borrowers) == 0 {
		return nil, nil
	}
	running := map[int64]*slurmrest.Job{}
	for i := range all {
		if all[i].State.Base == slurmrest.Running {
			running[all[i].ID] = &all[i]
		}
	}
	leases, is = map[int64][]*slurmrest.Job{}, map[int64]bool{}
	for i := range all { // in order
		j := &all[i]
		id := borrowers[j]
		to := running[id]
		if to == nil || to.User != j.User || to.Account != j.Account {
			continue
		}
		is[j.ID] = true
		if j.State.Base == slurmrest.Running {
			leases[id] = append(leases[id], j)
		}
	}
	return leases, is
}

// borrowerOf returns the job to which a job lends its GPUs, or is to lend them, and 0 if the job is no lease.
func borrowerOf(j *slurmrest.Job, p Protection) int64 {
	if p.Lends != 0 && p.Restarts == j.Restarts && j.State.Base == slurmrest.Running {
		return p.Lends
	}
	number, named := strings.CutPrefix(j.Name, leasePrefix)
	id, err := strconv.ParseInt(number, 10, 64)
	if !named || err != nil {
		return 0
	}
	return id
}

// addLease adds the shares of a lease to those of the job that it lends to, and reports whether Slurm says which
// GPUs.
func (b *builder) addLease(lease *slurmrest.Job, made *sdk.Job) bool {
	held := sdk.Job{Capsules: 1}
	exact := b.fillShares(lease, &held)
	for _, share := range held.Shares {
		for i := range made.Shares {
			if to := &made.Shares[i]; to.Node == share.Node {
				to.GPUs |= share.GPUs
				to.CPUs += share.CPUs
				to.Memory += share.Memory
			}
		}
	}
	made.GPUs += held.GPUs
	made.Leased += held.GPUs
	return exact
}

// pinChosenSize has policies leave the size alone that a person gave a running job by leases, or by their end.
func (b *builder) pinChosenSize(j *slurmrest.Job, made *sdk.Job) {
	e := b.known.Edited[j.ID]
	chosen := int(e.SizedBy.InPlace * max(j.NodeCount.Or(1), 1))
	if e.SizedByPerson && chosen > 0 && made.GPUs == chosen && j.Restarts == e.SizedBy.Restarts {
		made.MinGPUs, made.MaxGPUs = chosen, chosen
	}
}
