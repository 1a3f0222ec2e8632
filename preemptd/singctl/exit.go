// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	control "github.com/singularity-slurm/singularity-slurm/preemptd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/kind"
)

// errFound says that the command did its work, and has found and printed a fault.
var errFound = errors.New("problems found")

// noController is the advice where no preemptd answers.
const noController = "this needs the site's controller, preemptd; on its host: preemptd doctor, and systemctl status preemptd, or systemctl enable --now preemptd " +
	"where it was never started (a minicluster: up --controller); --controller HOST:PORT or SINGULARITY_SLURM_CONTROLLER if it listens elsewhere"

// outcome is what an error amounts to: the exit code, the kind of the error in JSON, and the person's next step, ""
// if not known.
type outcome struct {
	code int
	kind string
	hint string
}

// refusals are the outcomes of the errors with which proxyd or preemptd refuses a request. If an error is of several
// kinds, the first row counts. An error that no row has is internal.
var refusals = []struct {
	error
	outcome
}{
	{kind.ErrNoJob, outcome{3, "no_job", "squeue --me lists your jobs"}},
	{rpc.ErrNoCheckpoint, outcome{3, "no_checkpoint", "singctl checkpoints lists yours"}},
	{control.ErrNoAction, outcome{3, "no_action", "singctl history lists yours"}},
	{kind.ErrDenied, outcome{4, "denied", ""}},
	{rpc.ErrNotProtected, outcome{5, "not_protected", "submit it with sbatch --singularity"}},
	{rpc.ErrNotRunning, outcome{5, "not_running", "squeue --start says when it will be"}},
	{rpc.ErrObstacle, outcome{5, "obstacle", "the job runs on as before; end what is named, or wait for it, and try again"}},
	{rpc.ErrNotNow, outcome{5, "not_now", "the job runs on as before; try again in a moment"}},
	{kind.ErrBusy, outcome{5, "busy", "wait for the other to end"}},
	{rpc.ErrUnsupported, outcome{5, "unsupported", "singctl doctor --all"}},
	{control.ErrNotPossible, outcome{5, "not_possible", ""}},
	{control.ErrUnsupported, outcome{5, "unsupported", "singctl version and singctl status show the releases of both"}},
	{rpc.ErrNotLeader, outcome{5, "not_leader", "leave --node out"}},
	{rpc.ErrUnreachable, outcome{6, "unreachable", "on that node: systemctl status proxyd; --port if it listens elsewhere"}},
	{control.ErrUnreachable, outcome{6, "unreachable", noController}},
	{control.ErrSlurm, outcome{6, "slurm", ""}},
	{kind.ErrRefused, outcome{7, "refused", "munge must work on both nodes, with one key and clocks that agree: munge -n | ssh NODE unmunge"}},
	{rpc.ErrDamaged, outcome{8, "damaged", "singctl verify names all that is damaged"}},
	{rpc.ErrSpace, outcome{9, "space", "singctl gc --dry-run lists what could be removed"}},
	{kind.ErrTimeout, outcome{10, "timeout", ""}},
	{context.DeadlineExceeded, outcome{10, "timeout", ""}},
}

// exitCode prints an error, with the person's next step, and returns the exit code. Errors become messages and exit
// codes only here.
func (a *app) exitCode(ctx context.Context, cmd *cobra.Command, err error) int {
	var left *leftError
	var notDone *notDoneError
	var o outcome
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 8
	case errors.As(err, &left):
		o = outcome{130, "interrupted", fmt.Sprintf("singctl show %s says how it ends; singctl delete removes it", left.job)}
	case errors.As(err, &notDone):
		if a.json {
			return 5 // the action was printed, with its problem
		}
		o = outcome{5, "not_done", fmt.Sprintf("singctl history --action %d tells all of it", notDone.action.GetId())}
	case ctx.Err() != nil && !errors.As(err, new(*goesOnError)):
		return 130 // the person has interrupted, and needs no message
	case ctx.Err() != nil:
		o = outcome{code: 130, kind: "interrupted"}
	default:
		o = refusalOutcome(cmd, err)
	}
	a.printError(err, makeReport(err, o))
	return o.code
}

// refusalOutcome returns the outcome of an error that says why a command was refused: a command line that makes no
// sense, or a row of refusals.
func refusalOutcome(cmd *cobra.Command, err error) outcome {
	if errors.Is(err, kind.ErrInvalid) {
		return outcome{2, "invalid", cmd.CommandPath() + " --help"}
	}
	for _, r := range refusals {
		if errors.Is(err, r.error) {
			return r.outcome
		}
	}
	return outcome{code: 1, kind: "internal"}
}

// makeReport makes the report of an error. A hint of the daemon that refused, or of an action that goes on, replaces
// that of the outcome.
func makeReport(err error, o outcome) errorReport {
	report := errorReport{Kind: o.kind, Text: err.Error(), Hint: o.hint}
	var e *rpc.Error
	if errors.As(err, &e) {
		report.Hint = cmp.Or(e.Hint, report.Hint)
		for _, o := range e.Obstacles {
			report.Obstacles = append(report.Obstacles, obstacleText(o, 0))
		}
		report.grouped = groupObstacles(e.Obstacles)
	}
	var c *control.Error
	if errors.As(err, &c) && c.Hint != "" {
		report.Hint = c.Hint
	}
	var goesOn *goesOnError
	if errors.As(err, &goesOn) {
		report.Hint = fmt.Sprintf("singctl history --action %d says how it ends", goesOn.id)
	}
	return report
}

// printError prints an error for people, with its obstacles and hint, and with --json its report.
func (a *app) printError(err error, report errorReport) {
	if a.json {
		a.printJSON(map[string]any{"error": report})
	}
	fmt.Fprintf(a.stderr, "singctl: %s\n", safeText(textForPeople(err)))
	for _, o := range report.grouped {
		fmt.Fprintf(a.stderr, "  %s\n", o)
	}
	if report.Hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", safeText(report.Hint))
	}
}

// errorReport is an error in JSON.
type errorReport struct {
	Kind      string   `json:"kind"`
	Text      string   `json:"text"`
	Hint      string   `json:"hint,omitempty"`
	Obstacles []string `json:"obstacles,omitempty"` // of each process

	grouped []*sameObstacle // for people
}

// exitCodes is the manual's table of them.
const exitCodes = `0  done
1  something unforeseen
2  the command line makes no sense
3  no such job, checkpoint or action
4  not permitted
5  not possible now: not running, not protected, busy, or something cannot be captured; an action was not done
6  no daemon answers
7  a credential or an answer is not trusted
8  check, doctor, verify, gc or policy test found something wrong, or a checkpoint is damaged
9  no space
10 timed out
130 interrupted`
