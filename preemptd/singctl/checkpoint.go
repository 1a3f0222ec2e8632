// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// leftError says that the person did not wait for the end of a checkpoint, which goes on.
type leftError struct {
	job string
	err error
}

func (e *leftError) Error() string { return "the checkpoint of job " + e.job + " goes on" }

func (e *leftError) Unwrap() error { return e.err }

// checkpointCommand is singctl checkpoint.
type checkpointCommand struct{ *app }

func (a checkpointCommand) buildCobra() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "checkpoint JOB", Short: "Make a checkpoint of a running job, which runs on",
		Long: `checkpoint makes a checkpoint of a running job. The job stands still while its memory is
captured, then runs on. Who interrupts singctl leaves the checkpoint to itself: the job's node goes on
with it, singctl show says how it ended, and singctl delete removes it. A slurmctld that does
not answer is waited for.`,
		Args: argumentCount(1, 1, "one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.slurm.tellSilence = sync.OnceFunc(func() {
				if !a.quiet {
					fmt.Fprintln(a.stderr, "slurmctld does not answer; waiting for it")
				}
			})
			return a.callLeader(cmd.Context(), args[0], func(c *rpc.Client, name string) error {
				began := a.now()
				p := a.newProgress()
				defer p.endLine()
				begun := false
				made, err := c.Checkpoint(cmd.Context(), &rpc.CheckpointRequest{Job: name, Reason: reason}, func(m *rpc.Progress) {
					begun = begun || m.GetPhase() != rpc.Waiting
					p.showProgress(m)
				})
				p.endLine()
				if err != nil {
					if begun && cmd.Context().Err() != nil {
						return &leftError{job: name, err: err}
					}
					if begun && errors.Is(err, rpc.ErrUnreachable) {
						return brokenOffError(name, err)
					}
					return err
				}
				if a.json {
					a.printMessage(made)
					return nil
				}
				fmt.Fprintf(a.stdout, "checkpoint %s: %s captured, %s stored, in %s\n", safeLine(made.GetId()),
					bytesText(made.GetLogical()), bytesText(made.GetStored()), durationText(a.now().Sub(began)))
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "`TEXT` that will stand beside the checkpoint")
	return c
}

// brokenOffError returns the error of a checkpoint that had begun when the daemon of the node that leads ended.
func brokenOffError(job string, err error) error {
	shown := &rpc.Error{Kind: rpc.ErrUnreachable, Text: err.Error()}
	var e *rpc.Error
	if errors.As(err, &e) {
		shown.Node = e.Node
	}
	shown.Text += "; the checkpoint is broken off, and the job runs on when proxyd is back there"
	shown.Hint = fmt.Sprintf("on that node: systemctl status proxyd; singctl show %s says whether the checkpoint was made before", job)
	return shown
}
