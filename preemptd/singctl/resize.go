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

func (a resizeCommand) buildCobra() *cobra.Command {
	var nodes, gpus uint32
	var swap bool
	c := &cobra.Command{
		Use: "resize JOB {--nodes N | --gpus N}", Short: "Give a job fewer or more nodes or GPUs",
		Long: `resize gives a running job another number of nodes, or of GPUs on each. Where other jobs can lend a job the GPUs
that it lacks, or take theirs back, it runs on meanwhile; otherwise a checkpoint is made, and it starts again in its new
size. The number of its tasks stays. Only operators give a job more than it was submitted with.

A size that the job cannot have is refused before anything is done, and the sizes that it can have are named: its
programs see the nodes and GPUs with which they began and can use no more (sbatch --singularity-gpus=MIN-MAX has them
see MAX); nodes must have as many; and a running job gets only GPUs that are idle now. To have a job wait in the queue
for more: singctl preempt JOB --hold, resize, and resume.

A smaller size is refused, too, if by the newest checkpoint the memory of the ranks that share a GPU would not fit there:
they would be swapped, and be many times slower. --swap gives the job that size all the same.`,
	}
	c.Flags().Uint32Var(&nodes, "nodes", 0, "run on `N` nodes")
	c.Flags().Uint32Var(&gpus, "gpus", 0, "have `N` GPUs on each node")
	c.Flags().BoolVar(&swap, "swap", false, "also if the memory of the ranks that share a GPU does not fit there")
	return a.actionCommand(c, func() (*control.ActRequest, error) {
		if nodes == 0 && gpus == 0 {
			return nil, rpc.Errorf(rpc.ErrInvalid, "resize wants --nodes N or --gpus N")
		}
		return &control.ActRequest{NodeCount: int64(nodes), Gpus: int64(gpus), Swap: swap}, nil
	})
}
