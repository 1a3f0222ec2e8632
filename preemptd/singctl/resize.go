// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// resizeCommand is singctl resize.
type resizeCommand struct{ *app }

func (a resizeCommand) build() *cobra.Command {
	var nodes, gpus uint32
	c := &cobra.Command{
		Use: "resize JOB {--nodes N | --gpus N}", Short: "Give a job fewer or more nodes or GPUs",
		Long: `resize makes a checkpoint of a running job, and starts it again with another number of nodes, or of GPUs
on each. The number of its tasks stays. Only operators give a job more than it was submitted with.`,
	}
	c.Flags().Uint32Var(&nodes, "nodes", 0, "run on `N` nodes")
	c.Flags().Uint32Var(&gpus, "gpus", 0, "have `N` GPUs on each node")
	return a.actionCommand(c, func() (*control.ActRequest, error) {
		if nodes == 0 && gpus == 0 {
			return nil, rpc.Errorf(rpc.ErrInvalid, "resize wants --nodes N or --gpus N")
		}
		return &control.ActRequest{NodeCount: int64(nodes), Gpus: int64(gpus)}, nil
	})
}
