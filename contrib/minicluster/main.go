// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Command minicluster raises a real Slurm cluster of many hosts on a single machine and removes it
// again completely.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/host"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/keeper"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/rootfs"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// Exit codes. `exec` and `shell` give their command's own code, and codeOurs when
// the command could not be run at all, as env and docker do.
const (
	codeFailed = 1
	codeUsage  = 2
	codeOurs   = 125
)

// codeError is an error that decides the exit code. With a nil err, main prints no message: the
// command has printed its own.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// parts are the other processes that this program can be: it starts itself again as the first
// process of a cluster, of a host, and of a root file system's build.
var parts = map[string]func(args []string) int{
	keeper.Arg:        func([]string) int { return exitCode(keeper.Main()) },
	host.Arg:          func([]string) int { return exitCode(host.Main()) },
	rootfs.BuilderArg: rootfs.Main,
}

func main() {
	// Files that the caller happens to have open must not reach keepers, hosts and daemons, and least
	// of all an ordinary user on a host.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		os.Exit(exitCode(fmt.Errorf("needs Linux 5.11 or newer: close_range: %w", err)))
	}
	if len(os.Args) > 1 && parts[os.Args[1]] != nil {
		os.Exit(parts[os.Args[1]](os.Args[2:]))
	}
	os.Exit(exitCode(rootCommand().Execute()))
}

// heededSignals returns the signals that this process does not ignore. A caller such as nohup has
// us ignore some, and signal.Notify would undo that.
func heededSignals(all ...os.Signal) []os.Signal {
	return slices.DeleteFunc(all, signal.Ignored)
}

// exitCode prints an error and returns the exit code: the only function that does so.
func exitCode(err error) int {
	var coded *codeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		if coded.err != nil {
			fmt.Fprintln(os.Stderr, "minicluster:", coded.err)
		}
		return coded.code
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "minicluster: interrupted; nothing is left behind")
		return 130
	}
	fmt.Fprintln(os.Stderr, "minicluster:", err)
	return codeFailed
}

func usageError(err error) error { return &codeError{codeUsage, err} }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "minicluster",
		Short: "A real Slurm cluster of many hosts on one machine",
		Long: `minicluster raises a real Slurm cluster on one machine: a controller "ctl" and nodes
"n1" … "nN", each with a network, host name, process tree, /tmp and disk of its own.
/shared is one folder for all of them. Users alice, bob and operator exist everywhere.`,
		Example: `  minicluster up --nodes 2 --gpus 2
  minicluster exec ctl --user alice -- srun -N2 hostname
  minicluster fail n1 && minicluster heal n1
  minicluster down`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(c *cobra.Command, given []string) error {
			if len(given) > 0 {
				return usageError(fmt.Errorf("unknown verb %q (see: minicluster --help)", given[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w (see: %s --help)", err, c.CommandPath()))
	})
	name := root.PersistentFlags().String("name", "mini", "name of the cluster; several can run side by side")
	at := func() (state.Folder, error) {
		p, err := state.At(*name)
		if err != nil {
			return p, usageError(err)
		}
		return p, mustBeRoot()
	}
	root.AddCommand(
		upCommand(at), downCommand(at), execCommand(at), shellCommand(at), statusCommand(at), logsCommand(at),
		changeCommand(at, "fail", "Kill every process of a host at once, like a power cut"),
		changeCommand(at, "cut", "Cut a host off the network; its processes run on"),
		changeCommand(at, "heal", "Bring a host back: power, network and every daemon that has ended"),
		restartCommand(at),
	)
	return root
}

func mustBeRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes namespaces, mounts and device files (try: sudo minicluster …)")
	}
	return nil
}

// clusterFolder returns the cluster on which a verb acts.
type clusterFolder = func() (state.Folder, error)
