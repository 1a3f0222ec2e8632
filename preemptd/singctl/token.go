// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// tokenCommand is singctl token.
type tokenCommand struct{ *app }

func (a tokenCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "token", Short: "Print a token, with which the web page lets you act on your jobs",
		Long: `Prints a token for the controller's web page. Whoever has it can do there what you
can, an operator's to everybody's jobs, until it ends: after an hour, or when preemptd is started again.`,
		Args: argumentCount(0, 0, ""), ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.askController(cmd.Context(), func(c *control.Client) error {
				reply, err := c.Token(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(reply)
					return nil
				}
				fmt.Fprintln(a.stdout, safeLine(reply.GetToken()))
				if !a.quiet {
					fmt.Fprintf(a.stderr, "for %s, until %s\n", orDefault(safeLine(reply.GetPage()), "the web page"), timeText(reply.GetUntil()))
				}
				return nil
			})
		},
	}
}
