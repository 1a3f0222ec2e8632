// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// resumeCommand is singctl resume.
type resumeCommand struct{ *app }

func (a resumeCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "resume JOB", Short: "Let a held job go on",
		Long: `resume releases a job that waits, held by singctl preempt --hold or by its user. Only operators release
what a policy, an operator or an administrator holds.`,
	}
	return a.actionCommand(c, func() (*control.ActRequest, error) { return &control.ActRequest{}, nil })
}
