// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
	relayconfig "github.com/singularity-slurm/singularity-slurm/proxyd/relay/config"
)

// manCommand prints the manual page. The build of the packages calls this command, which is hidden
// from users.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write([]byte(manPage(c.Root())))
			return err
		},
	}
}

func manPage(root *cobra.Command) string {
	return manual.ProgramPage(root, 8, nil,
		manual.List{Title: "CONFIGURATION", Items: config.Reference()},
		manual.List{Title: "CONFIGURATION OF THE RELAY", Items: relayconfig.Reference()},
		manual.List{Title: "FILES", Items: [][2]string{{config.File, "The configuration."}, {relayconfig.File, "That of the relay."}}},
		manual.List{Title: "SEE ALSO", Items: [][2]string{
			{"singctl(1)", "Commands for people."}, {"preemptd(8)", "The controller."},
		}})
}
