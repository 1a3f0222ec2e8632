// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// soon limits the time of each program that a probe runs: scontrol waits long for a dead slurmctld.
const soon = 15 * time.Second

// runProgram returns the output of a program. An error holds the last line of its error output.
func runProgram(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// The output is parsed, so it must be in English, and SLURM_* may send scontrol elsewhere or
	// change its formats.
	cmd.Env = append(plainEnvironment(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: no answer within %s", program, soon)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()+"\n"+out.String()), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return out.String(), fmt.Errorf("%s: %w: %s", program, err, last)
	}
	return out.String(), fmt.Errorf("%s: %w", program, err)
}

// plainEnvironment is this process's environment, without the variables that change the output of
// Slurm's programs.
func plainEnvironment() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name == "SLURM_CONF" || !strings.HasPrefix(name, "SLURM_") && !strings.HasPrefix(name, "LC_") {
			env = append(env, e)
		}
	}
	return env
}

// isThere says whether a program can be started at all.
func isThere(err error) bool {
	return !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist)
}
