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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/singularity-slurm/singularity-slurm/preemptd/singctl/script"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// maxScript is the greatest size of a script: Slurm takes 4 MiB (max_script_size).
const maxScript = 4 << 20

// checkCommand is singctl check.
type checkCommand struct{ *app }

func (a checkCommand) buildCobra() *cobra.Command {
	return &cobra.Command{
		Use: "check SCRIPT", Short: "Name the parts of a batch script that could not be checkpointed, without queueing it",
		Long: `check reads a batch script and names the lines that have to do with checkpoints: options by which the
job is not protected, commands that cannot be captured, and what goes on differently after a restore,
each with what to do. sbatch --test-only says whether the job would be refused, for a wrong value of an option
or a container that is not there, and a shell or Python whether it understands the script. Nothing is run or
queued, but Slurm gives each such test a job number: the numbers of jobs have a gap there. Options of sbatch's command line, variables and what programs do once they run are not in the
script: singctl show says what was found in a job that runs.

The exit code is 8 if there is such a line.`,
		Args: argumentCount(1, 1, "a script"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.checkScript(cmd.Context(), args[0]) },
	}
}

func (a checkCommand) checkScript(ctx context.Context, path string) error {
	text, err := readScript(path)
	if err != nil {
		return rpc.Errorf(rpc.ErrInvalid, "script: %s", err)
	}
	findings := script.Find(text)
	named := path
	if strings.HasPrefix(path, "-") {
		named = "./" + path // no option of the programs below
	}
	notAsked := "the script is no regular file"
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() { // a pipe has been read
		findings = append(findings, checkSyntax(ctx, named, text)...)
		var refusal []script.Finding
		refusal, notAsked, err = a.testSubmission(ctx, named, text)
		if err != nil {
			return err
		}
		findings = append(findings, refusal...)
		script.SortByLine(findings)
	}
	if a.json {
		a.printJSON(map[string]any{"script": path, "findings": append([]script.Finding{}, findings...), "sbatch_not_asked": notAsked})
	} else {
		a.printFindings(path, findings, notAsked)
	}
	if len(findings) > 0 {
		return errFound
	}
	return nil
}

// printFindings prints the findings in a script, and why sbatch was not asked, if it was not.
func (a checkCommand) printFindings(path string, findings []script.Finding, notAsked string) {
	if len(findings) == 0 {
		fmt.Fprintf(a.stdout, "%s: nothing in its text stands in the way of checkpoints\n", safeLine(path))
	}
	for _, f := range findings {
		where := safeLine(path)
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, f.Line)
		}
		fmt.Fprintf(a.stdout, "%s: %s: %s\n    do: %s\n", where, f.Level, safeLine(f.What), f.Do)
	}
	if notAsked != "" {
		fmt.Fprintf(a.stdout, "sbatch was not asked: %s\n", safeLine(notAsked))
	}
}

// checkTime bounds how long a program may take to look at a script.
const checkTime = 20 * time.Second

// checkSyntax has the script's interpreter look at the script. The nodes may have an interpreter
// that is missing here.
func checkSyntax(ctx context.Context, path, text string) []script.Finding {
	program, arguments, ok := script.Interpreter(text)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(arguments, path)...)
	// Shells run the files that these variables name before they look at the script.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BASH_ENV=") || strings.HasPrefix(v, "ENV=") })
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() <= 0 || len(said) == 0 {
		return nil
	}
	return []script.Finding{script.ReadSyntaxError(path, string(said))}
}

// testSubmission has sbatch say whether the job would be refused. Where there is no Slurm, or slurmctld is away, that
// is not known, and notAsked says why.
func (a checkCommand) testSubmission(ctx context.Context, path, text string) (found []script.Finding, notAsked string, err error) {
	if script.IsHeterogeneous(text) {
		return nil, "it tests no heterogeneous jobs", nil
	}
	_, err = runCommand(ctx, "sbatch", "--test-only", path)
	var e *rpc.Error
	switch {
	case err == nil:
		return nil, "", nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case errors.As(err, &e) && errors.Is(err, rpc.ErrInternal):
		return []script.Finding{script.ReadRefusal(text, strings.TrimPrefix(e.Text, "sbatch: "))}, "", nil
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return nil, first, nil
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
