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

func (a statusCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the controller's state and the actions under way",
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
	rows := [][]string{
		{"cluster", s.GetCluster()}, {"preemptd", s.GetVersion()}, {"works", orDefault(s.GetHolder(), "nobody")}, {"looked", looked},
		{"under way", formatPlural(int64(s.GetUnderWay()), "action")},
	}
	if p := s.GetProxyds(); p != nil {
		rows = append(rows, []string{"proxyds", proxydsText(p)})
	}
	printTable(a.stdout, rows)
	if len(s.GetPolicies()) > 0 {
		fmt.Fprintln(a.stdout)
		printTable(a.stdout, policyRows(s.GetPolicies()))
	}
	if len(s.GetActions()) > 0 {
		fmt.Fprintln(a.stdout)
		printTable(a.stdout, append([][]string{actionHead}, actionRows(s.GetActions())...))
	}
	if s.GetRefused() != "" {
		fmt.Fprintf(a.stdout, "%s: %s (singctl doctor --controller)\n", a.inColour(red, "NOT READY"), safeLine(s.GetRefused()))
	}
	for _, example := range s.GetProxyds().GetExamples() {
		fmt.Fprintf(a.stdout, "node %s\n", safeLine(example))
	}
	for _, line := range s.GetUnkept() {
		fmt.Fprintf(a.stdout, "%s: %s\n", a.inColour(yellow, "not all promises can be kept"), safeLine(line))
	}
	for _, problem := range s.GetProblems() {
		fmt.Fprintf(a.stdout, "%s: %s\n", a.inColour(yellow, "problem"), safeLine(problem))
	}
}

// proxydsText counts the nodes by how their proxyd is.
func proxydsText(p *control.Proxyds) string {
	text := fmt.Sprintf("%d of %s answer", p.GetAnswer(), formatPlural(int64(p.GetNodes()), "node"))
	if p.GetSilent() > 0 {
		text += fmt.Sprintf(", %d silent", p.GetSilent())
	}
	if p.GetUnsound() > 0 {
		text += fmt.Sprintf(", %d without the right shared folder", p.GetUnsound())
	}
	return text
}
