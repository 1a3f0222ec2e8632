// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// helpCommand is cobra's help command, except that it fails for words that are no command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Say how a command is used",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return rpc.Errorf(rpc.ErrInvalid, "unknown command %q%s", strings.Join(args, " "), didYouMean(about, rest[0]))
			}
			about.InitDefaultHelpFlag() // without this call the help flag is not among the flags
			return about.Help()
		},
	}
}

// refuseShell answers for a word that is no shell below completion.
func refuseShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return rpc.Errorf(rpc.ErrInvalid, "completion %.40q: want %s", args[0], strings.Join(commandNames(cmd), ", "))
}

// commandNames returns the names of the commands below a command, without hidden commands.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
