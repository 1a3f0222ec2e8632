// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/session"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// sessionCommand is singctl session.
type sessionCommand struct{ *app }

func (a sessionCommand) build() *cobra.Command {
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
	out, err := a.slurm.run(ctx, "sbatch", args...)
	if err != nil {
		return err
	}
	job, _, _ := strings.Cut(strings.TrimSpace(out), ";") // and the cluster
	if a.json {
		a.printJSON(map[string]any{"job": job})
		return nil
	}
	fmt.Fprintln(a.stdout, job)
	return nil
}

func (a sessionCommand) buildAttach() *cobra.Command {
	return &cobra.Command{
		Use: "attach JOB", Short: "Connect this terminal with a session",
		Long: `attach waits until the session's job runs, and connects this terminal with its. Control-] detaches. When the job
is requeued, attach waits for it and connects again. Several people's terminals, of the same user, can be attached.`,
		Example: "  singctl session attach 812",
		Args:    argumentCount(1, 1, "a JOB"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.attachSession(cmd.Context(), args[0]) },
	}
}

// Exit codes by which session join says why it ended, through srun.
const (
	joinDetached = 0
	joinOver     = 14
)

// attachInterval is how often Slurm is asked for a job that does not run yet.
const attachInterval = time.Second

func (a sessionCommand) attachSession(ctx context.Context, job string) error {
	told := ""
	for {
		shown, err := a.showSession(ctx, job)
		if err != nil {
			return err
		}
		state, node := fieldOf(shown, "JobState"), fieldOf(shown, "BatchHost")
		if _, err := session.Load(job); errors.Is(err, fs.ErrNotExist) {
			if told == "" && !isSession(shown) {
				return rpc.Errorf(rpc.ErrInvalid, "job %s is no session of yours; singctl session list has those that have begun", job)
			}
			if state == "RUNNING" {
				state = "STARTING"
			}
		} else if err != nil {
			return err
		}
		switch {
		case state == "RUNNING":
			detached, err := a.runJoin(ctx, job, node)
			if err != nil {
				return err
			}
			if detached {
				fmt.Fprintf(a.stderr, "detached; singctl session attach %s attaches again\n", job)
				return nil
			}
		case isOver(state):
			fmt.Fprintf(a.stderr, "session %s has ended: %s\n", job, state)
			return nil
		case told != state && !a.quiet:
			fmt.Fprintf(a.stderr, "session %s: %s; waiting\n", job, state)
		}
		told = state
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(attachInterval):
		}
	}
}

// isOver tells whether a job in a state will not run again.
func isOver(state string) bool {
	return slices.Contains([]string{
		"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED",
	}, state)
}

// showSession returns what scontrol shows of a job.
func (a sessionCommand) showSession(ctx context.Context, job string) (string, error) {
	if err := rpc.CheckJob(job); err != nil {
		return "", err
	}
	out, err := a.slurm.run(ctx, "scontrol", "show", "job", "--oneliner", job)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		err = rpc.Errorf(rpc.ErrNoJob, "Slurm knows no job %s", job)
	}
	return out, err
}

// isSession tells by a job's output file, as scontrol shows it, whether the caller's singctl session
// start has submitted the job. A session that has begun has a record as well.
func isSession(shown string) bool {
	dir, err := session.Folder()
	return err == nil && filepath.Dir(fieldOf(shown, "StdOut")) == dir
}

// runJoin runs session join on the session's node until the person detaches or the connection ends.
func (a sessionCommand) runJoin(ctx context.Context, job, node string) (detached bool, err error) {
	args := []string{
		"--jobid=" + job, "--nodelist=" + node, "--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--quiet",
		"--singularity=off",
	}
	if isTerminal(os.Stdin) {
		args = append(args, "--pty")
	}
	srun := exec.CommandContext(ctx, "srun", append(args, "singctl", "session", "join", job)...)
	srun.Stdin, srun.Stdout, srun.Stderr = os.Stdin, os.Stdout, os.Stderr
	srun.Env = withoutJob(os.Environ())
	err = srun.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.As(err, &exit): // the session is over, or the step has ended with the job's run
		return false, nil
	}
	return false, fmt.Errorf("srun: %w", err)
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
}

func (a sessionCommand) listSessions(ctx context.Context) error {
	jobs, err := session.Jobs()
	if err != nil {
		return err
	}
	all := []sessionEntry{}
	for _, job := range jobs {
		out, err := a.slurm.run(ctx, "scontrol", "show", "job", "--oneliner", job)
		if err != nil && !strings.Contains(err.Error(), "Invalid job id") {
			return err
		}
		if state := fieldOf(out, "JobState"); err != nil || isOver(state) {
			if err := session.Remove(job); err != nil { // of a job that was killed
				return err
			}
			continue
		}
		all = append(all, sessionEntry{job, fieldOf(out, "JobName"), fieldOf(out, "JobState"), strings.Trim(fieldOf(out, "BatchHost"), "()")})
	}
	if a.json {
		a.printJSON(all)
		return nil
	}
	fmt.Fprintf(a.stdout, "%-10s %-16s %-12s %s\n", "JOB", "NAME", "STATE", "NODE")
	for _, s := range all {
		fmt.Fprintf(a.stdout, "%-10s %-16s %-12s %s\n", s.Job, safeText(s.Name), s.State, s.Node)
	}
	return nil
}

func (a sessionCommand) buildStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop JOB", Short: "End a session", Args: argumentCount(1, 1, "a JOB"), Example: "  singctl session stop 812",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := session.Load(args[0]); errors.Is(err, fs.ErrNotExist) {
				return rpc.Errorf(rpc.ErrInvalid, "job %s is no session of yours that has begun; scancel ends jobs", args[0])
			}
			if _, err := a.slurm.run(cmd.Context(), "scancel", args[0]); err != nil {
				return err
			}
			return session.Remove(args[0])
		},
	}
}

// buildServe is what the job of a session runs.
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
				return err
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

// buildJoin is what attach runs on the session's node.
func (a sessionCommand) buildJoin() *cobra.Command {
	return &cobra.Command{
		Use: "join JOB", Short: "Connect a terminal on the session's node", Hidden: true, Args: argumentCount(1, 1, "a JOB"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := session.Load(args[0])
			if err != nil {
				return err
			}
			err = session.Join(r, os.Stdin, os.Stdout)
			if errors.Is(err, session.ErrOver) {
				os.Exit(joinOver)
			}
			return err
		},
	}
}
