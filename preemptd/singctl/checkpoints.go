// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// checkpointsCommand is singctl checkpoints.
type checkpointsCommand struct{ *app }

func (a checkpointsCommand) build() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints [JOB]", Short: "List checkpoints, of a job or of all your jobs",
		Args: argumentCount(0, 1, "at most one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			list := func(c *rpc.Client, name string) error {
				found, err := c.Checkpoints(cmd.Context(), name)
				if err != nil {
					return err
				}
				if a.json {
					a.printMessage(&rpc.CheckpointsReply{Checkpoints: found})
					return nil
				}
				if len(found) == 0 {
					fmt.Fprintln(a.stdout, "no checkpoints")
					return nil
				}
				a.printCheckpoints(found, true)
				return nil
			}
			if len(args) == 0 {
				return a.askAny(cmd.Context(), func(c *rpc.Client) error { return list(c, "") })
			}
			j, err := a.slurm.findJob(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.askAny(cmd.Context(), func(c *rpc.Client) error { return list(c, j.name) })
		},
	}
}

// printCheckpoints lists them. A checkpoint of a task of an array has the number that Slurm
// gave to that task alone; people know another.
func (a *app) printCheckpoints(list []*rpc.Checkpoint, owner bool) {
	arrays := slices.ContainsFunc(list, func(c *rpc.Checkpoint) bool { return strings.Contains(c.GetJob(), "_") })
	head := []string{"CHECKPOINT", "MADE", "CAPTURED", "STORED", "TOOK", "NODES", "REASON"}
	if owner {
		head = append(head, "USER")
	}
	if arrays {
		head = append(head, "JOB")
	}
	rows := [][]string{head}
	for _, c := range list {
		if c.GetProblem() != "" {
			rows = append(rows, []string{c.GetId(), "NOT USABLE: " + c.GetProblem()})
			continue
		}
		if c.GetState() != "" {
			row := []string{c.GetId(), timeText(c.GetCreated()), "-", c.GetState(), "-", orDefault(strings.Join(c.GetNodes(), ","), "-"), orDefault(c.GetReason(), "-")}
			if owner {
				row = append(row, orDefault(c.GetUser(), fmt.Sprint(c.GetUid())))
			}
			if arrays {
				row = append(row, c.GetJob())
			}
			rows = append(rows, row)
			continue
		}
		var took time.Duration
		for _, p := range c.GetPhases() {
			took += p.GetTook().AsDuration()
		}
		row := []string{c.GetId(), timeText(c.GetCreated()), bytesText(c.GetLogical()), bytesText(c.GetStored()),
			durationText(took), orDefault(strings.Join(c.GetNodes(), ","), "-"), orDefault(c.GetReason(), "-")}
		if owner {
			row = append(row, orDefault(c.GetUser(), fmt.Sprint(c.GetUid())))
		}
		if arrays {
			row = append(row, c.GetJob())
		}
		rows = append(rows, row)
	}
	printTable(a.stdout, rows)
}
