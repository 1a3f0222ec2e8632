// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// checkpointsCommand is singctl checkpoints.
type checkpointsCommand struct{ *app }

func (a checkpointsCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints [JOB]", Short: "List checkpoints, of a job or of all your jobs",
		Long: `checkpoints lists checkpoints. The newest of each job are kept, as many as keep in proxyd.yaml says (2 if nothing
else was set); older ones are removed. Of one job, it also tells whether a checkpoint is being made: the node that leads
the job knows that.`,
		Args: argumentCount(0, 1, "at most one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.callAnyDaemon(cmd.Context(), func(c *rpc.Client) error { return a.printList(cmd.Context(), c, "") })
			}
			return a.askLeaderOrAny(cmd.Context(), args[0], func(c *rpc.Client, name string) error { return a.printList(cmd.Context(), c, name) })
		},
	}
}

// printList prints the checkpoints of a job, or with "" of all jobs that the caller may see.
func (a checkpointsCommand) printList(ctx context.Context, c *rpc.Client, job string) error {
	found, err := c.ListCheckpoints(ctx, job)
	if err != nil {
		return err
	}
	if a.json {
		a.printMessage(found)
		return nil
	}
	for _, attempt := range found.GetAttempts() {
		fmt.Fprintln(a.stdout, safeLine(attemptText(attempt)))
	}
	switch {
	case len(found.GetCheckpoints()) > 0:
		a.printCheckpoints(found.GetCheckpoints(), true)
	case len(found.GetAttempts()) > 0:
		fmt.Fprintln(a.stdout, "no checkpoints before it")
	default:
		fmt.Fprintln(a.stdout, "no checkpoints")
	}
	if lacksOlder(found) {
		fmt.Fprintf(a.stdout, "older ones are removed: the newest %d of each job are kept (keep in proxyd.yaml)\n", found.GetKeep())
	}
	return nil
}

// attemptText says that a checkpoint is being made.
func attemptText(m *rpc.Attempt) string {
	text := fmt.Sprintf("a checkpoint is being made (%s), begun %s", m.GetReason(), timeText(m.GetBegan()))
	if m.GetPhase() != "" {
		text += fmt.Sprintf(": %s since %s", phaseWords(m.GetPhase()), timeText(m.GetPhaseBegan()))
	}
	return text
}

// maxReason is how much of a checkpoint's reason a table shows: a policy's reason is a whole sentence. JSON has all
// of it.
const maxReason = 40

// shortReason is the reason of a checkpoint for a table.
func shortReason(reason string) string {
	if letters := []rune(reason); len(letters) > maxReason {
		return string(letters[:maxReason-1]) + "…"
	}
	return orDefault(reason, "-")
}

// lacksOlder tells whether a job of a list has had checkpoints that were removed for newer ones.
func lacksOlder(list *rpc.CheckpointsReply) bool {
	count, oldest := map[string]uint32{}, map[string]uint64{}
	for _, c := range list.GetCheckpoints() {
		job, last := path.Split(c.GetId())
		number, err := strconv.ParseUint(last, 10, 64)
		if c.GetProblem() != "" || c.GetState() != "" || err != nil {
			continue
		}
		if count[job] == 0 || number < oldest[job] {
			oldest[job] = number
		}
		count[job]++
	}
	for job, n := range count {
		if list.GetKeep() > 0 && n >= list.GetKeep() && oldest[job] > 1 {
			return true
		}
	}
	return false
}

// printCheckpoints lists checkpoints. A checkpoint of a task of an array has the number that Slurm gave to that task
// alone; people know the task by another number.
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
			row := []string{c.GetId(), timeText(c.GetCreated()), "-", c.GetState(), "-", orDefault(strings.Join(c.GetNodes(), ","), "-"), shortReason(c.GetReason())}
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
			durationText(took), orDefault(strings.Join(c.GetNodes(), ","), "-"), shortReason(c.GetReason())}
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
