// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/enter"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/keeper"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

func execCommand(at clusterFolder) *cobra.Command {
	user := ""
	c := &cobra.Command{
		Use:   "exec HOST [--user USER] -- COMMAND [ARG…]",
		Short: "Run a command on a host; its streams and its exit code are the command's own",
		Long: `Run a command on a host. Standard input, output and error are handed over as they
are, signals are passed on, and the exit code is the command's own: 128 + N if signal N
ended it, 127 if it was not found, 125 if minicluster itself could not run it.`,
		Args: cobra.MinimumNArgs(0),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || c.ArgsLenAtDash() > 1 {
				return usageError(errors.New("exec wants HOST and then a command: minicluster exec HOST -- COMMAND [ARG…]"))
			}
			p, err := at()
			if err != nil {
				return ownError(err)
			}
			return runOn(p, args[0], user, args[1:])
		},
	}
	c.Flags().StringVar(&user, "user", "", "run as this user of the host (default root)")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w (a command's own flags come after --: minicluster exec HOST -- COMMAND)", err))
	})
	return c
}

func shellCommand(at clusterFolder) *cobra.Command {
	user := ""
	c := &cobra.Command{
		Use:   "shell HOST",
		Short: "Open a login shell on a host",
		Args:  argumentCount(1, "HOST"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return ownError(err)
			}
			return runOn(p, args[0], user, []string{"bash", "-l"})
		},
	}
	c.Flags().StringVar(&user, "user", "", "as this user of the host (default root)")
	return c
}

func ownError(err error) error { return &codeError{codeOurs, err} }

func runOn(p state.Folder, hostName, user string, argv []string) error {
	pidfd, err := keeper.Pidfd(p, hostName)
	if err != nil {
		return ownError(err)
	}
	defer unix.Close(pidfd)
	// Before the start: otherwise an early signal would end this process and not the command.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, heededSignals(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)...)
	proc, err := enter.Start(pidfd, enter.Command{
		User: user, Argv: argv, Env: []string{"TERM=" + cmp.Or(os.Getenv("TERM"), "dumb")},
		Files: [3]*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	var notStarted *enter.NotStartedError
	if errors.As(err, &notStarted) {
		return &codeError{notStarted.Code, err}
	}
	if err != nil {
		return ownError(err)
	}
	go forwardSignals(signals, proc)
	return &codeError{code: proc.Code()}
}

// forwardSignals hands our signals to the command. The command is in our process group, so it gets the
// signal that a terminal sends on Ctrl-C by itself; two at once would kill an srun.
func forwardSignals(signals <-chan os.Signal, to *enter.Process) {
	for s := range signals {
		fromTerminal := (s == unix.SIGINT || s == unix.SIGQUIT) && inForeground()
		if !fromTerminal {
			to.Signal(s)
		}
	}
}

// inForeground says whether a terminal sends its signals to our process group.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
