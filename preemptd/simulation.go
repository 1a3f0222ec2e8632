// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/chain"
	"github.com/singularity-slurm/singularity-slurm/preemptd/config"
	"github.com/singularity-slurm/singularity-slurm/preemptd/policy"
	"github.com/singularity-slurm/singularity-slurm/preemptd/simulate"
)

// simulation has the values of the flags of preemptd simulate.
type simulation struct {
	trace    string
	generate int
	seed     uint64
	load     float64
	nodes    int
	gpus     int
	every    time.Duration
	dump     time.Duration
	restore  time.Duration
	inPlace  time.Duration
	against  []string
	picture  string
	losses   bool
	json     bool
	quiet    bool

	log *slog.Logger
	err io.Writer
}

// Ways to run a cluster without capsules, to compare with.
const (
	fifo = "fifo"
	kill = "kill"
)

func simulateCommand(load func() (*config.Config, error)) *cobra.Command {
	s := &simulation{}
	c := &cobra.Command{
		Use: "simulate", Short: "Play a trace of jobs under the policies, in virtual time", Args: noArguments,
		Long: `simulate plays a trace of jobs on a cluster of so many nodes, with the policies, rules and tiers of the
configuration (tiers, if it names no policy), and prints what became of the jobs, beside the same trace without
preemption and with jobs that are killed and begin again. docs/simulate.md says what is simplified.`,
		Example: "  preemptd simulate --trace jobs.csv --nodes 16",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.checkOptions(); err != nil {
				return fmt.Errorf("simulate: %w; %w", err, errUsage)
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			s.err = c.ErrOrStderr()
			s.log = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: max(cfg.Log.Level, slog.LevelWarn)}))
			return s.runSimulation(c.Context(), cfg, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&s.trace, "trace", "", "play the jobs of `FILE`: CSV, or what sacct printed; - is standard input")
	f.IntVar(&s.generate, "generate", 0, "make a trace of `N` jobs instead")
	f.Uint64Var(&s.seed, "seed", 1, "make another trace for each `NUMBER`")
	f.Float64Var(&s.load, "load", 0.95, "work in a made trace, over what the cluster can do")
	f.IntVar(&s.nodes, "nodes", 0, "nodes of the cluster")
	f.IntVar(&s.gpus, "gpus", 8, "GPUs of each node")
	f.DurationVar(&s.every, "every", 30*time.Second, "how often policies are asked")
	f.DurationVar(&s.dump, "dump", 10*time.Second, "time for which a job stands still before it leaves its nodes")
	f.DurationVar(&s.restore, "restore", 20*time.Second, "time for which a job stands still when it comes back to nodes")
	f.DurationVar(&s.inPlace, "in-place", 0, "time for which a job stands still while other jobs lend it GPUs of its nodes, or take these back; 0: no job lends GPUs")
	f.StringSliceVar(&s.against, "against", []string{fifo, kill}, "compare with fifo (no job is preempted) and kill (a preempted job begins again); or with nothing: \"\"")
	f.StringVar(&s.picture, "picture", "", "draw the results into `FILE.svg`")
	f.BoolVar(&s.losses, "losses", false, "say why the GPUs that jobs of each tier asked for did no work")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "show no progress")
	return c
}

// checkOptions refuses options that make no sense together.
func (s *simulation) checkOptions() error {
	s.against = slices.DeleteFunc(s.against, func(name string) bool { return name == "" })
	switch {
	case s.trace == "" && s.generate == 0:
		return errors.New("give --trace FILE or --generate N")
	case s.trace != "" && s.generate != 0:
		return errors.New("give --trace or --generate, not both")
	case s.generate < 0 || s.generate > 100_000_000:
		return fmt.Errorf("--generate %d: want up to 100000000", s.generate)
	case !(s.load > 0 && s.load <= 10):
		return fmt.Errorf("--load %g: want more than 0, up to 10", s.load)
	case s.nodes < 1 || s.nodes > 1_000_000:
		return fmt.Errorf("--nodes %d: say how many nodes the cluster has, up to 1000000", s.nodes)
	case s.gpus < 1 || s.gpus > 64:
		return fmt.Errorf("--gpus %d: want 1 to 64", s.gpus)
	case s.every < time.Second:
		return fmt.Errorf("--every %v: want at least 1s", s.every)
	case s.dump < 0 || s.restore < 0 || s.inPlace < 0:
		return errors.New("--dump, --restore and --in-place: want no negative time")
	case s.picture != "" && filepath.Ext(s.picture) != ".svg":
		return fmt.Errorf("--picture %s: want a name that ends in .svg", s.picture)
	}
	for _, name := range s.against {
		if name != fifo && name != kill {
			return fmt.Errorf("--against %s: want fifo or kill", name)
		}
	}
	return nil
}

// runSimulation plays the trace in each way, and shows the results.
func (s *simulation) runSimulation(ctx context.Context, cfg *config.Config, out io.Writer) error {
	if len(cfg.Policies) == 0 {
		cfg.Policies = []string{"tiers"}
	}
	// Each question makes a snapshot and its wire form, which are garbage after it: there is enough memory, up to a
	// bound, and time counts more.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	jobs, err := s.loadJobs()
	if err != nil {
		return err
	}
	policies, closeAll, err := s.startPolicies(cfg)
	if err != nil {
		return err
	}
	defer closeAll()
	set := settingsOf(cfg)
	base := simulate.Config{
		Nodes: s.nodes, GPUs: s.gpus, Every: s.every, Dump: s.dump, Restore: s.restore, InPlace: s.inPlace,
		Rules: set.Rules, Tiers: set.Tiers, Policies: policies, Losses: s.losses,
	}
	var results []simulate.NamedResult
	for _, way := range append(slices.Clone(s.against), strings.Join(cfg.Policies, ", ")) {
		c, name := base, way
		switch way {
		case fifo:
			c.Policies, name = nil, "FIFO and backfill"
		case kill:
			c.Kill, name = true, "kill and requeue"
		}
		began := time.Now()
		c.Progress = s.showProgress(name)
		result, err := simulate.Run(ctx, c, jobs)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.printLine("%s: %v\n", name, time.Since(began).Round(time.Millisecond))
		results = append(results, simulate.NamedResult{Name: name, Result: result})
	}
	return s.printResults(out, results, base)
}

// loadJobs reads or makes the trace.
func (s *simulation) loadJobs() ([]simulate.Job, error) {
	if s.generate > 0 {
		return simulate.Generate(simulate.TraceDescription{Jobs: s.generate, Nodes: s.nodes, GPUs: s.gpus, Load: s.load, Seed: s.seed}), nil
	}
	file := os.Stdin
	if s.trace != "-" {
		var err error
		if file, err = os.Open(s.trace); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	jobs, skipped, err := simulate.Read(file)
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("trace %s has no jobs with GPUs", s.trace)
	}
	if skipped > 0 {
		s.printLine("%d jobs are left out: they never ran, or had no GPU\n", skipped)
	}
	return jobs, err
}

// startPolicies makes the policies. It starts no process: a policy's process starts at the first question.
func (s *simulation) startPolicies(cfg *config.Config) ([]chain.NamedPolicy, func(), error) {
	where := policySite(cfg)
	where.Timeout = max(where.Timeout, 5*time.Minute) // only virtual time matters
	configs, err := where.Configs(cfg.Policies)
	if err != nil {
		return nil, nil, err
	}
	var all []chain.NamedPolicy
	var closers []func()
	for _, c := range configs {
		p := policy.New(c, s.log)
		all = append(all, chain.NamedPolicy{Name: c.Name, Policy: p})
		closers = append(closers, p.Close)
	}
	return all, func() {
		for _, end := range closers {
			end()
		}
	}, nil
}

// showProgress prints once a second how far the simulation is, in a single line.
func (s *simulation) showProgress(name string) func(simulate.Progress) {
	said := time.Now()
	return func(p simulate.Progress) {
		if time.Since(said) < time.Second {
			return
		}
		said = time.Now()
		s.printLine("%s: %d of %d jobs are done, at %v\r", name, p.Done, p.Jobs, p.At.Round(time.Minute))
	}
}

func (s *simulation) printLine(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.err, format, args...)
	}
}

func (s *simulation) printResults(out io.Writer, results []simulate.NamedResult, c simulate.Config) error {
	if s.picture != "" {
		f, err := os.Create(s.picture)
		if err != nil {
			return err
		}
		if err := errors.Join(simulate.Draw(f, results, c.Rules.Promised), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", s.picture, err)
		}
	}
	if s.json {
		return simulate.PrintJSON(out, results)
	}
	return simulate.Print(out, results)
}
