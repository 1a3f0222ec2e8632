// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
)

// app is a run of singctl: the parts that all commands need. Each command is a type of its own that has the app, in a
// file of its own; buildCobra makes cobra's description of it.
type app struct {
	stdout, stderr io.Writer
	terminal       bool // stderr is a terminal with a cursor that may be moved
	outTerminal    bool // stdout is such a terminal
	colours        bool // output on stdout may have colours
	slurm          slurm
	coder          munge.Coder
	now            func() time.Time
	here           string // this node's name

	// Flags.
	port  string
	nodes []string
	// controller is where preemptd listens; "": beside slurmctld.
	controller string
	json       bool
	quiet      bool
}

// runCommand carries out the command of the arguments and returns the exit code.
func (a *app) runCommand(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if ended := (*sessionEndError)(nil); errors.As(err, &ended) {
		return a.reportSessionEnd(ended)
	}
	return a.exitCode(ctx, cmd, err)
}

const long = `singctl asks the daemons of singularity-slurm: what a node lacks, the state of a job, for work on
checkpoints, and to preempt, move or resize a job. Users act on their own jobs, operators on all.

A JOB is named as squeue does: 812, 812_3 for a task of an array, 812+1 for a component of
a heterogeneous job. A CHECKPOINT is JOB/NUMBER, as in 812/3.

With NO_COLOR set to anything, nothing is printed in colour.`

// flagError says which values a flag wants, in words of the command line.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return rpc.Errorf(rpc.ErrInvalid, "%s", err)
	}
	want := "names, separated by commas"
	switch bad.GetFlag().Value.Type() {
	case "bool":
		want = "true or false"
	case "int64", "uint32", "uint16":
		want = "a number"
	case "duration":
		want = "a time, as in 2s"
	}
	return rpc.Errorf(rpc.ErrInvalid, "--%s %.40q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "singctl", Short: "Look at protected jobs and their checkpoints, and move them", Long: long,
		SilenceUsage: true, SilenceErrors: true, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return rpc.Errorf(rpc.ErrInvalid, "unknown command %q%s", args[0], didYouMean(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	flags := root.PersistentFlags()
	flags.StringSliceVar(&a.nodes, "node", nil, "ask this `NODE`'s daemon, instead of the one that is best placed")
	flags.StringVar(&a.port, "port", a.port, "`PORT` on which the daemons listen (SINGULARITY_SLURM_PORT)")
	flags.StringVar(&a.controller, "controller", a.controller, "`HOST:PORT` where preemptd listens, instead of slurmctld's host (SINGULARITY_SLURM_CONTROLLER)")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "show no progress")
	root.AddCommand(
		checkCommand{a}.buildCobra(),
		doctorCommand{a}.buildCobra(), showCommand{a}.buildCobra(), checkpointCommand{a}.buildCobra(),
		checkpointsCommand{a}.buildCobra(), verifyCommand{a}.buildCobra(), gcCommand{a}.buildCobra(),
		deleteCommand{a}.buildCobra(), exportCommand{a}.buildCobra(), preemptCommand{a}.buildCobra(),
		resumeCommand{a}.buildCobra(), migrateCommand{a}.buildCobra(), resizeCommand{a}.buildCobra(),
		holdCommand{a}.buildCobra(), releaseCommand{a}.buildCobra(), qosCommand{a}.buildCobra(), requeueCommand{a}.buildCobra(),
		drainCommand{a}.buildCobra(), jobsCommand{a}.buildCobra(), topCommand{a}.buildCobra(),
		historyCommand{a}.buildCobra(), summaryCommand{a}.buildCobra(), statusCommand{a}.buildCobra(), policyCommand{a}.buildCobra(),
		sessionCommand{a}.buildCobra(), tokenCommand{a}.buildCobra(), versionCommand{a}.buildCobra(), manCommand{a}.buildCobra(),
	)
	a.completeNodesIn(root, "node")
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = cobra.ArbitraryArgs, refuseShell
		}
	}
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	setExamples(root)
	for _, c := range documentedCommands(root) {
		if c.ValidArgsFunction == nil {
			c.ValidArgsFunction = noFiles
		}
	}
	return root
}

func didYouMean(cmd *cobra.Command, arg string) string {
	if s := cmd.SuggestionsFor(arg); len(s) > 0 {
		return ": did you mean " + s[0] + "?"
	}
	return "; singctl --help lists all"
}

// argumentCount checks the number of arguments. what names them, as in the usage.
func argumentCount(from, to int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= from && (to < 0 || len(args) <= to) {
			return nil
		}
		if what == "" {
			return rpc.Errorf(rpc.ErrInvalid, "%s takes no arguments", cmd.Name())
		}
		return rpc.Errorf(rpc.ErrInvalid, "%s wants %s; got %s", cmd.Name(), what, formatPlural(int64(len(args)), "argument"))
	}
}
