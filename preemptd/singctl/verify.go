// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// verifyCommand is singctl verify.
type verifyCommand struct{ *app }

func (a verifyCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "verify [CHECKPOINT…]", Short: "Read checkpoints back and check every byte",
		Long: `verify reads every chunk of the named checkpoints, or of all that you may see, and checks all that
a restore would. The exit code is 8 if something is wrong.`,
		Args: argumentCount(0, -1, "checkpoints"), ValidArgsFunction: a.completeCheckpoints,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := rpc.CheckpointJob(name); err != nil {
					return err
				}
			}
			return a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error {
				p := a.newProgress()
				defer p.endLine()
				r, err := c.Verify(cmd.Context(), args, p.showProgress)
				p.endLine()
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(r)
				} else {
					for _, problem := range r.GetProblems() {
						fmt.Fprintf(a.stdout, "PROBLEM %s\n", safeLine(problem))
					}
					fmt.Fprintf(a.stdout, "%s, %s of %s: %s\n", formatPlural(r.GetCheckpoints(), "checkpoint"), formatPlural(r.GetChunks(), "chunk"),
						bytesText(r.GetBytes()), formatPlural(int64(len(r.GetProblems())), "problem"))
				}
				if len(r.GetProblems()) > 0 {
					return errFound
				}
				return nil
			})
		},
	}
}
