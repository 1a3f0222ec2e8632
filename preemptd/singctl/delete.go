// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// deleteCommand is singctl delete.
type deleteCommand struct{ *app }

func (a deleteCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "delete CHECKPOINT…", Short: "Delete checkpoints; damaged ones are for operators",
		Long: `delete takes checkpoints away, all that are named or none. A job that has no other begins anew when
Slurm runs it again, or is held, as the site has chosen. The next gc wins the room back, but
for what was written in the last minute.

Before you delete what is damaged: is it so on every node (singctl verify --node NODE)? A node with a
wrong key finds all damaged.`,
		Args: argumentCount(1, -1, "checkpoints"), ValidArgsFunction: a.completeCheckpoints,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := rpc.CheckpointJob(name); err != nil {
					return err
				}
			}
			return a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error {
				deleted, err := c.Delete(cmd.Context(), args)
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(&rpc.DeleteReply{Deleted: deleted})
					return nil
				}
				for _, id := range deleted {
					fmt.Fprintf(a.stdout, "deleted checkpoint %s\n", safeLine(id))
				}
				return nil
			})
		},
	}
}
