// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Preemptd drives Slurm: the daemon watches jobs and nodes, asks its policies for intents, and preempts, moves and
// resizes jobs. A kill of any program at any moment loses no job.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
)

// version is set by the linker.
var version = "0.1.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "preemptd:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// errUsage says that the command line makes no sense.
var errUsage = errors.New("preemptd --help says what it takes")

func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasParent():
		return fmt.Errorf("unknown command %q; %w", args[0], errUsage)
	}
	return fmt.Errorf("%s: unexpected argument %q; %w", c.Name(), args[0], errUsage)
}

func rootCommand() *cobra.Command {
	var file string
	var dryRun bool
	root := &cobra.Command{
		Use: "preemptd", Short: "Drives Slurm: preempts, moves and resizes jobs, as its policies and people want it",
		Long: `preemptd runs until SIGTERM; it can be stopped at any time, and jobs and Slurm go on. SIGHUP has it
read its configuration again. Each key of the configuration is also a flag and an environment variable;
preemptd config lists them.`,
		Version: version, SilenceErrors: true, SilenceUsage: true, Args: noArguments,
		Example: "  preemptd --dry-run\n  preemptd --interval 10s",
	}
	load := func() (*config.Config, error) {
		return config.Load(file, os.Environ(), givenFlags(root.PersistentFlags()))
	}
	root.RunE = func(c *cobra.Command, _ []string) error {
		config.NoteEmpty(c.ErrOrStderr(), file)
		cfg, err := load()
		if err != nil {
			return err
		}
		pauseFile := os.Getenv(pauseVariable) //nolint:forbidigo // this is a main
		return runDaemon(c.Context(), cfg, daemonOptions{load, dryRun, pauseFile, cfg.Log.NewLogger(os.Stderr)})
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; %w", err, errUsage) })
	root.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	root.PersistentFlags().StringVar(&file, "config", config.File, "read the configuration from `FILE`")
	for _, key := range config.Keys() {
		root.PersistentFlags().String(config.Flag(key), "", config.Meaning(key))
		if err := root.PersistentFlags().SetAnnotation(config.Flag(key), keyOf, []string{key}); err != nil {
			panic(err) // the flag was made in the line before
		}
	}
	show := &cobra.Command{
		Use: "config", Short: "Print the configuration, each key with what it means", Args: noArguments,
		Example: "  preemptd config\n  preemptd config --config /nonexistent >preemptd.yaml.new",
		RunE: func(c *cobra.Command, _ []string) error {
			config.NoteEmpty(c.ErrOrStderr(), file)
			return explainConfig(c.OutOrStdout(), load)
		},
	}
	show.AddCommand(&cobra.Command{
		Use: "check", Short: "Say what is wrong with the configuration", Args: noArguments,
		Example: "  preemptd config check --config new.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load()
			if err == nil {
				_, err = policySite(cfg).Configs(cfg.Policies)
			}
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), "the configuration is fine")
			}
			return err
		},
	})
	root.AddCommand(show, doctorCommand(load), simulateCommand(load), manCommand())
	return root
}

// explainConfig prints the configuration, or the defaults where there is no file.
func explainConfig(w io.Writer, load func() (*config.Config, error)) error {
	cfg, err := load()
	if errors.Is(err, fs.ErrNotExist) {
		cfg, err = config.Default()
	}
	if err != nil {
		return err
	}
	return cfg.Explain(w)
}

// keyOf is the annotation of a flag that says which key the flag overrides.
const keyOf = "key"

// givenFlags returns the keys for which there is a flag on the command line.
func givenFlags(flags *pflag.FlagSet) map[string]string {
	all := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) { // Visit knows only the flags that this set itself parsed
		if key := f.Annotations[keyOf]; f.Changed && len(key) == 1 {
			all[key[0]] = f.Value.String()
		}
	})
	return all
}
