// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// preemptCommand is singctl preempt.
type preemptCommand struct{ *app }

func (a preemptCommand) buildCobra() *cobra.Command {
	var hold bool
	c := &cobra.Command{
		Use: "preempt JOB", Short: "Take a running job off its nodes, with a checkpoint, and back into the queue",
		Long: `preempt makes a checkpoint of a running job and puts it back into the queue. Slurm starts it again
when there is room, where it left off; with --hold it waits for singctl resume. Who interrupts singctl
leaves the action to itself: preemptd goes on with it.`,
	}
	c.Flags().BoolVar(&hold, "hold", false, "leave it held until singctl resume")
	return a.actionCommand(c, func() (*control.ActRequest, error) { return &control.ActRequest{Hold: hold}, nil })
}
