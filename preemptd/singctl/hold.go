// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// holdCommand is singctl hold.
type holdCommand struct{ *app }

func (a holdCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "hold JOB", Short: "Keep a job that waits from starting",
		Long: `hold keeps a job that waits from starting, until singctl release. One that runs is taken off its nodes and
held by singctl preempt --hold.`,
	}
	return a.actionCommand(c, func() (*control.ActRequest, error) { return &control.ActRequest{}, nil })
}

// releaseCommand is singctl release.
type releaseCommand struct{ *app }

func (a releaseCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "release JOB", Short: "Let a held job start where it may",
		Long: `release undoes the hold of a job that waits, and nothing else; singctl resume also sends a job that was
moved or resized back to where it asked to be. Only operators release what a policy, an operator or an
administrator holds.`,
	}
	return a.actionCommand(c, func() (*control.ActRequest, error) { return &control.ActRequest{}, nil })
}

// resumeCommand is singctl resume.
type resumeCommand struct{ *app }

func (a resumeCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "resume JOB", Short: "Let a held job go on",
		Long: `resume releases a job that waits, held by singctl preempt --hold or by its user. Only operators release
what a policy, an operator or an administrator holds.`,
	}
	return a.actionCommand(c, func() (*control.ActRequest, error) { return &control.ActRequest{}, nil })
}
