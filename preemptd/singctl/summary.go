// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/summary"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// summaryCommand is singctl summary.
type summaryCommand struct{ *app }

func (a summaryCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "summary JOB", Short: "Sum up a job, also one that is over: runs, moves, time lost and saved",
		Long: `summary tells where a job ran and how often it moved, how long it ran and waited, what its checkpoints took
and saved, and what was lost. The runs are slurmdbd's, for as long as it keeps them; what was done to the job is
preemptd's; the work is counted from the time line, which the nodes keep for some days after the job. What is not kept
any more, and what does not answer, is left out and named.`,
		Args: argumentCount(1, 1, "one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.collectSummary(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case a.json:
				a.printJSON(s.jsonObject())
			default:
				a.printSummary(s)
			}
			return nil
		},
	}
}

// jobSummary is the data of singctl summary on a job.
type jobSummary struct {
	name        string
	runs        []summary.Run
	totals      summary.Totals
	work        *summary.Work // nil: there is no time line
	lent        []*rpc.Event  // GPUs that came and went while the job ran
	checkpoints []*rpc.Checkpoint
	history     *control.HistoryReply
	missing     []string // parts that are left out, and why
}

// collectSummary asks slurmdbd, the nodes and preemptd. Only slurmdbd has to answer.
func (a summaryCommand) collectSummary(ctx context.Context, typed string) (*jobSummary, error) {
	j, err := a.slurm.findJob(ctx, typed)
	if err != nil {
		return nil, err
	}
	printed, err := a.slurm.runCommand(ctx, "sacct", "--duplicates", "--allocations", "--noheader", "--parsable2",
		"--jobs="+j.name, "--format="+summary.Columns)
	if err != nil {
		return nil, err
	}
	s := &jobSummary{name: j.name, runs: summary.ParseRuns(printed)}
	if len(s.runs) == 0 {
		return nil, &rpc.Error{
			Kind: rpc.ErrNoJob, Text: "job " + j.name + ": slurmdbd has no run of it that you may see",
			Hint: "sacct --jobs=" + j.name + " asks the same",
		}
	}
	s.totals = summary.AddRuns(s.runs, a.now())
	if err := a.addTimeline(ctx, s, typed); err != nil {
		return nil, err
	}
	return s, a.addHistory(ctx, s)
}

// addTimeline adds the nodes' time line of a job.
func (a summaryCommand) addTimeline(ctx context.Context, s *jobSummary, typed string) error {
	err := a.callLeader(ctx, typed, func(c *rpc.Client, name string) error {
		j, err := c.Show(ctx, name)
		if err != nil {
			return err
		}
		s.checkpoints = j.GetCheckpoints()
		s.addEvents(j.GetTimeline())
		return nil
	})
	switch {
	case err == nil && s.work == nil, errors.Is(err, rpc.ErrNoJob):
		s.missing = append(s.missing, "work saved and lost: the nodes have no time line of the job")
	case errors.Is(err, rpc.ErrUnreachable), errors.Is(err, rpc.ErrNotRunning), errors.Is(err, rpc.ErrNotProtected):
		s.missing = append(s.missing, "checkpoints and work: "+err.Error())
	default:
		return withoutVerb(err)
	}
	return nil
}

// withoutVerb takes the verb off a daemon's refusal: the person has typed another one.
func withoutVerb(err error) error {
	var proxyd *rpc.Error
	var preemptd *control.Error
	switch {
	case errors.As(err, &proxyd):
		e := *proxyd
		e.Text = strings.TrimPrefix(e.Text, "show: ")
		return &e
	case errors.As(err, &preemptd):
		e := *preemptd
		e.Text = strings.TrimPrefix(e.Text, "history: ")
		return &e
	}
	return err
}

func (s *jobSummary) addEvents(timeline []*rpc.Event) {
	if len(timeline) == 0 {
		return
	}
	events := make([]summary.Event, len(timeline))
	var leases []summary.LeaseChange
	for i, e := range timeline {
		events[i] = summary.Event{
			At: e.GetTime().AsTime(), What: e.GetEvent(), Checkpoint: int(e.GetCheckpoint()), Took: max(e.GetTook().AsDuration(), 0), AfterEnd: e.GetAfterEnd(),
		}
		if e.GetEvent() == "GPUs" {
			s.lent = append(s.lent, e)
			if gpus, is := summary.ParseLease(e.GetText()); is {
				leases = append(leases, summary.LeaseChange{At: e.GetTime().AsTime(), GPUs: gpus})
			}
		}
	}
	summary.AddLeases(s.runs, leases)
	work := summary.CountWork(events, s.runs)
	s.work = &work
}

// addHistory adds preemptd's actions on a job, and their reasons; a site need not have a preemptd.
func (a summaryCommand) addHistory(ctx context.Context, s *jobSummary) error {
	err := a.askController(ctx, func(c *control.Client) (err error) {
		s.history, err = c.History(ctx, s.name, 0)
		return err
	})
	switch {
	case errors.Is(err, control.ErrNoJob):
		s.missing = append(s.missing, "actions: Slurm has forgotten the job")
	case errors.Is(err, control.ErrUnreachable):
		s.missing = append(s.missing, "what was done to the job: "+err.Error())
	default:
		return withoutVerb(err)
	}
	return nil
}

func (a summaryCommand) printSummary(s *jobSummary) {
	w := a.stdout
	last := s.runs[len(s.runs)-1]
	fmt.Fprintf(w, "job %s of %s: %s\n\n", safeLine(s.name), safeLine(last.User), safeLine(last.State))
	rows := [][]string{{"RUN", "NODES", "FROM", "TO", "RAN", "GPUS", "STATE", "COMMENT"}}
	for i, r := range s.runs {
		rows = append(rows, []string{
			strconv.Itoa(i + 1), orDefault(r.Nodes, "-"), dateText(r.Began), dateText(r.Ended), durationText(r.Elapsed),
			gpusText(int32(r.GPUs+r.Leased), int32(r.GPUs), int32(r.Leased)), r.State, //nolint:gosec // GPUs of a job
			orDefault(r.Comment, "-"),
		})
	}
	printTable(w, rows)
	fmt.Fprintln(w, "\n"+totalsText(s.totals))
	for _, e := range s.lent {
		fmt.Fprintf(w, "GPUs in place: %s: %s\n", timeText(e.GetTime()), safeLine(e.GetText()))
	}
	if s.work != nil {
		a.printWork(s.work)
		if s.totals.Ran > 0 {
			least := ""
			if s.work.LateEnd {
				least = "at least "
			}
			fmt.Fprintf(w, "useful: %s%.0f %% of the time that it ran\n", least, 100*s.work.UsefulShare(s.totals.Ran))
		}
	}
	if usable, captured, stored := s.sumCheckpoints(); usable > 0 {
		fmt.Fprintf(w, "in the store: %s, %s captured, %s stored\n", formatPlural(int64(usable), "checkpoint"),
			bytesText(captured), bytesText(stored))
	}
	if all := s.history; len(all.GetActions())+len(all.GetEvents()) > 0 {
		fmt.Fprintln(w)
		printTable(w, append([][]string{actionHead}, lifeRows(all)...))
	}
	for _, what := range s.missing {
		fmt.Fprintf(w, "not known: %s\n", safeLine(what))
	}
}

// totalsText sums up the runs. Numbers that are zero are left out.
func totalsText(t summary.Totals) string {
	if t.Runs == 0 {
		return "has not run yet; waited " + durationText(t.Waited)
	}
	text := fmt.Sprintf("ran %s in %s", durationText(t.Ran), formatPlural(int64(t.Runs), "run"))
	if t.Moves > 0 {
		text += ", on other nodes than before " + formatPlural(int64(t.Moves), "time")
	}
	if t.Waited > 0 {
		text += "; waited " + durationText(t.Waited)
	}
	if hours := fmt.Sprintf("%.1f", t.GPUTime.Hours()); hours != "0.0" {
		text += "; " + hours + " GPU hours"
	}
	return text
}

// printWork prints the time of checkpoints and the saved and lost work. Numbers that are zero are left out.
func (a summaryCommand) printWork(k *summary.Work) {
	var parts []string
	if k.Made > 0 {
		parts = append(parts, fmt.Sprintf("%d made in %s, the longest in %s", k.Made, durationText(k.Capturing), durationText(k.Longest)))
	}
	if k.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", k.Failed))
	}
	if k.Restoring > 0 {
		parts = append(parts, "restores took "+durationText(k.Restoring))
	}
	fmt.Fprintf(a.stdout, "checkpoints: %s\n", orDefault(strings.Join(parts, "; "), "none"))
	most, why := "", ""
	if k.LateEnd && k.Lost+k.Anew > 0 {
		most, why = "at most ", " (a run ended with its node: it is counted until Slurm noticed)"
	}
	parts = nil
	for _, part := range []struct {
		took  time.Duration
		words string
	}{
		{k.Saved, durationText(k.Saved) + " saved by checkpoints"},
		{k.Lost, most + durationText(k.Lost) + " lost after them"},
		{k.Anew, most + durationText(k.Anew) + " in runs after which it began anew"},
		{k.Ended, durationText(k.Ended) + " in runs that ended by themselves"},
	} {
		if part.took > 0 {
			parts = append(parts, part.words)
		}
	}
	text := durationText(k.Worked) + " in all"
	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}
	fmt.Fprintf(a.stdout, "work: %s%s\n", text, why)
}

// sumCheckpoints adds up the checkpoints that can be used.
func (s *jobSummary) sumCheckpoints() (usable int, captured, stored int64) {
	for _, c := range s.checkpoints {
		if c.GetProblem() == "" && c.GetState() == "" {
			usable++
			captured += c.GetLogical()
			stored += c.GetStored()
		}
	}
	return usable, captured, stored
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// jsonObject is the summary for encoding/json: times as RFC 3339, durations in seconds, null for values that are not
// known.
func (s *jobSummary) jsonObject() map[string]any {
	runs := make([]any, len(s.runs))
	for i, r := range s.runs {
		runs[i] = map[string]any{
			"nodes": r.Nodes, "submitted": jsonTime(r.Submitted), "began": jsonTime(r.Began), "ended": jsonTime(r.Ended),
			"ran": r.Elapsed.Seconds(), "gpus": r.GPUs, "leased": r.Leased, "state": r.State, "comment": r.Comment,
		}
	}
	last := s.runs[len(s.runs)-1]
	o := map[string]any{
		"job": s.name, "user": last.User, "state": last.State, "runs": runs, "moves": s.totals.Moves,
		"ran": s.totals.Ran.Seconds(), "waited": s.totals.Waited.Seconds(), "gpu_seconds": s.totals.GPUTime.Seconds(),
		"missing": append([]string{}, s.missing...), "work": nil, "useful": nil, "history": nil,
	}
	usable, captured, stored := s.sumCheckpoints()
	o["store"] = map[string]any{"checkpoints": usable, "captured": captured, "stored": stored}
	if k := s.work; k != nil {
		o["useful"] = k.UsefulShare(s.totals.Ran)
		o["work"] = map[string]any{
			"checkpoints": k.Made, "failed": k.Failed, "longest": k.Longest.Seconds(), "capturing": k.Capturing.Seconds(),
			"restoring": k.Restoring.Seconds(), "worked": k.Worked.Seconds(), "saved": k.Saved.Seconds(), "lost": k.Lost.Seconds(), "anew": k.Anew.Seconds(), "ended": k.Ended.Seconds(),
			"late_end": k.LateEnd,
		}
	}
	if s.history != nil {
		o["history"] = jsonObject(s.history.ProtoReflect())
	}
	return o
}

// jsonTime returns nil for no time.
func jsonTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339)
}
