// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
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

// noFiles proposes nothing, where the shell would propose files.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
