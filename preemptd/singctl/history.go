// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// historyCommand is singctl history.
type historyCommand struct{ *app }

func (a historyCommand) buildCobra() *cobra.Command {
	var id int64
	var limit uint16
	c := &cobra.Command{
		Use: "history [JOB]", Short: "List what was done to a job, or to all your jobs, and why",
		Long: `history lists what preemptd did to a job, or to all your jobs, newest first, and what befell them without it:
a preemption by Slurm, a node that failed, requeues by Slurm, a person or the job itself, of which no more is known, and the
work that a job has lost when its next run begins. Those have no number, and preemptd lists them only if it ran then.`,
		Args: argumentCount(0, 1, "at most one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, name := cmd.Context(), ""
			if len(args) > 0 {
				if id != 0 {
					return rpc.Errorf(rpc.ErrInvalid, "name a job, or an action; not both")
				}
				j, err := a.slurm.findJob(ctx, args[0])
				if err != nil {
					return err
				}
				name = j.name
			}
			return a.askController(ctx, func(c *control.Client) error {
				if id != 0 {
					m, err := c.Show(ctx, id)
					if err == nil {
						a.printStory(m)
					}
					return err
				}
				all, err := c.History(ctx, name, int32(limit))
				switch {
				case err != nil:
					return err
				case a.json:
					a.printMessage(all)
				case len(all.GetActions())+len(all.GetEvents()) == 0:
					fmt.Fprintln(a.stdout, "no actions")
				default:
					printTable(a.stdout, append([][]string{actionHead}, lifeRows(all)...))
				}
				if !a.json && all.GetStanding() != nil {
					fmt.Fprintln(a.stdout)
					a.printStanding(all.GetStanding())
				}
				return nil
			})
		},
	}
	c.Flags().Int64Var(&id, "action", 0, "tell all of the action of this `NUMBER`")
	c.Flags().Uint16Var(&limit, "limit", 0, "list the newest `N`; 100 at most")
	return c
}

// noReason is the reason that preemptd gives an action without a reason of its requester.
const noReason = "asked"

var actionHead = []string{"ACTION", "JOB", "KIND", "STATE", "BEGAN", "TOOK", "WHO", "WHY"}

// lifeRows are actions, and events by other programs, newest first.
func lifeRows(all *control.HistoryReply) [][]string {
	type row struct {
		at    time.Time
		cells []string
	}
	var rows []row
	for i, cells := range actionRows(all.GetActions()) {
		rows = append(rows, row{all.GetActions()[i].GetCreated().AsTime(), cells})
	}
	for _, e := range all.GetEvents() {
		rows = append(rows, row{e.GetAt().AsTime(), []string{"-", fmt.Sprint(e.GetJob()), e.GetWhat(), "-", timeText(e.GetAt()), "-", "-", e.GetText()}})
	}
	slices.SortStableFunc(rows, func(x, y row) int { return y.at.Compare(x.at) })
	cells := make([][]string, len(rows))
	for i := range rows {
		cells[i] = rows[i].cells
	}
	return cells
}

func actionRows(all []*control.Action) [][]string {
	var rows [][]string
	for _, m := range all {
		state, took := stateWords(m.GetState()), "-"
		if m.GetEnded() != nil {
			took = durationText(m.GetEnded().AsTime().Sub(m.GetCreated().AsTime()))
		} else if m.GetStep() != "" {
			state += ": " + orDefault(m.GetDoing(), m.GetStep())
		}
		var why []string
		for _, text := range []string{m.GetWhy(), m.GetProblem()} {
			if text != "" && text != noReason {
				why = append(why, text)
			}
		}
		rows = append(rows, []string{fmt.Sprint(m.GetId()), fmt.Sprint(m.GetJob()), strings.TrimSuffix(m.GetKind()+" "+m.GetTarget(), " "), state, timeText(m.GetCreated()), took, m.GetWho(), orDefault(strings.Join(why, "; "), "-")})
	}
	return rows
}

// printStanding prints a job's GPU fraction, beside its promise.
func (a *app) printStanding(s *control.Standing) {
	switch tier, counted := safeLine(s.GetTier()), s.GetCounted().AsDuration(); {
	case s.GetRequested() == 0 && s.GetGpus() == 0:
		fmt.Fprintf(a.stdout, "tier %s; the job asks for no GPUs\n", tier)
	case counted < time.Second:
		fmt.Fprintf(a.stdout, "tier %s: no GPU time is counted yet; promised: %.0f %%\n", tier, 100*s.GetPromised())
	default:
		fmt.Fprintf(a.stdout, "had its GPUs for %.1f %% of the %s in which it could run; tier %s is promised %.0f %%\n", 100*s.GetFraction(), costText(counted),
			tier, 100*s.GetPromised())
	}
	if s.GetRequested() > 0 {
		text := ownGPUsText(s)
		if s.GetLeased() > 0 {
			text += fmt.Sprintf(", and %d leased", s.GetLeased())
		}
		if s.GetLeast() < s.GetRequested() {
			text += fmt.Sprintf("; it may be shrunk to %d", s.GetLeast())
		}
		fmt.Fprintln(a.stdout, text)
	}
	switch {
	case s.GetWaits() != "":
		fmt.Fprintf(a.stdout, "waits: %s\n", safeLine(s.GetWaits()))
	case s.GetAction() != "":
		fmt.Fprintf(a.stdout, "under way: %s\n", safeLine(s.GetAction()))
	}
	if why := s.GetInfeasible(); why != "" && !strings.Contains(s.GetWaits(), why) {
		fmt.Fprintln(a.stdout, safeLine(why))
	}
}

// ownGPUsText says how many GPUs of its own a job has, beside its request.
func ownGPUsText(s *control.Standing) string {
	own, requested := s.GetGpus()-s.GetLeased(), s.GetRequested()
	switch {
	case own > requested:
		return fmt.Sprintf("GPUs: %d, %d more than it asked for", own, own-requested)
	case s.GetSubmitted() == 0:
		return fmt.Sprintf("GPUs: %d of the %d that it asked for", own, requested)
	case own == requested: // a person has resized the job
		return fmt.Sprintf("GPUs: %d; submitted with %d", own, s.GetSubmitted())
	}
	return fmt.Sprintf("GPUs: %d of the %d to which it was resized; submitted with %d", own, requested, s.GetSubmitted())
}

// wordsOfStates are words for people for the states of an action.
var wordsOfStates = map[string]string{"going": "under way", "undoing": "being taken back", "undone": "not done", "dropped": "given up"}

func stateWords(state string) string { return orDefault(wordsOfStates[state], state) }

// printStory tells all of an action.
func (a historyCommand) printStory(m *control.Action) {
	if a.json {
		a.printMessage(m)
		return
	}
	printTable(a.stdout, append([][]string{actionHead}, actionRows([]*control.Action{m})...))
	fmt.Fprintln(a.stdout)
	rows := [][]string{{"AT", "STATE", "STEP", "TRIES", "TEXT"}}
	for _, l := range m.GetLines() {
		rows = append(rows, []string{timeText(l.GetAt()), stateWords(l.GetState()), orDefault(orDefault(l.GetDoing(), l.GetStep()), "-"), fmt.Sprint(l.GetAttempt()), orDefault(l.GetText(), "-")})
	}
	printTable(a.stdout, rows)
}
