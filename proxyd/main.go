// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Proxyd is the daemon of a node: it makes the capsules that jobs run in, and captures and
// restores them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Set by the linker.
var (
	version = "0.1.0"
	libexec = "/usr/local/libexec/singularity-slurm"
)

// lives are the other processes that this program can be, by their hidden first argument.
var lives = map[string]func([]string) int{
	capsule.Arg: capsule.Init,
	files.Arg:   files.Run,
	srun.Arg:    srun.Run,
	// A process of its own: the user can stop this process, which has the user's real id.
	messagequeue.Arg: messagequeue.Run,
	// A process of its own: the server of srun.sock may hang.
	nodesocket.DoorArg: nodesocket.Door,
}

func main() {
	if len(os.Args) > 1 {
		if live := lives[os.Args[1]]; live != nil {
			os.Exit(live(os.Args[2:]))
		}
	}
	os.Exit(runMain())
}

func runMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	command, err := newCommand().ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status) // the program has printed its own error
	}
	text := err.Error()
	if errors.Is(err, errUsage) {
		// Each command's own help has its options.
		text = strings.Replace(text, errUsage.Error(), command.CommandPath()+" --help says what it takes", 1)
	}
	fmt.Fprintln(os.Stderr, "proxyd:", text)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// errUsage is the error for a wrong command line. runMain puts the name of the command in place of the program's.
var errUsage = errors.New("proxyd --help says what it takes")

// wantArguments wants as many arguments as there are names.
func wantArguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names) && !c.HasParent():
			return fmt.Errorf("unknown command %q; %w", args[0], errUsage)
		case len(args) > len(names):
			return fmt.Errorf("%s: unexpected argument %q; %w", c.Name(), args[len(names)], errUsage)
		case len(args) < len(names):
			return fmt.Errorf("%s: no %s is named; %w", c.Name(), names[len(args)], errUsage)
		}
		return nil
	}
}

func newCommand() *cobra.Command {
	var file string
	root := &cobra.Command{
		Use: "proxyd", Short: "Captures and restores the Slurm jobs of a node",
		Long: `Captures and restores the Slurm jobs of a node: proxyd daemon, with its configuration, its key, the mark of the
shared folder, and the relay of connections. Apart from all of these, and without root, proxyd run runs a CUDA program
over software GPUs or the machine's: proxyd run --help has its options, and needs no configuration.`,
		Version: version, SilenceErrors: true, SilenceUsage: true,
		Example: "  proxyd daemon\n  proxyd config\n  proxyd run --soft 2 -- ./matrixMul",
		Args:    wantArguments(),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; %w", err, errUsage) })
	root.PersistentFlags().StringVar(&file, "config", config.File, "read the configuration from `FILE`")
	load := func() (*config.Config, error) { return config.Load(file, os.Environ()) }
	show := &cobra.Command{
		Use: "config", Short: "Print the configuration, each key with what it means", Args: wantArguments(),
		Example: "  proxyd config\n  proxyd config --config /nonexistent >proxyd.yaml.new",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load()
			if config.NoteEmpty(c.ErrOrStderr(), file) || errors.Is(err, fs.ErrNotExist) {
				return config.Explain(c.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return cfg.Explain(c.OutOrStdout())
		},
	}
	loadOnly := func() error { _, err := load(); return err }
	show.AddCommand(configCheckCommand(&file, loadOnly, "  proxyd config check\n  proxyd config check --config proxyd.yaml.new"))
	root.AddCommand(
		&cobra.Command{
			Use: "daemon", Short: "Run until SIGTERM; capsules outlive it", Args: wantArguments(),
			Example: "  proxyd daemon",
			RunE: func(c *cobra.Command, _ []string) error {
				return runDaemon(c.Context(), load)
			},
		},
		show,
		&cobra.Command{
			Use: "key FILE", Short: "Write a new key for the cluster's checkpoints; all nodes need the same", Args: wantArguments("FILE"),
			Example: "  proxyd key /etc/singularity-slurm/key",
			RunE:    func(_ *cobra.Command, args []string) error { return store.GenerateKey(args[0]) },
		},
		initCommand(load),
		deviceCommand(),
		forwardCommand(),
		relayCommand(),
		relayLinksCommand(),
		gpusCommand(),
		runCommand(),
		manCommand(),
	)
	return root
}
