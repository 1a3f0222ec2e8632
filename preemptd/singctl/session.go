// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/session"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// sessionCommand is singctl session.
type sessionCommand struct{ *app }

func (a sessionCommand) buildCobra() *cobra.Command {
	c := &cobra.Command{
		Use: "session", Short: "Work interactively in a job that survives requeue and moves",
		Long: `A session is a protected batch job with a shell, or another command, on a terminal. One attaches to it
and detaches from it; what runs there goes on. When Slurm requeues the job, the shell goes on where the job
starts again, with its variables, its programs and its screen. Slurm can requeue neither salloc nor a bare srun.`,
		Example: "  singctl session start\n  singctl session attach 812",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return rpc.Errorf(rpc.ErrInvalid, "unknown command %q%s", args[0], didYouMean(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.buildStart(), a.buildAttach(), a.buildList(), a.buildStop(), a.buildServe(), a.buildJoin())
	return c
}

func (a sessionCommand) buildStart() *cobra.Command {
	var name string
	var options []string
	c := &cobra.Command{
		Use: "start [-- COMMAND ARGUMENTS…]", Short: "Submit a session, and print its job",
		Long: `start submits a job that runs COMMAND on a terminal, or $SHELL. It prints the job and returns; singctl session
attach waits for its start.`,
		Example: "  singctl session start --sbatch=--time=8:00:00 --sbatch=--gpus=1\n  singctl session start -- jupyter lab --no-browser",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.startSession(cmd.Context(), name, options, args)
		},
	}
	c.Flags().StringVar(&name, "name", "session", "`NAME` of the job")
	c.Flags().StringArrayVar(&options, "sbatch", nil, "another `OPTION` of sbatch; may be given several times")
	return c
}

func (a sessionCommand) startSession(ctx context.Context, name string, options, command []string) error {
	dir, err := session.Folder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	script := "exec singctl session serve --"
	for _, word := range command {
		script += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	args := slices.Concat([]string{
		"--singularity", "--requeue", "--parsable", "--job-name=" + name, "--output=" + filepath.Join(dir, "%j.log"),
	}, options, []string{"--wrap=" + script})
	out, err := a.slurm.runCommand(ctx, "sbatch", args...)
	if err != nil {
		return err
	}
	job, _, _ := strings.Cut(strings.TrimSpace(out), ";") // and the cluster
	if err := session.NoteSubmission(job); err != nil {
		return fmt.Errorf("job %s was submitted, but singctl session list will not have it before it has begun: %w", job, err)
	}
	if a.json {
		a.printJSON(map[string]any{"job": job})
		return nil
	}
	fmt.Fprintln(a.stdout, job)
	a.warnOfMissing(command)
	return nil
}

// warnOfMissing tells the person that a session's command is not on this host: it may be on the nodes.
func (a sessionCommand) warnOfMissing(command []string) {
	if len(command) == 0 || a.quiet {
		return
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		fmt.Fprintf(a.stderr, "singctl: %s is not on this host; if its node does not have it either, the session ends at once, and attach says so\n",
			safeLine(command[0]))
	}
}

func (a sessionCommand) buildAttach() *cobra.Command {
	return &cobra.Command{
		Use: "attach JOB", Short: "Connect this terminal with a session",
		Long: `attach waits until the session's job runs, and connects this terminal with its. Control-] detaches. When the job
is requeued, attach says so, waits for it and connects again. Several people's terminals, of the same user, can be
attached.

When the session ends, attach returns its exit status, as ssh does: 128 and the signal's number if a signal ended it.
Detached, it returns 0.`,
		Example: "  singctl session attach 812",
		Args:    argumentCount(1, 1, "a JOB"), ValidArgsFunction: completeSession,
		RunE: func(cmd *cobra.Command, args []string) error { return a.attachSession(cmd.Context(), args[0]) },
	}
}

// isOver tells whether a job in a state will not run again.
func isOver(state string) bool {
	return slices.Contains([]string{
		"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED",
	}, state)
}

// showSession returns scontrol's answer about a job.
func (a sessionCommand) showSession(ctx context.Context, job string) (string, error) {
	if err := rpc.CheckJob(job); err != nil {
		return "", err
	}
	out, err := a.slurm.runCommand(ctx, "scontrol", "show", "job", "--oneliner", job)
	if errors.Is(err, errUnknownJob) {
		err = rpc.Errorf(rpc.ErrNoJob, "Slurm knows no job %s", job)
	}
	return out, err
}

// isSession tells whether the caller's singctl session start has submitted a job: there is a note of
// the submission, or the job's output file, as scontrol shows it, is in the folder of sessions.
func isSession(job, shown string) bool {
	if session.IsNoted(job) {
		return true
	}
	dir, err := session.Folder()
	return err == nil && filepath.Dir(fieldOf(shown, "StdOut")) == dir
}

func notASession(job string) error {
	return rpc.Errorf(rpc.ErrInvalid, "job %s is no session of yours; singctl session list has them, and scancel ends other jobs", job)
}

// withoutJob is an environment without the variables of a job in which singctl may run.
func withoutJob(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "SLURM_") && !strings.HasPrefix(v, "SLURM_CONF=") })
}

func (a sessionCommand) buildList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List your sessions", Args: argumentCount(0, 0, ""), Example: "  singctl session list",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listSessions(cmd.Context()) },
	}
}

// sessionEntry is a session in a list.
type sessionEntry struct {
	Job   string `json:"job"`
	Name  string `json:"name"`
	State string `json:"state"`
	Node  string `json:"node"`
	// Reason says why the job waits.
	Reason string `json:"reason,omitempty"`
}

func makeSessionEntry(job, shown string) sessionEntry {
	e := sessionEntry{
		Job: job, Name: fieldOf(shown, "JobName"), State: fieldOf(shown, "JobState"), Node: strings.Trim(fieldOf(shown, "BatchHost"), "()"),
	}
	if e.State == "PENDING" {
		e.Reason = fieldOf(shown, "Reason")
	}
	return e
}

func (a sessionCommand) listSessions(ctx context.Context) error {
	jobs, err := session.Jobs()
	if err != nil {
		return err
	}
	all := []sessionEntry{}
	for _, job := range jobs {
		out, err := a.slurm.runCommand(ctx, "scontrol", "show", "job", "--oneliner", job)
		if err != nil && !errors.Is(err, errUnknownJob) {
			return err
		}
		if state := fieldOf(out, "JobState"); err != nil || isOver(state) {
			if err := session.Remove(job); err != nil { // of a job that was killed
				return err
			}
			continue
		}
		all = append(all, makeSessionEntry(job, out))
	}
	if a.json {
		a.printJSON(all)
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stdout, "no sessions; singctl session start submits one")
		return nil
	}
	rows := [][]string{{"JOB", "NAME", "STATE", "NODE", "REASON"}}
	for _, s := range all {
		rows = append(rows, []string{s.Job, s.Name, s.State, orDefault(s.Node, "-"), orDefault(s.Reason, "-")})
	}
	printTable(a.stdout, rows)
	return nil
}

func (a sessionCommand) buildStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop JOB", Short: "End a session", Args: argumentCount(1, 1, "a JOB"), ValidArgsFunction: completeSession, Example: "  singctl session stop 812",
		RunE: func(cmd *cobra.Command, args []string) error {
			shown, err := a.showSession(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !isSession(args[0], shown) {
				return notASession(args[0])
			}
			if _, err := a.slurm.runCommand(cmd.Context(), "scancel", args[0]); err != nil {
				return err
			}
			return session.Remove(args[0])
		},
	}
}

// buildServe is the command that the job of a session runs.
func (a sessionCommand) buildServe() *cobra.Command {
	return &cobra.Command{
		Use: "serve [-- COMMAND ARGUMENTS…]", Short: "Run a session's command, within its job", Hidden: true, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			job, isJob := os.LookupEnv("SLURM_JOB_ID")
			if !isJob {
				return rpc.Errorf(rpc.ErrInvalid, "session serve runs in jobs; singctl session start submits one")
			}
			if err := runOwnCopy(); err != nil {
				fmt.Fprintf(a.stderr, "singctl: %v; an upgrade of singctl on the node will keep the session from being moved\n", err)
			}
			if len(args) == 0 {
				args = []string{loginShell()}
			}
			if kind, _ := os.LookupEnv("TERM"); kind == "" || kind == "dumb" {
				if err := os.Setenv("TERM", "xterm-256color"); err != nil {
					return err
				}
			}
			code, err := session.Serve(job, args)
			if err != nil {
				fmt.Fprintf(a.stderr, "singctl: %v\n", err)
			}
			os.Exit(code) // the command's own
			return nil
		},
	}
}

// loginShell returns the user's shell.
func loginShell() string {
	if s, _ := os.LookupEnv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}

// copyVariable says that this process runs from its own copy.
const copyVariable = "SINGULARITY_SLURM_SESSION"

// runOwnCopy makes this process run from a copy of its program in the job's /tmp. A program that was
// replaced on its node could not be restored.
func runOwnCopy() error {
	if _, isCopy := os.LookupEnv(copyVariable); isCopy {
		return os.Unsetenv(copyVariable)
	}
	dir, err := os.MkdirTemp("/tmp", "singctl-session-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "singctl")
	if err := copyProgram(path); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = syscall.Exec(path, append([]string{path}, os.Args[1:]...), append(os.Environ(), copyVariable+"=copy"))
	return errors.Join(err, os.RemoveAll(dir)) // /tmp is mounted noexec
}

func copyProgram(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// buildJoin is the command that attach runs on the session's node.
func (a sessionCommand) buildJoin() *cobra.Command {
	return &cobra.Command{
		Use: "join JOB", Short: "Connect a terminal on the session's node", Hidden: true, Args: argumentCount(1, 1, "a JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := session.Load(args[0])
			if err != nil {
				return err
			}
			err = session.Join(cmd.Context(), r, os.Stdin, os.Stdout)
			switch {
			case errors.Is(err, session.ErrOver):
				os.Exit(joinOver)
			case errors.Is(err, session.ErrNotThere):
				os.Exit(joinNotThere)
			}
			return err
		},
	}
}
