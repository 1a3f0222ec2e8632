// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// initCommand marks the shared folder of a new cluster: package shared has the reason.
func initCommand(load func() (*config.Config, error)) *cobra.Command {
	var cluster string
	c := &cobra.Command{
		Use: "init", Short: "Mark the shared folder as this cluster's; once, on one node",
		Example: "  proxyd init",
		Long: "Makes the last part of the path `shared` of the configuration if it is not there, and marks the folder as this cluster's.\n" +
			"Daemons start only where they find the mark, so that a folder that is not mounted is not taken for an empty one.\n" +
			"A folder that is marked already is left as it is.",
		Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load()
			if err != nil {
				return err
			}
			if cluster == "" {
				s, err := host.ReadSlurm(c.Context(), cfg.Scontrol, cfg.NodeName)
				if err != nil {
					return fmt.Errorf("which cluster is this? Slurm does not say: %w (or name it: --cluster)", err)
				}
				cluster = s.Cluster
			}
			if err := os.Mkdir(cfg.Shared, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("shared folder: %w", err)
			}
			if err := host.SharedIsRoots(cfg.Shared); err != nil {
				return fmt.Errorf("shared folder: %w", err)
			}
			mark, isNew, err := shared.Init(cfg.Shared, cluster)
			if err != nil {
				return err
			}
			said := "is marked already, since " + mark.Made.Local().Format(time.DateTime) + ","
			if isNew {
				said = "is marked"
			}
			fmt.Fprintf(c.OutOrStdout(), "%s %s as the folder of cluster %s (%s)\n", cfg.Shared, said, mark.Cluster, mark.ID)
			return nil
		},
	}
	c.Flags().StringVar(&cluster, "cluster", "", "the cluster's `NAME`; Slurm's ClusterName if it is not given")
	return c
}
