// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/script"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// maxScript bounds what is read as a script: Slurm takes 4 MiB (max_script_size).
const maxScript = 4 << 20

// checkCommand is singctl check.
type checkCommand struct{ *app }

func (a checkCommand) build() *cobra.Command {
	return &cobra.Command{
		Use: "check SCRIPT", Short: "Say what of a batch script a checkpoint could not have, without queueing it",
		Long: `check reads a batch script and names the lines that have to do with checkpoints: options by which the
job is not protected, commands that cannot be captured, and what goes on differently after a restore,
each with what to do. Nothing is run. Options of sbatch's command line, variables and what programs do
once they run are not in the script: singctl show says what was found in a job that runs.

The exit code is 8 if there is such a line.`,
		Args: argumentCount(1, 1, "a script"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.checkScript(args[0]) },
	}
}

func (a checkCommand) checkScript(path string) error {
	text, err := readScript(path)
	if err != nil {
		return rpc.Errorf(rpc.ErrInvalid, "script: %s", err)
	}
	findings := script.Find(text)
	switch {
	case a.json:
		a.printJSON(map[string]any{"script": path, "findings": append([]script.Finding{}, findings...)})
	case len(findings) == 0:
		fmt.Fprintf(a.stdout, "%s: nothing in its text stands in the way of checkpoints\n", safeLine(path))
	}
	for _, f := range findings {
		if a.json {
			break
		}
		where := safeLine(path)
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, f.Line)
		}
		fmt.Fprintf(a.stdout, "%s: %s: %s\n    do: %s\n", where, f.Level, safeLine(f.What), f.Do)
	}
	if len(findings) > 0 {
		return errFound
	}
	return nil
}

func readScript(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err == nil && len(b) > maxScript {
		err = errors.New("larger than 4 MiB, which Slurm does not take")
	}
	return string(b), err
}
