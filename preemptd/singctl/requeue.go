// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// requeueCommand is singctl requeue.
type requeueCommand struct{ *app }

func (a requeueCommand) buildCobra() *cobra.Command {
	var qos string
	var hold bool
	c := &cobra.Command{
		Use: "requeue JOB --qos QOS", Short: "Give a job another QOS, for which a running job is requeued",
		Long: `requeue puts a job into another QOS, and so perhaps into another tier. Slurm allows that only to a job that
waits: one that runs leaves its nodes for it, with a checkpoint, and goes on where it left off when there is
room. Users choose among the QOS that the job's account gives them.`,
	}
	c.Flags().StringVar(&qos, "qos", "", "have the job in this `QOS`")
	c.Flags().BoolVar(&hold, "hold", false, "leave it held until singctl resume")
	return a.actionCommand(c, func() (*control.ActRequest, error) {
		if qos == "" {
			return nil, rpc.Errorf(rpc.ErrInvalid, "requeue wants --qos QOS")
		}
		return &control.ActRequest{Qos: qos, Hold: hold}, nil
	})
}
