// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
)

// jobsCommand is singctl jobs.
type jobsCommand struct{ *app }

func (a jobsCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "jobs", Short: "List your jobs as the controller sees them: tier, GPUs, what was promised and delivered",
		Long: `jobs lists the jobs that have not ended: yours, or all if you are an operator. GPU TIME is the part of the time in the
window in which a job had the GPUs that it asked for; PROMISED is the part that its tier is promised; a job that asks
for no GPUs has neither. GPUS is "2 of 4" for a job that has fewer than it asked for, "4, asked for 2" for one that
was given more, and "1 + 1 leased" for one to which a lease lends a GPU: a job of the same user that singctl resize, a
policy or the user has submitted. A lease has no line of its own; singctl show JOB names the leases of a job.`,
		Args: argumentCount(0, 0, ""), ValidArgsFunction: noFiles,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.askController(cmd.Context(), func(c *control.Client) error {
				all, err := c.Jobs(cmd.Context())
				switch {
				case err != nil:
					return err
				case a.json:
					a.printMessage(all)
				default:
					a.printJobs(all)
				}
				return nil
			})
		},
	}
}

func (a jobsCommand) printJobs(all *control.JobsReply) {
	switch {
	case all.GetSeen() == nil:
		fmt.Fprintln(a.stdout, "preemptd has not looked at the cluster yet")
	case len(all.GetJobs()) == 0:
		fmt.Fprintln(a.stdout, "no jobs")
	default:
		printTable(a.stdout, append([][]string{{"JOB", "NAME", "USER", "TIER", "STATE", "GPUS", "GPU TIME", "PROMISED", "CHECKPOINT", "RESTARTS", "NODES"}}, a.jobRows(all)...))
	}
}

func (a jobsCommand) jobRows(all *control.JobsReply) [][]string {
	rows := make([][]string, len(all.GetJobs()))
	for i, j := range all.GetJobs() {
		state := a.jobState(j)
		if j.GetHeldBy() != "" {
			state += " by " + j.GetHeldBy()
		}
		if j.GetAction() != "" {
			state += ", " + j.GetAction()
		}
		checkpoint := "-"
		switch {
		case j.GetCheckpoint() != nil:
			checkpoint = durationText(a.now().Sub(j.GetCheckpoint().AsTime())) + " ago"
		case j.GetObstacle() != "" && !strings.HasPrefix(j.GetObstacle(), notRunYet):
			checkpoint = "none: " + j.GetObstacle()
		}
		percent := func(f float64) string {
			if j.GetRequested() == 0 && j.GetGpus() == 0 {
				return "-" // there is no GPU time of which it would be a part
			}
			return fmt.Sprintf("%.0f %%", 100*f)
		}
		rows[i] = []string{
			j.GetLabel(), j.GetName(), j.GetUser(), j.GetTier(), state, gpusText(j.GetGpus(), j.GetRequested(), j.GetLeased()), percent(j.GetFraction()), percent(j.GetPromised()),
			checkpoint, fmt.Sprint(j.GetRestarts()), orDefault(strings.Join(j.GetNodes(), ","), "-"),
		}
	}
	return rows
}

// jobState is a job's state for people: of a job that Slurm does not start yet, from when on it may.
func (a jobsCommand) jobState(j *control.Job) string {
	from := j.GetEligible()
	if j.GetState() != "deferred" || from == nil || !from.AsTime().After(a.now()) {
		return j.GetState()
	}
	format := time.DateTime
	if until := from.AsTime().Sub(a.now()); until < 12*time.Hour {
		format = time.TimeOnly
	}
	return "waits until " + from.AsTime().Local().Format(format)
}

// notRunYet begins preemptd's text on a job that no node has seen yet.
const notRunYet = "it has not run yet"

// gpusText says how many GPUs a job has, beside how many its user asked for, and how many of them leases lend to the
// job.
func gpusText(gpus, requested, leased int32) string {
	text := fmt.Sprint(gpus - leased)
	switch own := gpus - leased; {
	case own < requested:
		text += fmt.Sprintf(" of %d", requested)
	case own > requested:
		text += fmt.Sprintf(", asked for %d", requested)
	}
	if leased > 0 {
		text += fmt.Sprintf(" + %d leased", leased)
	}
	return text
}
