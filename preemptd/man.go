// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/manual"
)

// manCommand prints the manual page. The packages' build calls it; people need not know.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write([]byte(manPage(c.Root())))
			return err
		},
	}
}

func manPage(root *cobra.Command) string {
	isKey := func(f *pflag.Flag) bool { return len(f.Annotations[keyOf]) > 0 }
	return manual.ProgramPage(root, 8, isKey,
		manual.List{Title: "CONFIGURATION", Items: config.Reference()},
		manual.List{Title: "FILES", Items: [][2]string{
			{config.File, "The configuration. Each key is a flag too, with - for dots."},
		}},
		manual.List{Title: "SEE ALSO", Items: [][2]string{{"singctl(1)", "Commands for people."}, {"proxyd(8)", "The daemon of the nodes."}}})
}
