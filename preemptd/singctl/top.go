// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// topCommand is singctl top.
type topCommand struct{ *app }

func (a topCommand) buildCobra() *cobra.Command {
	var every time.Duration
	var times uint32
	c := &cobra.Command{
		Use: "top", Short: "Show how the controller and your jobs do, again and again",
		Long: `top shows what singctl status and singctl jobs show, until it is interrupted. While the controller does not
answer it says so, and goes on. With --json it prints what jobs prints, each time.`,
		Args: argumentCount(0, 0, ""), ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return rpc.Errorf(rpc.ErrInvalid, "--every %s: want 100ms or more", every)
			}
			return a.watchJobs(cmd.Context(), every, times)
		},
	}
	c.Flags().DurationVar(&every, "every", 2*time.Second, "show it anew after this `TIME`")
	c.Flags().Uint32Var(&times, "times", 0, "stop after `N` times")
	return c
}

// watchJobs dials again each time: by then another preemptd may answer. The first time, no answer
// is an error; later, it is shown.
func (a topCommand) watchJobs(ctx context.Context, every time.Duration, times uint32) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := uint32(1); ; n++ {
		var frame bytes.Buffer
		err := a.askController(ctx, func(c *control.Client) error { return a.writeFrame(ctx, c, &frame) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (n == 1 || !mayAnswerNextTime(err)):
			return err
		case err != nil:
			frame.Reset()
			fmt.Fprintln(&frame, safeLine(err.Error()))
		}
		if a.outTerminal && !a.json {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
		}
		if _, err := frame.WriteTo(a.stdout); err != nil {
			return err
		}
		if n == times {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// mayAnswerNextTime reports whether the controller may answer the next time.
func mayAnswerNextTime(err error) bool {
	return errors.Is(err, control.ErrUnreachable) || errors.Is(err, control.ErrTimeout) || errors.Is(err, control.ErrBusy)
}

// writeFrame writes one frame.
func (a topCommand) writeFrame(ctx context.Context, c *control.Client, w io.Writer) error {
	all, err := c.Jobs(ctx)
	if err != nil {
		return err
	}
	shown := *a.app
	shown.stdout = w
	if a.json {
		shown.printMessage(all)
		return nil
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	statusCommand{&shown}.printStatus(s)
	fmt.Fprintln(w)
	jobsCommand{&shown}.printJobs(all)
	return nil
}
