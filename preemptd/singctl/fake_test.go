// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api/apitest"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// onN2 is the conductor of n2, which leads job 817.
type onN2 struct{ *apitest.Conductor }

func (c onN2) Show(ctx context.Context, job string) (*rpc.Job, error) {
	if job == "817" {
		return &rpc.Job{Id: "817", Uid: apitest.Alice, User: "alice", Name: "moved", State: "RUNNING", Leader: "n2"}, nil
	}
	return c.Conductor.Show(ctx, job)
}
