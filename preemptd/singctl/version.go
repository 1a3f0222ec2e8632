// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// versionCommand is singctl version.
type versionCommand struct{ *app }

func (a versionCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of singctl",
		Args: argumentCount(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				a.printJSON(map[string]any{"version": version})
				return nil
			}
			fmt.Fprintf(a.stdout, "singctl %s\n", version)
			return nil
		},
	}
}
