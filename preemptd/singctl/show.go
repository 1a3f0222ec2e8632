// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// showCommand is singctl show.
type showCommand struct{ *app }

func (a showCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show the state of a job: capsules, programs, checkpoints, what happened",
		Args: argumentCount(1, 1, "one job"), ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			show := func(c *rpc.Client, name string) error {
				j, err := c.Show(cmd.Context(), name)
				switch {
				case errors.Is(err, rpc.ErrNotRunning) && !a.json: // the job waits: the controller may know the reason
					if told, _ := a.showStanding(cmd.Context(), name, err.Error()); told {
						return nil
					}
					return err
				case err != nil:
					return err
				case a.json:
					a.printMessage(j)
					return nil
				}
				a.printJob(j)
				_, err = a.showStanding(cmd.Context(), name, "")
				return err
			}
			return a.askLeaderOrAny(cmd.Context(), args[0], show)
		},
	}
}

// showStanding adds the controller's view of a job, below a line, and reports whether the controller knew the job;
// where there is no controller, the result is false.
func (a showCommand) showStanding(ctx context.Context, name, above string) (told bool, err error) {
	err = a.askController(ctx, func(c *control.Client) error {
		h, err := c.History(ctx, name, 1)
		if told = err == nil && h.GetStanding() != nil; told {
			fmt.Fprintln(a.stdout, safeLine(above))
			a.printStanding(h.GetStanding())
		}
		return err
	})
	if errors.Is(err, control.ErrUnreachable) || errors.Is(err, control.ErrNoJob) {
		err = nil
	}
	return told, err
}

func (a showCommand) printJob(j *rpc.Job) {
	w := a.stdout
	fmt.Fprintln(w, jobHeadline(j))
	if len(j.GetOptions()) > 0 {
		var words []string
		for _, k := range slices.Sorted(maps.Keys(j.GetOptions())) {
			words = append(words, k+"="+j.GetOptions()[k])
		}
		fmt.Fprintf(w, "options: %s\n", safeLine(strings.Join(words, " ")))
	}
	if j.GetComment() != "" {
		fmt.Fprintf(w, "comment: %s\n", safeLine(j.GetComment()))
	}
	if j.GetLends() != nil {
		fmt.Fprintln(w, lendingText(j.GetLends()))
		return
	}
	if len(j.GetCapsules()) == 0 && len(j.GetCheckpoints()) == 0 {
		nothing := "the store has nothing of it"
		if len(j.GetTimeline()) > 0 {
			nothing = "no checkpoint of it is stored"
		}
		fmt.Fprintln(w, nothing)
	}
	a.printReachable(j)
	a.printCapsules(j.GetCapsules())
	a.printDevices(j.GetCapsules())
	if len(j.GetCheckpoints()) > 0 {
		fmt.Fprintln(w)
		a.printCheckpoints(j.GetCheckpoints(), false)
	}
	a.printObstacles(j)
	a.printTimeline(j.GetTimeline())
}

// jobHeadline is the first line about a job: its name and owner, its state, and the node that leads it.
func jobHeadline(j *rpc.Job) string {
	line := "job " + safeLine(j.GetId())
	if j.GetName() != "" {
		line += fmt.Sprintf(" (%s)", safeLine(j.GetName()))
	}
	if j.GetUser() != "" {
		line += " of " + safeLine(j.GetUser())
	}
	line += ": " + safeLine(orDefault(j.GetState(), "Slurm does not know it any more"))
	if j.GetRestarts() > 0 {
		line += ", restarted " + formatPlural(int64(j.GetRestarts()), "time")
	}
	if j.GetLeader() != "" {
		line += ", led by " + safeLine(j.GetLeader())
	}
	return line
}

// printObstacles prints a job's obstacles, and its connections to outside, which a restore resets.
func (a showCommand) printObstacles(j *rpc.Job) {
	w := a.stdout
	if len(j.GetObstacles()) > 0 {
		fmt.Fprintf(w, "\n%s:\n", a.inColour(yellow, "stands in the way of a checkpoint"))
		for _, o := range groupObstacles(j.GetObstacles()) {
			fmt.Fprintf(w, "  %s", o)
			if o.since != nil {
				fmt.Fprintf(w, " (since %s)", timeText(o.since))
			}
			fmt.Fprintln(w)
		}
	}
	if len(j.GetOutside()) > 0 {
		fmt.Fprintln(w, "\nconnected to outside of the job:")
		for _, o := range groupObstacles(j.GetOutside()) {
			fmt.Fprintf(w, "  %s\n", o)
		}
	}
}

// printTimeline prints the events of a job; without events it prints no text.
func (a showCommand) printTimeline(events []*rpc.Event) {
	if len(events) == 0 {
		return
	}
	rows := [][]string{{"TIME", "EVENT", "WHERE", "WHAT"}}
	for _, e := range events {
		rows = append(rows, []string{timeText(e.GetTime()), e.GetEvent(), orDefault(e.GetWhere(), "-"), e.GetText()})
	}
	fmt.Fprintln(a.stdout)
	printTable(a.stdout, rows)
}

// printReachable prints where clients outside reach programs of the job. While the job waits to run again, no node
// says that, and the addresses are those of the newest event: they are the same in each run.
func (a showCommand) printReachable(j *rpc.Job) {
	told := false
	for _, c := range j.GetCapsules() {
		for _, r := range c.GetReachable() {
			told = true
			if r.GetAt() == "" {
				fmt.Fprintf(a.stdout, "port %d is not reachable: %s\n", r.GetPort(), safeLine(r.GetProblem()))
				continue
			}
			fmt.Fprintf(a.stdout, "port %d is reachable at %s\n", r.GetPort(), safeLine(r.GetAt()))
		}
	}
	if told || !slices.Contains(waitingStates, j.GetState()) {
		return
	}
	for _, e := range slices.Backward(j.GetTimeline()) {
		if e.GetEvent() != "reachable" {
			continue
		}
		for _, m := range reachableText.FindAllStringSubmatch(e.GetText(), -1) {
			fmt.Fprintf(a.stdout, "port %s is reachable at %s, when the job runs again\n", m[1], safeLine(m[2]))
		}
		return
	}
}

// waitingStates are Slurm's, of jobs that are to run, or are held.
var waitingStates = []string{"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}

// reachableText matches the ports in the event "reachable" that can be reached: "port 8888 at head1:7042, not port
// 6006: …".
var reachableText = regexp.MustCompile(`(?:^|, )port (\d+) at ([^, ]+:\d+)`)

// lendingText says to which job a lease lends, and which GPUs it holds.
func lendingText(l *rpc.Lending) string {
	borrower := fmt.Sprintf("job %d", l.GetJob())
	if len(l.GetGpus()) == 0 {
		return fmt.Sprintf("it is a lease, and has not begun: it is to lend its GPUs to %s (singctl show %d)", borrower, l.GetJob())
	}
	numbers := make([]string, len(l.GetGpus()))
	for i, gpu := range l.GetGpus() {
		numbers[i] = strconv.FormatUint(uint64(gpu), 10)
	}
	noun := "GPU"
	if len(numbers) > 1 {
		noun = "GPUs"
	}
	return fmt.Sprintf("it is a lease: it holds %s %s of node %s for %s, until it ends or is cancelled; it runs no program of its own (singctl show %d)",
		noun, strings.Join(numbers, ","), safeLine(l.GetNode()), borrower, l.GetJob())
}

func (a showCommand) printCapsules(capsules []*rpc.Capsule) {
	if len(capsules) == 0 {
		return
	}
	rows := [][]string{{"CAPSULE", "HOME", "NODE", "ADDRESS", "PROGRAM", "PID", "STATE", "MEMORY", "SINCE", "COMMAND"}}
	for _, c := range capsules {
		row := []string{strconv.Itoa(int(c.GetIndex())), c.GetHome(), orDefault(c.GetNode(), "-"), orDefault(c.GetAddress(), "-")}
		if len(c.GetPrograms()) == 0 {
			rows = append(rows, row)
		}
		for i, p := range c.GetPrograms() {
			if i > 0 {
				row = []string{"", "", "", ""}
			}
			rows = append(rows, append(row, programCells(p)...))
		}
	}
	fmt.Fprintln(a.stdout)
	printTable(a.stdout, rows)
}

// sharingText says in a sentence how a GPU is shared and how much time switching between its sharers has cost, and
// apart from that the details, "" if there are none. The sentence is "" if the GPU was never shared. capsules is how
// many capsules share the GPU.
func sharingText(s *rpc.Sharing, capsules int) (sentence, details string) {
	if s.GetSwitches() == 0 && s.GetSwappedOut() == 0 {
		return "", ""
	}
	cost := "switching cost " + costText(s.GetSwitchTime().AsDuration())
	switch {
	case capsules > 1:
		sentence = "they take turns on one GPU; " + cost + " so far"
	case s.GetDevices() > 1:
		sentence = fmt.Sprintf("%d GPUs that its programs see take turns on 1 of the node; %s so far", s.GetDevices(), cost)
	case s.GetSpaces() > 1:
		sentence = "the job's processes take turns on the GPU; " + cost + " so far"
	default:
		sentence = "while the GPU was shared: " + cost
	}
	return sentence, sharingDetails(s)
}

// sharingDetails are the counts of a shared GPU.
func sharingDetails(s *rpc.Sharing) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s.GetRung() != "" {
		add("rung %s", s.GetRung())
	}
	if s.GetSwitches() > 0 {
		add("%s, %d in the middle of work", formatCount(s.GetSwitches(), "switch", "switches"), s.GetInterrupted())
	}
	if kernels := s.GetOnce() + s.GetOwn(); kernels > 0 {
		text := fmt.Sprintf("%d of %d kernels took the result of another process", s.GetOnce(), kernels)
		switch {
		case s.GetOwn() == 0 || s.GetWhy() == "":
		case s.GetOnce() == 0:
			text += ", mostly because " + s.GetWhy()
		default:
			text += "; most of the others did not, because " + s.GetWhy()
		}
		add("%s", text)
	}
	if s.GetSaved() > 0 {
		add("memory: %s in common, instead of %s in copies, and %s of their own", bytesText(int64(s.GetCommon())),
			bytesText(int64(s.GetCommon()+s.GetSaved())), bytesText(int64(s.GetPrivate())))
	}
	if s.GetUnshared() > 0 {
		add("%s were common until a process wrote there", bytesText(int64(s.GetUnshared())))
	}
	if s.GetSwappedOut() > 0 || s.GetSwapSpared() > 0 {
		text := fmt.Sprintf("swapped because it did not fit: %s out, %s in", bytesText(int64(s.GetSwappedOut())), bytesText(int64(s.GetSwappedIn())))
		if s.GetSwapSpared() > 0 {
			text += fmt.Sprintf(", and %s not moved because equal bytes were there", bytesText(int64(s.GetSwapSpared())))
		}
		add("%s", text)
	}
	if s.GetAlike() > 0 {
		add("at the last checkpoint several of them held the same %s", bytesText(int64(s.GetAlike())))
	}
	return strings.Join(parts, "; ")
}

// sharingNotes are notes on the cost of sharing a capsule's GPUs. Capsules that share a device server share its GPUs:
// its counts are printed once, with the first of them.
func sharingNotes(c *rpc.Capsule, all []*rpc.Capsule) (notes []string) {
	together := []string{strconv.Itoa(int(c.GetIndex()))}
	for _, o := range all {
		if o == c || c.GetDevices().GetServer() == "" || o.GetNode() != c.GetNode() || o.GetDevices().GetServer() != c.GetDevices().GetServer() {
			continue
		}
		if o.GetIndex() < c.GetIndex() {
			return nil
		}
		together = append(together, strconv.Itoa(int(o.GetIndex())))
	}
	who := "capsule " + together[0]
	if last := len(together) - 1; last > 0 {
		who = fmt.Sprintf("capsules %s and %s", strings.Join(together[:last], ", "), together[last])
	}
	gpus := c.GetDevices().GetSharing()
	for i, s := range gpus {
		which := ""
		if len(gpus) > 1 {
			which = fmt.Sprintf(", GPU %d of its %d on the node", i, len(gpus)) // from 0, as all GPUs are numbered
		}
		if text, details := sharingText(s, len(together)); text != "" {
			notes = append(notes, who+which+": "+text)
			if details != "" {
				notes = append(notes, "  "+details)
			}
		}
	}
	return notes
}

// printDevices prints the GPUs of capsules, and their faults.
func (a showCommand) printDevices(capsules []*rpc.Capsule) {
	rows := [][]string{{"CAPSULE", "GPU", "NAME", "MEMORY", "USED", "PROCESSES"}}
	var notes []string
	for _, c := range capsules {
		d := c.GetDevices()
		pids := make([]string, 0, len(d.GetProcesses()))
		away := 0 // processes with restored device state that are not restored themselves yet
		for _, p := range d.GetProcesses() {
			if p.GetPid() == 0 {
				away++
				continue
			}
			pids = append(pids, strconv.FormatInt(p.GetPid(), 10))
		}
		if away > 0 {
			pids = append(pids, fmt.Sprintf("%d not back yet", away))
		}
		row := []string{strconv.Itoa(int(c.GetIndex()))}
		for i, g := range d.GetDevices() {
			row = append(row, strconv.Itoa(i), g.GetName(), bytesText(int64(g.GetMemory())), bytesText(int64(g.GetUsed())))
			if i == 0 {
				row = append(row, orDefault(strings.Join(pids, " "), "-"))
			}
			rows = append(rows, row)
			row = []string{""}
		}
		for _, text := range arithmeticTexts(d) {
			notes = append(notes, fmt.Sprintf("capsule %d: %s", c.GetIndex(), text))
		}
		for _, o := range c.GetLeases() {
			notes = append(notes, fmt.Sprintf("capsule %d: job %d lends it %s", c.GetIndex(), o.GetJob(), formatPlural(int64(o.GetGpus()), "GPU")))
		}
		notes = append(notes, sharingNotes(c, capsules)...)
		for _, what := range d.GetMissed() {
			notes = append(notes, fmt.Sprintf("capsule %d: a program asked for something that is not covered: %s", c.GetIndex(), what))
		}
		for _, what := range d.GetFaults() {
			notes = append(notes, fmt.Sprintf("capsule %d: %s", c.GetIndex(), what))
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(a.stdout)
		printTable(a.stdout, rows)
	}
	for _, note := range notes {
		fmt.Fprintln(a.stdout, safeLine(note))
	}
}

func programCells(p *rpc.Program) []string {
	if p.GetEnded() != nil {
		return []string{p.GetName(), "-", statusText(p.GetStatus()), "-", timeText(p.GetEnded()), p.GetCommand()}
	}
	return []string{p.GetName(), strconv.FormatInt(p.GetPid(), 10), p.GetState(), bytesText(int64(p.GetRss())), timeText(p.GetStarted()), p.GetCommand()}
}
