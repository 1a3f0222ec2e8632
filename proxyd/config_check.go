// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// configCheckCommand makes the command that reads a configuration as its daemon would. load returns all mistakes of the
// file as one error.
func configCheckCommand(file *string, load func() error, example string) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Say what is wrong with the configuration", Args: wantArguments(),
		Long: `check reads the configuration as the daemon would at its next start, and names each mistake with its key.
A daemon that runs is not asked, and goes on as it is.

The exit code is 1 if the daemon would not start with the file.`,
		Example: example,
		RunE: func(c *cobra.Command, _ []string) error {
			table.NoteEmpty(c.ErrOrStderr(), *file)
			if err := load(); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "the configuration is fine")
			return nil
		},
	}
}
