// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/session"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// completeJob proposes the caller's jobs in the queue. The shell shows the name beside
// the id.
func (a *app) completeJob(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, err := a.slurm.queuedJobs(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return jobs, cobra.ShellCompDirectiveNoFileComp
}

// completeNode proposes the nodes that Slurm knows, also behind nodes and a comma.
func (a *app) completeNode(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, err := a.slurm.nodeNames(cmd.Context(), false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	before := typed[:strings.LastIndex(typed, ",")+1]
	for i := range names {
		names[i] = before + names[i]
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSession proposes the caller's sessions.
func completeSession(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, err := session.Jobs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return jobs, cobra.ShellCompDirectiveNoFileComp
}

// completeCheckpoints proposes the caller's checkpoints, without the checkpoints that are typed
// already.
func (a *app) completeCheckpoints(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	err := a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error {
		all, err := c.Checkpoints(cmd.Context(), "")
		for _, one := range all {
			if !slices.Contains(args, one.GetId()) {
				names = append(names, one.GetId()+"\t"+orDefault(one.GetReason(), one.GetState()))
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeExport proposes a checkpoint, and then the shell's folders.
func (a *app) completeExport(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return a.completeCheckpoints(cmd, args, typed)
}

// completeNodesIn has the shell propose nodes for the value of flags.
func (a *app) completeNodesIn(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := c.RegisterFlagCompletionFunc(name, a.completeNode); err != nil {
			panic(err) // the command has no such flag
		}
	}
}

// noFiles proposes no words, where the shell would propose files.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
