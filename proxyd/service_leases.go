// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// addLending adds to the description of a job the job to which it lends its GPUs, if it is a lease of this node. It
// reports whether the job is a lease. err is why the job has no view. A lease that has not begun is known by the name
// that proxyd gives to the leases that it submits.
func addLending(out *rpc.Job, err error, here string, s *slurm.Job) bool {
	var lease *checkpoint.LeaseError
	if errors.As(err, &lease) {
		out.Lends = &rpc.Lending{Job: lease.Borrower, Node: here}
		for _, gpu := range lease.GPUs {
			out.Lends.Gpus = append(out.Lends.Gpus, uint32(gpu)) //nolint:gosec // numbers of a node's GPUs
		}
		return true
	}
	to := slurm.BorrowerOf(out.GetName())
	if to == 0 || s == nil || !s.Waits() {
		return false
	}
	out.Lends = &rpc.Lending{Job: to}
	return true
}

// Lend gives a running job so many GPUs in all on this node: jobs of the same user lend theirs.
func (d service) Lend(ctx context.Context, req *rpc.LendRequest) (*rpc.LendReply, error) {
	id, _, err := d.resolveJobNumber(ctx, req.GetJob())
	if err != nil {
		return nil, err
	}
	leases, had, err := d.n.conductor.Lend(ctx, id, int(req.GetGpus()), req.GetQos())
	switch {
	case errors.Is(err, checkpoint.ErrNoJob):
		return nil, rpc.Errorf(rpc.ErrNoJob, "job %s: it does not run here", req.GetJob())
	case errors.Is(err, checkpoint.ErrNotLent):
		return nil, rpc.Errorf(rpc.ErrInvalid, "job %s: %v", req.GetJob(), err)
	}
	return &rpc.LendReply{Leases: leases, Had: int64(had)}, err
}
