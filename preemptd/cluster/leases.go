// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// leasePrefix is how the names of jobs begin that lend GPUs to another job, which the rest of the name is
// (proxyd/slurm/lease.go).
const leasePrefix = "lease-of-"

// leasesOf returns the jobs that lend GPUs to running jobs, by the number of these, and which jobs are such leases. A
// snapshot has no leases: what they hold is the other job's. Users choose the names of their jobs, so a lease counts only
// for a job of the same user and account.
func leasesOf(all []slurmrest.Job) (leases map[int64][]*slurmrest.Job, is map[int64]bool) {
	var named []*slurmrest.Job
	for i := range all {
		if strings.HasPrefix(all[i].Name, leasePrefix) && !all[i].State.Finished() {
			named = append(named, &all[i])
		}
	}
	if named == nil {
		return nil, nil
	}
	running := map[int64]*slurmrest.Job{}
	for i := range all {
		if all[i].State.Base == slurmrest.Running {
			running[all[i].ID] = &all[i]
		}
	}
	leases, is = map[int64][]*slurmrest.Job{}, map[int64]bool{}
	for _, j := range named {
		id, err := strconv.ParseInt(strings.TrimPrefix(j.Name, leasePrefix), 10, 64)
		to := running[id]
		if err != nil || to == nil || to == j || to.User != j.User || to.Account != j.Account {
			continue
		}
		is[j.ID] = true
		if j.State.Base == slurmrest.Running {
			leases[id] = append(leases[id], j)
		}
	}
	return leases, is
}

// addLease adds what a lease holds to the shares of the job that it lends to, and reports whether Slurm says which GPUs.
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
