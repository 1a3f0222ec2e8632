// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/keeper"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

func downCommand(at clusterFolder) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove everything of it, /shared included",
		Args:  argumentCount(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			err = keeper.Kill(p)
			if errors.Is(err, keeper.ErrNotRunning) && p.Left() {
				err = nil // the cluster had ended before; its folder is still to be removed
			}
			if err != nil {
				return err
			}
			return removeCluster(c.Context(), p)
		},
	}
}

// removeCluster deletes the folder and lock of a dead cluster. An `up` that has just lost its
// keeper to our kill may still be about to do the same.
func removeCluster(ctx context.Context, p state.Folder) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		lock, err := p.Take()
		if err == nil {
			defer lock.Close()
			return p.Remove()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond): // flock has no event with a deadline
		}
	}
}

func changeCommand(at clusterFolder, verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " HOST",
		Short: short,
		Args:  argumentCount(1, "HOST"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			return keeper.Change(p, verb, args[0], "")
		},
	}
}

func restartCommand(at clusterFolder) *cobra.Command {
	return &cobra.Command{
		Use:   "restart HOST DAEMON",
		Short: "End one daemon politely and start it again",
		Args:  argumentCount(2, "HOST and DAEMON"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			return keeper.Change(p, "restart", args[0], args[1])
		},
	}
}

func statusCommand(at clusterFolder) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show hosts and daemons",
		Args:  argumentCount(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			s, err := keeper.Ask(p)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(s)
			}
			return printStatus(c.OutOrStdout(), s, p.Shared())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printStatus(w io.Writer, s *keeper.Status, shared string) error {
	fmt.Fprintf(w, "cluster %s: %s (Slurm %s), %d nodes, %d GPUs each, up for %s\n/shared is %s\n\n",
		s.Name, s.Suite, s.Slurm, s.Nodes, s.GPUs, time.Since(s.Since).Round(time.Second), shared)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tADDRESS\tSTATE\tDAEMONS")
	for _, h := range s.Hosts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", h.Name, h.Addr, h.State, daemonList(h.Daemons))
	}
	return t.Flush()
}

// daemonList names the daemons that run, and the states of the others.
func daemonList(ds []keeper.DaemonStatus) string {
	var words []string
	for _, d := range ds {
		switch d.State {
		case "running":
			words = append(words, d.Name)
		case "done":
		default:
			words = append(words, fmt.Sprintf("%s: %s", d.Name, d.State))
		}
	}
	return strings.Join(words, ", ")
}

func logsCommand(at clusterFolder) *cobra.Command {
	follow, lines := false, 0
	c := &cobra.Command{
		Use:   "logs HOST [DAEMON]",
		Short: "Show what the daemons of a host have logged",
		Args:  argumentCount(1, "HOST, and perhaps DAEMON", 2),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			if !hostForm.MatchString(args[0]) || lines < 0 {
				return usageError(errors.New("logs wants a host (ctl, n1, n2 …), and --lines of 0 or more"))
			}
			files, err := logFiles(p.Logs(args[0]), args)
			if err != nil {
				return err
			}
			if c.Flags().Changed("lines") {
				return execTail(files, follow, fmt.Sprint(lines))
			}
			return execTail(files, follow, "+1")
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the logs grow")
	c.Flags().IntVarP(&lines, "lines", "n", 0, "only the last N lines of each log (default all)")
	return c
}

var hostForm = regexp.MustCompile(`^(ctl|n[0-9]+)$`)

// logFiles lists a host's logs. The folder outlives the cluster's processes, so that the logs of a
// cluster that was killed can be read.
func logFiles(dir string, args []string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(all) == 0 {
		return nil, fmt.Errorf("no logs of a host %q (is the cluster up, is the name right?)", args[0])
	}
	if len(args) == 1 {
		return all, nil
	}
	var names []string
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".log")
		if name == args[1] {
			return []string{path}, nil
		}
		names = append(names, name)
	}
	return nil, fmt.Errorf("no log of %q on host %s (logs: %s)", args[1], args[0], strings.Join(names, " "))
}

// execTail becomes tail(1), which knows how to follow files.
func execTail(files []string, follow bool, lines string) error {
	path, err := exec.LookPath("tail")
	if err != nil {
		return err
	}
	argv := []string{"tail", "-n", lines}
	if follow {
		argv = append(argv, "-F")
	}
	return unix.Exec(path, append(argv, files...), os.Environ())
}

// argumentCount wants n arguments, or at most as many as most; its error names them.
func argumentCount(n int, what string, most ...int) cobra.PositionalArgs {
	upTo := slices.Max(append(most, n))
	return func(c *cobra.Command, given []string) error {
		if len(given) < n || len(given) > upTo {
			return usageError(fmt.Errorf("%s wants %s (see: %s --help)", c.Name(), what, c.CommandPath()))
		}
		return nil
	}
}
