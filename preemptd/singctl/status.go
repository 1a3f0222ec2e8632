// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// statusCommand is singctl status.
type statusCommand struct{ *app }

func (a statusCommand) build() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how the controller does, and what it is doing",
		Args: argumentCount(0, 0, ""), ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.askController(cmd.Context(), func(c *control.Client) error {
				s, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(s)
					return nil
				}
				a.printStatus(s)
				return nil
			})
		},
	}
}

func (a statusCommand) printStatus(s *control.StatusReply) {
	looked := "not yet"
	if s.GetTicked() != nil {
		looked = durationText(a.now().Sub(s.GetTicked().AsTime())) + " ago"
	}
	printTable(a.stdout, [][]string{
		{"cluster", s.GetCluster()}, {"preemptd", s.GetVersion()}, {"works", orDefault(s.GetHolder(), "nobody")}, {"looked", looked},
		{"under way", pluralOf(int64(s.GetUnderWay()), "action")},
	})
	if len(s.GetPolicies()) > 0 {
		fmt.Fprintln(a.stdout)
		printTable(a.stdout, policyRows(s.GetPolicies()))
	}
	if len(s.GetActions()) > 0 {
		fmt.Fprintln(a.stdout)
		printTable(a.stdout, append([][]string{actionHead}, actionRows(s.GetActions())...))
	}
	if s.GetRefused() != "" {
		fmt.Fprintf(a.stdout, "NOT READY: %s (singctl doctor --controller)\n", safeLine(s.GetRefused()))
	}
	for _, problem := range s.GetProblems() {
		fmt.Fprintf(a.stdout, "problem: %s\n", safeLine(problem))
	}
}
