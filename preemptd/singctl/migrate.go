// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// migrateCommand is singctl migrate.
type migrateCommand struct{ *app }

func (a migrateCommand) buildCobra() *cobra.Command {
	var to, away string
	c := &cobra.Command{
		Use: "migrate JOB {--to NODES | --away NODES}", Short: "Move a job to named nodes, or away from named nodes",
		Long: `migrate makes a checkpoint of a running job, and starts it again elsewhere, where it left off. One that
waits is only told where to start. If it does not start there in time, it goes on wherever Slurm has room.

NODES are names separated by commas, or a host list, as in n[1-4,7].`,
	}
	c.Flags().StringVar(&to, "to", "", "run on all of these `NODES`")
	c.Flags().StringVar(&away, "away", "", "run on none of these `NODES`")
	a.completeNodesIn(c, "to", "away")
	return a.actionCommand(c, func() (*control.ActRequest, error) {
		if to == "" && away == "" {
			return nil, rpc.Errorf(rpc.ErrInvalid, "migrate wants --to NODES or --away NODES")
		}
		req := &control.ActRequest{}
		if to != "" {
			req.Nodes = []string{to}
		}
		if away != "" {
			req.Avoid = []string{away}
		}
		return req, nil
	})
}
