// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/session"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// Exit codes by which session join says, through srun, how it ended. 0 says that the person has
// detached.
const (
	joinOver     = 14 // the connection has ended
	joinNotThere = 15 // there was no connection: the session is being restored, or begins
)

// attachInterval is how often Slurm is asked for a job that does not run yet.
const attachInterval = time.Second

// sessionEndError is the end of a session, with the exit status of its command.
type sessionEndError struct {
	job, state string
	code       int
}

func (e *sessionEndError) Error() string {
	return fmt.Sprintf("session %s has ended: %s, exit status %d", e.job, e.state, e.code)
}

// reportSessionEnd returns the exit status of a session as that of singctl.
func (a *app) reportSessionEnd(e *sessionEndError) int {
	if !a.quiet {
		fmt.Fprintln(a.stderr, safeText(e.Error()))
	}
	return e.code
}

// attachment is a run of singctl session attach.
type attachment struct {
	sessionCommand
	job  string
	wait *progress
	said string // by srun, of a connection that could not be made
	// typed are the keys that the person typed while there was no connection.
	typed []byte
}

func (a sessionCommand) attachSession(ctx context.Context, job string) error {
	at := &attachment{sessionCommand: a, job: job, wait: a.newProgress()}
	defer at.wait.endLine()
	for first := true; ; first = false {
		shown, err := a.showSession(ctx, job)
		if err != nil {
			return err
		}
		if first && !isSession(job, shown) {
			return notASession(job)
		}
		over, err := at.followJob(ctx, shown)
		if over || err != nil {
			return err
		}
		detached, err := at.awaitNextLook(ctx)
		if detached || err != nil {
			return err
		}
	}
}

// awaitNextLook waits for attachInterval, and tells whether the person has typed the detach key meanwhile. All other
// keys are for the session.
func (at *attachment) awaitNextLook(ctx context.Context) (detached bool, err error) {
	interval, stop := context.WithTimeout(ctx, attachInterval)
	defer stop()
	if !isTerminal(os.Stdin) {
		<-interval.Done()
		return false, ctx.Err()
	}
	typed, detached, err := session.AwaitDetach(interval, os.Stdin)
	at.typed = append(at.typed, typed...)
	switch {
	case err != nil:
		return false, fmt.Errorf("terminal: %w", err)
	case detached:
		at.printDetached()
		return true, nil
	}
	return false, ctx.Err()
}

func (at *attachment) printDetached() {
	at.wait.endLine()
	fmt.Fprintf(at.stderr, "detached; singctl session attach %s attaches again\n", at.job)
}

// followJob connects with the session if its job, as scontrol shows the job, runs, and otherwise says
// why the person has to wait. over: the person has detached, or the session has ended.
func (at *attachment) followJob(ctx context.Context, shown string) (over bool, err error) {
	state := fieldOf(shown, "JobState")
	if isOver(state) {
		at.wait.endLine()
		code := exitStatusOf(state, fieldOf(shown, "ExitCode"))
		if err := session.Remove(at.job); err != nil {
			at.printLine("singctl: %s", safeLine(err.Error())) // session list tries again
		}
		if code != 0 {
			at.printLogEnd()
			return true, &sessionEndError{at.job, state, code}
		}
		at.printLine("session %s has ended: %s", at.job, state)
		return true, nil
	}
	_, err = session.Load(at.job)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if state == "RUNNING" {
			state = "STARTING"
		}
	case err != nil:
		return false, err
	case state == "RUNNING":
		return at.connectTerminal(ctx, fieldOf(shown, "BatchHost"), fieldOf(shown, "Restarts"))
	}
	at.wait.showProgress(&rpc.Progress{Phase: waitText(at.job, state, shown)})
	return false, nil
}

// waitText says why a session cannot be attached to yet.
func waitText(job, state, shown string) string {
	text := "session " + job + ": " + state
	if state != "PENDING" {
		return text + "; waiting"
	}
	if reason := fieldOf(shown, "Reason"); reason != "" && reason != "None" {
		text += " (" + reason + ")"
	}
	if start := fieldOf(shown, "StartTime"); start != "" && start != "Unknown" {
		text += ", not before " + start
	}
	return text + "; waiting"
}

// exitStatusOf returns the exit status of a session from the last state of its job, as shells write it. exitCode is
// scontrol's ExitCode: the exit status and the signal.
func exitStatusOf(state, exitCode string) int {
	first, second, _ := strings.Cut(exitCode, ":")
	code, _ := strconv.Atoi(first)
	if signal, _ := strconv.Atoi(second); signal != 0 {
		code = 128 + signal
	}
	if code == 0 && state != "COMPLETED" {
		return 1
	}
	return code
}

// printLogEnd shows the end of the log of a job that has failed. The session's command prints on its terminal; the log
// says why there was no terminal.
func (at *attachment) printLogEnd() {
	for _, line := range session.LogEnd(at.job, 3) {
		at.printLine("%s", safeLine(line))
	}
}

// printLine tells the person something, unless the person wants silence.
func (at *attachment) printLine(format string, args ...any) {
	at.wait.endLine()
	if !at.quiet {
		fmt.Fprintf(at.stderr, format+"\n", args...)
	}
}

// connectTerminal connects this terminal with the session on a node, until the person detaches or the connection
// ends. srun's message on the end of its step is told only where that is the reason: srun does not know that the
// session goes on elsewhere.
func (at *attachment) connectTerminal(ctx context.Context, node, restarts string) (detached bool, err error) {
	said, code, err := at.runJoin(ctx, node)
	if err != nil {
		return false, err
	}
	if code == 0 {
		at.printDetached()
		return true, nil
	}
	shown, err := at.showSession(ctx, at.job)
	if err != nil {
		return false, err
	}
	state := fieldOf(shown, "JobState")
	_, lost := session.Load(at.job)
	switch {
	case lost != nil || isOver(state): // the command has ended, and its job does so
	case state == "COMPLETING" && fieldOf(shown, "Restarts") == restarts: // as after a cancel: Slurm counts a requeue first
	case state != "RUNNING" || fieldOf(shown, "BatchHost") != node:
		at.printLine("session %s is being moved, and goes on where its job starts again", at.job)
	case code == joinNotThere:
		at.wait.showProgress(&rpc.Progress{Phase: "session " + at.job + ": its job runs on " + node + ", and the session is being restored; waiting"})
	case code != joinOver && said != at.said:
		at.said = said
		at.wait.endLine()
		fmt.Fprint(at.stderr, safeText(said))
	}
	return false, nil //nolint:nilerr // a session that ends has no record
}

// runJoin runs session join on the session's node, and returns the exit code and srun's standard error.
func (at *attachment) runJoin(ctx context.Context, node string) (said string, code int, err error) {
	args := []string{
		"--jobid=" + at.job, "--nodelist=" + node, "--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--quiet",
		"--singularity=off",
	}
	onTerminal := isTerminal(os.Stdin)
	if onTerminal {
		args = append(args, "--pty")
	}
	var out io.Writer = os.Stdout
	if at.terminal {
		out = lineEnder{at.wait, os.Stdout}
	}
	var errs bytes.Buffer
	srun := exec.CommandContext(ctx, "srun", append(args, "singctl", "session", "join", at.job)...)
	srun.Stdin, srun.Stdout, srun.Stderr = os.Stdin, out, &errs
	srun.Env = withoutJob(os.Environ())
	if onTerminal {
		err = session.RunOnTerminal(srun, os.Stdin, out, at.typed)
		at.typed = nil
	} else {
		err = srun.Run()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", 0, nil
	case ctx.Err() != nil:
		return "", 0, ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() != 0:
		return errs.String(), exit.ExitCode(), nil
	}
	return "", 0, fmt.Errorf("srun: %w", err)
}

// lineEnder ends the line of a progress before the first output of a session.
type lineEnder struct {
	wait *progress
	to   io.Writer
}

func (l lineEnder) Write(b []byte) (int, error) {
	if len(b) > 0 {
		l.wait.endLine()
	}
	return l.to.Write(b)
}
